"""What an import found: a table and a picture."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from carbon_gym.report.style import new_figure, plain, save
from carbon_gym.workload.log import Log
from carbon_gym.workload.sessions import session_of_row
from carbon_gym.workload.trace import Conversations, Floats, Ints

_DAY_S: Final = 86_400.0
_TURNS: Final = (1, 2, 3, 4, 5, 6, 11, 21, 31)
"""First number of turns of every bar."""
_POINTS: Final = 2_000
"""Most points that a curve is drawn with."""
_BLUE, _ORANGE, _GREEN = "#0072B2", "#D55E00", "#009E73"


def gaps_s(conversations: Conversations) -> Floats:
    """Seconds between the arrivals of successive turns of a session; empty without arrivals."""
    if conversations.arrival_s is None:
        return np.empty(0)
    same = np.diff(session_of_row(conversations.offsets)) == 0
    return np.asarray(np.diff(conversations.arrival_s)[same], dtype=np.float64)


def summary_rows(conversations: Conversations) -> list[tuple[str, str]]:
    """What was found, a line each: name and figures."""
    turns = np.diff(conversations.offsets)
    rows = [
        ("sessions", f"{conversations.sessions:,}"),
        (
            "turns",
            f"{conversations.turns:,}; a session: {_spread(turns)}, max {int(turns.max()):,}",
        ),
        (
            "long sessions",
            f"{_percent(turns > 5)} of more than 5 turns, {_percent(turns > 30)} of more than 30",
        ),
        ("prompt tokens", _tokens(conversations.prompt_tokens)),
        ("reply tokens", _tokens(conversations.output_tokens)),
        (
            "history tokens",
            f"a turn: {_spread(conversations.history_tokens)}; "
            f"{_percent(conversations.history_tokens >= 4_000)} ≥ 4,000",
        ),
    ]
    known = int(np.count_nonzero(conversations.category >= 0))
    rows.append(("categories", f"of {known:,} turns" if known else "none"))
    if conversations.log is not None:
        rows.append((conversations.log.column, _served(conversations.log)))
    rows.append(("arrivals", _arrivals(conversations)))
    gaps = gaps_s(conversations)
    if len(gaps):
        rows.append(("gaps", f"s: {_spread(gaps)}; {_percent(gaps > 600)} above 10 min"))
    else:
        rows.append(("gaps", "none"))
    return rows


def draw_summary(conversations: Conversations, path: Path) -> None:
    """Draw turns, tokens, gaps and arrivals to a PNG, whole or not at all."""
    figure = new_figure(9.0, 6.2)
    (turns, tokens), (gaps, arrivals) = figure.subplots(2, 2)
    _draw_turns(turns, np.diff(conversations.offsets))
    for values, label, tint in (
        (conversations.prompt_tokens, "prompt", _BLUE),
        (conversations.output_tokens, "reply", _ORANGE),
        (conversations.history_tokens, "history", _GREEN),
    ):
        if values.any():
            _tail(tokens, values, label, tint)
    tokens.set(xlabel="tokens, at least", ylabel="share of turns")
    if tokens.lines:
        tokens.legend(frameon=False, fontsize=8)
    between = gaps_s(conversations)
    if between.any():
        _tail(gaps, between, "gaps", _BLUE)
        gaps.set(xlabel="gap to the session's next turn, s, at least", ylabel="share of gaps")
    else:
        _say(gaps, "no gaps between turns")
    if conversations.arrival_s is None:
        _say(arrivals, "no arrivals")
    else:
        _draw_arrivals(arrivals, conversations.arrival_s, conversations.absolute_time)
    figure.suptitle(
        f"{conversations.sessions:,} sessions, {conversations.turns:,} turns", fontsize=11
    )
    save(figure, path)


def _draw_turns(axes: Any, turns: Ints) -> None:
    """Share of sessions by number of turns."""
    place = np.searchsorted(_TURNS, turns, side="right") - 1
    share = np.bincount(place, minlength=len(_TURNS)) / len(turns)
    last = [*(edge - 1 for edge in _TURNS[1:]), None]
    labels = [
        f"{first}" if end == first else f">{first - 1}" if end is None else f"{first}-{end}"
        for first, end in zip(_TURNS, last, strict=True)
    ]
    axes.bar(range(len(labels)), 100 * share, color=_BLUE)
    axes.set_xticks(range(len(labels)), labels, fontsize=8)
    axes.set(xlabel="turns of a session", ylabel="sessions, %")
    plain(axes)


def _tail(axes: Any, values: NDArray[Any], label: str, tint: str) -> None:
    """Share of values that are at least x, on a log axis; some are above 0."""
    positive = np.sort(values[values > 0])
    at, first = np.unique(positive, return_index=True)
    share = (len(positive) - first) / len(values)
    if len(at) > _POINTS:
        chosen = np.unique(np.linspace(0, len(at) - 1, _POINTS).astype(np.int64))
        at, share = at[chosen], share[chosen]
    axes.step(at, share, where="pre", color=tint, label=label, linewidth=1.4)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    plain(axes)


def _draw_arrivals(axes: Any, arrival_s: Floats, absolute: bool) -> None:
    start = float(arrival_s.min())
    hours = (arrival_s - start) / 3_600.0
    unit, width = next(
        (unit, width)
        for unit, width, limit in (
            ("5 minutes", 1 / 12, 4.0),
            ("hour", 1.0, 96.0),
            ("day", 24.0, np.inf),
        )
        if hours.max() <= limit
    )
    counts, edges = np.histogram(
        hours, bins=int(hours.max() / width) + 1, range=(0.0, (hours.max() // width + 1) * width)
    )
    in_days = unit == "day"
    axes.stairs(counts, edges / (24.0 if in_days else 1.0), fill=True, color=_BLUE)
    since = _when(start) if absolute else "the first turn"
    axes.set(xlabel=f"{'days' if in_days else 'hours'} since {since}", ylabel=f"turns per {unit}")
    plain(axes)


def _say(axes: Any, what: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, what, transform=axes.transAxes, ha="center", color="0.4")


def _served(log: Log) -> str:
    counts = np.bincount(log.code, minlength=len(log.names))
    shown = [
        f"{log.names[number]!r:.60} ({100 * counts[number] / len(log.code):.1f} %)"
        for number in np.argsort(-counts, kind="stable")[:3].tolist()
        if counts[number]
    ]
    more = int(np.count_nonzero(counts)) - len(shown)
    return f"{', '.join(shown)}{f' and {more:,} more' if more else ''}"


def _arrivals(conversations: Conversations) -> str:
    if conversations.arrival_s is None:
        return "none: they will be drawn"
    first, last = float(conversations.arrival_s.min()), float(conversations.arrival_s.max())
    days = (last - first) / _DAY_S
    span = next(
        f"{days * parts:.1f} {unit}"
        for parts, unit in ((1, "days"), (24, "hours"), (1440, "minutes"), (_DAY_S, "seconds"))
        if days * parts >= 2 or unit == "seconds"
    )
    if conversations.absolute_time:
        return f"{_when(first)} to {_when(last)} ({span})"
    return f"{first:,.1f} s to {last:,.1f} s since the start of the trace ({span})"


def _when(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _tokens(values: Ints) -> str:
    return f"{int(values.sum()):,} in all; a turn: {_spread(values)}"


def _spread(values: NDArray[Any]) -> str:
    middle, high = np.quantile(values, [0.5, 0.9])
    return f"mean {np.mean(values):,.1f}, median {middle:,.0f}, 90 % up to {high:,.0f}"


def _percent(which: NDArray[np.bool_]) -> str:
    return f"{100 * float(np.mean(which)):.1f} %"
