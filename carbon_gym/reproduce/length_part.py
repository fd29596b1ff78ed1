"""What CCAR saves in longer and longer sessions (paper §4.3, Fig. 4)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from carbon_gym.metrics.rows import LONGER_THAN
from carbon_gym.report.document import Block, Cell, Column, Picture, Section, Table
from carbon_gym.report.style import colour, new_figure, plain
from carbon_gym.reproduce.figures import Rows, of_all, saved, saved_on_average, whiskers
from carbon_gym.reproduce.plan import Found, Plan, World
from carbon_gym.reproduce.published import (
    RECOMPUTE_CCAR,
    RECOMPUTE_FAIRCARBON,
    SAVING,
    SAVING_LONGER_THAN,
    Published,
)
from carbon_gym.reproduce.worlds import (
    CACHES,
    DASHES,
    LONG,
    ON_LEAVE,
    dataset_world,
    dataset_worlds,
)

POLICIES = ("ccar", "ccar-ev", "ccar-no-gate")
LENGTHS: tuple[int | None, ...] = (None, *LONGER_THAN)
LABELS = ("all", *(f"> {bound}" for bound in LONGER_THAN))
_SHADES = (1.0, 0.5)  # by data set


class LengthPart:
    """Saving over faircarbon by session length, and the energy of recomputation."""

    name = "session-length"
    title = "Savings by session length (Fig. 4)"

    def worlds(self, plan: Plan) -> Sequence[World]:
        """CCAR and its variants on every data set."""
        return dataset_worlds(plan, POLICIES)

    def section(self, plan: Plan, found: Found) -> Section:
        """The savings, the picture, the energy."""
        text = (
            "Sessions with more turns than each bound, served amid all the others: the policy "
            "serves the whole day, and the CO2 of these sessions is compared with what they emit "
            "under faircarbon."
        )
        blocks: list[Block] = [
            text,
            _savings(plan, found),
            _picture(plan, found),
            _energy(plan, found),
        ]
        return Section(self.name, self.title, blocks)


def _pair(plan: Plan, found: Found, dataset: str, leave: str, policy: str) -> tuple[Rows, Rows]:
    world = dataset_world(plan, dataset, leave, POLICIES)
    return found.rows(world, policy), found.rows(world, "faircarbon")


def _savings(plan: Plan, found: Found) -> Table:
    rows: list[list[Cell]] = []
    emphasis = []
    for leave, policy in product(ON_LEAVE, POLICIES):
        pairs = [_pair(plan, found, dataset, leave, policy) for dataset in plan.datasets]
        for dataset, pair in zip(plan.datasets, pairs, strict=True):
            cells = [saved(*pair, longer_than=bound) for bound in LENGTHS]
            rows.append([policy, plan.label(dataset), CACHES[leave], *cells])
        emphasis.append(len(rows))
        means = [saved_on_average(pairs, bound) for bound in LENGTHS]
        rows.append([policy, "mean", CACHES[leave], *means])
    published = [SAVING_LONGER_THAN.get(bound) for bound in LONGER_THAN]
    rows.append(
        ["paper", "mean", "", SAVING.value, *(None if p is None else p.value for p in published)]
    )
    return Table(
        "session-length",
        "CO2 saved over faircarbon, by turns of the session",
        [
            Column("policy", kind="text"),
            Column("data set", kind="text"),
            Column("caches", kind="text"),
            *(Column(f"{label} turns" if label != "all" else label, "%", 1) for label in LABELS),
        ],
        rows,
        "The mean of the data sets is paired by day. The paper gives two of the four bounds.",
        frozenset(emphasis),
    )


def _picture(plan: Plan, found: Found) -> Picture:
    figure = new_figure(7.5, 4.4)
    axes = figure.subplots()
    lines = list(product(enumerate(plan.datasets), ON_LEAVE))
    for number, ((place, dataset), leave) in enumerate(lines):
        pair = _pair(plan, found, dataset, leave, "ccar")
        cells = [saved(*pair, longer_than=bound) for bound in LENGTHS]
        points = [(x, cell) for x, cell in enumerate(cells) if cell is not None]
        shift = 0.06 * (number - (len(lines) - 1) / 2)
        axes.errorbar(
            [x + shift for x, _ in points],
            [cell.value for _, cell in points],
            yerr=whiskers([cell for _, cell in points]),
            marker="os"[place % 2],
            markersize=4,
            capsize=2,
            color=colour("ccar"),
            alpha=_SHADES[place % 2],
            linestyle=DASHES[leave],
            label=f"{plan.label(dataset)}, caches {CACHES[leave]}",
        )
    published: dict[int | None, Published] = {None: SAVING}
    published.update(SAVING_LONGER_THAN.items())
    axes.plot(
        [LENGTHS.index(bound) for bound in published],
        [number.value for number in published.values()],
        linestyle="none",
        marker="D",
        color="0.1",
        label="paper, mean of its data sets",
    )
    axes.axhline(0, color="0.3", linewidth=0.8)
    axes.set_xticks(range(len(LABELS)), LABELS)
    axes.set(xlabel="turns of the session", ylabel="CO2 saved over faircarbon by ccar, %")
    figure.legend(loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    plain(axes)
    return Picture(
        "session-length",
        "CO2 saved over faircarbon, by turns of the session",
        figure,
        "Lines of the saving of CCAR over faircarbon for all sessions and for those of more than "
        "5, 10, 20 and 30 turns, for each data set and for caches retained and evicted, with the "
        "published points.",
        "ccar, with 95 % intervals.",
    )


def _energy(plan: Plan, found: Found) -> Table:
    rows: list[list[Cell]] = []
    for leave, dataset in product(ON_LEAVE, plan.datasets):
        cells = []
        for longer_than in (None, LONG):
            for policy in ("faircarbon", *POLICIES):
                mine, _ = _pair(plan, found, dataset, leave, policy)
                cells.append(of_all(mine, "recompute_mwh_per_turn", longer_than))
        rows.append([plan.label(dataset), CACHES[leave], *cells])
    paper = [RECOMPUTE_FAIRCARBON.value, RECOMPUTE_CCAR.value, None, None]
    rows.append(["paper", "", *[None] * len(paper), *paper])
    return Table(
        "session-length-recompute",
        "Energy of recomputation per query",
        [
            Column("data set", kind="text"),
            Column("caches", kind="text"),
            *(
                Column(f"{policy}, {label}", "mWh", digits=1)
                for label in ("all", f"> {LONG} turns")
                for policy in ("faircarbon", *POLICIES)
            ),
        ],
        rows,
        "Energy of the history tokens that had to be prefilled again, over all turns of these "
        "sessions. It scales with the energy per token, for which the summary gives two values "
        "that contradict each other (SPEC §2).",
    )
