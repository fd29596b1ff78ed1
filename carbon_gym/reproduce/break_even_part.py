"""When a switch pays: how much cleaner another region must be (paper §2.3, SPEC §2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from carbon_gym.report.document import Cell, Column, Picture, Section, Table
from carbon_gym.report.style import new_figure, plain
from carbon_gym.reproduce.plan import Found, Plan, World
from carbon_gym.reproduce.published import BREAK_EVEN_AT_4K
from carbon_gym.scenario.schema import EnergyProfile

PROMPT_TOKENS, OUTPUT_TOKENS = 100, 400
"""The turn that the curves are drawn for, q and o, tokens (ASSUMED: SPEC §2)."""
MARKED_TOKENS = 4000
"""The history that the paper gives a number for, tokens."""
CACHED_RATIOS = (0.0, 0.03, 0.1)
"""ρ_c: free, fitted to the paper (SPEC §2), as in API prices."""
OUTPUT_RATIOS = (4.0, 5.0)
"""ρ_o: fitted to the paper (SPEC §2), as in API prices."""
HISTORIES = (500, 1000, 2000, 4000, 8000, 16_000, 32_000)
"""History lengths of the table, tokens."""

_COLOURS = ("#0072B2", "#009E73", "#D55E00")  # Okabe and Ito's palette
_DASHES = ("-", "--")


def break_even_share(
    history_tokens: float | NDArray[np.float64],
    cached_ratio: float,
    output_ratio: float,
    prompt_tokens: float = PROMPT_TOKENS,
    output_tokens: float = OUTPUT_TOKENS,
) -> NDArray[np.float64]:
    """How much cleaner a region without the cache must be for a turn there to emit no more.

    The turn costs ρ_c·H + X where its history is cached and H + X elsewhere, X = q + ρ_o·o, on the
    same model and GPU (SPEC §2). It pays to go where the intensity is below (ρ_c·H + X) / (H + X)
    of the present one.

    Args:
        history_tokens: H, a number or an array.
        cached_ratio: ρ_c.
        output_ratio: ρ_o.
        prompt_tokens: q.
        output_tokens: o.

    Returns:
        1 − (ρ_c·H + X) / (H + X) = (1 − ρ_c)·H / (H + X), shaped as `history_tokens`.
    """
    history = np.asarray(history_tokens, dtype=np.float64)
    fixed = prompt_tokens + output_ratio * output_tokens
    return np.asarray((1 - cached_ratio) * history / (history + fixed), dtype=np.float64)


class BreakEvenPart:
    """Curves over history length, and the point that the paper gives."""

    name = "break-even"
    title = "When a switch pays (§2.3)"

    def worlds(self, plan: Plan) -> Sequence[World]:
        """None: a closed form."""
        return ()

    def section(self, plan: Plan, found: Found) -> Section:
        """The curves and a table of some of their points."""
        default = EnergyProfile()
        ours = 100 * float(
            break_even_share(MARKED_TOKENS, default.cached_input_ratio, default.output_ratio)
        )
        text = (
            f"A turn of {PROMPT_TOKENS} prompt and {OUTPUT_TOKENS} reply tokens costs ρ_c·H + X "
            "where its history of H tokens is cached and H + X elsewhere, with X = q + ρ_o·o "
            "(SPEC §2). Another region must therefore be (1 − ρ_c)·H / (H + X) cleaner for a "
            f"switch to pay. At {MARKED_TOKENS:,} tokens, ρ_c = {default.cached_input_ratio:g} "
            f"and ρ_o = {default.output_ratio:g}, that is {ours:.1f} % (paper: "
            f"{BREAK_EVEN_AT_4K.text}). The two ratios were fitted to the paper's figures, so "
            "that this is a check of the arithmetic and no evidence. The form counts one turn; it "
            "leaves out that the moved session finds its cache in the new region afterwards."
        )
        return Section(self.name, self.title, [text, _curves(ours), _table()])


def _table() -> Table:
    columns = [Column("history", "tokens", digits=0)]
    settings = [(c, o) for c in CACHED_RATIOS for o in OUTPUT_RATIOS]
    columns += [Column(f"ρ_c {c:g}, ρ_o {o:g}", "%", digits=1) for c, o in settings]
    columns += [Column("paper", "%", digits=0), Column("difference", "points", 1, signed=True)]
    rows: list[list[Cell]] = []
    default = EnergyProfile()
    for history in HISTORIES:
        shares = {at: 100 * float(break_even_share(history, *at)) for at in settings}
        published: list[Cell] = [None, None]
        if history == MARKED_TOKENS:
            ours = shares[default.cached_input_ratio, default.output_ratio]
            published = [BREAK_EVEN_AT_4K.value, BREAK_EVEN_AT_4K.difference(ours)]
        rows.append([history, *shares.values(), *published])
    return Table(
        "break-even",
        "How much cleaner another region must be for a switch to pay",
        columns,
        rows,
        f"q = {PROMPT_TOKENS}, o = {OUTPUT_TOKENS} tokens, same model and GPU. The difference is "
        f"that of ρ_c = {default.cached_input_ratio:g}, ρ_o = {default.output_ratio:g}.",
        frozenset({HISTORIES.index(MARKED_TOKENS)}),
    )


def _curves(ours: float) -> Picture:
    figure = new_figure(7.5, 4.2)
    axes = figure.subplots()
    history = np.geomspace(100, HISTORIES[-1], 200)
    for cached, colour in zip(CACHED_RATIOS, _COLOURS, strict=True):
        for output, dash in zip(OUTPUT_RATIOS, _DASHES, strict=True):
            axes.plot(
                history,
                100 * break_even_share(history, cached, output),
                color=colour,
                linestyle=dash,
                linewidth=1.6,
                label=f"ρ_c = {cached:g}, ρ_o = {output:g}",
            )
    axes.plot([MARKED_TOKENS], [ours], "o", color="0.1", zorder=4)
    axes.annotate(
        f"{ours:.0f} % at {MARKED_TOKENS / 1000:.0f}K tokens (paper: {BREAK_EVEN_AT_4K.text})",
        (MARKED_TOKENS, ours),
        xytext=(-10, 14),
        textcoords="offset points",
        ha="right",
        fontsize=9,
    )
    axes.set_xscale("log")
    ticks = [100, *HISTORIES]
    axes.set_xticks(ticks, [f"{t / 1000:g}K" for t in ticks])
    axes.minorticks_off()
    axes.set(xlabel="history, tokens", ylabel="cleaner by at least, %", ylim=(0, 100))
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    plain(axes)
    return Picture(
        "break-even",
        "How much cleaner another region must be for a switch to pay",
        figure,
        "Curves that rise with the history: from a few percent at 100 tokens to "
        f"{ours:.0f} % at {MARKED_TOKENS:,} tokens and about 90 % at {HISTORIES[-1]:,}.",
        f"One turn, q = {PROMPT_TOKENS}, o = {OUTPUT_TOKENS} tokens, same model and GPU.",
    )
