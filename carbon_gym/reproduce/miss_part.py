"""What a lost cache costs (paper §2.2, Figure 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from carbon_gym.fleet import Deployments
from carbon_gym.report.document import Cell, Column, Picture, Section, Table
from carbon_gym.report.style import new_figure, plain
from carbon_gym.reproduce.figures import whiskers
from carbon_gym.reproduce.inputs import evaluation_of
from carbon_gym.reproduce.miss_cost import Figure, Turns, implied_fixed, over_fleets
from carbon_gym.reproduce.plan import Found, Plan, World
from carbon_gym.reproduce.published import MISS_PREFILL, MISS_RISE, SHARE_FROM_4K, Published
from carbon_gym.workload.trace import Floats

Data = Mapping[str, Sequence[Turns]]
"""Data set to its fleets."""

BINS: Mapping[str, tuple[float, float]] = {
    "0": (0, 1),
    "< 2K": (1, 2000),
    "2K–4K": (2000, 4000),
    "4K–8K": (4000, 8000),
    "> 8K": (8000, np.inf),
}
"""Name to first and end of each range of history tokens; the paper's, K = 1,000."""
LONGEST = "> 8K"
"""The bin whose prefill time is set beside the paper's "up to"."""
LONG = 4000
"""History from which the paper counts the share of queries, tokens."""
LEAST_TURNS = (1, 2, 3, 4, 5, 6, 8, 10, 15)
"""Turns of the sessions that are kept, in the table of shares."""
_COLOURS = ("#0072B2", "#E69F00", "#56B4E9", "#CC79A7")  # Okabe and Ito's palette
_PAPER = "0.35"


class MissPart:
    """Emissions and prefill time that a miss adds, by the history that is lost."""

    name = "miss-cost"
    title = "What a cache miss costs (§2.2, Figure 2)"

    def worlds(self, plan: Plan) -> Sequence[World]:
        """None: every turn is priced once with its history cached and once without."""
        return ()

    def section(self, plan: Plan, found: Found) -> Section:
        """Published figures beside ours, shares by history, prefill times, and why they differ.

        Raises:
            InputError: As `evaluation_fleets`.
        """
        data: dict[str, list[Turns]] = {}
        for dataset in plan.datasets:
            evaluation = evaluation_of(plan, dataset)
            energy = evaluation.scenario.energy
            data[plan.label(dataset)] = [Turns.of(trace, energy) for trace in evaluation.traces]
        fleet = Deployments.of(evaluation.scenario)  # the same in all data sets
        text = (
            "Every turn of the fleets' days is priced twice (SPEC §2): with its whole history "
            f"cached, ρ_c·H + q + ρ_o·o, and without, H + q + ρ_o·o; ρ_c = "
            f"{energy.cached_input_ratio:g}, ρ_o = {energy.output_ratio:g}. Both are times e_in "
            "and the intensity, so that the rise of emissions is the same for every model, GPU and "
            "region; the added prefill time, H over the prefill rate, is not. K is 1,000 tokens."
        )
        return Section(
            self.name,
            self.title,
            [
                text,
                _published(data, fleet),
                _picture(data, fleet),
                _history(data),
                _prefill(data, fleet),
                _explanation(),
                _implied(data),
                _selection(data),
            ],
        )


def _explanation() -> str:
    """Why ours differ."""
    return (
        "Where ours differ, the conversations do. The rise depends on H and X = q + ρ_o·o alone "
        "once ρ_c and ρ_o are set, and these two were fitted to the paper's figures (SPEC §2), so "
        "that agreement is no evidence for them. The first table below says which X the paper's "
        "rises imply at our histories: where a data set has a smaller X, shorter replies, its rise "
        "is higher. The longest bin has no upper end, so that the same holds for its histories. "
        "The share of long histories depends on which sessions are kept: the second table drops "
        "short ones until the published share is reached."
    )


def _published(data: Data, fleet: Deployments) -> Table:
    """Each published figure with ours."""
    rates = _rates(fleet)
    items: list[tuple[str, str, Published, Figure]] = [
        (f"queries with H ≥ {LONG // 1000}K", "%", SHARE_FROM_4K, partial(Turns.share, low=LONG))
    ]
    rises: list[tuple[str, Figure]] = [
        ("rise of the median, H", Turns.rise_of_medians),
        ("median of the rises, H", Turns.median_rise),
    ]
    for title, rise in rises:
        for name, published in MISS_RISE.items():
            items.append((f"{title} {name}", "%", published, _within(name, rise)))
    for title, chosen in (("slowest model and GPU", rates.min(keepdims=True)), ("all", rates)):
        seconds = _within(LONGEST, partial(Turns.median_prefill_s, rates=chosen))
        items.append((f"added prefill, H {LONGEST}, {title}", "s", MISS_PREFILL, seconds))
    together, rows = _together(data), list[list[Cell]]()
    for title, unit, published, figure in items:
        ours = [over_fleets(fleets, figure) for fleets in data.values()]
        all_ours = over_fleets(together, figure)
        difference = None if all_ours is None else published.difference(all_ours.value)
        rows.append([title, unit, *ours, all_ours, published.value, difference])
    return Table(
        "miss-published",
        "The paper's figures and ours",
        [
            *(Column("item", kind="text"), Column("unit", kind="text")),
            *(Column(dataset, digits=1) for dataset in data),
            Column("together", digits=1),
            Column("paper", digits=1),
            Column("difference", digits=1, signed=True),
        ],
        rows,
        "Together: the queries of all data sets. Intervals: 95 %, t over the fleets. The paper's "
        "words, a miss raises median emissions, are read as the median over the queries of a bin "
        "if all miss against that if all hit; the median of each query's own rise is given too. "
        "The paper says up to 2.5 s, of models and GPUs that the summary does not name: set beside "
        "the median of our slowest model and GPU, and the "
        "median over all queries, models and GPUs, each counted alike.",
        frozenset(range(1 + len(MISS_RISE))),
    )


def _history(data: Data) -> Table:
    """Share of the queries in each bin."""
    rows: list[list[Cell]] = []
    for name, (low, high) in BINS.items():
        share = partial(Turns.share, low=low, high=high)
        rows.append([name, *(over_fleets(fleets, share) for fleets in data.values())])
    return Table(
        "miss-history",
        "Queries by history",
        [Column("history, tokens", kind="text"), *(Column(name, "%", 1) for name in data)],
        rows,
        "Share of all queries; 0: first turns, which have nothing to miss.",
    )


def _prefill(data: Data, fleet: Deployments) -> Table:
    """Added prefill time of each model on each GPU, and over all of them."""
    pairs = np.flatnonzero(fleet.region == 0)
    rated = [(*fleet.triple(d)[:2], fleet.prefill_tokens_per_s[[d]]) for d in pairs.tolist()]
    rows: list[list[Cell]] = []
    for model, gpu, rates in (*rated, ("all", "all", _rates(fleet))):
        seconds = partial(Turns.median_prefill_s, rates=rates)
        figures = [_within(name, seconds) for name in MISS_RISE]
        cells = [over_fleets(fleets, figure) for fleets in data.values() for figure in figures]
        rows.append([model, gpu, *cells])
    columns = [Column(f"{dataset}, {name}", "s", 2) for dataset in data for name in MISS_RISE]
    return Table(
        "miss-prefill",
        "Prefill time that a miss adds",
        [Column("model", kind="text"), Column("GPU", kind="text"), *columns],
        rows,
        "Median over the queries of a bin of H / prefill rate of one replica. Last row: median "
        "over queries, models and GPUs, each counted alike, whatever a router would choose.",
        frozenset({len(rows) - 1}),
    )


def _implied(data: Data) -> Table:
    """The turn that the paper's rises imply, beside ours."""
    together = _together(data)
    cached_ratio = together[0].cached_ratio
    rows: list[list[Cell]] = []
    for name, published in MISS_RISE.items():
        history, fixed = (_within(name, f) for f in (Turns.median_history, Turns.median_fixed))
        middle = over_fleets(together, history)
        implied = (
            None
            if middle is None
            else implied_fixed(middle.value, published.value / 100, cached_ratio)
        )
        cells = [over_fleets(fleets, f) for fleets in data.values() for f in (history, fixed)]
        rows.append([name, published.value, middle, implied, *cells])
    return Table(
        "miss-implied",
        "History and the rest of a turn, in the paper's bins",
        [
            Column("history, tokens", kind="text"),
            Column("paper's rise", "%", 0),
            Column("our H", "tokens", 0),
            Column("X that it implies", "tokens", 0),
            *(Column(f"{dataset}, {what}", "tokens", 0) for dataset in data for what in "HX"),
        ],
        rows,
        "Medians over the queries of a bin. X = q + ρ_o·o counts in uncached input tokens; implied "
        "by the rise (1 − ρ_c)·H / (ρ_c·H + X) at the median H of all data sets together.",
    )


def _selection(data: Data) -> Table:
    """Share of long histories where short sessions are dropped."""
    rows: list[list[Cell]] = []
    for least in LEAST_TURNS:
        share = partial(_share_of_sessions, least_turns=least)
        rows.append([least, *(over_fleets(fleets, share) for fleets in data.values())])
        rows[-1].append(SHARE_FROM_4K.value if least == 1 else None)
    return Table(
        "miss-selection",
        f"Queries with at least {LONG // 1000}K history tokens, by the sessions that are kept",
        [
            Column("least turns of a session"),
            *(Column(name, "%", 1) for name in data),
            Column("paper", "%", 1),
        ],
        rows,
        "The paper does not say which sessions it keeps.",
    )


def _together(data: Data) -> list[Turns]:
    """The fleets of the same number of all data sets as one."""
    return [Turns.joined(fleets) for fleets in zip(*data.values(), strict=True)]


def _share_of_sessions(turns: Turns, least_turns: int) -> float | None:
    return turns.of_sessions(least_turns).share(LONG)


def _within(name: str, figure: Figure) -> Figure:
    """The figure of the turns in one bin."""
    low, high = BINS[name]
    return lambda turns: figure(turns.between(low, high))


def _rates(fleet: Deployments) -> Floats:
    """Prefill rate of each model on each GPU, tokens/s, float64 (M * G,)."""
    return np.extract(fleet.region == 0, fleet.prefill_tokens_per_s)


def _picture(data: Data, fleet: Deployments) -> Picture:
    """Rise of emissions and added prefill time by history, beside the paper's."""
    bins = list(MISS_RISE)
    rises = [_within(name, Turns.rise_of_medians) for name in bins]
    prefill = partial(Turns.median_prefill_s, rates=_rates(fleet))
    seconds = [_within(name, prefill) for name in bins]
    figure = new_figure(9.0, 3.8)
    left, right = figure.subplots(1, 2)
    width = 0.8 / (len(data) + 1)
    for number, (dataset, fleets) in enumerate(data.items()):
        for axes, figures in ((left, rises), (right, seconds)):
            _bars(axes, fleets, figures, number, width, dataset)
    places = np.arange(len(bins)) + len(data) * width
    heights = [MISS_RISE[name].value for name in bins]
    left.bar(places, heights, width, color="white", edgecolor=_PAPER, hatch="//", label="paper")
    left.set(ylabel="rise of median emissions, %")
    left.legend(fontsize=8, frameon=False, loc="upper left")
    right.set(ylabel="added prefill, s (median)")
    for axes, bars in ((left, len(data) + 1), (right, len(data))):
        axes.set_xticks(np.arange(len(bins)) + (bars - 1) * width / 2, bins)
        axes.set_xlabel("history, tokens")
        plain(axes)
    return Picture(
        "miss-cost",
        "What a miss adds, by the history that is lost",
        figure,
        "Two groups of bars that rise with the history: emissions beside the paper's "
        f"{', '.join(published.text for published in MISS_RISE.values())}, and prefill time.",
        "Left: the same for all models and GPUs. Right: median over queries, models and GPUs. "
        "Intervals: 95 %, t over the fleets.",
    )


def _bars(
    axes: Any,
    fleets: Sequence[Turns],
    figures: Sequence[Figure],
    number: int,
    width: float,
    dataset: str,
) -> None:
    """One bar a bin for one data set, with its interval where there is one."""
    label: str | None = dataset
    for place, figure in enumerate(figures):
        cell = over_fleets(fleets, figure)
        if cell is None:
            continue
        x, colour = place + number * width, _COLOURS[number % len(_COLOURS)]
        axes.bar(
            *(x, cell.value, width),
            color=colour,
            label=label,
            yerr=whiskers([cell]),
            ecolor="0.15",
            capsize=0 if cell.low is None else 3,
        )
        label = None
