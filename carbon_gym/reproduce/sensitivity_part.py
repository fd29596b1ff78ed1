"""What CCAR saves over faircarbon in every setting (paper §4.5, Tables 3 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from carbon_gym.report.document import Block, Column, Measured, Section, Table
from carbon_gym.report.document import Cell as Shown
from carbon_gym.reproduce.figures import no_worse, saved
from carbon_gym.reproduce.plan import Found, Plan, World
from carbon_gym.reproduce.published import SAVING_AT_CAPACITY, SENSITIVITY_SAVING
from carbon_gym.reproduce.sensitivity_pictures import draw_axes, draw_heat_maps
from carbon_gym.reproduce.sensitivity_settings import (
    POLICIES,
    ZONES,
    Axis,
    Cell,
    axes,
    cells,
    leaves,
    setting_world,
    zones_of,
)
from carbon_gym.reproduce.worlds import CACHES

PUBLISHED_BETA = 0.85
"""β_Q of the two published cells."""
KEPT = {"quality_predicted": "quality no worse", "ttft_p95_s": "P95 TTFT no worse"}


class SensitivityPart:
    """Savings over faircarbon with β_Q and capacity varied together, and all else one by one.

    Args:
        number: Of the data set; those after the first are left out of a quick plan.
    """

    def __init__(self, number: int = 0) -> None:
        self._number = number
        self._suffix = f"-{number + 1}" if number else ""
        self.name = f"sensitivity{self._suffix}"
        self.title = "Where the savings hold (Tables 3 and 4)"
        if number:
            self.title += f", data set {number + 1}"

    def _of_its_own(self, plan: Plan) -> Plan | None:
        """The plan with the part's data set alone."""
        if self._number >= len(plan.datasets) or (self._number and plan.quick):
            return None
        return replace(plan, datasets=plan.datasets[self._number : self._number + 1])

    def worlds(self, plan: Plan) -> Sequence[World]:
        """A world for every setting."""
        own = self._of_its_own(plan)
        if own is None:
            return ()
        plan = own
        found = [setting_world(plan, cell.leave, cell.changes) for cell in cells(plan)]
        for axis in axes(plan):
            for changes in axis.settings.values():
                found += [setting_world(plan, leave, changes) for leave in leaves(plan)]
        return found

    def section(self, plan: Plan, found: Found) -> Section:
        """The range of all savings, the heat maps and the axes, each setting in a table."""
        own = self._of_its_own(plan)
        if own is None:
            return Section(self.name, self.title, ["Only in the full report on two data sets."])
        plan = own
        text = (
            f"CO2 saved over faircarbon under the same rules; data set {plan.labels[0]}, "
            f"{plan.sensitivity_fleets} fleets of each setting. The gate of `ccar` is the shipped "
            "one, fitted and tuned under the default rules and not fitted again for a setting "
            "(`docs/semantics.md` fits it anew); `ccar-no-gate` has nothing that was fitted. "
            "*No worse*: mean predicted quality is no lower and P95 TTFT no higher than "
            "faircarbon's, over all turns."
        )
        savings = {cell: _savings(plan, found, cell) for cell in cells(plan)}
        blocks: list[Block] = [text, self._summary(plan, found)]
        blocks += [draw_heat_maps({cell: row[0] for cell, row in savings.items()})]
        blocks += [_grid(plan, found), draw_axes(axes(plan), _axis_savings(plan, found))]
        blocks += [_axis_table(plan, found)]
        named = [
            block if isinstance(block, str) else replace(block, name=block.name + self._suffix)
            for block in blocks
        ]
        return Section(self.name, self.title, named)

    def _summary(self, plan: Plan, found: Found) -> Table:
        by_group: dict[str, list[World]] = {}
        for cell in cells(plan):
            group = f"β_Q by capacity, caches {CACHES[cell.leave]}"
            by_group.setdefault(group, []).append(setting_world(plan, cell.leave, cell.changes))
        for leave in leaves(plan):
            by_group[f"one axis at a time, caches {CACHES[leave]}"] = [
                setting_world(plan, leave, changes)
                for axis in axes(plan)
                for changes in axis.settings.values()
            ]
        rows: list[list[Shown]] = []
        for group, worlds in by_group.items():
            for policy in POLICIES:
                rows.append([group, policy, *_range(found, list(dict.fromkeys(worlds)), policy)])
        paper = SENSITIVITY_SAVING
        rows.append(["paper, every setting", "ccar", None, paper.value, paper.high, None, None])
        return Table(
            "sensitivity",
            "The range of the savings over faircarbon",
            [
                Column("settings", kind="text"),
                Column("policy", kind="text"),
                Column("number"),
                Column("least", "%", digits=1, signed=True),
                Column("most", "%", digits=1, signed=True),
                Column("above 0"),
                Column("quality and P95 TTFT no worse"),
            ],
            rows,
            "*above 0*: settings whose whole 95 % interval lies above 0 (with fewer than five "
            "fleets: whose mean does).",
        )


def _savings(plan: Plan, found: Found, cell: Cell) -> list[Measured | None]:
    world = setting_world(plan, cell.leave, cell.changes)
    return [_saving(found, world, policy) for policy in POLICIES]


def _saving(found: Found, world: World, policy: str) -> Measured | None:
    return saved(found.rows(world, policy), found.rows(world, "faircarbon"))


def _kept(found: Found, world: World, policy: str) -> list[str]:
    mine, reference = found.rows(world, policy), found.rows(world, "faircarbon")
    return [no_worse(mine, reference, figure) for figure in KEPT]


def _range(found: Found, worlds: Sequence[World], policy: str) -> list[Shown]:
    savings = [_saving(found, world, policy) for world in worlds]
    known = [saving for saving in savings if saving is not None]
    above = sum((saving.value if saving.low is None else saving.low) > 0 for saving in known)
    kept = sum(_kept(found, world, policy) == ["yes"] * len(KEPT) for world in worlds)
    values = [saving.value for saving in known]
    ends: list[Shown] = [min(values), max(values)] if values else [None, None]
    return [len(worlds), *ends, above, kept]


def _grid(plan: Plan, found: Found) -> Table:
    rows: list[list[Shown]] = []
    published = []
    for cell in cells(plan):
        world = setting_world(plan, cell.leave, cell.changes)
        paper = SAVING_AT_CAPACITY.get(cell.limit) if cell.limit is not None else None
        if paper is None or cell.beta_q != PUBLISHED_BETA:
            paper = None
        else:
            published.append(len(rows))
        rows.append(
            [
                *(CACHES[cell.leave], cell.rule, cell.scope, cell.beta_q),
                "none" if cell.limit is None else f"{cell.limit:g}",
                *_savings(plan, found, cell),
                *_kept(found, world, POLICIES[0]),
                None if paper is None else paper.value,
            ]
        )
    return Table(
        "sensitivity-capacity",
        "CO2 saved over faircarbon by β_Q and capacity",
        [
            Column("caches", kind="text"),
            Column("c counts", kind="text"),
            Column("in each", kind="text"),
            Column("β_Q"),
            Column("c", kind="text"),
            *(Column(policy, "%", digits=1) for policy in POLICIES),
            *(Column(f"{words} ({POLICIES[0]})", kind="text") for words in KEPT.values()),
            Column("paper", "%", digits=1),
        ],
        rows,
        "The paper does not say what its c counts: its two cells stand beside each reading.",
        frozenset(published),
    )


def _axis_savings(plan: Plan, found: Found) -> dict[str, dict[tuple[str, str], Measured | None]]:
    """Saving of the ungated router by (axis, value), for each reading of leaving."""
    return {
        leave: {
            (axis.name, value): _saving(found, setting_world(plan, leave, changes), POLICIES[0])
            for axis in axes(plan)
            for value, changes in axis.settings.items()
        }
        for leave in leaves(plan)
    }


def _axis_table(plan: Plan, found: Found) -> Table:
    rows: list[list[Shown]] = []
    for axis in axes(plan):
        for value, changes in axis.settings.items():
            cells_of_row: list[Shown] = []
            for leave in leaves(plan):
                world = setting_world(plan, leave, changes)
                cells_of_row += [_saving(found, world, policy) for policy in POLICIES]
                cells_of_row += _kept(found, world, POLICIES[0])
            rows.append([axis.name, _value(axis, value), *cells_of_row])
    columns = [Column("axis", kind="text"), Column("value", kind="text")]
    for leave in leaves(plan):
        some = CACHES[leave]
        columns += [Column(f"{policy}, {some}", "%", digits=1) for policy in POLICIES]
        columns += [Column(f"{words}, {some}", kind="text") for words in KEPT.values()]
    regions = ", ".join(zones_of(plan))
    also = " The fifth zone and those after it are ASSUMED." if zones_of(plan) == ZONES else ""
    return Table(
        "sensitivity-axes",
        "CO2 saved over faircarbon, one axis at a time",
        columns,
        rows,
        f"*No worse*: of {POLICIES[0]}. Regions: the first ones of {regions}.{also} "
        f"The paper gives {SENSITIVITY_SAVING.text} for all of its settings.",
    )


def _value(axis: Axis, value: str) -> str:
    return f"{value} (default)" if value == axis.default else value
