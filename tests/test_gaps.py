"""What is measured from a file's arrivals: gaps between turns, bursts of session starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from carbon_gym.draws import key_of_text
from carbon_gym.scenario.schema import Splits, Workload
from carbon_gym.workload.arrivals import draw_arrivals
from carbon_gym.workload.gaps import MIN_SAMPLES, ArrivalStatistics, measure_arrivals
from carbon_gym.workload.sessions import offsets_of
from carbon_gym.workload.split import split_of
from carbon_gym.workload.trace import Conversations, Ints

SEED = 1
ALL_TRAIN = Splits(train_share=0.9999, validation_share=0.00005)
Floats = NDArray[np.float64]


def conversations(turns: Sequence[int] | Ints, arrival_s: Floats | None) -> Conversations:
    offsets = offsets_of(turns)
    ids = tuple(f"s{number}" for number in range(len(turns)))
    ones = np.ones(int(offsets[-1]), dtype=np.int64)
    return Conversations(
        session_id=ids,
        session_key=np.array([key_of_text(name) for name in ids], dtype=np.uint64),
        offsets=offsets,
        prompt_tokens=ones,
        history_tokens=ones,
        output_tokens=ones,
        category=np.full(len(ones), -1, dtype=np.int8),
        arrival_s=arrival_s,
    )


def measured(
    turns: Sequence[int] | Ints, arrival_s: Floats, splits: Splits = ALL_TRAIN
) -> ArrivalStatistics:
    found = measure_arrivals(conversations(turns, arrival_s), splits, SEED)
    assert found is not None
    return found


def test_without_arrivals_there_is_nothing_to_say() -> None:
    assert measure_arrivals(conversations([2, 3], None), ALL_TRAIN, SEED) is None


def test_gaps_are_within_sessions_and_in_logs() -> None:
    """Two sessions of 16 turns, gaps of 10 and 1000 s; between them lies a day."""
    first = np.arange(16) * 10.0
    found = measured([16, 17], np.concatenate([first, 86_400 + np.arange(17) * 1000.0]))
    # 15 gaps of 10 s and 16 of 1000 s.
    logs = np.log([10.0] * 15 + [1000.0] * 16)
    assert found.gap_log_mean == pytest.approx(logs.mean())
    assert found.gap_log_sd == pytest.approx(logs.std())
    assert found.dispersion is None  # two starts tell nothing


@pytest.mark.parametrize(("turns", "enough"), [(MIN_SAMPLES, False), (MIN_SAMPLES + 1, True)])
def test_few_gaps_say_nothing(turns: int, enough: bool) -> None:
    found = measured([turns], np.arange(turns) * 60.0)
    assert (found.gap_log_mean is not None) == (found.gap_log_sd is not None) == enough


def test_turns_at_one_instant_have_no_gap() -> None:
    found = measured([MIN_SAMPLES + 2], np.array([0.0, *np.arange(MIN_SAMPLES + 1) * 60.0]))
    assert found.gap_log_mean == pytest.approx(np.log(60.0))
    assert found.gap_log_sd == pytest.approx(0.0, abs=1e-12)


def test_only_training_sessions_are_measured() -> None:
    splits = Splits()
    count = 200
    blank = conversations([40] * count, None)
    training = split_of(blank.session_key, splits, SEED) == 0
    gap_s = np.where(training, 100.0, 7.0)
    arrival = (np.arange(40) * gap_s[:, None]).ravel()
    found = measured([40] * count, arrival, splits)
    assert found.gap_log_mean == pytest.approx(np.log(100.0))
    assert found.gap_log_sd == pytest.approx(0.0, abs=1e-12)


def starts(per_minute: Sequence[int] | Ints) -> Floats:
    """So many sessions of one turn in each minute."""
    minute = np.repeat(np.arange(len(per_minute)), per_minute)
    return minute * 60.0 + 30.0


def dispersion(per_minute: Sequence[int] | Ints) -> float | None:
    arrival = starts(per_minute)
    return measured([1] * len(arrival), arrival).dispersion


def test_the_dispersion_by_hand() -> None:
    """0 and 4 in turn: mean 2, variance 4 · 60 / 59."""
    assert dispersion([4, 0] * 61) == pytest.approx(2.0 * 60 / 59)


def test_hours_are_taken_apart() -> None:
    """A busy hour after a quiet one is no burst: each is even in itself."""
    assert dispersion([1] * 60 + [20] * 60 + [1] * 60) == 1.0


def test_a_scenario_takes_what_is_measured() -> None:
    """Even starts have less than Poisson's variance; a scenario knows nothing below 1."""
    found = dispersion([3] * 121)
    assert found == 1.0
    assert Workload(dispersion=found).dispersion == found


@pytest.mark.parametrize("per_minute", [[], [5] * 59, [0] * 30 + [5] * 89, [0, 1] * 14 + [0] * 92])
def test_too_few_starts_say_nothing(per_minute: list[int]) -> None:
    """No start; less than a whole hour; one cut at both ends; 14 starts in an hour."""
    assert dispersion(per_minute) is None


def test_a_poisson_stream_has_dispersion_one() -> None:
    rng = np.random.default_rng(0)
    found = dispersion(rng.poisson(20.0, 60 * 24))
    assert found == pytest.approx(1.0, abs=0.08)


def test_what_is_drawn_is_measured_again() -> None:
    """Arrivals drawn with the scenario's own parameters give those parameters back."""
    workload = Workload(gap_log_mean=4.2, gap_log_sd=0.7, dispersion=4.0)
    turns = np.full(20_000, 3)
    blank = conversations(turns, None)
    arrival = draw_arrivals(blank.session_key, blank.offsets, workload, [1.0] * 24, 0, SEED)
    found = measured(turns, arrival)
    assert found.gap_log_mean == pytest.approx(4.2, abs=0.02)
    assert found.gap_log_sd == pytest.approx(0.7, abs=0.02)
    assert found.dispersion == pytest.approx(4.0, rel=0.15)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=200), st.integers(0, 10**6))
def test_any_arrivals_can_be_measured(per_minute: list[int], shift_min: int) -> None:
    arrival = starts(per_minute) + 60.0 * shift_min
    found = measure_arrivals(conversations([1] * len(arrival), arrival), Splits(), SEED)
    assert found is not None
    assert found.gap_log_mean is None
    assert found.dispersion is None or 1.0 <= found.dispersion < 100.0
