"""The leaderboard (docs/leaderboard.py): its entries, what it refuses, and the steps it names."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import yaml
from commandline import carbon_gym

from carbon_gym import __version__
from carbon_gym.metrics.intervals import paired_t

DOCS = Path(__file__).resolve().parents[1] / "docs"
FLEETS = 16
CCAR = [100.0 + 3 * fleet for fleet in range(FLEETS)]
ENTRY: dict[str, Any] = {
    "authors": ["A. Author"],
    "date": "2026-11-30",
    "version": __version__,
    "commit": "0123abc",
    "commands": ["carbon-gym benchmark --scenario tiny --policies faircarbon,ccar,mine"],
    "methods": [{"name": "mine", "policies": ["mine"], "code": "examples/own_policy.py"}],
}


@pytest.fixture(autouse=True)
def _docs_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def board(*arguments: Any) -> None:
    module("leaderboard").main([str(argument) for argument in arguments])


# ----------------------------------------------------------------- made-up entries


def rows_of(policy: str, co2_g: list[float], **changes: Any) -> list[dict[str, Any]]:
    usual: dict[str, Any] = {
        **{"scenario": "tiny", "policy": policy, "quality_predicted": 0.7},
        **{"quality_realised": 0.68, "ttft_p95_s": 0.5, "turns": 100},
        **{f"{kind}_violation_rate": 0.002 for kind in ("quality", "ttft", "capacity")},
        **changes,
    }
    fleets = [{**usual, "fleet": number, "co2_g": value} for number, value in enumerate(co2_g)]
    return [*fleets, {**usual, "fleet": "all", "co2_g": sum(co2_g)}]


def results(*more: list[dict[str, Any]]) -> dict[str, Any]:
    """What the benchmark writes, of faircarbon, ccar and more."""
    faircarbon = rows_of("faircarbon", [1.1 * value for value in CCAR])
    rows = [row for of in (faircarbon, rows_of("ccar", CCAR), *more) for row in of]
    policies = {row["policy"]: "key" for row in rows}
    inputs = {
        "digest": "d",
        "policies": policies,
        "days": [f"2023-02-{day + 1:02}" for day in range(FLEETS)],
    }
    versions = {"carbon-gym": __version__}
    return {
        **{"schema": 1, "versions": versions, "scenario": {}, "inputs": {"tiny": inputs}},
        **{"rows": rows, "versus": {}},
    }


def mine(factor: float = 0.9, policy: str = "mine", **changes: Any) -> list[dict[str, Any]]:
    """A policy that emits a little more than `factor` of ccar's, differently on every fleet."""
    return rows_of(policy, [(factor + 0.0011 * n) * x for n, x in enumerate(CCAR)], **changes)


def write(folder: Path, entry: dict[str, Any], content: dict[str, Any]) -> Path:
    folder.mkdir(parents=True)
    (folder / "entry.yaml").write_text(yaml.safe_dump(entry, sort_keys=False), encoding="utf-8")
    (folder / "results.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def method(name: str, *policies: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "policies": list(policies or (name,)), "code": "model.md", **more}


# ----------------------------------------------------------------- the board of the repository


def test_the_page_is_what_the_entries_make(capsys: pytest.CaptureFixture[str]) -> None:
    board("--check")
    assert "leaderboard.md" in capsys.readouterr().out


def test_the_board_has_every_policy_on_every_standard_scenario() -> None:
    entries, lines = module("leaderboard_entries"), module("leaderboard_page").lines_of
    read = entries.read_board(DOCS / "leaderboard")
    for scenario in entries.SCENARIOS:
        names = {line.method.name for line in lines(read, scenario)}
        assert {"faircarbon", "ccar", "lookahead-places", "learned", "clairvoyant"} <= names
        assert ("ccar-budget" in names) == scenario.endswith("-budget")
    for submission in read:
        assert (submission.folder / "results.json").stat().st_size < entries.LARGEST_BYTES


# ----------------------------------------------------------------- what it says


def page_of(folder: Path) -> str:
    """The page of made-up entries."""
    board("--entries", folder, "--page", folder.parent / "page.md", "--scenario", "tiny")
    return (folder.parent / "page.md").read_text(encoding="utf-8")


def line(page: str, name: str) -> list[str]:
    """Cells of a method's row in the board."""
    (found,) = re.findall(rf"^\| ([^|\n]* \| `{name}` \| .*) \|$", page, re.MULTILINE)
    return found.split(" | ")  # type: ignore[no-any-return]


def test_savings_are_paired_over_fleets_and_of_the_mean_over_seeds(tmp_path: Path) -> None:
    seeds = [mine(0.85, "s0"), mine(0.95, "s1")]
    entry = {**ENTRY, "methods": [method("mine", "s0", "s1")]}
    write(tmp_path / "board" / "mine", entry, results(*seeds))
    cells = line(page_of(tmp_path / "board"), "mine")
    expected = paired_t([1 - (0.9 + 0.0011 * n) for n in range(FLEETS)])
    low, mean, high = (100 * expected[key] for key in ("low", "mean", "high"))  # type: ignore[literal-required]
    assert cells[:4] == ["1", "`mine`", "mine", f"{mean:.1f} [{low:.1f}, {high:.1f}]"]
    assert cells[-1] == "2"


def test_who_breaks_a_constraint_is_not_ranked_and_equal_savings_share_a_rank(
    tmp_path: Path,
) -> None:
    entry = {
        **ENTRY,
        "methods": [
            *(method(name) for name in ("late", "one", "two", "three", "best")),
            method("foreseen", bound=True),
        ],
    }
    rows = [
        mine(0.5, "late", ttft_violation_rate=0.0031),  # 0.11 percentage points above ccar
        *(mine(0.9, name, ttft_violation_rate=0.0029) for name in ("one", "two")),
        *(mine(0.95, "three"), mine(0.8, "best"), mine(0.1, "foreseen")),
    ]
    write(tmp_path / "board" / "many", entry, results(*rows))
    page = page_of(tmp_path / "board")
    ranks = {name: line(page, name)[0] for name in ("best", "one", "two", "three")}
    assert ranks == {"best": "1", "one": "2", "two": "2", "three": "4"}
    assert line(page, "late")[0] == "TTFT"
    assert page.index("`three`") < page.index("Not ranked") < page.index("`late`")
    assert re.search(r"^- `foreseen` saves \d", page, re.MULTILINE)
    assert "| `foreseen` | many" not in page


def test_a_seed_that_breaks_a_constraint_breaks_it_for_the_method(tmp_path: Path) -> None:
    entry = {**ENTRY, "methods": [method("mine", "s0", "s1")]}
    seeds = [mine(0.85, "s0"), mine(0.95, "s1", capacity_violation_rate=0.01)]
    write(tmp_path / "board" / "mine", entry, results(*seeds))
    assert line(page_of(tmp_path / "board"), "mine")[0] == "capacity"


def test_mean_quality_counts_under_a_budget_only() -> None:
    models, broken_by = module("leaderboard_models"), module("leaderboard_page").broken_by
    read = [[models.Row(**row) for row in of] for of in (mine(), rows_of("ccar", CCAR))]
    worse = [row.model_copy(update={"quality_realised": 0.67}) for row in read[0]]
    assert broken_by(worse, read[1], budget=False) == []
    assert broken_by(worse, read[1], budget=True) == ["mean quality"]
    rng = np.random.default_rng(0)
    noisy = [
        row.model_copy(update={"quality_realised": 0.6799 + 0.01 * rng.standard_normal()})
        for row in read[0]
    ]
    assert broken_by(noisy, read[1], budget=True) == []


# ----------------------------------------------------------------- what it refuses

Fault = Callable[[dict[str, Any], dict[str, Any]], Any]


def _without_last_fleet(content: dict[str, Any]) -> None:
    content["rows"] = [row for row in content["rows"] if row["fleet"] != FLEETS - 1]


def _of_other_turns(content: dict[str, Any]) -> None:
    for row in content["rows"]:
        row["co2_g"] *= 1.01


FAULTS: dict[str, tuple[Fault, str]] = {
    "unknown key": (
        lambda entry, _: entry.update(autors=["A"]),
        r"entry\.yaml: key 'autors' is not known.*authors",
    ),
    "missing key": (
        lambda entry, _: entry.pop("commit"),
        r"entry\.yaml: key 'commit' is missing",
    ),
    "learned on the test split": (
        lambda entry, _: entry["methods"][0].update(learned_on=["test"]),
        r"entry\.yaml: methods\.0\.learned_on\.0 = 'test' is not allowed.*'train' or 'validation'",
    ),
    "another command": (
        lambda entry, _: entry.update(commands=["rm -r ."]),
        r"entry\.yaml: commands\.0 = 'rm -r \.' is not allowed",
    ),
    "two commands": (
        lambda entry, _: entry.update(commands=["carbon-gym benchmark; rm -r ."]),
        r"entry\.yaml: commands\.0 = 'carbon-gym benchmark; rm -r \.' is not allowed",
    ),
    "HTML": (
        lambda entry, _: entry.update(authors=["<img src=x>"]),
        r"entry\.yaml: authors\.0 = '<img src=x>' is not allowed",
    ),
    "code that is a script": (
        lambda entry, _: entry["methods"][0].update(code="javascript://x"),
        r"entry\.yaml: methods\.0\.code = 'javascript://x' is not allowed",
    ),
    "code outside": (
        lambda entry, _: entry["methods"][0].update(code="../.."),
        r"entry\.yaml: methods\.0\.code = '\.\./\.\.' is neither an address nor a file",
    ),
    "a seed twice": (
        lambda entry, _: entry["methods"][0].update(policies=["mine", "mine"]),
        r"entry\.yaml: methods: policies has 'mine' 2 times",
    ),
    "code nowhere": (
        lambda entry, _: entry["methods"][0].update(code="nowhere.py"),
        r"entry\.yaml: methods\.0\.code = 'nowhere\.py'",
    ),
    "policy without rows": (
        lambda entry, _: entry["methods"][0].update(policies=["yours"]),
        r"entry\.yaml: methods\.0\.policies: 'yours' has no rows.*ccar, faircarbon",
    ),
    "another version": (
        lambda entry, _: entry.update(version="9.9"),
        r"entry\.yaml: version = '9\.9' is not that of results\.json",
    ),
    "a name that is taken": (
        lambda entry, _: entry["methods"][0].update(name="first"),
        r"entry\.yaml: methods: the name 'first' is taken by .*first.entry\.yaml",
    ),
    "fewer fleets": (
        lambda _, content: _without_last_fleet(content),
        r"results\.json: .* has 15 fleets.*16.*without --fleets",
    ),
    "no ccar": (
        lambda _, content: content.update(
            rows=[row for row in content["rows"] if row["policy"] != "ccar"]
        ),
        r"results\.json: ccar is missing on tiny",
    ),
    "a number that cannot be": (
        lambda _, content: content["rows"][3].update(co2_g=-1.0),
        r"results\.json: rows\.3\.co2_g = -1\.0 is not allowed",
    ),
    "a sum that is none": (
        lambda _, content: content["rows"][-1].update(co2_g=1.0),
        r"results\.json: mine on tiny emits 1 g in all",
    ),
    "other sessions": (
        lambda _, content: _of_other_turns(content),
        r"results\.json: faircarbon on tiny, fleet 0, emits .* in .*first.results\.json",
    ),
    "days nowhere": (
        lambda _, content: content["inputs"].clear(),
        r"results\.json: inputs\.tiny is missing",
    ),
    "other days": (
        lambda _, content: content["inputs"]["tiny"]["days"].reverse(),
        r"results\.json: inputs\.tiny\.days are not those of",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_sentence_with_file_and_key(
    fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "board" / "first", {**ENTRY, "methods": [method("first")]}, first())
    entry, content = json.loads(json.dumps(ENTRY)), results(mine())
    change, expected = FAULTS[fault]
    change(entry, content)
    write(tmp_path / "board" / "second", entry, content)
    with pytest.raises(SystemExit) as stop:
        page_of(tmp_path / "board")
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert re.search(expected, said), said
    assert said.startswith("leaderboard: ")
    assert said.count("\n") == 1
    assert not (tmp_path / "page.md").exists()


def first() -> dict[str, Any]:
    return results(mine(policy="first"))


def test_an_edited_page_and_a_large_file_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "board" / "mine", ENTRY, results(mine()))
    where = ("--entries", folder.parent, "--page", tmp_path / "page.md", "--scenario", "tiny")
    board(*where)
    board(*where, "--check")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    (tmp_path / "page.md").write_text(text.replace("| 1 |", "| 0 |"), encoding="utf-8")
    with pytest.raises(SystemExit):
        board(*where, "--check")
    assert "page.md: is not what the entries make" in capsys.readouterr().err
    content = json.dumps({**results(mine()), "padding": "x" * 400_000})
    (folder / "results.json").write_text(content, encoding="utf-8")
    with pytest.raises(SystemExit):
        board(*where)
    assert "--add mine RUN" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content.update(rows=[]), "no rows of ccar, faircarbon, mine on tiny"),
        (lambda content: content.update(rows=content["rows"][:34]), "no rows of mine on tiny"),
        (lambda content: content["inputs"].clear(), "inputs.tiny is missing"),
    ],
)
def test_results_that_lack_something_do_not_replace_those_that_there_are(
    change: Callable[[dict[str, Any]], Any],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, content = write(tmp_path / "board" / "mine", ENTRY, results(mine())), results(mine())
    before = (folder / "results.json").read_bytes()
    change(content)
    run = write(tmp_path / "run", {}, content)
    with pytest.raises(SystemExit):
        board("--add", "mine", run, "--entries", folder.parent, "--scenario", "tiny")
    assert said in capsys.readouterr().err
    assert (folder / "results.json").read_bytes() == before


# ----------------------------------------------------------------- the steps of the page


COMMANDS = re.compile(r"^ +((?:carbon-gym|python) .*)$", re.MULTILINE)


def steps() -> tuple[list[str], str, list[str]]:
    """Commands of "How to submit a policy", the entry that it shows, and those of the trial."""
    page = (DOCS / "leaderboard.md").read_text(encoding="utf-8")
    part = page.partition("## How to submit a policy")[2].replace("\\\n", " ")
    (entry,) = re.findall(r"```text\n(.*?)```", part, re.DOTALL)
    real, _, trial = part.partition("To try this in seconds")
    return COMMANDS.findall(real), textwrap.dedent(entry), COMMANDS.findall(trial)


def test_the_steps_of_the_page_lead_to_a_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (benchmark, *rest), entry, _ = steps()
    assert [shlex.split(command)[1] for command in rest] == ["docs/leaderboard.py"] * 3
    monkeypatch.chdir(tmp_path)
    shutil.copy(DOCS / "examples" / "own_policy.py", tmp_path)
    said = carbon_gym(*shlex.split(benchmark.replace("sharegpt", "tiny"))[1:], "--jobs", 1)
    assert said.code == 0, said.err
    folder = tmp_path / "docs" / "leaderboard" / "mine"
    folder.mkdir(parents=True)
    (folder / "entry.yaml").write_text(entry, encoding="utf-8")
    where = ("--entries", folder.parent, "--page", tmp_path / "page.md", "--scenario", "tiny")
    for command in rest:
        board(*shlex.split(command)[2:], *where)
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert re.search(r"\| `cleanest-grid` \| mine \| -?\d+\.\d \[", page)
    raw, kept = tmp_path / "runs" / "mine" / "results.json", folder / "results.json"
    assert 20 * kept.stat().st_size < 10 * raw.stat().st_size


def test_the_trial_of_the_page_is_as_quick_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, entry, (benchmark, *rest) = steps()
    monkeypatch.chdir(tmp_path)
    shutil.copy(DOCS / "examples" / "own_policy.py", tmp_path)
    said = carbon_gym(*shlex.split(benchmark)[1:], "--jobs", 1)
    assert said.code == 0, said.err
    folder = tmp_path / "runs" / "board" / "mine"
    folder.mkdir(parents=True)
    (folder / "entry.yaml").write_text(entry, encoding="utf-8")
    for command in rest:
        board(*shlex.split(command)[2:])
    assert "cleanest-grid" in (tmp_path / "runs" / "board.md").read_text(encoding="utf-8")
