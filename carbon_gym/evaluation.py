"""Which fleets a comparison runs on: traces laid over days of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from carbon_gym.errors import InputError
from carbon_gym.grid.load import load_grid
from carbon_gym.grid.readers import read_grid
from carbon_gym.grid.series import GridSeries, day_start_unix_s
from carbon_gym.scenario.scenario import Scenario
from carbon_gym.scenario.schema import Period, Split
from carbon_gym.workload.days import day_of_sessions
from carbon_gym.workload.fleets import Fleets
from carbon_gym.workload.trace import Conversations, Trace

DEFAULT_FLEETS = 16
GOLDEN_RATIO = 0.618033988749895
"""Spreads any number of days evenly over a period: fleet k takes the fraction k·φ mod 1, so that
a fleet's day does not depend on how many fleets are evaluated."""
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """The fleets that every policy of a comparison serves.

    Attributes:
        scenario: The rules.
        traces: One per fleet.
        days: The grid day of each fleet, UTC.
        grid: Carbon intensity over all of them.
        notes: What was drawn, dropped, held or dealt; one sentence each.
    """

    scenario: Scenario
    traces: tuple[Trace, ...]
    days: tuple[date, ...]
    grid: GridSeries
    notes: tuple[str, ...]


def evaluation_fleets(
    scenario: Scenario,
    *,
    split: Split | None = None,
    fleets: int | None = None,
    start: date | None = None,
    sessions: int | None = None,
) -> Evaluation:
    """Lay the fleets of an evaluation.

    Generated sessions are drawn from `split` (default "test"). Of a conversation file every
    session is evaluated unless `split` is given. Days: consecutive from `start` if given; else,
    for a grid file evaluated whole, from its first full day (or from the first day of dated
    conversations); else spread over the split's period.

    Args:
        scenario: Names the workload and the grid.
        split: Restricts sessions and days to one split.
        fleets: Number of fleets, i.e. days; None: 16, or as many as a file's days give.
        start: First day, UTC.
        sessions: Sessions per fleet, overriding the scenario's.

    Raises:
        InputError: A fault in a file, or days outside the grid.
    """
    if sessions is not None:
        workload = scenario.workload.model_copy(update={"sessions_per_fleet": sessions})
        scenario = scenario.model_copy(update={"workload": workload})
    source = Fleets(scenario.workload, scenario.quality, scenario.splits, scenario.seeds)
    dated, spanned = _days_of_file(source.conversations)
    fleets = spanned if fleets is None else fleets
    zones = [region.zone for region in scenario.fleet.regions]
    whole = read_grid(scenario.grid.paths, zones) if scenario.grid.source == "file" else None
    days = _days(scenario, whole, split, fleets, start, dated)
    notes = list(source.draw_notes())
    origins = [day_start_unix_s(day) for day in days]
    if source.conversations is None:
        traces = [
            source.trace(number, origin, split or "test") for number, origin in enumerate(origins)
        ]
    else:
        plan = source.plan(len(days), split, sessions)
        notes += plan.notes
        traces = [source.day_trace(plan, number, origin) for number, origin in enumerate(origins)]
    notes += _what_was_dropped(scenario, traces)
    grid = _grid(scenario, zones, whole, days, _last_turn_unix_s(traces))
    if grid.held_steps:
        notes.append(
            f"grid: {grid.held_steps} five-minute values held beyond the source's step or past "
            "its end"
        )
    return Evaluation(scenario, tuple(traces), tuple(days), grid, tuple(notes))


def _days_of_file(conversations: Conversations | None) -> tuple[date | None, int | None]:
    """First calendar day and number of days of a file's arrivals, where it has them."""
    if conversations is None or conversations.arrival_s is None:
        return None, None
    starts = conversations.arrival_s[conversations.offsets[:-1]]
    first = datetime.fromtimestamp(float(starts.min()), UTC).date()
    spanned = int(day_of_sessions(conversations).max()) + 1
    return (first if conversations.absolute_time else None), spanned


def _days(
    scenario: Scenario,
    whole: GridSeries | None,
    split: Split | None,
    fleets: int | None,
    start: date | None,
    dated: date | None,
) -> list[date]:
    count = DEFAULT_FLEETS if fleets is None else fleets
    if count < 1:
        raise InputError(f"fleets = {count} is not allowed; evaluate at least 1 day")
    if start is None and whole is not None and split is None:
        first_full = datetime.fromtimestamp(whole.start_unix_s - 1, UTC).date() + _DAY
        available = (whole.stop_unix_s - day_start_unix_s(first_full)) // 86_400
        start = dated if dated is not None and _inside(whole, dated) else first_full
        if fleets is None:
            count = min(count, max(int(available), 1))
    if start is not None:
        return [start + number * _DAY for number in range(count)]
    period = scenario.splits.period(split or "test")
    return [
        period.start + int((0.5 + number * GOLDEN_RATIO) % 1.0 * period.days) * _DAY
        for number in range(count)
    ]


def _grid(
    scenario: Scenario,
    zones: list[str],
    whole: GridSeries | None,
    days: Sequence[date],
    last_unix_s: int,
) -> GridSeries:
    """The grid from the day before the first (a stale router looks back) to the last turn."""
    first, stop = min(days), max(days) + _DAY
    if whole is None:
        last = datetime.fromtimestamp(last_unix_s, UTC).date() + _DAY
        period = Period(start=first - _DAY, stop=max(stop, last))
        return load_grid(scenario.grid, zones, period, scenario.seeds.grid)
    start_unix_s = day_start_unix_s(first)
    if whole.covers(start_unix_s, day_start_unix_s(stop)):  # else `window` says what is missing
        start_unix_s = max(whole.start_unix_s, day_start_unix_s(first - _DAY))
    stop_unix_s = max(day_start_unix_s(stop), min(whole.stop_unix_s, last_unix_s))
    return whole.window(start_unix_s, stop_unix_s)


def _last_turn_unix_s(traces: Sequence[Trace]) -> int:
    return max(trace.origin_unix_s + int(trace.arrival_s.max(initial=0.0)) for trace in traces)


def _inside(series: GridSeries, day: date) -> bool:
    return series.covers(day_start_unix_s(day), day_start_unix_s(day + _DAY))


def _what_was_dropped(scenario: Scenario, traces: Sequence[Trace]) -> list[str]:
    turns = sum(trace.dropped_turns for trace in traces)
    sessions = sum(trace.dropped_sessions for trace in traces)
    notes = []
    if turns:
        kept = sum(trace.turns for trace in traces)
        notes.append(
            f"{turns} turns beyond context_limit_tokens = "
            f"{scenario.workload.context_limit_tokens} dropped, {kept} kept"
        )
    if sessions:
        notes.append(
            f"{sessions} sessions left out: no turn, or fewer than min_turns = "
            f"{scenario.workload.min_turns}, within the limit"
        )
    return notes
