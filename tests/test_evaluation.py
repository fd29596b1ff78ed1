"""Which fleets are laid: days, sessions, splits, and the notes that say so."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inputs import MONDAY, iso, write_grid, write_tokens

from carbon_gym.errors import InputError
from carbon_gym.evaluation import DEFAULT_FLEETS, Evaluation, evaluation_fleets
from carbon_gym.grid.series import day_start_unix_s
from carbon_gym.scenario import Scenario, load_scenario
from carbon_gym.scenario.schema import Split
from carbon_gym.simulator import Simulator
from carbon_gym.workload.trace import Trace

DAY = timedelta(days=1)
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def tiny(conversations: Path | None = None, grid: Path | None = None, **more: Any) -> Scenario:
    changes: dict[str, Any] = dict(more)
    if conversations is not None:
        changes["workload"] = {
            "source": "file",
            "path": str(conversations),
            "format": "tokens",
            **more.get("workload", {}),
        }
    if grid is not None:
        changes["grid"] = {"source": "file", "paths": [str(grid)]}
    return load_scenario("tiny", **changes)


def ids(evaluation: Evaluation) -> set[str]:
    return {name for trace in evaluation.traces for name in trace.session_id}


def consecutive(first: date, count: int) -> tuple[date, ...]:
    return tuple(first + number * DAY for number in range(count))


def same(a: Trace, b: Trace) -> bool:
    return a.session_id == b.session_id and all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("arrival_s", "prompt_tokens", "output_tokens", "difficulty", "category")
    )


# --- days -------------------------------------------------------------------------------------


def test_default_days_spread_over_the_test_year() -> None:
    evaluation = evaluation_fleets(tiny(), sessions=3)
    days = evaluation.days
    assert len(days) == len(evaluation.traces) == len(set(days)) == DEFAULT_FLEETS
    assert all(day.year == 2023 for day in days)
    gaps = np.diff([day.toordinal() for day in sorted(days)])
    assert gaps.min() >= 8  # evenly: 365 / 16 = 23 days apart, by golden ratio within a factor
    assert gaps.max() <= 46
    assert [trace.origin_unix_s for trace in evaluation.traces] == list(map(day_start_unix_s, days))


def test_a_fleet_does_not_depend_on_how_many_there_are() -> None:
    few = evaluation_fleets(tiny(), fleets=2, sessions=20)
    more = evaluation_fleets(tiny(), fleets=7, sessions=20)
    assert few.days == more.days[:2]
    for f in range(2):
        assert same(few.traces[f], more.traces[f])
        begin = few.traces[f].origin_unix_s
        for zone in few.grid.zones:
            assert few.grid.at(zone, begin + 7_000) == more.grid.at(zone, begin + 7_000)
    assert not same(more.traces[0], more.traces[1])


@pytest.mark.parametrize("split", SPLITS)
def test_a_split_has_its_own_period(split: Split) -> None:
    scenario = tiny()
    evaluation = evaluation_fleets(scenario, split=split, fleets=5, sessions=3)
    period = scenario.splits.period(split)
    assert all(period.start <= day < period.stop for day in evaluation.days)


def test_days_follow_one_another_from_a_start() -> None:
    evaluation = evaluation_fleets(tiny(), start=date(2024, 2, 28), fleets=3, sessions=3)
    assert evaluation.days == (date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1))
    across = evaluation_fleets(tiny(), start=date(2023, 12, 31), fleets=2, sessions=3)
    assert across.days[1] == date(2024, 1, 1)


@pytest.mark.parametrize(
    ("start", "fleets"),
    [
        (date(1, 1, 1), 1),
        (date(1970, 1, 1), 1),
        (date(9999, 12, 31), 2),
        (date(2100, 12, 31), 2),
        (date(2023, 1, 1), 10**9),
        (None, 0),
        (None, -3),
    ],
)
def test_days_that_no_calendar_here_has_are_refused(start: date | None, fleets: int) -> None:
    with pytest.raises(InputError):
        evaluation_fleets(tiny(), start=start, fleets=fleets, sessions=3)


def test_a_grid_file_is_evaluated_from_its_first_full_day(tmp_path: Path) -> None:
    grid = write_grid(tmp_path / "g.csv", start=MONDAY + timedelta(hours=5), hours=24 * 4)
    evaluation = evaluation_fleets(tiny(grid=grid), sessions=5)
    assert evaluation.days == consecutive(date(2023, 5, 9), 3)  # the fourth day is not whole
    whole = write_grid(tmp_path / "h.csv", hours=24 * 20)
    assert evaluation_fleets(tiny(grid=whole), sessions=2).days == consecutive(MONDAY.date(), 16)
    assert evaluation_fleets(tiny(grid=whole), sessions=2, fleets=18).days[-1] == date(2023, 5, 25)


def test_from_a_start_a_grid_file_gives_the_days_that_it_has(tmp_path: Path) -> None:
    grid = write_grid(tmp_path / "g.csv", hours=24 * 5)
    evaluation = evaluation_fleets(tiny(grid=grid), start=date(2023, 5, 10), sessions=5)
    assert evaluation.days == consecutive(date(2023, 5, 10), 3)


@pytest.mark.parametrize(
    ("start", "fleets", "split"),
    [
        (date(2023, 5, 7), 1, None),
        (date(2023, 5, 10), 2, None),
        (date(2024, 1, 1), None, None),
        (None, 4, None),
        (None, 1, "train"),
    ],
)
def test_a_period_outside_the_series_says_what_there_is(
    tmp_path: Path, start: date | None, fleets: int | None, split: Split | None
) -> None:
    grid = write_grid(tmp_path / "g.csv", hours=72)
    with pytest.raises(InputError, match=r"2023-05-08T00:00Z to 2023-05-11T00:00Z"):
        evaluation_fleets(tiny(grid=grid), start=start, fleets=fleets, split=split, sessions=3)


# --- sessions of a file -----------------------------------------------------------------------


def test_every_session_of_a_file_is_evaluated(tmp_path: Path) -> None:
    file = write_tokens(tmp_path / "t.csv", 40)
    evaluation = evaluation_fleets(tiny(file), fleets=3)
    assert ids(evaluation) == {f"s{number}" for number in range(40)}
    assert any("40 sessions dealt to 3 days" in note for note in evaluation.notes)


def test_the_scenarios_own_day_size_does_not_hide_sessions_of_a_file(tmp_path: Path) -> None:
    scenario = tiny(write_tokens(tmp_path / "t.csv", 40), workload={"sessions_per_fleet": 5})
    assert len(ids(evaluation_fleets(scenario, fleets=2))) == 40
    assert len(ids(evaluation_fleets(scenario, fleets=2, sessions=5))) == 10


def test_splits_of_a_file_share_no_session_and_leave_none_out(tmp_path: Path) -> None:
    file = write_tokens(tmp_path / "t.csv", 60)
    parts = [ids(evaluation_fleets(tiny(file), split=split, fleets=2)) for split in SPLITS]
    assert all(parts)
    assert sum(map(len, parts)) == len(set.union(*parts)) == 60
    noted = evaluation_fleets(tiny(file), split="test", fleets=2).notes
    assert any(f"{len(parts[2])} of 60 sessions are test" in note for note in noted)


def test_splits_of_generated_sessions_share_none() -> None:
    parts = [
        ids(evaluation_fleets(tiny(), split=split, fleets=3, sessions=200)) for split in SPLITS
    ]
    assert [len(part) for part in parts] == [600] * 3
    assert len(set.union(*parts)) == 1800


def arrival_on(day: int, hour: float = 10.0) -> str:
    return iso(MONDAY + timedelta(days=day, hours=hour))


def write_dated(path: Path, days: int, per_day: int = 3) -> Path:
    """Sessions 3 d, 3 d + 1, 3 d + 2 start on day d, a turn every 30 minutes."""
    return write_tokens(
        path,
        days * per_day,
        arrival=lambda session, turn: arrival_on(session // per_day, 10 + turn / 2),
    )


def test_dated_conversations_fall_on_their_own_days_of_the_grid(tmp_path: Path) -> None:
    file = write_dated(tmp_path / "t.csv", days=2)
    grid = write_grid(tmp_path / "g.csv", start=MONDAY - 3 * DAY, hours=24 * 8)
    evaluation = evaluation_fleets(tiny(file, grid))
    assert evaluation.days == consecutive(MONDAY.date(), 2)
    assert [set(trace.session_id) for trace in evaluation.traces] == [
        {"s0", "s1", "s2"},
        {"s3", "s4", "s5"},
    ]
    for trace in evaluation.traces:
        assert trace.arrival_s[trace.turn == 0].tolist() == [36_000.0] * 3
    assert not any("other days" in note for note in evaluation.notes)


def test_dated_conversations_on_another_period_say_so(tmp_path: Path) -> None:
    file = write_dated(tmp_path / "t.csv", days=2)
    grid = write_grid(tmp_path / "g.csv", start=MONDAY.replace(year=2021), hours=72)
    for evaluation in (evaluation_fleets(tiny(file, grid)), evaluation_fleets(tiny(file))):
        assert len(evaluation.days) == 2
        assert any("2023-05-08" in note and "other days" in note for note in evaluation.notes)


def test_more_days_of_conversations_than_of_grid(tmp_path: Path) -> None:
    file = write_dated(tmp_path / "t.csv", days=5)
    grid = write_grid(tmp_path / "g.csv", hours=72)
    evaluation = evaluation_fleets(tiny(file, grid))
    assert evaluation.days == consecutive(MONDAY.date(), 3)
    assert any("6 sessions start after the first 3 days" in note for note in evaluation.notes)


def test_a_day_on_which_nobody_writes_is_an_empty_fleet(tmp_path: Path) -> None:
    file = write_tokens(tmp_path / "t.csv", 4, arrival=lambda s, t: arrival_on(2 * (s % 2), 9 + t))
    evaluation = evaluation_fleets(tiny(file, write_grid(tmp_path / "g.csv", hours=96)))
    assert [trace.sessions for trace in evaluation.traces] == [2, 0, 2]


# --- notes and the end of the grid ------------------------------------------------------------


def test_what_was_drawn_and_dropped_is_said(tmp_path: Path) -> None:
    def turns(session: int) -> list[tuple[int, int]]:
        return [(40_000, 10)] if session == 0 else [(100, 100)] * (2 + session)

    file = write_tokens(tmp_path / "t.csv", 5, turns=turns)
    evaluation = evaluation_fleets(
        tiny(file, workload={"min_turns": 4, "context_limit_tokens": 900}), fleets=1
    )
    notes = " | ".join(evaluation.notes)
    for said in (
        "seeds.arrivals = 20262",
        "seeds.quality = 20263",
        "categories: of all sessions drawn",
        "3 turns beyond context_limit_tokens = 900 dropped, 12 kept",
        "3 of 5 sessions are taken with at least 4 turns",
    ):
        assert said in notes
    assert ids(evaluation) == {"s2", "s3", "s4"}
    limited = evaluation_fleets(tiny(file, workload={"context_limit_tokens": 100}), fleets=1)
    assert any("5 sessions left out" in note for note in limited.notes)
    assert limited.traces[0].turns == 0


def late_sessions(tmp_path: Path, hours: float) -> Scenario:
    """Three sessions that start at 23:00 of the grid's last day, turns `hours` apart."""
    file = write_tokens(
        tmp_path / "t.csv",
        3,
        turns=lambda session: [(50, 100)] * (session + 1),
        arrival=lambda session, turn: arrival_on(0, 23 + hours * turn),
    )
    return tiny(file, write_grid(tmp_path / "g.csv", hours=24))


def test_sessions_that_outlast_the_grid_see_its_last_value_and_are_counted(tmp_path: Path) -> None:
    scenario = late_sessions(tmp_path, hours=2)  # turns at 23:00 (3), 01:00 (2) and 03:00 (1)
    evaluation = evaluation_fleets(scenario)
    note = next(note for note in evaluation.notes if note.startswith("grid:"))
    assert "37 five-minute values" in note  # 00:00 to 03:00, both included
    assert "2023-05-09T00:00Z" in note
    assert "3 turns come after that end" in note
    simulator = Simulator(scenario, evaluation.traces, evaluation.grid)
    seen = []
    while not simulator.done:
        quotes = simulator.quote()
        seen.append(quotes.intensity[0].copy())
        simulator.commit(quotes.cheapest())
    assert np.array_equal(seen[-1], seen[0])


def test_nothing_is_held_where_the_grid_goes_on(tmp_path: Path) -> None:
    scenario = late_sessions(tmp_path, hours=2)
    write_grid(tmp_path / "g.csv", hours=28)
    evaluation = evaluation_fleets(scenario, fleets=1)
    assert evaluation.grid.held_steps == 0
    assert not any(note.startswith("grid:") for note in evaluation.notes)


def test_a_session_of_weeks_cannot_be_held(tmp_path: Path) -> None:
    evaluation = evaluation_fleets(late_sessions(tmp_path, hours=200))
    with pytest.raises(InputError, match="choose days inside it"):
        Simulator(evaluation.scenario, evaluation.traces, evaluation.grid)


def test_a_stale_router_looks_back_into_the_day_before(tmp_path: Path) -> None:
    grid = write_grid(tmp_path / "g.csv", start=MONDAY - DAY, hours=72)
    evaluation = evaluation_fleets(tiny(grid=grid), start=MONDAY.date(), fleets=1, sessions=3)
    assert evaluation.grid.start_unix_s == day_start_unix_s(MONDAY.date() - DAY)


def test_the_scenario_that_is_reported_is_the_one_that_ran() -> None:
    evaluation = evaluation_fleets(tiny(), fleets=1, sessions=7)
    assert evaluation.scenario.workload.sessions_per_fleet == 7
    assert evaluation.traces[0].sessions == 7
    json.dumps(evaluation.scenario.to_dict(), allow_nan=False)
