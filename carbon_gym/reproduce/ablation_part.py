"""What pricing the caches is worth, and the gate (paper §4.4, Table 2, Fig. 5)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from textwrap import fill

from carbon_gym.report.document import Block, Cell, Column, Picture, Section, Table
from carbon_gym.report.style import colour, new_figure, plain
from carbon_gym.reproduce.figures import added, added_on_average, of_all, whiskers
from carbon_gym.reproduce.plan import Found, Plan, World
from carbon_gym.reproduce.published import (
    BLOCKS,
    BLOCKS_LONG,
    NO_GATE_CO2,
    NO_GATE_CO2_LONG,
    NO_GATE_TTFT,
    NO_GATE_TTFT_LONG,
    NO_PRICING_CO2,
)
from carbon_gym.reproduce.worlds import CACHES, LONG, ON_LEAVE, dataset_world, dataset_worlds

WHOLE = "ccar"
VARIANTS = {
    "ccar-ev": "gate by expected value",
    "ccar-no-gate": "no gate",
    "ccar-no-pricing": "no pricing, gate kept",
    "faircarbon": "neither",
}
"""What is taken away or replaced in `WHOLE`. Without both CCAR is faircarbon, turn by turn."""


class AblationPart:
    """CO2 and latency of CCAR without one of its halves or both, relative to the whole."""

    name = "ablation"
    title = "What pricing and the gate are worth (Table 2, Fig. 5)"

    def worlds(self, plan: Plan) -> Sequence[World]:
        """The variants on every data set."""
        return dataset_worlds(plan, (WHOLE, *VARIANTS))

    def section(self, plan: Plan, found: Found) -> Section:
        """All sessions and those of more than 30 turns, and what the gates do."""
        text = (
            "Everything is relative to `ccar`, which prices the caches and has the paper's gate "
            "(stay where P(back) reaches a threshold tuned on validation). *No pricing* keeps that "
            "gate and estimates costs as if nothing were cached. *Neither* is faircarbon: the two "
            "are equal turn by turn (a test). The expected-value rule is ours."
        )
        blocks: list[Block] = [text, _table(plan, found, None), _picture(plan, found)]
        blocks += [_table(plan, found, LONG), _gates(plan, found)]
        return Section(self.name, self.title, blocks)


def _table(plan: Plan, found: Found, longer_than: int | None) -> Table:
    rows: list[list[Cell]] = []
    emphasis = []
    for leave, (policy, words) in product(ON_LEAVE, VARIANTS.items()):
        pairs = []
        for dataset in plan.datasets:
            world = dataset_world(plan, dataset, leave, ())
            mine, whole = (found.rows(world, name) for name in (policy, WHOLE))
            pairs.append((mine, whole))
            rows.append(
                [
                    words,
                    plan.label(dataset),
                    CACHES[leave],
                    added(mine, whole, longer_than=longer_than),
                    of_all(mine, "ttft_p95_s", longer_than),
                    added(mine, whole, "ttft_p95_s", longer_than),
                ]
            )
        emphasis.append(len(rows))
        co2 = added_on_average(pairs, longer_than=longer_than)
        p95 = added_on_average(pairs, "ttft_p95_s", longer_than)
        rows.append([words, "mean", CACHES[leave], co2, None, p95])
    if longer_than is None:
        rows.append(["no pricing (paper)", "mean", "", NO_PRICING_CO2.value, None, None])
        rows.append(["no gate (paper)", "mean", "", NO_GATE_CO2.value, None, NO_GATE_TTFT.value])
    else:
        paper = (NO_GATE_CO2_LONG.value, NO_GATE_TTFT_LONG.value, None)
        rows.append(["no gate (paper)", "mean", "", *paper])
    some = "all sessions" if longer_than is None else f"sessions of more than {longer_than} turns"
    return Table(
        "ablation" if longer_than is None else "ablation-long",
        f"CO2 and latency added by leaving out parts of CCAR, {some}",
        [
            Column("variant", kind="text"),
            Column("data set", kind="text"),
            Column("caches", kind="text"),
            Column("CO2 added", "%", digits=2, signed=True),
            Column("P95 TTFT", "s", digits=3),
            Column("P95 TTFT added", "%", digits=1, signed=True),
        ],
        rows,
        "Relative to ccar on the same fleets; P95 TTFT in s is of all turns, what is added is a "
        "mean over fleets. The mean of the data sets is paired by day.",
        frozenset(emphasis),
    )


def _gates(plan: Plan, found: Found) -> Table:
    rows: list[list[Cell]] = []
    for leave, dataset in product(ON_LEAVE, plan.datasets):
        world = dataset_world(plan, dataset, leave, ())
        for policy in (WHOLE, "ccar-ev", "ccar-no-pricing"):
            mine = found.rows(world, policy)
            rows.append(
                [
                    *(policy, plan.label(dataset), CACHES[leave]),
                    of_all(mine, "gate_proposals_per_session"),
                    of_all(mine, "gate_blocks_per_session"),
                    of_all(mine, "gate_blocks_per_session", LONG),
                ]
            )
    rows.append(["ccar (paper)", "mean", "", None, BLOCKS.value, BLOCKS_LONG.value])
    return Table(
        "ablation-gates",
        "What the gates are asked and what they block",
        [
            Column("policy", kind="text"),
            Column("data set", kind="text"),
            Column("caches", kind="text"),
            Column("asked", "a session", digits=2),
            Column("blocked", "a session", digits=2),
            Column(f"blocked, > {LONG} turns", "a session", digits=2),
        ],
        rows,
        "A gate is asked where a session would leave a feasible deployment that caches some of "
        "its history.",
    )


def _picture(plan: Plan, found: Found) -> Picture:
    figure = new_figure(8.0, 3.6)
    panels = figure.subplots(1, len(ON_LEAVE), sharey=True)
    published = {"ccar-no-gate": NO_GATE_CO2, "ccar-no-pricing": NO_PRICING_CO2}
    for axes, leave in zip(panels, ON_LEAVE, strict=True):
        for number, dataset in enumerate(plan.datasets):
            world = dataset_world(plan, dataset, leave, ())
            whole = found.rows(world, WHOLE)
            for place, policy in enumerate(VARIANTS):
                cell = added(found.rows(world, policy), whole)
                if cell is None:
                    continue
                axes.bar(
                    place + 0.36 * (number - (len(plan.datasets) - 1) / 2),
                    cell.value,
                    width=0.34,
                    yerr=whiskers([cell]),
                    capsize=2,
                    color=colour(policy),
                    alpha=1.0 if number == 0 else 0.55,
                )
        for policy, number_of_paper in published.items():
            place = list(VARIANTS).index(policy)
            axes.plot([place], [number_of_paper.value], "D", color="0.1", markersize=5)
        axes.axhline(0, color="0.3", linewidth=0.8)
        axes.set_xticks(range(len(VARIANTS)), [fill(words, 12) for words in VARIANTS.values()])
        axes.tick_params(axis="x", labelsize=8)
        axes.set_title(f"caches {CACHES[leave]}", fontsize=10)
        plain(axes)
    panels[0].set_ylabel("CO2 added to ccar's, %")
    order = ", then ".join(plan.labels)
    return Picture(
        "ablation",
        "CO2 added by leaving out parts of CCAR",
        figure,
        "Bars of the CO2 added by another gate, no gate, no pricing and neither, for caches "
        "retained and evicted, with the published values as diamonds.",
        f"All sessions; from left to right in each group {order}; 95 % intervals; diamonds: paper.",
    )
