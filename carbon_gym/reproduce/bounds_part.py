"""How far each policy is from what could be reached at all (SPEC §6)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from carbon_gym.report.document import Cell, Column, Measured, Picture, Section, Table
from carbon_gym.report.style import colour, new_figure, plain
from carbon_gym.reproduce.figures import PERCENT, Rows, added, measured, of_fleets, whiskers
from carbon_gym.reproduce.overall_part import POLICIES as FIXED
from carbon_gym.reproduce.plan import Found, Plan, World
from carbon_gym.reproduce.worlds import (
    BOUNDS,
    CACHES,
    LEARNED,
    ON_LEAVE,
    dataset_world,
    dataset_worlds,
)

UNBOUND = ("carbon-greedy", "smallest-model", "largest-model", "session-hash")
"""They keep no bound on quality, so that they may emit less than the bounds."""
POLICIES = (*(name for name in FIXED if name not in (*UNBOUND, *BOUNDS)), *LEARNED)
DRAWN = ("lookahead-places", "learned", "lookahead", "ccar-ev", "ccar", "ccar-no-gate")


def share_of_the_way(mine: Rows, start: Rows, end: Rows) -> Measured | None:
    """How much of what `end` saves over `start` is saved by a policy, %, mean over fleets."""
    ours, first, last = (of_fleets(rows, "co2_g") for rows in (mine, start, end))
    room = np.where(first > last, first - last, np.nan)
    return measured((first - ours) / room, PERCENT)


class BoundsPart:
    """The distance of every policy to `clairvoyant` and `lower-bound`."""

    name = "bounds"
    title = "How much is left to save"

    def worlds(self, plan: Plan) -> Sequence[World]:
        """Policies and bounds on every data set."""
        return dataset_worlds(plan, (*POLICIES, *BOUNDS))

    def section(self, plan: Plan, found: Found) -> Section:
        """A table for all data sets, and a picture."""
        text = (
            "`clairvoyant` knows each session's future turns and the intensities to come and has "
            "no capacity to heed: the best plan that a beam search finds, an estimate from above "
            "of the least CO2 possible. `lower-bound` serves every turn on the cheapest admissible "
            "deployment as if all its history were cached there, which nothing can reach. The "
            "share of the way is (faircarbon - policy) / (faircarbon - clairvoyant)."
        )
        return Section(self.name, self.title, [text, _picture(plan, found), _table(plan, found)])


def _table(plan: Plan, found: Found) -> Table:
    rows: list[list[Cell]] = []
    for leave, dataset in product(ON_LEAVE, plan.datasets):
        world = dataset_world(plan, dataset, leave, POLICIES)
        start = found.rows(world, "faircarbon")
        ends = [found.rows(world, name) for name in BOUNDS]
        for policy in (*POLICIES, *BOUNDS):
            mine = found.rows(world, policy)
            rows.append(
                [
                    *(policy, plan.label(dataset), CACHES[leave]),
                    share_of_the_way(mine, start, ends[0]),
                    *(None if policy == name else added(mine, end) for name, end in _named(ends)),
                ]
            )
    return Table(
        "bounds",
        "Distance to the bounds",
        [
            Column("policy", kind="text"),
            Column("data set", kind="text"),
            Column("caches", kind="text"),
            Column("share of the way", "%", digits=1),
            *(Column(f"CO2 above {name}", "%", digits=1, signed=True) for name in BOUNDS),
        ],
        rows,
        "Policies without a bound on quality are left out, since they may emit less than either.",
    )


def _named(ends: Sequence[Rows]) -> list[tuple[str, Rows]]:
    return list(zip(BOUNDS, ends, strict=True))


def _picture(plan: Plan, found: Found) -> Picture:
    figure = new_figure(8.5, 3.8)
    panels = figure.subplots(1, len(ON_LEAVE), sharey=True)
    for axes, leave in zip(panels, ON_LEAVE, strict=True):
        for number, dataset in enumerate(plan.datasets):
            world = dataset_world(plan, dataset, leave, POLICIES)
            start, end = (found.rows(world, name) for name in ("faircarbon", "clairvoyant"))
            for place, policy in enumerate(reversed(DRAWN)):
                cell = share_of_the_way(found.rows(world, policy), start, end)
                if cell is None:
                    continue
                axes.errorbar(
                    cell.value,
                    place + 0.22 * ((len(plan.datasets) - 1) / 2 - number),
                    xerr=whiskers([cell]),
                    marker="os^D"[number % 4],
                    color=colour(policy),
                    capsize=2,
                )
        axes.set_yticks(range(len(DRAWN)), list(reversed(DRAWN)))
        axes.axvline(100, color="0.3", linewidth=0.8)
        axes.axvline(0, color="0.3", linewidth=0.8)
        axes.set_title(f"caches {CACHES[leave]}", fontsize=10)
        axes.set_xlabel("share of the way, %")
        plain(axes)
        axes.grid(axis="x", color="0.9", linewidth=0.8)
    return Picture(
        "bounds",
        "How much of the possible saving is reached",
        figure,
        "Points of the share of the saving of clairvoyant over faircarbon that CCAR, its variants "
        "and the learned routers reach, for caches retained and evicted.",
        "faircarbon is 0, clairvoyant 100. From top to bottom at each policy "
        f"{', then '.join(plan.labels)}; 95 % intervals.",
    )
