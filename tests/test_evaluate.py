"""`carbon-gym evaluate`: its folder and the command."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import Outcome, carbon_gym
from inputs import write_grid, write_tokens
from made_up import TINY, write_made_up

from carbon_gym import benchmark as module
from carbon_gym.benchmark import policy_key
from carbon_gym.errors import InputError
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.metrics.seeds import interquartile_interval
from carbon_gym.report.evaluation_file import EvaluationFile
from carbon_gym.scenario import load_scenario

SMALL = ("--scenario", "tiny", "--fleets", 2, "--sessions", 12, "--jobs", 1)


@pytest.fixture(scope="module")
def routers(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two seeds of one recipe."""
    folder = tmp_path_factory.mktemp("routers")
    return [write_made_up(folder / f"mine-{seed}.npz", seed, 0.3) for seed in (0, 1)]


@pytest.fixture(scope="module")
def evaluated(routers: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluated")
    outcome = evaluate(*routers, "faircarbon", "--out", folder)
    assert (outcome.code, outcome.err) == (0, "")
    return folder


def evaluate(*arguments: Any) -> Outcome:
    return carbon_gym("evaluate", *arguments, *SMALL)


def content(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    return read


def test_the_folder_holds_the_rows_and_the_methods(evaluated: Path, routers: list[str]) -> None:
    found = content(evaluated)
    assert found["reference"] == {"tiny": "ccar"}
    methods = {record["method"]: record for record in found["methods"]["tiny"]}
    assert list(methods) == ["ccar", "mine", "faircarbon"]
    assert [(row["policy"], row["fleet"]) for row in found["rows"]] == [
        (policy, fleet) for policy in ("ccar", *routers, "faircarbon") for fleet in (0, 1, "all")
    ]
    mine = methods["mine"]
    assert [(m["policy"], m["seed"]) for m in mine["members"]] == [
        (r, k) for k, r in enumerate(routers)
    ]
    by_policy = {
        name: [row["co2_g"] for row in found["rows"] if row["policy"] == name][:2]
        for name in ("ccar", *routers)
    }
    scores = np.array([by_policy[name] for name in routers]) / by_policy["ccar"]
    assert mine["co2_relative"] == pytest.approx(interquartile_interval(scores))
    assert methods["ccar"]["co2_relative"]["value"] == 1.0
    assert methods["ccar"]["probability_of_improvement"]["value"] == 0.5
    assert methods["ccar"]["constraints_kept"]
    assert load_scenario(evaluated / "tiny.scenario.yaml").name == "tiny"


def test_what_is_made_from_them(evaluated: Path) -> None:
    with (evaluated / "evaluation.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    records = content(evaluated)["methods"]["tiny"]
    assert [line["method"] for line in lines] == [record["method"] for record in records]
    for line, record in zip(lines, records, strict=True):
        assert line["reference"] == "ccar"
        assert float(line["co2_relative.value"]) == record["co2_relative"]["value"]
        assert line["constraints.ttft_p95_s.kept"] == str(
            record["constraints"]["ttft_p95_s"]["kept"]
        )
    page = (evaluated / "evaluation.md").read_text(encoding="utf-8")
    assert page.startswith("## tiny")
    assert page.count("\n| mine |") == 4  # both tables, and either seed
    assert (evaluated / "tiny-evaluation.png").read_bytes().startswith(b"\x89PNG")


def test_the_tables_can_be_read_at_80_columns(
    routers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carbon_gym.cli.console.PIPED_WIDTH", 80)
    named = f"a method with quite a long name={','.join(routers)}"
    outcome = evaluate(named, "--split", "validation", "--out", tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    tables = lines[: next(k for k, line in enumerate(lines) if line.startswith("- "))]
    assert all(len(line) <= 80 for line in tables)
    assert "…" not in outcome.out
    assert "this is no test" in outcome.out
    wide = [line.split() for line in lines if line.startswith("ccar ")]
    assert [cells[1] for cells in wide] == ["1", "–"]
    assert lines[-1].startswith(str(tmp_path / "evaluation.json"))


def test_an_evaluation_goes_on_where_it_was_killed(
    routers: list[str], evaluated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module.run_policy

    def killed(scenario: Any, policy: Any, *args: Any, **options: Any) -> Any:
        if policy.name == routers[1]:
            raise KeyboardInterrupt
        return real(scenario, policy, *args, **options)

    monkeypatch.setattr(module, "run_policy", killed)
    arguments = (*routers, "faircarbon", "--out", tmp_path)
    assert evaluate(*arguments).code != 0
    assert not (tmp_path / "evaluation.md").exists()
    done = {row["policy"] for row in content(tmp_path)["rows"]}
    assert done == {"faircarbon", "ccar", routers[0]}
    monkeypatch.setattr(module, "run_policy", real)
    assert evaluate(*arguments).code == 0
    assert content(tmp_path)["methods"] == content(evaluated)["methods"]


def test_a_complete_evaluation_runs_nothing(
    routers: list[str], evaluated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(evaluated)

    def runs(*_: Any, **__: Any) -> None:
        raise AssertionError("nothing is missing")

    monkeypatch.setattr(module, "run_policy", runs)
    assert evaluate(*routers, "faircarbon", "--out", evaluated).code == 0
    assert content(evaluated) == before
    other = evaluate(*routers, "--reference", "faircarbon", "--out", evaluated)
    assert other.code == 0  # its rows are there already
    assert content(evaluated)["reference"] == {"tiny": "faircarbon"}
    assert evaluate(*routers, "faircarbon", "--out", evaluated).code == 0
    assert content(evaluated) == before


def test_a_router_that_changed_is_run_anew(tmp_path: Path) -> None:
    evaluation = evaluation_fleets(TINY, fleets=1, sessions=5)
    router = write_made_up(tmp_path / "r.npz", 0)
    before = policy_key(router, evaluation)
    assert policy_key(router, evaluation) == before
    write_made_up(tmp_path / "r.npz", 5)
    assert policy_key(router, evaluation) != before
    run = tmp_path / "run"
    (run / "best").mkdir(parents=True)
    empty = policy_key(str(run), evaluation)
    (run / "best" / "model.zip").write_bytes(b"weights")
    assert policy_key(str(run), evaluation) != empty


def test_a_foreign_file_is_left_alone(tmp_path: Path, evaluated: Path) -> None:
    (tmp_path / "evaluation.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="is not an evaluation of carbon-gym; name another --out"):
        EvaluationFile(tmp_path)
    odd = {**content(evaluated), "methods": {"tiny": [1]}}
    (tmp_path / "evaluation.json").write_text(json.dumps(odd), encoding="utf-8")
    with pytest.raises(InputError, match="is not an evaluation"):
        EvaluationFile(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ccarr",), "policy 'ccarr' is not known"),
        (("ccar", "--reference", "cccar"), "policy 'cccar' is not known"),
        (("no.npz",), "no.npz: there is no such file"),
        (("m=ccar,no.npz",), "no.npz: there is no such file"),
        (("ccar-budget",), "needs a quality budget"),
        (("ccar", "--split", "tset"), "nearest: 'test'"),
        (("ccar", "--fleets", "0"), "--fleets 0 is not allowed"),
        (("ccar", "--start", "May"), "is not a day"),
        (("ccar", "--conversations", "none.csv"), "none.csv"),
        (("ccar", "--tokenizer", "t.json"), "give that too"),
    ],
)
def test_slips_are_said_in_a_sentence(
    arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    outcome = carbon_gym("evaluate", "--scenario", "tiny", "--out", tmp_path / "o", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert outcome.err.strip().count("\n") == 0
    assert not (tmp_path / "o").exists()


def test_every_scenario_has_its_own_reference(routers: list[str], tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("extends: tiny\nbounds: {quality_constraint: budget}\n", encoding="utf-8")
    outcome = evaluate(*routers, "--scenario", own, "--out", tmp_path / "o")
    assert (outcome.code, outcome.err) == (0, "")
    found = content(tmp_path / "o")
    assert found["reference"] == {"own": "ccar-budget", "tiny": "ccar"}
    assert [record["method"] for record in found["methods"]["own"]] == ["ccar-budget", "mine"]
    page = (tmp_path / "o" / "evaluation.md").read_text(encoding="utf-8")
    assert "\n## tiny\n" in page
    assert "Beside ccar-budget, over all turns:" in page


def test_the_help_has_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    outcome = carbon_gym("evaluate", "--help")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "    carbon-gym evaluate learned lookahead --scenario congested" in lines


def test_conversations_of_ones_own(routers: list[str], tmp_path: Path) -> None:
    files = (
        *("--conversations", write_tokens(tmp_path / "t.csv", 20)),
        *("--grid", write_grid(tmp_path / "g.csv"), "--fleets", 2, "--jobs", 1),
    )
    outcome = carbon_gym(
        "evaluate", *routers, "--scenario", "tiny", *files, "--out", tmp_path / "o"
    )
    assert (outcome.code, outcome.err) == (0, "")
    (name,) = content(tmp_path / "o")["methods"]
    assert name == "tiny on t.csv + g.csv"
    assert (tmp_path / "o" / "tiny-on-t-csv-g-csv-evaluation.png").is_file()


def test_sessions_without_a_turn_are_nothing_to_compare(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("extends: tiny\nworkload: {sessions_per_fleet: 0}\n", encoding="utf-8")
    outcome = carbon_gym(
        "evaluate", "ccar", "--scenario", own, "--fleets", 1, "--out", tmp_path / "o"
    )
    assert outcome.code == 2
    assert "no fleet has a turn, so that there is nothing to compare" in outcome.err
    assert not (tmp_path / "o").exists()
