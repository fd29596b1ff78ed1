"""The picture of an episode: header, and four panels (`panels`, `cells`)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure

from carbon_gym.envs import cells, ink, panels
from carbon_gym.envs.record import ConversationRecord, Record, Served, WindowRecord

_RIGHT = 0.985
_PLACES = (
    (ink.LEFT, 0.515, 0.42, 0.335),
    (0.735, 0.515, 0.25, 0.335),
    (0.24, 0.075, 0.34, 0.33),
    (0.655, 0.075, 0.33, 0.33),
)
"""Left, bottom, width, height of the panels: upper, table, lower, sums. Fixed, since finding them
anew would take longer than the drawing."""


def look() -> AbstractContextManager[None]:
    """The settings a picture is drawn with, whatever the user's are; they come back after it."""
    ours: dict[str, Any] = {
        "font.family": ink.FONT,
        "font.size": 9.0,
        "text.parse_math": False,  # names are text, dollars too
        "text.hinting": "none",  # a quarter of the time
        "axes.titlesize": 10.0,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelcolor": "0.3",
        "axes.edgecolor": "0.6",
        "xtick.color": "0.35",
        "ytick.color": "0.35",
    }
    context: AbstractContextManager[None] = matplotlib.style.context(["default", ours])
    return context


def draw(figure: Figure, record: Record) -> None:
    """Draw an episode as it stands on an empty figure of 16:9.

    Above, the carbon intensity of the regions over the day, and where caches lie (of a fleet: the
    load of its pools). Below, the path of the conversation (of a fleet: where turns were served)
    and cumulative CO2.
    """
    _header(figure, record)
    upper, table, lower, sums = (figure.add_axes(place) for place in _PLACES)
    panels.intensity(upper, record)
    if isinstance(record, ConversationRecord):
        cells.caches(table, record)
        panels.path(lower, record)
    elif isinstance(record, WindowRecord):
        cells.loads(table, record)
        panels.places(lower, record)
    panels.emissions(sums, record)


def _header(figure: Figure, record: Record) -> None:
    """Which episode, when, and what happened last."""
    count, turns = len(record.served), record.stop - record.begin
    over = count == turns
    when = f"{record.time_of(record.now_s):%Y-%m-%d %H:%M:%S} UTC"
    done = "all" if over else f"{count} of"
    figure.text(
        ink.LEFT,
        0.975,
        f"{record.name}  ·  {when}  ·  {done} {turns} turn{'s' if turns > 1 else ''} served",
        fontsize=13,
        fontweight="bold",
        va="top",
    )
    if not record.served:
        turn = record.waiting
        figure.text(
            ink.LEFT,
            0.932,
            f"first turn: prompt {turn['prompt_tokens']:,}, history {turn['history_tokens']:,}, "
            f"reply of {turn['predicted_output_tokens']:,.0f} tokens expected",
            color="0.35",
            va="top",
        )
        return
    last = record.served[-1]
    figure.text(ink.LEFT, 0.932, _said(record, last), color="0.25", va="top")
    figure.text(
        _RIGHT,
        0.932,
        ", ".join(last.flags),
        color=ink.WRONG if last.broken else ink.MOVED,
        fontweight="bold",
        va="top",
        ha="right",
    )


def _said(record: Record, last: Served) -> str:
    return (
        f"last: {ink.legible(record.fleet.name(last.deployment))}  ·  prompt "
        f"{last.prompt_tokens:,}, history {last.history_tokens:,} ({last.cached_tokens:,} cached) "
        f"tokens  ·  {1000 * last.co2_g:.3g} mg CO₂eq  ·  TTFT {1000 * last.ttft_s:.3g} ms  ·  "
        f"quality {last.quality:.2f}"
    )
