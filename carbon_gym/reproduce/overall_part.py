"""The main comparison: all policies on both data sets (paper §4.2, Table 1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from carbon_gym.report.document import Block, Cell, Column, Measured, Picture, Section, Table
from carbon_gym.report.style import colour, new_figure, plain
from carbon_gym.reproduce.figures import (
    PERCENT,
    Rows,
    measured,
    no_worse,
    of_all,
    relative,
    saved,
    saved_on_average,
    whiskers,
)
from carbon_gym.reproduce.plan import Found, Plan, World
from carbon_gym.reproduce.published import QUALITY_AND_LATENCY, SAVING, SAVING_OVER_BASELINES
from carbon_gym.reproduce.worlds import (
    BASELINES,
    BOUNDS,
    CACHES,
    ON_LEAVE,
    dataset_world,
    dataset_worlds,
)

POLICIES = (
    *("ccar", "ccar-ev", "ccar-no-gate", "ccar-no-pricing", "faircarbon", "session-affinity"),
    *("gar-eps", "gar-pd", "cedar", "cache-aware", "session-hash", "carbon-greedy", "least-ttft"),
    *("largest-model", "smallest-model", "random", *BOUNDS),
)
"""The fixed policies, in the order of the tables."""
OURS = ("ccar", "ccar-ev", "ccar-no-gate")
_DRAWN_TO = 1.6
_REFERENCE = "session-affinity"


class OverallPart:
    """CO2, quality and latency of every policy, and what CCAR saves over the baselines."""

    name = "overall"
    title = "All policies (Table 1)"

    def worlds(self, plan: Plan) -> Sequence[World]:
        """Every policy on every data set, caches retained and evicted."""
        return dataset_worlds(plan, POLICIES)

    def section(self, plan: Plan, found: Found) -> Section:
        """Savings first, then a table of all policies for each data set and reading."""
        worlds = [
            (dataset, leave, dataset_world(plan, dataset, leave, POLICIES))
            for leave, dataset in product(ON_LEAVE, plan.datasets)
        ]
        text = (
            "What a backend does with the cache of a session that moves away is not said in the "
            "paper's summary, and it decides the size of the saving: retained, an old cache is of "
            "use when the session comes back; evicted, every move costs the whole history. Both "
            f"are given. The summary does not list the four baselines; {', '.join(BASELINES)} "
            "stand for them (ASSUMED), tuned on validation fleets of the packaged scenario."
        )
        blocks: list[Block] = [text, self._savings(plan, found), self._picture(plan, worlds, found)]
        for dataset, leave, world in worlds:
            name = f"overall-{dataset}-{leave}"
            title = f"All policies: {plan.label(dataset)}, caches {CACHES[leave]}"
            blocks.append(_table(name, title, world, found))
        return Section(self.name, self.title, blocks)

    def _savings(self, plan: Plan, found: Found) -> Table:
        rows: list[list[Cell]] = []
        emphasis = []
        for leave, policy in product(ON_LEAVE, OURS):
            pairs: dict[str, list[tuple[Rows, Rows]]] = {name: [] for name in BASELINES}
            for dataset in plan.datasets:
                world = dataset_world(plan, dataset, leave, POLICIES)
                mine = found.rows(world, policy)
                against = {name: (mine, found.rows(world, name)) for name in BASELINES}
                cells = [saved(*against[name]) for name in BASELINES]
                rows.append([policy, plan.label(dataset), CACHES[leave], *cells])
                for name, pair in against.items():
                    pairs[name].append(pair)
            means = [saved_on_average(pairs[name]) for name in BASELINES]
            emphasis.append(len(rows))
            rows.append([policy, "mean", CACHES[leave], *means])
        over = [SAVING if name == "faircarbon" else SAVING_OVER_BASELINES for name in BASELINES]
        rows.append(["paper", "mean", "", *(published.text for published in over)])
        return Table(
            "overall-savings",
            "CO2 saved over each baseline",
            [
                Column("policy", kind="text"),
                Column("data set", kind="text"),
                Column("caches", kind="text"),
                *(Column(f"over {name}", "%", digits=1) for name in BASELINES),
            ],
            rows,
            "The mean of the data sets is paired by day, as all else. The paper's range is that "
            "over its four baselines.",
            frozenset(emphasis),
        )

    def _picture(
        self, plan: Plan, worlds: Sequence[tuple[str, str, World]], found: Found
    ) -> Picture:
        columns = len({dataset for dataset, _, _ in worlds})
        figure = new_figure(4.9 * columns + 1.2, 4.4 * len(ON_LEAVE))
        panels = figure.subplots(len(ON_LEAVE), columns, squeeze=False, sharex=True, sharey=True)
        for axes, (dataset, leave, world) in zip(panels.flat, worlds, strict=True):
            for place, policy in enumerate(reversed(POLICIES)):
                _draw_bar(axes, place, policy, _co2(world, policy, found))
            axes.set_yticks(range(len(POLICIES)), list(reversed(POLICIES)), fontsize=8)
            axes.axvline(1.0, color="0.3", linewidth=0.8)
            axes.set(xlim=(0, _DRAWN_TO))
            axes.set_title(f"{plan.label(dataset)}, caches {CACHES[leave]}", fontsize=10)
            plain(axes)
            axes.grid(axis="x", color="0.9", linewidth=0.8)
        for axes in panels[-1]:
            axes.set_xlabel(f"CO2, {_REFERENCE} = 1")
        return Picture(
            "overall",
            "CO2 of every policy",
            figure,
            "Bars of CO2 by policy relative to session-affinity, a panel for each data set and "
            "for caches retained and evicted.",
            f"CO2, {_REFERENCE} = 1, with 95 % intervals; bars beyond {_DRAWN_TO:g} are cut. "
            "clairvoyant and lower-bound know what no router knows; carbon-greedy and "
            "smallest-model keep no bound on quality.",
        )


def _co2(world: World, policy: str, found: Found) -> Measured | None:
    return measured(relative(found.rows(world, policy), found.rows(world, _REFERENCE)))


def _draw_bar(axes: Any, place: int, policy: str, co2: Measured | None) -> None:
    if co2 is None:
        return
    shown = min(co2.value, _DRAWN_TO)
    axes.barh(place, shown, color=colour(policy), height=0.72)
    if co2.value > _DRAWN_TO:
        at, side, text_colour = shown - 0.02, "right", "white"
    else:
        at, side, text_colour = (co2.high or co2.value) + 0.02, "left", "0.15"
        axes.errorbar(shown, place, xerr=whiskers([co2]), color="0.15", capsize=2)
    axes.text(at, place, f"{co2.value:.2f}", va="center", ha=side, fontsize=7, color=text_colour)


def _table(name: str, title: str, world: World, found: Found) -> Table:
    faircarbon = found.rows(world, "faircarbon")
    rows: list[list[Cell]] = []
    for policy in POLICIES:
        mine = found.rows(world, policy)
        rates = [of_all(mine, f"{kind}_violation_rate") for kind in ("quality", "ttft", "capacity")]
        rows.append(
            [
                policy,
                _co2(world, policy, found),
                None if policy == "faircarbon" else saved(mine, faircarbon),
                of_all(mine, "quality_predicted"),
                of_all(mine, "quality_realised"),
                of_all(mine, "ttft_p95_s"),
                *(None if rate is None else PERCENT * rate for rate in rates),
                of_all(mine, "recompute_mwh_per_turn"),
                of_all(mine, "switches_per_session"),
            ]
        )
    ccar = found.rows(world, "ccar")
    kept = [no_worse(ccar, faircarbon, figure) for figure in ("quality_predicted", "ttft_p95_s")]
    return Table(
        name,
        title,
        [
            Column("policy", kind="text"),
            Column("CO2 relative", digits=3),
            Column("saved over faircarbon", "%", digits=1),
            Column("quality predicted", digits=4),
            Column("quality realised", digits=4),
            Column("P95 TTFT", "s"),
            *(Column(f"{kind} bound broken", "% of turns", 1) for kind in ("quality", "TTFT")),
            Column("no room", "% of turns", 1),
            Column("recomputed", "mWh/query", digits=1),
            Column("moves", "a session", digits=2),
        ],
        rows,
        f"CO2 relative to {_REFERENCE}, mean over fleets. Is ccar no worse than faircarbon? Mean "
        "predicted quality: "
        f"{kept[0]}, P95 TTFT: {kept[1]} (paper: {QUALITY_AND_LATENCY}).",
        frozenset({POLICIES.index("ccar"), POLICIES.index("faircarbon")}),
    )
