"""One look for all pictures: a policy has the same colour everywhere."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from carbon_gym.report.document_cells import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

# Okabe and Ito's palette, distinguishable with colour-blind eyes, then greys and lighter tones.
_COLOURS = {
    "ccar": "#009E73",
    "ccar-ev": "#56B48F",
    "ccar-no-gate": "#0072B2",
    "ccar-no-pricing": "#6BAED6",
    "faircarbon": "#D55E00",
    "session-affinity": "#CC79A7",
    "session-hash": "#E3B5D0",
    "gar-eps": "#E69F00",
    "gar-pd": "#F0CF7F",
    "cedar": "#8C6D31",
    "cache-aware": "#56B4E9",
    "carbon-greedy": "#7F7F7F",
    "least-ttft": "#A05195",
    "largest-model": "#404040",
    "smallest-model": "#A6A6A6",
    "random": "#C7C7C7",
    "ccar-budget": "#004D40",
    "ccar-budget-fixed": "#9ACD32",
    "ccar-budget-follow": "#40C4AA",
    "ccar-budget-sessions": "#6B8E23",
    "faircarbon-budget": "#8B3A00",
    "gar-pd-budget": "#B8860B",
    "lookahead": "#B39DDB",
    "lookahead-places": "#7E57C2",
    "learned": "#4527A0",
    "learned-budget": "#B085F5",
    "same-quality": "#D81B60",
    "clairvoyant": "#000000",
    "lower-bound": "#BBBBBB",
}
HOVER = "hover:"
"""Begins the identifier of what carries a text; see `hover`."""
_LONGEST = 44
"""Characters of a name in a picture."""
_OTHERS = ("#7B4173", "#3182BD", "#31A354", "#E6550D", "#756BB1", "#636363")


def colour(policy: str) -> str:
    """Hex colour of a policy; unknown names get a stable one of their own."""
    if policy in _COLOURS:
        return _COLOURS[policy]
    return _OTHERS[sum(policy.encode()) % len(_OTHERS)]


def series_colour(number: int) -> str:
    """Hex colour of the nth of some things that are no policies."""
    return _OTHERS[number % len(_OTHERS)]


def label_of(name: str) -> str:
    """A name from a file as a picture can show it: not too long, and never taken for mathematics.

    Args:
        name: Of a policy, a scenario, a run.
    """
    line = one_line(name)
    if len(line) > _LONGEST:
        line = f"{line[: _LONGEST // 2]}…{line[-_LONGEST // 2 :]}"
    line = line.replace("$", r"\$")
    # matplotlib leaves what begins with an underscore out of a legend.
    return f" {line}" if line.startswith("_") else line


def hover(artist: Any, text: str) -> None:
    """Say what is shown in a page where the pointer rests on a part of a figure.

    Args:
        artist: A patch, line or collection of matplotlib.
        text: Plain; names and numbers with all their digits.
    """
    artist.set_gid(f"{HOVER}{one_line(text)}")


def new_figure(width_in: float, height_in: float) -> Figure:
    """A figure that needs no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plain(axes: Any) -> None:
    """Take away what carries no information."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)


@contextmanager
def any_glyphs() -> Iterator[None]:
    """No word of letters that the font lacks: names are the users', and pages have other fonts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from", UserWarning)
        yield


def save(figure: Figure, path: Path) -> None:
    """Write a PNG, whole or not at all."""
    from carbon_gym.files import replacing

    with replacing(path) as partial, any_glyphs():
        figure.savefig(partial, format="png", dpi=130, facecolor="white")
