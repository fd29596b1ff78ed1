"""Colours, names and titles that the panels share."""

from __future__ import annotations

from functools import cache

from matplotlib import font_manager
from matplotlib.axes import Axes

from carbon_gym.fleet.deployments import Deployments

FONT = "DejaVu Sans"
WRONG = "#C00000"
"""Of a broken bound."""
MOVED = "#0072B2"
"""Of a session that switched."""
TAKEN = "#202020"
"""Of what happened."""
# Okabe and Ito's palette, then others; the same for a region in every panel.
_REGIONS: tuple[str, ...] = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_REGIONS += ("#8C6D31", "#7B4173", "#404040", "#31A354", "#A05195", "#999999")
LEFT, TABLE_LEFT = 0.045, 0.588
"""Where the row labels of the lower left panel and of the table begin, in the figure's width."""


def region_colour(region: int) -> str:
    """Colour of a region by its index; after twelve they come again."""
    return _REGIONS[region % len(_REGIONS)]


def thousands(tokens: int) -> str:
    """A number of tokens in few characters."""
    return f"{tokens}" if tokens < 1000 else f"{tokens / 1000:.1f}k"


def short_name(fleet: Deployments, d: int) -> str:
    """``model @ GPU @ region``, each cut where it is long."""
    model, gpu, region = fleet.triple(d)
    return f"{shortened(model, 22)} @ {shortened(gpu, 10)} @ {shortened(region, 12)}"


def shortened(text: str, most: int) -> str:
    """The text, with its end cut where it is longer than `most` characters."""
    text = legible(text)
    return text if len(text) <= most else text[: most - 1] + "…"


def legible(text: str) -> str:
    """The text with "?" for what the font lacks, of which matplotlib would warn."""
    known = _glyphs()
    return "".join(c if ord(c) in known else "?" for c in text)


@cache
def _glyphs() -> frozenset[int]:
    font = font_manager.get_font(font_manager.findfont(FONT))
    return frozenset(font.get_charmap())


def row_label(axes: Axes, row: int, text: str, ink: str, size: float) -> None:
    """A name at the left of a row of the axes."""
    axes.text(
        -0.015,
        row,
        text,
        transform=axes.get_yaxis_transform(),
        color=ink,
        fontsize=size,
        ha="right",
        va="center",
    )


def title(axes: Axes, text: str, left: float | None = None) -> None:
    """A title above, from the left of the axes or of the figure; axes would seek its place."""
    place = axes.get_position()
    axes.figure.text(
        place.x0 if left is None else left,
        place.y1 + 0.013,
        text,
        fontsize=10,
        fontweight="bold",
        va="bottom",
    )


def nothing_yet(axes: Axes) -> None:
    """Say that there is nothing to draw."""
    axes.text(0.5, 0.5, "no turn yet", transform=axes.transAxes, color="0.6", ha="center")
