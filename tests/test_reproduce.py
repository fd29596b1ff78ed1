"""`carbon-gym reproduce`: what is run, that it is kept and taken up again, and the command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from commandline import carbon_gym
from inputs import ZONES, write_grid, write_tokens

from carbon_gym.benchmark import REFERENCES, Rows
from carbon_gym.cli import reproduce as command
from carbon_gym.errors import InputError
from carbon_gym.report.document import Section
from carbon_gym.report.document_files import write_document
from carbon_gym.reproduce import run
from carbon_gym.reproduce.ablation_part import AblationPart
from carbon_gym.reproduce.beyond_part import BeyondPart
from carbon_gym.reproduce.bounds_part import BoundsPart
from carbon_gym.reproduce.length_part import LengthPart
from carbon_gym.reproduce.overall_part import OverallPart
from carbon_gym.reproduce.parts import PARTS, parts_named
from carbon_gym.reproduce.plan import Part, Plan, World
from carbon_gym.reproduce.rows_file import ReproduceFile
from carbon_gym.reproduce.run import Unit, command_of, document, run_units, units_of
from carbon_gym.reproduce.sensitivity_part import SensitivityPart
from carbon_gym.reproduce.sensitivity_settings import axes, cells, setting_world
from carbon_gym.reproduce.worlds import dataset_world, merged
from carbon_gym.scenario import load_scenario
from carbon_gym.scenario.own_files import OwnFiles

SMALL = Plan(datasets=("tiny",), fleets=2, sensitivity_fleets=2, sessions=12, quick=True)
SIMULATED: tuple[Part, ...] = (
    *(OverallPart(), LengthPart(), AblationPart()),
    *(SensitivityPart(), BoundsPart(), BeyondPart()),
)


# ------------------------------------------------------------------------------------ what is run


def test_worlds_of_the_same_rules_are_run_once_with_all_policies() -> None:
    units, ids = units_of(SMALL, SIMULATED)
    worlds = [world for part in SIMULATED for world in part.worlds(SMALL)]
    assert set(ids) == {world.rules for world in worlds}
    assert {unit.id for unit in units} == set(ids.values())
    assert len(units) == len({unit.id for unit in units}) < len(set(ids))
    by_id = {unit.id: unit for unit in units}
    for world in worlds:
        unit = by_id[ids[world.rules]]
        assert set(world.policies) | set(REFERENCES) <= set(unit.policies)
        assert len(set(unit.policies)) == len(unit.policies)
        assert unit.fleets == world.fleets


def test_the_default_of_every_axis_is_the_main_world() -> None:
    for leave in ("retain", "evict"):
        for axis in axes(Plan()):
            worlds = {
                value: setting_world(Plan(sensitivity_fleets=16), leave, changes)
                for value, changes in axis.settings.items()
            }
            parts = [_Worlds([*worlds.values(), dataset_world(Plan(), "sharegpt", leave, ())])]
            units, ids = units_of(Plan(), parts)
            main = ids[dataset_world(Plan(), "sharegpt", leave, ()).rules]
            assert ids[worlds[axis.default].rules] == main
            assert len(units) == len(axis.settings), axis.name


class _Worlds:
    name = "worlds"
    title = ""

    def __init__(self, worlds: Sequence[World]) -> None:
        self._worlds = worlds

    def worlds(self, plan: Plan) -> Sequence[World]:
        return self._worlds

    def section(self, plan: Plan, found: Any) -> Section:
        raise NotImplementedError


def test_the_full_plan_has_every_setting_of_the_issue() -> None:
    found = cells(Plan())
    for leave in ("retain", "evict"):
        for rule in ("sessions", "turns"):
            for scope in ("pool", "region"):
                here = [c for c in found if (c.leave, c.rule, c.scope) == (leave, rule, scope)]
                betas = {0.80, 0.85, 0.90, 0.95}
                assert {(c.beta_q, c.limit) for c in here} == {
                    (beta, limit) for beta in betas for limit in (0.25, 0.5, 0.75, None)
                }
    by_axis = {axis.name: list(axis.settings) for axis in axes(Plan())}
    assert by_axis["cache TTL, min"] == ["2", "5", "10", "30", "60"]
    assert by_axis["ρ_c"] == ["0", "0.03", "0.1"]
    assert by_axis["staleness of CI, min"] == ["0", "15", "30", "60"]
    assert by_axis["regions"] == [str(count) for count in range(2, 9)]
    assert len(by_axis) == 9
    quick = Plan(quick=True)
    assert {axis.name for axis in axes(quick)} == set(by_axis)
    assert len(cells(quick)) < len(found)


def test_settings_reach_the_rules() -> None:
    def rules(axis: str, value: str) -> Any:
        (found,) = [a for a in axes(Plan()) if a.name == axis]
        world = setting_world(Plan(), "evict", found.settings[value])
        return load_scenario(world.scenario, **json.loads(world.changes))

    assert rules("cache TTL, min", "2").cache.ttl_s == 120
    assert rules("cache TTL, min", "2").cache.on_leave == "evict"
    assert rules("staleness of CI, min", "15").grid.staleness_s == 900
    assert rules("error of ô, log sd", "1").workload.predicted_output_log_sd == 1
    assert len(rules("regions", "8").fleet.regions) == 8
    assert rules("regions", "8").origin == "sharegpt-evict"


def test_changes_are_laid_over_one_another() -> None:
    first = {"cache": {"ttl_s": 1.0, "on_leave": "evict"}}
    assert merged(first, {"cache": {"ttl_s": 2.0}, "bounds": {"beta_q": 0.9}}) == {
        "cache": {"ttl_s": 2.0, "on_leave": "evict"},
        "bounds": {"beta_q": 0.9},
    }
    assert first["cache"]["ttl_s"] == 1.0


def test_a_grid_of_the_users_own_varies_its_own_regions() -> None:
    def regions(files: OwnFiles) -> list[str]:
        return [v for a in axes(Plan(files=files)) if a.name == "regions" for v in a.settings]

    grid = (Path("grid.csv"),)
    assert regions(OwnFiles(grid=grid, zones=("A", "B", "C"))) == ["2", "3"]
    assert regions(OwnFiles(grid=grid, zones=("A",))) == []
    assert regions(OwnFiles(grid=grid)) == ["2", "3", "4"]


# -------------------------------------------------------------------------- kept and taken up again


def files_of(folder: Path) -> dict[str, bytes]:
    found = {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }
    assert "reproduce.json" in found
    return found


def go(
    folder: Path, parts: Sequence[Part], plan: Plan = SMALL, jobs: int = 1, stop: int = 0
) -> int:
    """Run parts and write their report; returns the units done. `stop`: after so many, a fault."""
    done: list[int] = []

    def served(size: int) -> None:
        done.append(size)
        if len(done) == stop:
            raise KeyboardInterrupt

    with ReproduceFile(folder) as file:
        units, ids = units_of(plan, parts)
        run_units(plan, units, file, jobs=jobs, on_served=served)
        write_document(document(plan, run.Rows(file, ids), parts), folder)
    assert sum(done) == sum(unit.size for unit in units)
    return len(done)


def test_interrupted_and_taken_up_it_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [AblationPart(), SensitivityPart()]
    count = go(tmp_path / "whole", parts)
    ran_policies: list[str] = []
    compare = run.compare

    def counting(evaluation: Any, names: Sequence[str]) -> Rows:
        ran_policies.extend(names)
        return compare(evaluation, names)

    monkeypatch.setattr(run, "compare", counting)
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "parts", parts, stop=3)
    assert not (tmp_path / "parts" / "report.md").exists()
    before = len(ran_policies)
    go(tmp_path / "parts", parts)
    assert files_of(tmp_path / "parts") == files_of(tmp_path / "whole")
    units, _ = units_of(SMALL, parts)
    assert count == len(units) > 3
    assert before < len(ran_policies) == sum(len(unit.policies) for unit in units)
    again = len(ran_policies)
    go(tmp_path / "parts", parts)
    assert len(ran_policies) == again, "what is there is not run again"


def test_only_what_changed_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [AblationPart()]
    go(tmp_path, parts)
    ran_policies: list[str] = []
    compare, key = run.compare, run.policy_key

    def counting(evaluation: Any, names: Sequence[str]) -> Rows:
        ran_policies.extend(names)
        return compare(evaluation, names)

    monkeypatch.setattr(run, "compare", counting)
    monkeypatch.setattr(
        run, "policy_key", lambda name, e: "new" if name == "ccar-ev" else key(name, e)
    )
    go(tmp_path, parts)
    assert set(ran_policies) == {"ccar-ev"}
    ran_policies.clear()
    larger = Plan(datasets=("tiny",), fleets=2, sensitivity_fleets=2, sessions=13, quick=True)
    go(tmp_path, parts, larger)
    assert {"ccar", "faircarbon", "session-affinity"} <= set(ran_policies)


def test_other_parts_stay_in_the_file(tmp_path: Path) -> None:
    go(tmp_path, [AblationPart()])
    first = json.loads((tmp_path / "reproduce.json").read_text(encoding="utf-8"))["worlds"]
    go(tmp_path, [LengthPart(), SensitivityPart()])
    then = json.loads((tmp_path / "reproduce.json").read_text(encoding="utf-8"))["worlds"]
    assert first.keys() < then.keys()
    for world, record in first.items():
        assert record["policies"].items() <= then[world]["policies"].items()


def test_processes_change_nothing(tmp_path: Path) -> None:
    parts = [AblationPart(), BoundsPart()]
    go(tmp_path / "one", parts)
    go(tmp_path / "two", parts, jobs=2)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


@pytest.mark.parametrize("text", ["{", '{"worlds": {}}', '{"schema": 1, "worlds": {"a": 1}}'])
def test_a_file_of_another_kind_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "reproduce.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="name another --out"):
        ReproduceFile(tmp_path)


# ---------------------------------------------------------------------------------- the command


def test_parts_by_name() -> None:
    assert [part.name for part in parts_named([])] == [
        *("claims", "grid", "miss-cost", "break-even", "profiles", "overall"),
        *("session-length", "ablation"),
        *("gate", "sensitivity", "sensitivity-2", "bounds", "beyond"),
    ]
    assert [part.name for part in parts_named(["bounds", "grid"])] == ["grid", "bounds"]
    with pytest.raises(InputError, match=r"'ablatoin' is not known.*'ablation'.*use one of claims"):
        parts_named(["grid", "ablatoin"])


def test_the_command_writes_the_report(tmp_path: Path) -> None:
    options = ("--only", "ablation", "--only", "profiles", "--fleets", 2, "--sessions", 12)
    outcome = carbon_gym("reproduce", "--quick", *options, "--jobs", 1, "--out", tmp_path)
    assert outcome.code == 0, outcome.err
    assert "report.html" in outcome.out
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert report.index("(Table 6)") < report.index("(Table 2, Fig. 5)")
    assert "(Table 1)" not in report
    only = "--only profiles --only ablation --fleets 2 --sessions 12"
    assert f"carbon-gym reproduce --quick {only}" in report
    assert (tmp_path / "tables" / "ablation.csv").is_file()
    assert (tmp_path / "pictures" / "ablation.png").is_file()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--only", "tabel-1"], "--only 'tabel-1' is not known"),
        (["--fleets", "0"], "--fleets 0 is not allowed"),
        (["--format", "tokens"], "say how to read --conversations"),
        (["--zones", "GB,GB"], "names 'GB' twice"),
        (["--zones", "Atlantis"], "Atlantis"),
        (["--start", "may"], "is not a day"),
    ],
)
def test_faults_are_found_before_the_work(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = carbon_gym("reproduce", "--quick", *options)
    assert outcome.code == 2
    assert said in outcome.err
    assert not any(tmp_path.iterdir())


def plan_of(*options: Any, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Plan:
    """The plan that the command makes; nothing is run."""
    seen: list[Plan] = []

    def units(plan: Plan, parts: Sequence[Part]) -> tuple[list[Unit], dict[str, str]]:
        seen.append(plan)
        raise InputError("enough")

    monkeypatch.setattr(command, "units_of", units)
    outcome = carbon_gym("reproduce", "--out", folder / "out", *options)
    assert "enough" in outcome.err, outcome.err
    (plan,) = seen
    return plan


def test_files_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = write_grid(tmp_path / "grid.csv", hours=72)
    turns = write_tokens(tmp_path / "turns.csv")
    where = {"monkeypatch": monkeypatch, "folder": tmp_path}
    own = ("--grid", grid, "--zones", ",".join(ZONES))
    both = plan_of("--conversations", turns, *own, **where)
    assert both.datasets == ("sharegpt",)
    assert (both.fleets, both.sensitivity_fleets) == (3, 3), "as many days as the grid has"
    assert (both.files.format, both.files.zones) == ("tokens", tuple(ZONES))
    alone = plan_of(*own, "--start", "2023-05-09", **where)
    assert alone.datasets == ("sharegpt", "sharechat")
    assert (alone.fleets, alone.start) == (2, date(2023, 5, 9))
    default = plan_of(**where)
    assert (default.fleets, default.sensitivity_fleets, default.sessions) == (16, 8, None)
    quick = plan_of("--quick", "--fleets", 3, **where)
    assert (quick.fleets, quick.sensitivity_fleets, quick.quick) == (3, 3, True)
    said = command_of(both, PARTS)
    assert said.startswith("carbon-gym reproduce --conversations turns.csv --format tokens --grid")
    assert str(tmp_path) not in said


def test_ones_own_files_are_served(tmp_path: Path) -> None:
    grid = write_grid(tmp_path / "grid.csv", hours=72)
    turns = write_tokens(tmp_path / "turns.csv")
    files = ("--conversations", turns, "--grid", grid, "--zones", ",".join(ZONES))
    options = ("--quick", "--only", "session-length", "--jobs", 1, "--out", tmp_path / "out")
    outcome = carbon_gym("reproduce", *files, *options)
    assert outcome.code == 0, outcome.err
    content = json.loads((tmp_path / "out" / "reproduce.json").read_text(encoding="utf-8"))
    for record in content["worlds"].values():
        assert record["facts"]["fleets"] == 3
        assert [region["zone"] for region in record["facts"]["rules"]["fleet"]["regions"]] == [
            *ZONES
        ]
