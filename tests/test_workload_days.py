"""Which sessions of a file are evaluated on which day."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.scenario.schema import Seeds, Splits
from carbon_gym.workload.days import evaluation_days
from carbon_gym.workload.split import split_of
from carbon_gym.workload.trace import Conversations

DAY = 86_400


def plain(
    count: int, arrival_s: NDArray[np.float64] | None = None, absolute: bool = False
) -> Conversations:
    """`count` sessions of one turn."""
    ones = np.ones(count, dtype=np.int64)
    return Conversations(
        session_id=tuple(map(str, range(count))),
        session_key=np.arange(count, dtype=np.uint64),
        offsets=np.arange(count + 1, dtype=np.int64),
        prompt_tokens=ones,
        history_tokens=0 * ones,
        output_tokens=ones,
        category=np.zeros(count, dtype=np.int8),
        arrival_s=arrival_s,
        absolute_time=absolute,
        source="plain",
    )


@settings(max_examples=60)
@given(st.integers(1, 200), st.integers(1, 12), st.none() | st.integers(1, 250))
def test_dealing(count: int, days: int, wanted: int | None) -> None:
    dealt = evaluation_days(plain(count), days, Splits(), Seeds(), None, wanted)
    assert len(dealt.sessions) == days
    size = count if wanted is None else min(wanted, count)
    for day in dealt.sessions:
        assert len(day) == size
        assert len(np.unique(day)) == size
        assert np.all(np.diff(day) > 0)
    seen = np.unique(np.concatenate(dealt.sessions))
    assert len(seen) == min(count, days * size)
    evaluations = np.bincount(np.concatenate(dealt.sessions), minlength=count)
    assert evaluations.max() - evaluations.min() <= 1


@settings(max_examples=60)
@given(st.integers(1, 200), st.integers(1, 12))
def test_dealing_once_cuts_the_file_into_days(count: int, days: int) -> None:
    dealt = evaluation_days(plain(count), days, Splits(), Seeds(), once=True)
    sizes = [len(day) for day in dealt.sessions]
    assert len(sizes) == days
    assert max(sizes) - min(sizes) <= 1
    assert sorted(np.concatenate(dealt.sessions)) == list(range(count))
    assert "each once" in dealt.notes[-1]
    asked = evaluation_days(plain(count), days, Splits(), Seeds(), None, 3, once=True)
    plainly = evaluation_days(plain(count), days, Splits(), Seeds(), None, 3)
    assert [day.tolist() for day in asked.sessions] == [day.tolist() for day in plainly.sessions]


def test_dealing_evaluates_every_session_of_a_large_file() -> None:
    dealt = evaluation_days(plain(10_000), 2, Splits(), Seeds())
    assert [len(day) for day in dealt.sessions] == [5000, 5000]
    dealt = evaluation_days(plain(10_000), 8, Splits(), Seeds())
    assert [len(day) for day in dealt.sessions] == [3000] * 8
    assert "2.40 times" in dealt.notes[-1]
    dealt = evaluation_days(plain(10_000), 2, Splits(), Seeds(), None, 100)
    assert "9800 sessions are not evaluated" in dealt.notes[-1]


def test_dealing_of_a_split() -> None:
    c = plain(1000)
    dealt = evaluation_days(c, 2, Splits(), Seeds(), "test")
    code = split_of(c.session_key, Splits(), Seeds().split)
    assert np.array_equal(dealt.sessions[0], np.flatnonzero(code == 2))


def test_days_by_arrival() -> None:
    monday = 1_683_504_000.0  # 2023-05-08T00:00Z
    starts = monday + np.asarray([3600.0, 10.0, DAY + 5, 3 * DAY, 2 * DAY - 1])
    dealt = evaluation_days(plain(5, starts, True), 3, Splits(), Seeds())
    assert [day.tolist() for day in dealt.sessions] == [[0, 1], [2, 4], []]
    assert "1 sessions start after the first 3 days" in dealt.notes[0]
    thinned = evaluation_days(plain(5, starts, True), 4, Splits(), Seeds(), None, 1)
    assert [len(day) for day in thinned.sessions] == [1, 1, 0, 1]
    assert "2 sessions left out" in thinned.notes[0]


def test_relative_days_count_from_the_start_of_the_trace() -> None:
    c = plain(2, np.asarray([5.0 * DAY, 6.0 * DAY]))
    with pytest.raises(InputError, match="on day 6"):
        evaluation_days(c, 5, Splits(), Seeds())
    assert [len(d) for d in evaluation_days(c, 6, Splits(), Seeds()).sessions] == [0] * 5 + [1]


def test_days_need_sessions() -> None:
    with pytest.raises(InputError, match="at least 1"):
        evaluation_days(plain(3), 0, Splits(), Seeds())
    with pytest.raises(InputError, match="at least 1"):
        evaluation_days(plain(3), 1, Splits(), Seeds(), None, 0)
    with pytest.raises(InputError, match="at least 2 turns"):
        evaluation_days(plain(3), 1, Splits(), Seeds(), None, None, 2)
