"""Which fleets a comparison runs on: traces laid over days of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from carbon_gym.errors import InputError
from carbon_gym.grid.load import load_grid
from carbon_gym.grid.readers import read_grid
from carbon_gym.grid.series import MAX_SPILL_S, GridSeries, day_start_unix_s, iso_utc
from carbon_gym.scenario.scenario import Scenario
from carbon_gym.scenario.schema import Period, Split
from carbon_gym.workload.days import day_of_sessions
from carbon_gym.workload.fleets import Fleets
from carbon_gym.workload.trace import Conversations, Trace

DEFAULT_FLEETS = 16
GOLDEN_RATIO = 0.618033988749895
"""Spreads any number of days evenly over a period: fleet k takes the fraction k·φ mod 1, so that
a fleet's day does not depend on how many fleets are evaluated."""
FIRST_DAY, LAST_DAY = date(1970, 1, 2), date(2100, 12, 31)
"""Days that can be evaluated (ASSUMED; Unix time begins the day before)."""
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """The fleets that every policy of a comparison serves.

    Attributes:
        scenario: The rules.
        traces: One per fleet.
        days: The grid day of each fleet, UTC.
        grid: Carbon intensity over all of them.
        notes: What was drawn, dropped, held, dealt or moved; one sentence each.
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
    usual_fleets: int = DEFAULT_FLEETS,
    once: bool = False,
) -> Evaluation:
    """Lay the fleets of an evaluation.

    Generated sessions are drawn from `split` (default "test"). Of a conversation file every
    session is evaluated unless `split` is given. Days: consecutive from `start` if given; else,
    for a grid file evaluated whole, from its first full day (or from the first day of dated
    conversations); else spread over the split's period.

    Args:
        scenario: Names the workload and the grid.
        split: Restricts sessions and days to one split.
        fleets: Number of fleets, i.e. days; None: `usual_fleets`, or as many as the arrivals of a
            conversation file span, but no more than a grid file has from the first day on.
        start: First day, UTC.
        sessions: Sessions per fleet, overriding the scenario's.
        usual_fleets: As `fleets` has it.
        once: Evaluate every session of a conversation file without arrivals exactly once, where
            `sessions` is None, instead of filling the days.

    Raises:
        InputError: A fault in a file, or days outside the grid.
    """
    if sessions is not None:
        workload = scenario.workload.model_copy(update={"sessions_per_fleet": sessions})
        scenario = scenario.model_copy(update={"workload": workload})
    if fleets is not None and fleets < 1:
        raise InputError(f"fleets = {fleets} is not allowed; evaluate at least 1 day")
    source = Fleets(scenario.workload, scenario.quality, scenario.splits, scenario.seeds)
    dated, spanned = _days_of_file(source.conversations)
    zones = [region.zone for region in scenario.fleet.regions]
    whole = read_grid(scenario.grid.paths, zones) if scenario.grid.source == "file" else None
    start = _first_day(whole, split, start, dated)
    if fleets is None:
        fleets = _fleets_at_hand(whole, start, spanned or usual_fleets)
    days = _days(scenario.splits.period(split or "test"), fleets, start)
    notes = list(source.draw_notes())
    origins = [day_start_unix_s(day) for day in days]
    if source.conversations is None:
        traces = [
            source.trace(number, origin, split or "test") for number, origin in enumerate(origins)
        ]
    else:
        plan = source.plan(len(days), split, sessions, once)
        notes += plan.notes
        traces = [source.day_trace(plan, number, origin) for number, origin in enumerate(origins)]
    if dated is not None and days != [dated + number * _DAY for number in range(fleets)]:
        notes.append(
            f"the file's days, from {dated} on, are laid on other days of the grid, from "
            f"{days[0]} on"
        )
    notes += _what_was_dropped(scenario, traces)
    grid = _grid(scenario, zones, whole, days, _last_turn_unix_s(traces))
    notes += _what_was_held(whole, grid, traces)
    return Evaluation(scenario, tuple(traces), tuple(days), grid, tuple(notes))


def _days_of_file(conversations: Conversations | None) -> tuple[date | None, int | None]:
    """First calendar day and number of days of a file's arrivals, where it has them."""
    if conversations is None or conversations.arrival_s is None:
        return None, None
    starts = conversations.arrival_s[conversations.offsets[:-1]]
    first = datetime.fromtimestamp(float(starts.min()), UTC).date()
    spanned = int(day_of_sessions(conversations).max()) + 1
    return (first if conversations.absolute_time else None), spanned


def _first_day(
    whole: GridSeries | None, split: Split | None, start: date | None, dated: date | None
) -> date | None:
    """The day from which days follow one another; None: they are spread over a period."""
    if start is not None or whole is None or split is not None:
        return start
    if dated is not None and _inside(whole, dated):
        return dated
    return datetime.fromtimestamp(whole.start_unix_s - 1, UTC).date() + _DAY


def _fleets_at_hand(whole: GridSeries | None, start: date | None, wanted: int) -> int:
    """As many as wanted, but at least 1 and no more than a grid file has days from `start` on."""
    if whole is None or start is None:
        return wanted
    available = (whole.stop_unix_s - day_start_unix_s(start)) // 86_400
    return min(wanted, max(available, 1))


def _days(period: Period, fleets: int, start: date | None) -> list[date]:
    if start is not None:
        if start < FIRST_DAY or fleets > (LAST_DAY - start).days + 1:
            raise InputError(
                f"{fleets} day{'s' if fleets > 1 else ''} from {start} cannot be evaluated; they "
                f"must lie between {FIRST_DAY} and {LAST_DAY}"
            )
        return [start + number * _DAY for number in range(fleets)]
    return [
        period.start + int((0.5 + number * GOLDEN_RATIO) % 1.0 * period.days) * _DAY
        for number in range(fleets)
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
    start_unix_s, stop_unix_s = day_start_unix_s(first), day_start_unix_s(stop)
    if not whole.covers(start_unix_s, stop_unix_s):
        return whole.window(start_unix_s, stop_unix_s)  # which says what is missing
    after_last_s = last_unix_s + 1
    start_unix_s = max(whole.start_unix_s, day_start_unix_s(first - _DAY))
    stop_unix_s = max(stop_unix_s, min(whole.stop_unix_s, after_last_s))
    spill_s = min(max(after_last_s - stop_unix_s, 0), MAX_SPILL_S)
    return whole.window(start_unix_s, stop_unix_s, spill_s)


def _last_turn_unix_s(traces: Sequence[Trace]) -> int:
    return max(trace.origin_unix_s + int(trace.arrival_s.max(initial=0.0)) for trace in traces)


def _what_was_held(
    whole: GridSeries | None, grid: GridSeries, traces: Sequence[Trace]
) -> list[str]:
    if whole is None or not grid.held_steps:
        return []
    late = sum(
        int((trace.origin_unix_s + trace.arrival_s >= whole.stop_unix_s).sum()) for trace in traces
    )
    return [
        f"grid: {grid.held_steps} five-minute values held beyond the source's step or past its "
        f"end, {iso_utc(whole.stop_unix_s)}; {late} turns come after that end"
    ]


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
