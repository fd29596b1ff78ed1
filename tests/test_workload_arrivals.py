"""Arrival times: shape of the day, dispersion, gaps, and independence of sessions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from carbon_gym.scenario.schema import Quality, Seeds, Workload
from carbon_gym.workload.arrivals import keyed_gamma, minute_weights, start_times_ms
from carbon_gym.workload.fleet_trace import build_trace
from carbon_gym.workload.generator import generate_sessions
from carbon_gym.workload.sessions import select_sessions
from carbon_gym.workload.statistics import load_statistics
from carbon_gym.workload.trace import Conversations, Trace

SHAREGPT = load_statistics("sharegpt")
FLAT = (1.0,) * 24


def sessions(count: int) -> Conversations:
    return generate_sessions(SHAREGPT, np.arange(count, dtype=np.uint64), 5)


def trace_of(c: Conversations, fleet: int = 0) -> Trace:
    return build_trace(c, 0, fleet, Workload(), Quality(), Seeds(), 280.0, SHAREGPT.hour_shape)


def test_starts_are_overdispersed_as_asked() -> None:
    keys = np.arange(3000, dtype=np.uint64)
    for wanted in (1.0, 3.0, 6.0):
        indices = []
        for fleet in range(30):
            weights = minute_weights(FLAT, len(keys), wanted, 4, fleet)
            starts = start_times_ms(keys, weights, 4, fleet)
            counts = np.bincount(starts // 60_000, minlength=1440)
            indices.append(counts.var() / counts.mean())
        assert np.mean(indices) == pytest.approx(wanted, rel=0.06)


def test_starts_follow_the_hours() -> None:
    c = sessions(20_000)
    trace = trace_of(c)
    hours = np.bincount((trace.arrival_s[trace.turn == 0] // 3600).astype(int), minlength=24)
    shape = np.asarray(SHAREGPT.hour_shape)
    assert hours / hours.mean() == pytest.approx(shape, abs=0.2)


def test_gaps_are_log_normal() -> None:
    trace = trace_of(sessions(5000))
    order = np.lexsort((trace.turn, trace.session))
    arrival, session = trace.arrival_s[order], trace.session[order]
    gaps = np.log(np.diff(arrival)[np.diff(session) == 0])
    assert gaps.mean() == pytest.approx(4.885, abs=0.02)
    assert gaps.std() == pytest.approx(0.978, abs=0.02)


@pytest.mark.parametrize("shape", [0.2, 1.0, 5.0])
def test_gamma_moments(shape: float) -> None:
    drawn = keyed_gamma(np.full(100_000, shape), 3, "test", 9)
    assert drawn.mean() == pytest.approx(shape, rel=0.03)
    assert drawn.var() == pytest.approx(shape, rel=0.05)


def test_one_session_moves_no_other() -> None:
    """Other lengths of one session leave every other start and earlier gap alone."""
    c = sessions(50)
    other = dataclasses.replace(
        c, output_tokens=np.where(np.arange(c.turns) >= c.offsets[10], 40_000, c.output_tokens)
    )
    before, after = trace_of(c), trace_of(other)
    kept = {
        (before.session_id[s], t): a
        for s, t, a in zip(before.session, before.turn, before.arrival_s, strict=True)
    }
    for s, t, a in zip(after.session, after.turn, after.arrival_s, strict=True):
        assert kept[after.session_id[s], t] == a


def test_days_and_seeds_differ() -> None:
    c = sessions(50)
    assert not np.array_equal(trace_of(c, 0).arrival_s, trace_of(c, 1).arrival_s)
    assert np.array_equal(trace_of(c, 1).arrival_s, trace_of(c, 1).arrival_s)
    # difficulty belongs to the session, not to the day
    by_id = [
        dict(zip(t.session.tolist(), t.difficulty.tolist(), strict=True))
        for t in (trace_of(select_sessions(c, np.arange(9)), day) for day in (0, 1))
    ]
    assert by_id[0] == by_id[1]
