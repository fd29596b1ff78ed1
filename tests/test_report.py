"""`carbon-gym report`: one page from the results of other commands."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commandline import Outcome, carbon_gym
from report_runs import NASTY, POLICY, SHOWN, renamed, write_runs, write_training

from carbon_gym import __version__
from carbon_gym.report.runs.found import runs_of, slugs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def made(runs: dict[str, Path]) -> Path:
    """The page of all of them."""
    folder = runs["first"].with_name("page")
    outcome = report(*runs.values(), "--out", folder)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [str(folder / "report.md"), str(folder / "report.html")]
    return folder


def report(*arguments: Any) -> Outcome:
    return carbon_gym("report", *arguments)


def text_of(folder: Path) -> str:
    return (folder / "report.md").read_text(encoding="utf-8")


def content_of(run: Path, name: str = "results.json") -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / name).read_text(encoding="utf-8"))
    return content


def fails(*arguments: Any) -> str:
    """What is said of what cannot be used."""
    outcome = report(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("carbon-gym: ")
    assert outcome.err.count("\n") == 1
    return outcome.err


# --- what is on the page ------------------------------------------------------------------------


def test_a_section_for_each_run_says_folder_command_date_and_version(made: Path) -> None:
    titles = [line[3:] for line in text_of(made).splitlines() if line.startswith("## ")]
    commands = ("benchmark", "benchmark", "evaluate", "benchmark --front", "reproduce", "train")
    names = ("first", "second", "evaluated", "front", "paper", "trained")
    assert titles[0] == "Side by side: tiny"
    assert titles[-1] == "How this report was made"
    for number, (name, command) in enumerate(zip(names, commands, strict=True), start=1):
        start = f"{number}: {name}: {command}, 20"
        assert titles[number].startswith(start), titles
        assert titles[number].endswith(f", version {__version__}")


def test_numbers_are_those_of_the_file(made: Path, runs: dict[str, Path]) -> None:
    table = pd.read_csv(made / "tables" / "run-1-tiny-policies.csv").set_index("policy")
    for row in content_of(runs["first"])["rows"]:
        if row["fleet"] != "all":
            continue
        line = table.loc[row["policy"]]
        assert line["CO2 (g)"] == row["co2_g"]
        assert line["CO2 relative"] == row["co2_relative"]
        assert line["P95 TTFT (s)"] == row["ttft_p95_s"]
        if row["policy"] != "faircarbon":
            found = [line[f"saved over faircarbon{end} (%)"] for end in ("", " low", " high")]
            saving = row["saving_vs_faircarbon"]
            assert found == [100.0 * saving[key] for key in ("mean", "low", "high")]
    methods = content_of(runs["evaluated"], "evaluation.json")["methods"]["tiny"]
    table = pd.read_csv(made / "tables" / "run-3-tiny-co2.csv").set_index("method")
    for record in methods:
        assert table.loc[record["method"], "CO2"] == record["co2_relative"]["value"]
        assert table.loc[record["method"], "saving (%)"] == 100.0 * record["saving"]["mean"]


def test_runs_of_the_same_scenario_stand_side_by_side(made: Path, runs: dict[str, Path]) -> None:
    table = pd.read_csv(made / "tables" / "beside-tiny-co2.csv").set_index("policy")
    for number, name in enumerate(("first", "second"), start=1):
        rows = [row for row in content_of(runs[name])["rows"] if row["fleet"] == "all"]
        column = table[f"{number}: {name}"]
        assert {row["policy"]: row["co2_relative"] for row in rows} == column.dropna().to_dict()
    assert "The runs differ in fleets, rules or code" in text_of(made)
    inputs = pd.read_csv(made / "tables" / "beside-tiny-inputs.csv")
    assert inputs["fleets"][1] == "5 fleets, days from 2023-02-01 to 2023-02-05"


def test_the_same_fleets_are_said_to_be_the_same(runs: dict[str, Path], tmp_path: Path) -> None:
    again = shutil.copytree(runs["first"], tmp_path / "first")
    assert report(runs["first"], again, "--out", tmp_path / "page").code == 0
    text = text_of(tmp_path / "page")
    assert "All runs served the same fleets under the same rules by the same code" in text
    # The folders have the same name; as much of the path tells them apart as is needed.
    assert f"1: {runs['first'].parent.name}/first" in text
    assert f"2: {tmp_path.name}/first" in text


def test_the_marked_policy_is_the_best_that_keeps_what_faircarbon_keeps(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    content = content_of(runs["first"])
    pooled = {row["policy"]: row for row in content["rows"] if row["fleet"] == "all"}
    keys = ("quality_predicted", "ttft_p95_s")
    keys += tuple(f"{kind}_violation_rate" for kind in ("quality", "ttft", "capacity"))
    for name in ("ccar-no-gate", "ccar-no-pricing"):
        pooled[name].update({key: pooled["faircarbon"][key] for key in keys})
    for name, co2_g in (("ccar-no-gate", 2.0), ("ccar-no-pricing", 1.0), ("lower-bound", 0.1)):
        pooled[name]["co2_g"] = co2_g
    pooled["ccar-no-pricing"]["ttft_p95_s"] += 0.01
    (tmp_path / "results.json").write_text(json.dumps(content))
    assert report(tmp_path / "results.json", "--out", tmp_path / "page").code == 0
    marked = [line for line in text_of(tmp_path / "page").splitlines() if "| **" in line]
    assert len(marked) == 1
    assert marked[0].startswith("| **ccar-no-gate** | **2.0** ")


def test_a_training_says_what_is_missed_and_how_it_goes_on(made: Path) -> None:
    text = text_of(made)
    assert "Algorithm ppo, scenario tiny, seed 7: 500 of 1,000 steps" in text
    assert "`carbon-gym train --resume` goes on" in text
    assert "emits 0.9000 of the CO2 of ccar on held-out conversations" in text
    table = pd.read_csv(made / "tables" / "run-6-validations.csv")
    assert table["missed"][0].startswith("quality_predicted by 0.05, ttft_p95_s by 0.25")
    settings = pd.read_csv(made / "tables" / "run-6-configuration.csv").set_index("setting")
    assert settings.loc["net.width", "value"] == "8"


def test_worlds_are_told_apart_by_their_rules(made: Path, runs: dict[str, Path]) -> None:
    worlds = content_of(runs["paper"], "reproduce.json")["worlds"]
    table = pd.read_csv(made / "tables" / "run-5-worlds.csv")
    assert len(table) == len(worlds) == 2
    assert table["world"].is_unique
    rules = [world["facts"]["rules"]["cache"]["on_leave"] for world in worlds.values()]
    assert sorted(rules) == ["evict", "retain"]
    assert any("cache.on_leave" in name for name in table["world"])


def test_an_audit_says_what_routers_save(tmp_path: Path) -> None:
    small = ("--fleet", "tiny", "--days", 2, "--sessions", 10, "--jobs", 1)
    assert carbon_gym("audit", *small, "--out", tmp_path / "audit").code == 0
    assert report(tmp_path / "audit", "--out", tmp_path / "page").code == 0
    table = pd.read_csv(tmp_path / "page" / "tables" / "run-1-routers.csv")
    own = pd.read_csv(tmp_path / "audit" / "tables" / "savings.csv")
    assert sorted(table["CO2 saved (%)"]) == sorted(own["CO2 saved (%)"])
    assert sorted(table["quality as"]) == ["budget", "budget", "budget", "filter", "filter"]
    moved = pd.read_csv(tmp_path / "page" / "tables" / "run-1-assumptions.csv")
    assert "bounds.beta_q 0.8" in set(moved["moved"])
    said = fails(tmp_path / "audit", "--out", tmp_path / "audit")
    assert "holds the report of `carbon-gym audit`, which would be written over" in said


def test_names_from_files_are_text_everywhere(runs: dict[str, Path], tmp_path: Path) -> None:
    folders = [
        renamed(runs["first"] / "results.json", tmp_path / name) for name in ("$a$ <b> _x|y", "_b")
    ]
    outcome = report(*folders, "--out", tmp_path / "page")
    assert (outcome.code, outcome.err) == (0, "")
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert page.count("<script") == 1
    assert "<img" not in page
    assert "<b>" not in page
    assert page.count("alert(1)") == page.count("&lt;script&gt;alert(1)")
    text = text_of(tmp_path / "page")
    assert NASTY not in text
    assert text.count("<script>") == text.count("\\<script>")
    tables = tmp_path / "page" / "tables"
    for path in tables.iterdir():
        assert len(path.name) < 100
    inputs = pd.read_csv(next(tables.glob("beside-*-inputs.csv")))
    assert list(inputs["run"]) == ["1: $a$ <b> _x|y", "2: _b"]
    policies = pd.read_csv(next(tables.glob("run-1-*-policies.csv")))
    assert POLICY in set(policies["policy"])
    assert SHOWN in page.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def test_names_of_files_differ_where_scenarios_differ() -> None:
    found = slugs(["a b", "a-b", "A.B", "a-b-2", "ß", "中", "x" * 500, "x" * 501])
    assert list(found.values())[:4] == ["a-b", "a-b-2", "A-B-3", "a-b-2-2"]
    lowered = [part.lower() for part in found.values()]
    assert len(set(lowered)) == len(lowered)
    assert max(map(len, lowered)) < 50


def test_a_file_is_known_by_name_or_keys_and_taken_once(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    other = shutil.copy(runs["first"] / "results.json", tmp_path / "before.json")
    both = runs_of([runs["first"], runs["first"] / "results.json", Path(other)])
    assert [run.kind.command for run in both] == ["benchmark", "benchmark"]
    evaluated = shutil.copytree(runs["evaluated"], tmp_path / "both")
    shutil.copy(runs["first"] / "results.json", evaluated)
    assert [run.kind.command for run in runs_of([evaluated])] == ["benchmark", "evaluate"]


def test_what_was_interrupted_is_shown_as_far_as_it_got(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    content = content_of(runs["first"])
    rows = [row for row in content["rows"] if row["policy"] in ("session-affinity", "faircarbon")]
    for name, kept in (("some", rows), ("none", [])):
        (tmp_path / name).mkdir()
        cut = {**content, "rows": kept, "versus": {}}
        (tmp_path / name / "results.json").write_text(json.dumps(cut))
    evaluated = content_of(runs["evaluated"], "evaluation.json")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "evaluation.json").write_text(json.dumps({**evaluated, "methods": {}}))
    folders = [tmp_path / name for name in ("some", "none", "e")]
    assert report(*folders, "--out", tmp_path / "page").code == 0
    assert text_of(tmp_path / "page").count("was interrupted before a result was there") == 2


def test_one_fleet_has_values_without_intervals(tmp_path: Path) -> None:
    small = ("--scenario", "tiny", "--sessions", 8, "--fleets", 1, "--jobs", 1)
    made = carbon_gym("benchmark", *small, "--policies", "ccar", "--out", tmp_path / "one")
    assert made.code == 0
    assert report(tmp_path / "one", "--out", tmp_path / "page").code == 0
    assert "1 fleet, the day 20" in text_of(tmp_path / "page")


def test_the_same_files_make_the_same_page(runs: dict[str, Path], tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert report(runs["second"], runs["trained"], "--out", tmp_path / name).code == 0
    files = sorted(path for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert len(files) > 10
    for path in files:
        assert (
            path.read_bytes()
            == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()
        )


def test_by_default_into_a_new_folder_of_runs(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = report(runs["trained"])
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("-report")
    assert outcome.out.splitlines()[1] == f"runs/{folder.name}/report.html"


# --- what cannot be used ------------------------------------------------------------------------


def test_a_folder_without_a_result_says_what_was_looked_for_and_found(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).touch()
    said = fails(tmp_path, "--out", tmp_path / "page")
    assert f"{tmp_path}: has no result of carbon-gym" in said
    for name in ("results.json (benchmark)", "evaluation.json (evaluate)", "progress.json (train)"):
        assert name in said
    assert "found a.txt, b.txt; name the folder that a command wrote" in said
    write_training(tmp_path / "inner")
    assert f"{tmp_path / 'inner'} has one: name such folders" in fails(tmp_path)
    (tmp_path / "empty").mkdir()
    assert "found nothing" in fails(tmp_path / "empty")
    assert "there is no such file or folder" in fails(tmp_path / "missing")
    assert "is no result of carbon-gym" in fails(tmp_path / "a.txt")
    assert not (tmp_path / "page").exists()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("results.json", "", "is not whole JSON"),
        ("results.json", '{"schema": 1, "rows": [', "is not whole JSON"),
        ("results.json", "\udcff", "is not whole JSON"),
        ("results.json", "[" * 100_000, "is not whole JSON"),
        ("results.json", "[1]", "holds a JSON list"),
        ("results.json", "{}", "is not a results file of carbon-gym (no 'versions')"),
        ("results.json", '{"schema": 1, "versions": 3}', "(no 'versions')"),
        ("evaluation.json", '{"schema": 1, "versions": {"carbon-gym": "1"}}', "(no 'scenario')"),
        ("front.json", '{"schema": "x", "versions": {"carbon-gym": "1"}}', "(no 'schema')"),
        ("progress.json", '{"steps": 1}', "is not the progress of a training"),
        ("progress.json", '{"steps": "many"}', "is not the progress of a training"),
        ("other.json", '{"a": 1}', "is no result of carbon-gym"),
        ("reproduce.json", '{"schema": 1, "versions": {"carbon-gym": "1"}}', "(no 'scenario')"),
    ],
)
def test_broken_and_foreign_files_are_one_sentence(
    name: str, text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    error = fails(tmp_path / name, "--out", tmp_path / "page")
    assert str(tmp_path / name) in error
    assert said in error
    assert not (tmp_path / "page").exists()


def test_other_schemas_are_refused_with_the_fix(runs: dict[str, Path], tmp_path: Path) -> None:
    content = content_of(runs["first"])
    for schema, fix in ((0, "run the command again"), (99, f"use carbon-gym {__version__} or lat")):
        (tmp_path / "results.json").write_text(json.dumps({**content, "schema": schema}))
        said = fails(tmp_path)
        assert f"has schema {schema} and was made by carbon-gym {__version__}" in said
        assert "reads schema 1 of a results file" in said
        assert fix in said
    # Another version with the same layout is no obstacle: nothing is run again here.
    content["versions"]["carbon-gym"] = "0.0.7"
    (tmp_path / "results.json").write_text(json.dumps({**content, "rows": []}))
    assert report(tmp_path, "--out", tmp_path / "page").code == 0
    assert "version 0.0.7" in text_of(tmp_path / "page")


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("first/results.json", lambda content: content["rows"][-1].pop("co2_g")),
        ("first/results.json", lambda content: content["rows"][-1].update(saving_vs_faircarbon=1)),
        ("first/results.json", lambda content: content["inputs"]["tiny"].pop("days")),
        ("first/results.json", lambda content: content["inputs"]["tiny"].update(days=[])),
        ("first/results.json", lambda content: content["rows"][-1].update(by_session_turns=3)),
        (
            "first/results.json",  # names that a table cannot tell apart
            lambda content: content["versus"]["tiny"].update({"ccar  x": {}, "ccar x": {}}),
        ),
        ("evaluated/evaluation.json", lambda content: content["methods"]["tiny"][0].pop("saving")),
        ("evaluated/evaluation.json", lambda content: content["reference"].clear()),
        ("front/front.json", lambda content: content["inputs"]["tiny"].pop("reference")),
        (
            "paper/reproduce.json",
            lambda content: [world["facts"].pop("rules") for world in content["worlds"].values()],
        ),
        ("trained/progress.json", lambda content: content["validations"][0].update(missed=[3])),
    ],
)
def test_damaged_files_are_named(
    file: str, damage: Any, runs: dict[str, Path], tmp_path: Path
) -> None:
    whole = runs["first"].parent / file
    content = json.loads(whole.read_text(encoding="utf-8"))
    damage(content)
    path = tmp_path / whole.name
    path.write_text(json.dumps(content))
    outcome = report(path, "--out", tmp_path / "page")
    assert outcome.code == 2
    assert str(path) in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (tmp_path / "page").exists()


def test_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shut(self: Path) -> Any:  # by the mode alone root would read it
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "iterdir", shut)
    said = fails(tmp_path)
    assert f"{tmp_path}: cannot be read (Permission denied); name a folder" in said


def test_json_says_what_is_on_the_page(runs: dict[str, Path], tmp_path: Path) -> None:
    outcome = report(runs["first"], runs["trained"], "--out", tmp_path, "--json")
    found = json.loads(outcome.out)
    assert [run["command"] for run in found["results"]["runs"]] == ["benchmark", "train"]
    assert str(tmp_path / "report.html") in found["files"]
