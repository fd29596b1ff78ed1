"""The folder of a comparison: resumed after a kill, and everything that is made from the rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from commandline import benchmark, carbon_gym

from carbon_gym import benchmark as module
from carbon_gym.benchmark import evaluation_key, policy_key
from carbon_gym.errors import InputError
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.report.results import Results
from carbon_gym.report.rows_file import slug
from carbon_gym.scenario import load_scenario

THREE = "session-affinity,faircarbon,ccar-no-gate"


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluation_fleets(load_scenario("tiny"), fleets=2)


def runs_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the policies that are run from now on."""
    ran: list[str] = []
    real = module.run_policy

    def watched(scenario: Any, policy: Any, *args: Any, **options: Any) -> Any:
        ran.append(policy.name)
        return real(scenario, policy, *args, **options)

    monkeypatch.setattr(module, "run_policy", watched)
    return ran


def content(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return read


def untimed(folder: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k != "decision_us"} for row in content(folder)["rows"]]


def test_a_killed_comparison_does_only_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("--scenario", "tiny", "--fleets", 2, "--policies", f"{THREE},largest-model")
    assert benchmark(*arguments, "--out", tmp_path / "whole").code == 0
    real = module.run_policy

    def killed(scenario: Any, policy: Any, *args: Any, **options: Any) -> Any:
        if policy.name == "largest-model":
            raise KeyboardInterrupt
        return real(scenario, policy, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(module, "run_policy", killed)
        assert benchmark(*arguments, "--out", tmp_path / "cut").code != 0
    assert {row["policy"] for row in content(tmp_path / "cut")["rows"]} == set(THREE.split(","))
    ran = runs_of(monkeypatch)
    assert benchmark(*arguments, "--out", tmp_path / "cut").code == 0
    assert ran == ["session-affinity", "faircarbon", "largest-model"]  # what it is relative to
    assert untimed(tmp_path / "cut") == untimed(tmp_path / "whole")
    ran.clear()
    assert benchmark(*arguments, "--out", tmp_path / "cut").code == 0
    assert ran == []


def test_other_fleets_are_run_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = runs_of(monkeypatch)
    for fleets in (1, 2):
        benchmark(
            *("--scenario", "tiny", "--fleets", fleets, "--policies", THREE, "--out", tmp_path)
        )
    assert len(ran) == 6
    assert {row["fleet"] for row in content(tmp_path)["rows"]} == {0, 1, "all"}


def test_what_is_made_from_the_rows(tmp_path: Path) -> None:
    assert benchmark("--scenario", "tiny", "--fleets", 2, "--out", tmp_path).code == 0
    rows = content(tmp_path)["rows"]
    with (tmp_path / "results.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        assert float(line["co2_g"]) == row["co2_g"]
        saving = row["saving_vs_faircarbon"]
        assert float(line["saving_vs_faircarbon.mean"]) == saving["mean"]
        assert line["by_session_turns.>30.ttft_p95_s"] == str(
            row["by_session_turns"][">30"]["ttft_p95_s"] or ""
        )
    table = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert table.startswith("## tiny")
    assert table.count("\n| ") == 1 + len({row["policy"] for row in rows})
    for name in ("co2", "by-length", "trade"):
        picture = (tmp_path / f"tiny-{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
    assert load_scenario(tmp_path / "tiny.scenario.yaml") == load_scenario("tiny")


def test_a_foreign_results_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("[1, 2]", encoding="utf-8")
    with pytest.raises(InputError, match="is not a results file of carbon-gym; name another --out"):
        Results(tmp_path)
    assert (tmp_path / "results.json").read_text(encoding="utf-8") == "[1, 2]"


def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Results(tmp_path) as file:
        file.begin(evaluation, "key")
        file.add("tiny", "a", "k", [{"policy": "a", "scenario": "tiny"}])
        before = file.path.read_bytes()
        with pytest.raises(ValueError, match="JSON"):
            file.add("tiny", "b", "k", [{"co2_g": float("nan")}])

        def full(*_: Any, **__: Any) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_text", full)
        with pytest.raises(InputError, match="No space left"):
            file.add("tiny", "c", "k", [])
    assert file.path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_a_folder_made_for_nothing_is_taken_away(tmp_path: Path) -> None:
    with Results(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").mkdir()
    with Results(tmp_path / "a" / "b"):
        pass
    assert list(tmp_path.rglob("*")) == [tmp_path / "a"]  # it was there before


def test_keys_tell_fleets_and_policies_apart(evaluation: Evaluation) -> None:
    other = evaluation_fleets(load_scenario("tiny"), fleets=3)
    assert evaluation_key(evaluation) == evaluation_key(
        evaluation_fleets(load_scenario("tiny"), fleets=2)
    )
    assert evaluation_key(evaluation) != evaluation_key(other)
    keys = {policy_key(name, evaluation) for name in ("faircarbon", "cedar", "ccar", "ccar-ev")}
    assert len(keys) == 4


def test_a_policy_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of docs/policies.md."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    docs = Path(__file__).resolve().parents[1] / "docs" / "policies.md"
    example = docs.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    assert example.count("\n") <= 20
    (tmp_path / "my_module.py").write_text(example, encoding="utf-8")
    outcome = benchmark(
        *("--scenario", "tiny", "--fleets", 2, "--policies", "my_module:MyPolicy,ccar"),
        *("--out", "o"),
    )
    assert (outcome.code, outcome.err) == (0, "")
    rows = content(tmp_path / "o")["rows"]
    assert {row["policy"] for row in rows} == {"my_module:MyPolicy", "ccar"}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("no_such_module:X", "there is no module 'no_such_module'"),
        ("json:Nothing", "has no class 'Nothing'"),
        ("collections:OrderedDict", "needs an attribute name and the methods"),
        (".", "holds no config.yaml; name the folder of a training run"),
    ],
)
def test_what_is_no_policy_is_said(spec: str, said: str, tmp_path: Path) -> None:
    outcome = carbon_gym("benchmark", "--policies", spec, "--out", tmp_path / "o")
    assert outcome.code == 2
    assert said in outcome.err
    assert not (tmp_path / "o").exists()


def test_slugs_are_file_names() -> None:
    assert slug("sharegpt on a/b.csv + ü") == "sharegpt-on-a-b-csv"
    assert slug("§") == "scenario"


def test_another_command_into_the_same_folder_loses_nothing(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("extends: tiny\ncache: {ttl_s: 60}\n", encoding="utf-8")
    folder = tmp_path / "o"
    for scenario, policies in (("tiny", "faircarbon,largest-model"), (own, "faircarbon")):
        arguments = ("--scenario", scenario, "--fleets", 1, "--policies", policies)
        assert benchmark(*arguments, "--out", folder).code == 0
    assert benchmark(*("--scenario", "tiny", "--fleets", 1, "--out", folder)).code == 0
    found = {(row["scenario"], row["policy"]) for row in content(folder)["rows"]}
    assert {("own", "faircarbon"), ("tiny", "largest-model"), ("tiny", "ccar-no-gate")} <= found
    assert len(content(folder)["rows"]) == 2 * len(found)


def test_results_of_another_version_are_left_alone(tmp_path: Path) -> None:
    arguments = ("--scenario", "tiny", "--fleets", 1, "--policies", "faircarbon", "--out", tmp_path)
    assert benchmark(*arguments).code == 0
    path = tmp_path / "results.json"
    old = json.loads(path.read_text(encoding="utf-8"))
    old["versions"]["carbon-gym"] = "9.9"
    path.write_text(json.dumps(old), encoding="utf-8")
    outcome = benchmark(*arguments)
    assert outcome.code == 2
    assert "was made by carbon-gym 9.9" in outcome.err
    assert content(tmp_path) == old


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("np.zeros(99, dtype=int)", "actions have shape"),
        ("np.full(quotes.lanes, -1)", "deployment -1 does not exist"),
        ("None", "cannot be served"),
    ],
)
def test_a_policy_that_misbehaves_is_named(
    choice: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"odd_{abs(hash(choice))}"
    (tmp_path / f"{name}.py").write_text(
        "import numpy as np\n\nclass P:\n    name = 'p'\n"
        "    def reset(self, fleet, slots): pass\n"
        f"    def choose(self, quotes): return {choice}\n",
        encoding="utf-8",
    )
    outcome = benchmark(
        *("--scenario", "tiny", "--fleets", 1, "--policies", f"{name}:P", "--out", "o")
    )
    assert outcome.code == 2
    assert said in outcome.err
    assert "policy 'p'" in outcome.err
