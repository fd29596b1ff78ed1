"""From conversations to traces: limits, times, days, and what may depend on what."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.scenario.schema import CATEGORIES, CategoryShares, Quality, Seeds, Splits, Workload
from carbon_gym.workload.days import Days
from carbon_gym.workload.fleet_trace import build_trace
from carbon_gym.workload.fleets import Fleets
from carbon_gym.workload.generator import generate_sessions
from carbon_gym.workload.readers import read_conversations
from carbon_gym.workload.split import split_of
from carbon_gym.workload.statistics import load_statistics
from carbon_gym.workload.trace import Conversations, Trace

SHAREGPT = load_statistics("sharegpt")
DAY = 86_400


def sessions(count: int, first: int = 0) -> Conversations:
    return generate_sessions(SHAREGPT, np.arange(first, first + count, dtype=np.uint64), 5)


def trace_of(c: Conversations, fleet: int = 0, **workload: object) -> Trace:
    return build_trace(
        c, 0, fleet, Workload(**workload), Quality(), Seeds(), 280.0, SHAREGPT.hour_shape
    )


def fleets(**workload: object) -> Fleets:
    return Fleets(Workload(**workload), Quality(), Splits(), Seeds())


def prefix(trace: Trace, until_s: float) -> list[list[object]]:
    """What is known at a time: rows that arrived by then, replies of those before it."""
    now = trace.arrival_s <= until_s
    ids = [trace.session_id[s] for s in trace.session[now].tolist()]
    columns = (
        trace.turn,
        trace.arrival_s,
        trace.prompt_tokens,
        trace.history_tokens,
        trace.predicted_output_tokens,
        trace.difficulty,
    )
    replies = trace.output_tokens[trace.arrival_s < until_s].tolist()
    return [list(ids), replies, *(column[now].tolist() for column in columns)]


# --- one trace --------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.integers(0, 60), st.integers(0, 10**6), st.integers(50, 40_000), st.integers(1, 7))
def test_trace_invariants(count: int, first: int, limit: int, min_turns: int) -> None:
    c = sessions(count, first)
    trace = trace_of(c, context_limit_tokens=limit, min_turns=min_turns)
    assert trace.turns == trace.session_turns.sum()
    assert trace.sessions + trace.dropped_sessions == count
    assert np.all(trace.history_tokens + trace.prompt_tokens + trace.output_tokens <= limit)
    assert np.all(trace.session_turns >= min_turns)
    order = np.lexsort((trace.turn, trace.session, trace.arrival_s))
    assert np.array_equal(order, np.arange(trace.turns))
    for s in range(trace.sessions):
        rows = np.flatnonzero(trace.session == s)
        assert np.array_equal(trace.turn[rows], np.arange(trace.session_turns[s]))
        assert np.all(np.diff(trace.arrival_s[rows]) > 0)
        assert np.all(np.diff(trace.history_tokens[rows]) >= 0)
        assert len(np.unique(trace.category[rows])) == 1
        replies = np.concatenate([[280.0], trace.output_tokens[rows]])
        so_far = np.cumsum(replies)[:-1] / np.arange(1, len(rows) + 1)
        assert trace.predicted_output_tokens[rows] == pytest.approx(so_far)
    starts = trace.arrival_s[trace.turn == 0]
    assert np.all((starts >= 0) & (starts < DAY))
    assert np.array_equal(np.rint(trace.arrival_s * 1000) / 1000, trace.arrival_s)


def test_a_session_ends_before_its_first_turn_above_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "c.csv"
    file.write_text(
        "session,turn,prompt_tokens,output_tokens,history_tokens\n"
        "1,0,10,10,0\n1,1,10,100,20\n1,2,1,1,20\n2,0,101,0,0\n3,0,50,50,0\n"
    )
    trace = trace_of(read_conversations(file, "tokens"), context_limit_tokens=100)
    assert trace.session_id == ("1", "3")
    assert trace.session_turns.tolist() == [1, 1]
    assert (trace.dropped_turns, trace.dropped_sessions) == (3, 1)


def test_category_is_the_mode_over_kept_turns_with_ties_in_order(tmp_path: Path) -> None:
    file = tmp_path / "c.csv"
    rows = ["1,0,1,1,creative", "1,1,1,1,math", "1,2,99,1,creative", "2,0,1,1,math", "2,1,1,1,"]
    file.write_text("session,turn,prompt_tokens,output_tokens,category\n" + "\n".join(rows))
    trace = trace_of(read_conversations(file, "tokens"), context_limit_tokens=50)
    of_session = dict(zip(trace.session.tolist(), trace.category.tolist(), strict=True))
    assert of_session == {0: CATEGORIES.index("math"), 1: CATEGORIES.index("math")}


def test_unknown_categories_are_drawn_from_the_shares() -> None:
    c = sessions(4000)
    shares = SHAREGPT.category_shares.in_order()
    args = (c, 0, 0, Workload(), Quality(), Seeds(), 280.0, SHAREGPT.hour_shape)
    trace = build_trace(*args, shares)
    first = trace.turn == 0
    counts = np.bincount(trace.category[first], minlength=5) / first.sum()
    assert counts == pytest.approx(shares, abs=0.025)
    equal = build_trace(*args)
    counts = np.bincount(equal.category[first], minlength=5) / first.sum()
    assert counts == pytest.approx([0.2] * 5, abs=0.025)


def test_given_arrivals_keep_their_time_of_day(tmp_path: Path) -> None:
    file = tmp_path / "c.csv"
    file.write_text(
        "session,turn,prompt_tokens,output_tokens,arrival\n"
        "b,0,1,1,2023-05-08T23:59:59.9996Z\na,0,1,1,2023-05-08T09:00:00Z\n"
        "b,1,1,1,2023-05-09T00:10:00Z\n"
    )
    trace = trace_of(read_conversations(file, "tokens"))
    assert trace.arrival_s.tolist() == [9 * 3600, DAY, DAY + 600]
    assert trace.session.tolist() == [0, 1, 1]


def test_ties_go_by_session_then_turn(tmp_path: Path) -> None:
    file = tmp_path / "c.csv"
    rows = [f"{s},{t},1,1,5" for s in (10, 9, 2) for t in (1, 0)]
    file.write_text("session,turn,prompt_tokens,output_tokens,arrival\n" + "\n".join(rows))
    trace = trace_of(read_conversations(file, "tokens"))
    assert trace.session_id == ("2", "9", "10")
    assert list(zip(trace.session.tolist(), trace.turn.tolist(), strict=True)) == [
        (s, t) for s in range(3) for t in range(2)
    ]


# --- the leak test ----------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    turns=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    seed=st.integers(0, 2**32 - 1),
    with_arrivals=st.booleans(),
)
def test_rewriting_the_future_changes_no_past(
    turns: list[int], seed: int, with_arrivals: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Raw files: tokens of every turn after a time are rewritten; rows up to it stay."""
    rng = np.random.default_rng(seed)
    session = np.repeat(np.arange(len(turns)), turns)
    turn = np.concatenate([np.arange(n) for n in turns])
    tokens = rng.integers(0, 9_000, (2, len(session)))
    gaps = [np.cumsum(rng.integers(0, 9_000, n)) for n in turns]
    clock = np.concatenate([rng.integers(0, DAY // 2) + gap for gap in gaps])
    turns_before = np.concatenate([[0], np.cumsum(turns)])
    folder = tmp_path_factory.mktemp("leak")

    def load(name: str, counts: NDArray[np.int64], limit: int = 32_768) -> Trace:
        columns = [session, turn, *counts, *([clock] if with_arrivals else [])]
        header = "session,turn,prompt_tokens,output_tokens" + (",arrival" if with_arrivals else "")
        lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
        file = folder / name
        file.write_text("\n".join([header, *lines]))
        world = fleets(source="file", path=str(file), format="tokens", context_limit_tokens=limit)
        return world.day_trace(world.plan(1), 0, 0)

    whole = load("whole.csv", tokens, 10**9)
    by_row = {
        (int(s), int(t)): a
        for s, t, a in zip(whole.session, whole.turn, whole.arrival_s, strict=True)
    }
    arrival = np.asarray([by_row[int(s), int(t)] for s, t in zip(session, turn, strict=True)])
    before = load("before.csv", tokens)
    if before.turns == 0:
        return
    seen = rng.integers(before.turns)
    until = float(before.arrival_s[seen])
    changed = np.where(arrival > until, rng.integers(0, 40_000, tokens.shape), tokens)
    row = turns_before[int(before.session_id[before.session[seen]])] + before.turn[seen]
    changed[1, row] = rng.integers(0, tokens[1, row] + 1)  # shorter, so that the row stays
    assert prefix(load("after.csv", changed), until) == prefix(before, until)
    if (arrival > until).any():
        assert prefix(load("all.csv", changed, 10**9), np.inf) != prefix(whole, np.inf)


# --- the door ---------------------------------------------------------------------------------


def test_generated_fleets() -> None:
    world = fleets(sessions_per_fleet=300)
    one, again, other = (world.trace(i, 1_000_000, "test") for i in (0, 0, 1))
    assert one.sessions == other.sessions == 300
    assert one.origin_unix_s == 1_000_000
    assert np.array_equal(one.arrival_s, again.arrival_s)
    assert not set(one.session_id) & set(other.session_id)
    training = world.trace(0, 0, "train")
    assert not set(one.session_id) & set(training.session_id)
    assert np.all(split_of(one.session_key, Splits(), Seeds().split) == 2)
    assert one.session_id[0] == f"g{one.session_key[0]}"
    copy = pickle.loads(pickle.dumps(world)).trace(0, 1_000_000, "test")
    assert np.array_equal(one.difficulty, copy.difficulty)


def test_generated_fleets_are_full_although_the_limit_drops_sessions() -> None:
    world = fleets(sessions_per_fleet=100, min_turns=6, context_limit_tokens=2_500)
    trace = world.trace(0, 0, "validation")
    assert trace.sessions == 100
    assert trace.dropped_sessions > 0
    assert trace.session_turns.min() >= 6
    with pytest.raises(InputError, match="context_limit_tokens = 10"):
        fleets(sessions_per_fleet=100, min_turns=6, context_limit_tokens=10).trace(0, 0, "test")


def test_an_empty_fleet() -> None:
    trace = fleets(sessions_per_fleet=0).trace(0, 0, "test")
    assert (trace.turns, trace.sessions) == (0, 0)


def test_more_sessions_keep_the_first_ones() -> None:
    few, many = (fleets(sessions_per_fleet=n).trace(0, 0, "test") for n in (20, 40))
    assert many.session_id[:20] == few.session_id
    assert many.session_turns[:20].tolist() == few.session_turns.tolist()


def test_fleets_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "c.csv"
    rows = [f"{s},{t},5,6" for s in range(100) for t in range(1 + s % 3)]
    file.write_text("session,turn,prompt_tokens,output_tokens\n" + "\n".join(rows))
    world = fleets(source="file", path=str(file), format="tokens", sessions_per_fleet=10)
    assert world.source == "c.csv (tokens)"
    one, other = (world.trace(i, 0, "train") for i in (0, 1))
    assert one.sessions == 10
    assert one.session_id != other.session_id
    assert np.all(split_of(one.session_key, Splits(), Seeds().split) == 0)
    plan = world.plan(2)
    assert isinstance(plan, Days)
    assert world.day_trace(plan, 1, 7).sessions == 100
    notes = " ".join(world.draw_notes())
    assert "seeds.arrivals" in notes
    assert "all sessions drawn" in notes
    assert "seeds.quality" in notes
    with pytest.raises(InputError, match="'generated'"):
        fleets().plan(2)


def test_fleets_of_a_file_with_arrivals_go_through_its_days(tmp_path: Path) -> None:
    file = tmp_path / "c.csv"
    rows = [f"{s},0,5,6,{s % 3 * 2 * DAY + s},{'math' if s % 2 else ''}" for s in range(120)]
    file.write_text("session,turn,prompt_tokens,output_tokens,arrival,category\n" + "\n".join(rows))
    world = fleets(source="file", path=str(file), format="tokens", sessions_per_fleet=1000)
    traces = [world.trace(i, 0, "train") for i in range(4)]
    assert all(trace.arrival_s.max() < DAY for trace in traces)
    assert traces[0].session_id == traces[3].session_id
    assert not set(traces[0].session_id) & set(traces[1].session_id)
    notes = " ".join(world.draw_notes())
    assert "arrivals: drawn" not in notes
    assert "of 60 sessions drawn" in notes


def test_the_prior_can_be_set() -> None:
    world = fleets(sessions_per_fleet=5, predicted_output_prior_tokens=123.0)
    trace = world.trace(0, 0, "test")
    assert np.all(trace.predicted_output_tokens[trace.turn == 0] == 123.0)
    default = fleets(sessions_per_fleet=5).trace(0, 0, "test")
    first = default.turn == 0
    assert np.all(default.predicted_output_tokens[first] == SHAREGPT.reply_mean_tokens)


def test_the_predicted_output_can_be_wrong_by_a_keyed_factor() -> None:
    right = trace_of(sessions(400))
    wrong = trace_of(sessions(400), predicted_output_log_sd=0.5)
    error = np.log(wrong.predicted_output_tokens / right.predicted_output_tokens)
    assert (error.std(), error.mean()) == pytest.approx((0.5, 0.0), abs=0.03)
    assert np.array_equal(wrong.output_tokens, right.output_tokens)

    def by_key(trace: Trace) -> dict[tuple[int, int], float]:
        keys = trace.session_key[trace.session].tolist()
        rows = zip(keys, trace.turn.tolist(), trace.predicted_output_tokens.tolist(), strict=True)
        return {(key, turn): predicted for key, turn, predicted in rows}

    fewer = by_key(trace_of(sessions(100), predicted_output_log_sd=0.5))
    assert fewer.items() <= by_key(wrong).items()


SHARES = CategoryShares(coding=0.05, math=0.5, reasoning=0.0, creative=0.15, information=0.3)


def mix(trace: Trace) -> list[float]:
    """Share of the sessions per category."""
    of_session = trace.category[trace.turn == 0]
    counts: NDArray[np.int64] = np.bincount(of_session, minlength=len(CATEGORIES))
    return [float(count) / len(of_session) for count in counts]


def test_generated_sessions_have_the_category_shares_asked_for() -> None:
    drifted = fleets(sessions_per_fleet=4000, category_shares=SHARES)
    plain = fleets(sessions_per_fleet=4000)
    trace, before = (world.trace(0, 0, "test") for world in (drifted, plain))
    assert mix(trace) == pytest.approx(SHARES.in_order(), abs=0.03)
    assert mix(trace)[2] == 0
    assert mix(before) == pytest.approx(SHAREGPT.category_shares.in_order(), abs=0.03)
    for column in ("session_key", "arrival_s", "output_tokens", "difficulty"):
        assert np.array_equal(getattr(trace, column), getattr(before, column)), column
    assert "all sessions drawn from workload.category_shares" in " ".join(drifted.draw_notes())
    own = fleets(sessions_per_fleet=4000, category_shares=SHAREGPT.category_shares)
    assert np.array_equal(own.trace(0, 0, "test").category, before.category)


@pytest.mark.parametrize("known", ["math", ""])
def test_category_shares_are_for_sessions_of_a_file_that_have_none(
    known: str, tmp_path: Path
) -> None:
    file = tmp_path / "c.csv"
    rows = [f"{s},0,5,6,{'creative' if s % 4 == 0 else known}" for s in range(4000)]
    file.write_text("session,turn,prompt_tokens,output_tokens,category\n" + "\n".join(rows))
    world = fleets(source="file", path=str(file), format="tokens", category_shares=SHARES)
    trace = world.day_trace(world.plan(1), 0, 0)
    notes = " ".join(world.draw_notes())
    if known:
        assert mix(trace) == [0, 0.75, 0, 0.25, 0]
        assert "workload.category_shares changes nothing" in notes
        return
    expected = 0.75 * np.asarray(SHARES.in_order()) + [0, 0, 0, 0.25, 0]
    assert mix(trace) == pytest.approx(expected, abs=0.03)
    assert "of 3000 sessions drawn from workload.category_shares" in notes


def test_the_real_file_makes_eight_days(shared_data: Path) -> None:
    path = shared_data / "conversations" / "sharegpt_turns.csv.gz"
    world = fleets(source="file", path=str(path), format="tokens")
    plan = world.plan(8)
    seen = np.unique(np.concatenate(plan.sessions))
    assert len(seen) == 7578
    trace = world.day_trace(plan, 3, 0)
    assert trace.sessions == 3000
    assert trace.turns == pytest.approx(18_700, rel=0.1)
