"""The 5-minute clock: look-up, windows, spill."""

from __future__ import annotations

import math
import pickle
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbon_gym.errors import InputError
from carbon_gym.grid.series import (
    MAX_SPILL_S,
    STEP_S,
    GridSeries,
    day_start_unix_s,
    iso_utc,
)

DAY_S = 86_400
START = day_start_unix_s(date(2023, 12, 31))


def series(days: int = 3, held: bool = False) -> GridSeries:
    steps = days * DAY_S // STEP_S
    values = np.arange(steps, dtype=float)[:, None] * np.array([1.0, 10.0, 100.0])
    mask = None
    if held:
        mask = np.zeros(steps, bool)
        mask[5:9] = True
    return GridSeries(("DE", "GB", "US-CAL-CISO"), START, values, "test", mask)


def test_select_orders_zones_and_copies_in_row_order() -> None:
    whole = series()
    part = whole.select(["GB", "DE"])
    assert part.zones == ("GB", "DE")
    assert part.values.flags["C_CONTIGUOUS"]
    np.testing.assert_array_equal(part.values[7], [70.0, 7.0])
    part.values[:] = 0
    assert whole.at("GB", START + STEP_S) == 10.0


@pytest.mark.parametrize(
    ("zone", "near"), [("US-CAL-CSIO", "US-CAL-CISO"), ("de", "DE"), ("gb ", "GB")]
)
def test_unknown_zone_names_the_nearest_and_what_is_there(zone: str, near: str) -> None:
    with pytest.raises(InputError) as caught:
        series().select([zone])
    message = str(caught.value)
    assert repr(zone) in message
    assert f"nearest: {near}" in message
    assert "use one of DE, GB, US-CAL-CISO" in message
    assert "\n" not in message


def test_a_zone_asked_for_twice_is_refused() -> None:
    with pytest.raises(InputError, match="'DE' is asked for twice"):
        series().select(["DE", "DE"])


@given(offset_s=st.floats(0, 3 * DAY_S - 0.001))
def test_look_up_is_the_last_row_at_or_before(offset_s: float) -> None:
    t = START + offset_s
    assert series().at("DE", t) == math.floor((t - START) / STEP_S)


@pytest.mark.parametrize("offset_s", [-1, 3 * DAY_S])
def test_look_up_outside_is_refused(offset_s: int) -> None:
    with pytest.raises(InputError, match="the series goes from 2023-12-31T00:00Z to 2024-01-03"):
        series().at("DE", START + offset_s)


@given(
    first=st.integers(0, 2),
    days=st.integers(1, 3),
    spill_s=st.integers(0, MAX_SPILL_S // STEP_S).map(lambda steps: steps * STEP_S),
)
def test_window_covers_days_and_spill_and_counts_what_it_holds(
    first: int, days: int, spill_s: int
) -> None:
    whole = series(days=5, held=True)
    start = START + first * DAY_S
    stop = start + days * DAY_S
    part = whole.window(start, stop, spill_s)
    assert part.covers(start, stop + spill_s)
    assert (part.start_unix_s, part.stop_unix_s) == (start, stop + spill_s)
    past_end = max(0, part.stop_unix_s - whole.stop_unix_s) // STEP_S
    assert part.held_steps == past_end + (4 if first == 0 else 0)
    inside = len(part.values) - past_end
    row = (start - START) // STEP_S
    np.testing.assert_array_equal(part.values[:inside], whole.values[row : row + inside])
    if past_end:
        assert np.all(part.values[inside:] == whole.values[-1])


def test_window_starts_on_the_clock_at_or_before_the_start() -> None:
    part = series().window(START + 450.0, START + 1000.0, 0)
    assert (part.start_unix_s, part.stop_unix_s) == (START + 300, START + 1200)


def test_window_does_not_share_memory() -> None:
    whole = series()
    part = whole.window(START, START + DAY_S, 0)
    part.values[:] = -1
    assert whole.values.min() == 0


@pytest.mark.parametrize(
    ("start", "stop"), [(-DAY_S, DAY_S), (2 * DAY_S, 4 * DAY_S), (9 * DAY_S, 10 * DAY_S)]
)
def test_days_outside_the_series_are_refused(start: int, stop: int) -> None:
    with pytest.raises(InputError) as caught:
        series().window(START + start, START + stop)
    message = str(caught.value)
    assert f"{iso_utc(START + start)} to {iso_utc(START + stop)} is asked for" in message
    assert "the series goes from 2023-12-31T00:00Z to 2024-01-03T00:00Z" in message


@pytest.mark.parametrize("allow_hold_s", [-1.0, MAX_SPILL_S + 1, math.nan])
def test_a_spill_beyond_48_hours_is_refused(allow_hold_s: float) -> None:
    with pytest.raises(InputError, match=r"allow_hold_s .* 0 to 172800 s"):
        series().window(START, START + DAY_S, allow_hold_s)


def test_an_empty_period_is_refused() -> None:
    with pytest.raises(InputError, match="is asked for"):
        series().window(START, START)


def test_malformed_series_are_refused() -> None:
    with pytest.raises(ValueError, match="2 zones; found shape"):
        GridSeries(("A", "B"), 0, np.zeros((3, 1)))
    with pytest.raises(ValueError, match="at least one step"):
        GridSeries(("A",), 0, np.zeros((0, 1)))
    with pytest.raises(ValueError, match="multiple of 300"):
        GridSeries(("A",), 7, np.zeros((3, 1)))
    with pytest.raises(ValueError, match="held must have shape"):
        GridSeries(("A",), 0, np.zeros((3, 1)), held=np.zeros(2, bool))


def test_series_pickle() -> None:
    again = pickle.loads(pickle.dumps(series(held=True)))
    assert again.zones == series().zones
    assert again.held_steps == 4
    np.testing.assert_array_equal(again.values, series().values)


def test_days_start_at_midnight_utc() -> None:
    assert iso_utc(day_start_unix_s(date(2024, 2, 29))) == "2024-02-29T00:00Z"
    assert day_start_unix_s(date(2024, 3, 1)) - day_start_unix_s(date(2024, 2, 28)) == 2 * DAY_S
