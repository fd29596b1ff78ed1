"""The tables of `carbon-gym reproduce`: their numbers are those of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from carbon_gym.metrics.intervals import paired_t
from carbon_gym.report.document import Measured, Section, Table
from carbon_gym.report.document_files import write_document
from carbon_gym.reproduce import claims_part
from carbon_gym.reproduce.ablation_part import AblationPart
from carbon_gym.reproduce.beyond_part import BeyondPart
from carbon_gym.reproduce.bounds_part import BoundsPart
from carbon_gym.reproduce.claims_part import ClaimsPart
from carbon_gym.reproduce.figures import added, measured, no_worse, of_all, saved, whiskers
from carbon_gym.reproduce.length_part import LengthPart
from carbon_gym.reproduce.overall_part import POLICIES, OverallPart
from carbon_gym.reproduce.plan import Part, Plan
from carbon_gym.reproduce.rows_file import ReproduceFile
from carbon_gym.reproduce.run import Rows, document, run_units, units_of
from carbon_gym.reproduce.sensitivity_part import SensitivityPart
from carbon_gym.reproduce.sensitivity_settings import POLICIES as VARIED
from carbon_gym.reproduce.sensitivity_settings import axes, cells, setting_world
from carbon_gym.reproduce.worlds import dataset_world

TINY = Plan(datasets=("tiny",), fleets=5, sensitivity_fleets=5, sessions=30, quick=True)
"""Five fleets, for intervals."""
SIMULATED: tuple[Part, ...] = (
    *(ClaimsPart(), OverallPart(), LengthPart(), AblationPart()),
    *(SensitivityPart(), BoundsPart(), BeyondPart()),
)


class Ran:
    """All simulated parts on a plan: its folder, file, rows and sections."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder
        self.units, ids = units_of(plan, SIMULATED)
        self.file = ReproduceFile(folder)
        run_units(plan, self.units, self.file)
        self.found = Rows(self.file, ids)
        self.document = document(plan, self.found, SIMULATED)
        write_document(self.document, folder)

    def section(self, name: str) -> Section:
        (section,) = [section for section in self.document.sections if section.name == name]
        return section


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(tmp_path_factory.mktemp("reproduce"), TINY)


def table(section: Section, name: str) -> Table:
    (found,) = [b for b in section.blocks if isinstance(b, Table) and b.name == name]
    return found


def column(of: Table, title: str) -> int:
    return [c.title for c in of.columns].index(title)


def cells_of(of: Table, title: str, *words: str) -> list[Any]:
    """Cells of a column, of the rows that begin with these words."""
    at = column(of, title)
    return [row[at] for row in of.rows if tuple(row[: len(words)]) == words]


def test_nothing_of_this_machine_is_in_the_report(ran: Ran) -> None:
    here = str(Path(__file__).resolve().parents[1])
    written = [path for path in ran.folder.rglob("*") if path.is_file()]
    assert {"report.html", "report.md", "reproduce.json"} <= {path.name for path in written}
    for path in written:
        assert here.encode() not in path.read_bytes(), path.name


def test_the_facts_name_sizes_and_seeds(ran: Ran) -> None:
    facts = ran.document.facts
    assert facts["fleets"].startswith("5; 5")
    assert facts["sessions a day"] == "30"
    assert "seeds.workload = 20261" in facts["tiny"]


def test_savings_are_those_of_the_rows(ran: Ran) -> None:
    world = dataset_world(TINY, "tiny", "retain", ())
    shown = table(ran.section("overall"), "overall-tiny-retain")
    assert [row[0] for row in shown.rows] == list(POLICIES)
    for policy in POLICIES:
        rows = ran.found.rows(world, policy)
        (pooled,) = [row for row in rows if row["fleet"] == "all"]
        (saving,) = cells_of(shown, "saved over faircarbon", policy)
        interval = pooled["saving_vs_faircarbon"]
        if policy == "faircarbon":
            assert saving is None
            continue
        assert (saving.value, saving.low, saving.high) == pytest.approx(
            tuple(100 * interval[end] for end in ("mean", "low", "high"))
        )
        assert cells_of(shown, "quality realised", policy) == [pooled["quality_realised"]]
        assert cells_of(shown, "P95 TTFT", policy) == [pooled["ttft_p95_s"]]
        (relative,) = cells_of(shown, "CO2 relative", policy)
        affinity = ran.found.rows(world, "session-affinity")
        ratios = [a["co2_g"] / b["co2_g"] for a, b in zip(rows[:-1], affinity[:-1], strict=True)]
        assert relative.value == pytest.approx(np.mean(ratios))
    against = table(ran.section("overall"), "overall-savings")
    (row,) = [r for r in against.rows if tuple(r[:3]) == ("ccar", "tiny", "retained")]
    (mean,) = [r for r in against.rows if tuple(r[:3]) == ("ccar", "mean", "retained")]
    assert row[3:] == mean[3:], "of one data set"
    assert row[-1] == cells_of(shown, "saved over faircarbon", "ccar")[0]
    assert against.rows[-1][-1] == "16.1 %"


def test_claims_stand_beside_the_numbers_of_their_sections(ran: Ran) -> None:
    claims = table(ran.section("claims"), "claims")
    overall = table(ran.section("overall"), "overall-savings")
    ablation = table(ran.section("ablation"), "ablation")
    (saved,) = cells_of(claims, "ours, evicted", "CO2 saved over faircarbon")
    assert saved == cells_of(overall, "over faircarbon", "ccar", "mean", "evicted")[0]
    (gate,) = cells_of(claims, "ours, retained", "CO2 added without the gate")
    assert gate == cells_of(ablation, "CO2 added", "no gate", "mean", "retained")[0]
    (sign,) = cells_of(claims, "sign, retained", "CO2 added without the gate")
    ends = (gate.low, gate.high)
    assert sign == ("same" if min(ends) > 0 else "opposite" if max(ends) < 0 else "not seen")
    assert cells_of(claims, "sign, retained", "switches blocked") == [""]
    (paper,) = cells_of(claims, "paper", "CO2 saved over cedar")
    assert paper == "16.1–54.3"
    (over,), (beyond,) = (
        cells_of(claims, title, "CO2 saved over cedar")
        for title in ("ours, retained", "difference, retained")
    )
    assert beyond == pytest.approx(min(0.0, over.value - 16.1) + max(0.0, over.value - 54.3))


def values(saved: float | None, gate: tuple[float, float] | None = None) -> dict[Any, Any]:
    """What `claims_part` is given for a reading where all else is as published."""
    found: dict[Any, Any] = dict.fromkeys(claims_part.CLAIMS, 20.0)
    found[claims_part.SAVED] = saved
    found[claims_part.GATE] = None if gate is None else Measured(sum(gate) / 2, *gate)
    return found


def test_differences_are_said_reading_by_reading() -> None:
    def said(retained: Any, evicted: Any) -> str:
        return claims_part.differences({"retain": retained, "evict": evicted})

    both = said(values(9.9, (3.0, 4.0)), values(18.3, (-0.1, 0.3)))
    assert "between ours, 9.9 % with caches retained and 18.3 % evicted" in both
    assert "is seen with caches retained and not seen evicted" in both
    worse = said(values(-9.0, (-4.0, -2.0)), values(16.2, (-4.0, -2.0)))
    assert "between ours, −9.0 % with caches retained and 16.2 % evicted" in worse
    assert "is a loss with caches retained and a loss evicted" in worse
    same = said(values(16.0, (1.0, 2.0)), values(16.2, (1.0, 2.0)))
    assert "The size" not in same
    assert "The gate" not in same
    assert said(values(None), values(None)) == "Nothing was served."


def test_savings_by_length_are_those_of_the_rows(ran: Ran) -> None:
    world = dataset_world(TINY, "tiny", "evict", ())
    (pooled,) = [r for r in ran.found.rows(world, "ccar-ev") if r["fleet"] == "all"]
    shown = table(ran.section("session-length"), "session-length")
    (saving,) = cells_of(shown, "> 5 turns", "ccar-ev", "tiny", "evicted")
    assert saving.value == pytest.approx(
        100 * pooled["by_session_turns"][">5"]["saving_vs_faircarbon"]["mean"]
    )
    assert tuple(shown.rows[-1]) == ("paper", "mean", "", 16.1, 15.3, None, None, 23.1)


def test_the_ablation_is_relative_to_the_whole(ran: Ran) -> None:
    world = dataset_world(TINY, "tiny", "retain", ())
    whole, neither = (ran.found.rows(world, name) for name in ("ccar", "faircarbon"))
    shown = table(ran.section("ablation"), "ablation")
    (co2,) = cells_of(shown, "CO2 added", "neither", "tiny", "retained")
    ratios = [100 * (a["co2_g"] / b["co2_g"] - 1) for a, b in zip(neither, whole, strict=True)][:-1]
    expected = paired_t(ratios)
    assert (co2.value, co2.low, co2.high) == pytest.approx(
        (expected["mean"], expected["low"], expected["high"])
    )
    assert cells_of(shown, "CO2 added", "no gate (paper)") == [3.5]
    gates = table(ran.section("ablation"), "ablation-gates")
    (asked,) = cells_of(gates, "asked", "ccar-no-pricing", "tiny", "retained")
    assert asked > 0, "the ablation without pricing keeps its gate"


def test_every_setting_is_in_a_table(ran: Ran) -> None:
    section = ran.section("sensitivity")
    grid, one = (table(section, f"sensitivity-{name}") for name in ("capacity", "axes"))
    assert len(grid.rows) == len(cells(TINY))
    assert len(one.rows) == sum(len(axis.settings) for axis in axes(TINY))
    for cell, row in zip(cells(TINY), grid.rows, strict=True):
        world = setting_world(TINY, cell.leave, cell.changes)
        for policy, shown in zip(VARIED, row[5:7], strict=True):
            reference = ran.found.rows(world, "faircarbon")
            assert shown == saved(ran.found.rows(world, policy), reference)
    summary = table(section, "sensitivity")
    least = min(row[5].value for row in grid.rows if isinstance(row[5], Measured))
    assert cells_of(summary, "least", "β_Q by capacity, caches retained", "ccar-no-gate") == [least]


def test_the_way_to_the_bounds(ran: Ran) -> None:
    shown = table(ran.section("bounds"), "bounds")
    for words, share in (("faircarbon", 0.0), ("clairvoyant", 100.0)):
        (cell,) = cells_of(shown, "share of the way", words, "tiny", "retained")
        assert cell.value == pytest.approx(share)
    for row in shown.rows:
        above = row[column(shown, "CO2 above lower-bound")]
        if row[0] != "lower-bound":
            assert isinstance(above, Measured)
            assert above.value >= 0, row[0]


def test_budgets_stand_beside_ccar_on_the_same_turns(ran: Ran) -> None:
    shown = table(ran.section("beyond"), "beyond-budget")
    (saving,) = cells_of(shown, "CO2 saved over ccar", "tiny", "ccar-budget")
    assert isinstance(saving, Measured)
    routers = table(ran.section("beyond"), "beyond-routers")
    assert {row[0] for row in routers.rows} == {"tiny", "congested"}


def test_cells_of_few_fleets_have_no_interval_and_missing_figures_none() -> None:
    def rows(*co2_g: float) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = [{"fleet": f, "co2_g": co2} for f, co2 in enumerate(co2_g)]
        return [*made, {"fleet": "all", "co2_g": sum(co2_g)}]

    assert saved(rows(1, 3), rows(2, 4)) == Measured(37.5)
    assert added(rows(1, 3), rows(2, 0)) == Measured(-50.0), "a fleet without emissions is left out"
    assert saved(rows(1.0), rows(0.0)) is None
    assert of_all(rows(1, 2), "co2_g") == 3
    cell = measured(np.array([1.0, 2.0, 3.0, 4.0, np.nan, 5.0]), 2.0)
    assert cell is not None
    assert cell.low is not None
    assert (cell.value, whiskers([cell, Measured(1.0)])[0][1]) == (6.0, 0.0)
    better, worse = (
        [{"fleet": "all", "ttft_p95_s": s, "quality_predicted": s}] for s in (1.0, 2.0)
    )
    assert (no_worse(better, worse, "ttft_p95_s"), no_worse(worse, better, "ttft_p95_s")) == (
        "yes",
        "no",
    )
    assert no_worse(worse, better, "quality_predicted") == "yes"
    assert no_worse(better, better, "quality_predicted") == "yes"
