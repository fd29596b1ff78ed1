"""Generated sessions: keyed, conserving, and like the measured ones."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carbon_gym.errors import InputError
from carbon_gym.scenario.schema import Split, Splits
from carbon_gym.workload.generator import generate_sessions, session_keys
from carbon_gym.workload.measure import measure
from carbon_gym.workload.sessions import select_sessions
from carbon_gym.workload.split import SPLITS, split_of
from carbon_gym.workload.statistics import Measured, load_statistics
from carbon_gym.workload.trace import Conversations

SHAREGPT = load_statistics("sharegpt")
SHARECHAT = load_statistics("sharechat")


def keys(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.asarray(values, dtype=np.uint64)


def same_session(a: Conversations, s: int, b: Conversations, r: int) -> bool:
    left, right = select_sessions(a, np.asarray([s])), select_sessions(b, np.asarray([r]))
    return all(np.array_equal(x, y) for x, y in zip(astuple(left), astuple(right), strict=True))


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 2**63), min_size=1, max_size=40, unique=True),
    st.integers(0, 2**31),
    st.integers(1, 12),
)
def test_invariants(values: list[int], seed: int, min_turns: int) -> None:
    c = generate_sessions(SHAREGPT, keys(*values), seed, min_turns)
    turns = np.diff(c.offsets)
    assert np.all((turns >= min_turns) & (turns <= 300))
    assert np.all(c.prompt_tokens >= 0)
    assert np.all(c.output_tokens >= 0)
    total = c.history_tokens + c.prompt_tokens + c.output_tokens
    first = np.zeros(c.turns, dtype=bool)
    first[c.offsets[:-1]] = True
    assert np.all(c.history_tokens[first] == 0)
    assert np.array_equal(c.history_tokens[1:][~first[1:]], total[:-1][~first[1:]])


@settings(max_examples=20)
@given(st.lists(st.integers(0, 2**40), min_size=2, max_size=20, unique=True), st.randoms())
def test_a_session_is_the_same_whatever_else_is_drawn(values: list[int], random: object) -> None:
    together = generate_sessions(SHAREGPT, keys(*values), 7)
    for s, value in enumerate(values):
        alone = generate_sessions(SHAREGPT, keys(value), 7)
        assert same_session(together, s, alone, 0)


def test_seeds_differ() -> None:
    one, other = (generate_sessions(SHAREGPT, keys(*range(50)), seed) for seed in (0, 1))
    assert not np.array_equal(np.diff(one.offsets), np.diff(other.offsets))


def test_no_sessions() -> None:
    c = generate_sessions(SHAREGPT, keys(), 1)
    assert (c.sessions, c.turns) == (0, 0)


@settings(max_examples=15)
@given(st.sampled_from(SPLITS), st.integers(0, 1000), st.integers(0, 300), st.integers(0, 99))
def test_session_keys_belong_to_split_and_fleet(
    split: Split, fleet: int, n: int, seed: int
) -> None:
    found = session_keys(split, fleet, n, Splits(), seed)
    assert len(found) == len(np.unique(found)) == n
    assert np.all(np.diff(found.astype(np.int64)) > 0)
    assert np.all(split_of(found, Splits(), seed) == SPLITS.index(split))
    following = session_keys(split, fleet + 1, n, Splits(), seed)
    assert not np.intersect1d(found, following).size
    assert np.array_equal(found[: n // 2], session_keys(split, fleet, n // 2, Splits(), seed))


def test_a_fleet_cannot_outgrow_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carbon_gym.workload.generator.FLEET_BLOCK", 1000)
    with pytest.raises(InputError, match="do not fit"):
        session_keys("test", 0, 500, Splits(), 1)


def test_split_shares_and_disjointness() -> None:
    code = split_of(np.arange(100_000, dtype=np.uint64), Splits(), 20260)
    assert np.bincount(code) / len(code) == pytest.approx([0.6, 0.2, 0.2], abs=0.01)
    other = split_of(np.arange(100_000, dtype=np.uint64), Splits(), 20261)
    assert np.mean(code == other) == pytest.approx(0.44, abs=0.02)  # independent: .36 + .04 + .04


# --- generated against measured ---------------------------------------------------------------

TOLERANCES = {
    "turns_mean": ("rel", 0.03),
    "turns_p50": ("abs", 0),
    "turns_p75": ("abs", 1),
    "turns_p90": ("abs", 1),
    "turns_p99": ("rel", 0.12),
    "one_turn_share": ("abs", 0.01),
    "over_5_turns_share": ("abs", 0.01),
    "over_10_turns_share": ("abs", 0.01),
    "over_30_turns_share": ("abs", 0.005),
    "prompt_mean_tokens": ("rel", 0.06),
    "first_prompt_median_tokens": ("abs", 1),
    "later_prompt_median_tokens": ("abs", 1),
    "reply_mean_tokens": ("rel", 0.03),
    "first_reply_median_tokens": ("rel", 0.03),
    "later_reply_median_tokens": ("rel", 0.03),
    "history_2000_share": ("abs", 0.015),
    "history_4000_share": ("abs", 0.015),
    "history_8000_share": ("abs", 0.015),
    "prompt_log_correlation": ("abs", 0.03),
    "reply_log_correlation": ("abs", 0.035),
    "prompt_between_share": ("abs", 0.03),
    "reply_between_share": ("abs", 0.05),
}
"""How far generated may lie from measured: the training data are one sample of 4,570 sessions."""


@pytest.fixture(scope="module")
def many() -> Conversations:
    return generate_sessions(SHAREGPT, np.arange(60_000, dtype=np.uint64), 20261)


@pytest.mark.parametrize(
    ("name", "limited", "min_turns"),
    [
        ("unlimited", False, 1),
        ("limited", True, 1),
        ("long_unlimited", False, 6),
        ("long_limited", True, 6),
    ],
)
def test_generated_like_measured(
    many: Conversations, name: str, limited: bool, min_turns: int
) -> None:
    assert SHAREGPT.targets is not None
    wanted: Measured = getattr(SHAREGPT.targets, name)
    limit = SHAREGPT.targets.context_limit_tokens if limited else None
    made = measure(many, limit, min_turns)
    for key, (kind, tolerance) in TOLERANCES.items():
        value = getattr(wanted, key)
        allowed = tolerance * abs(value) if kind == "rel" else tolerance
        assert abs(getattr(made, key) - value) <= allowed, key


def test_long_sessions_carry_the_papers_history(many: Conversations) -> None:
    """About 40 % of the queries of sessions of at least 6 turns carry 4K tokens (SPEC §7)."""
    drawn = generate_sessions(SHAREGPT, np.arange(20_000, dtype=np.uint64), 3, min_turns=6)
    assert measure(drawn).history_4000_share == pytest.approx(0.40, abs=0.03)
    assert measure(many, None, 6).history_4000_share == pytest.approx(
        measure(drawn).history_4000_share, abs=0.015
    )


def test_sharechat_reaches_the_published_means() -> None:
    made = measure(generate_sessions(SHARECHAT, np.arange(60_000, dtype=np.uint64), 20261))
    assert SHARECHAT.published is not None
    assert made.turns_mean == pytest.approx(SHARECHAT.published.turns, rel=0.03)
    assert made.prompt_mean_tokens == pytest.approx(SHARECHAT.published.prompt_tokens, rel=0.03)
    assert made.reply_mean_tokens == pytest.approx(SHARECHAT.published.reply_tokens, rel=0.03)
    assert SHARECHAT.published.model_dump() == {
        "turns": 4.62,
        "prompt_tokens": 135.0,
        "reply_tokens": 1115.0,
    }
