"""Statistics over training seeds: against plain loops, and on populations whose truth is known."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from carbon_gym.metrics.seeds import (
    STRATIFIED,
    WHOLE,
    Draw,
    improvement_interval,
    interquartile_interval,
    interquartile_mean,
    probability_of_improvement,
)

FEW = 200
DRAWS: tuple[Draw, ...] = (STRATIFIED, WHOLE)
each_draw = pytest.mark.parametrize("draw", DRAWS)


def scores_of(seeds: st.SearchStrategy[int], fleets: int = 3) -> Any:
    """Scores with ties, (seeds, fleets)."""
    values = st.integers(1, 60).map(lambda value: value / 50)
    return seeds.flatmap(lambda count: arrays(np.float64, (count, fleets), elements=values))


some_scores = scores_of(st.integers(1, 6))


# --- plain definitions ------------------------------------------------------------------------


def plain_interquartile_mean(scores: Any) -> float:
    """As the paper says it: leave out a quarter at either end, average the rest."""
    ordered = sorted(value for row in scores for value in row)
    cut = int(0.25 * len(ordered))
    kept = ordered[cut : len(ordered) - cut]
    return sum(kept) / len(kept)


def plain_improvement(mine: Any, theirs: Any) -> float:
    fleets = len(mine[0])
    total = 0.0
    for fleet in range(fleets):
        won = 0.0
        for a, b in product(mine, theirs):
            won += 1.0 if a[fleet] < b[fleet] else 0.5 if a[fleet] == b[fleet] else 0.0
        total += won / (len(mine) * len(theirs))
    return total / fleets


@given(some_scores)
def test_the_interquartile_mean_is_what_a_loop_gives(scores: np.ndarray) -> None:
    assert interquartile_mean(scores) == pytest.approx(plain_interquartile_mean(scores.tolist()))
    assert interquartile_interval(scores, replicates=1)["value"] == interquartile_mean(scores)


def test_an_interquartile_mean_by_hand() -> None:
    assert interquartile_mean([[1, 2, 3, 100], [4, 5, 6, -9]]) == (2 + 3 + 4 + 5) / 4
    assert interquartile_mean([7.0]) == 7.0
    assert interquartile_mean([1.0, 2.0, 9.0]) == 4.0  # of three, ⌊3/4⌋ = 0 are left out


@given(some_scores, some_scores)
def test_the_probability_of_improvement_is_what_a_loop_gives(
    mine: np.ndarray, theirs: np.ndarray
) -> None:
    found = probability_of_improvement(mine, theirs)
    assert found == pytest.approx(plain_improvement(mine.tolist(), theirs.tolist()))
    assert found + probability_of_improvement(theirs, mine) == pytest.approx(1.0)


@each_draw
def test_intervals_are_those_of_plain_resampling(draw: Draw) -> None:
    """Another generator, loops, and the same draws in law: ends agree but for chance."""
    rng = np.random.default_rng(5)
    mine, theirs = rng.normal(0.9, 0.1, (4, 3)), rng.normal(1.0, 0.1, (3, 3))

    def resampled(scores: np.ndarray) -> np.ndarray:
        count, fleets = scores.shape
        if draw == WHOLE:
            return np.array([scores[rng.integers(count)] for _ in range(count)])
        return np.array(
            [[scores[rng.integers(count), f] for f in range(fleets)] for _ in range(count)]
        )

    means, wins = [], []
    for _ in range(4000):
        drawn = resampled(mine)
        means.append(plain_interquartile_mean(drawn))
        wins.append(plain_improvement(drawn, resampled(theirs)))
    for interval, values in (
        (interquartile_interval(mine, draw), means),
        (improvement_interval(mine, theirs, draw), wins),
    ):
        assert interval["method"] == draw
        assert interval["low"] == pytest.approx(np.quantile(values, 0.025), abs=0.02)
        assert interval["high"] == pytest.approx(np.quantile(values, 0.975), abs=0.02)


# --- what must always hold --------------------------------------------------------------------


@settings(max_examples=50)
@given(some_scores, some_scores, st.randoms(use_true_random=False), st.sampled_from(DRAWS))
def test_the_order_of_seeds_changes_nothing(
    mine: np.ndarray, theirs: np.ndarray, random: Any, draw: Draw
) -> None:
    order = random.sample(range(len(mine)), len(mine))
    kept = interquartile_interval(mine, draw, replicates=FEW)
    assert interquartile_interval(mine[order], draw, replicates=FEW) == kept
    beside = improvement_interval(mine, theirs, draw, replicates=FEW)
    assert improvement_interval(mine[order], theirs, draw, replicates=FEW) == beside


@settings(max_examples=50)
@given(some_scores, st.sampled_from([0.25, 3.0, 1e6]), st.sampled_from(DRAWS))
def test_scores_in_another_unit(scores: np.ndarray, factor: float, draw: Draw) -> None:
    found = interquartile_interval(scores, draw, replicates=FEW)
    scaled = interquartile_interval(factor * scores, draw, replicates=FEW)
    for key in ("value", "low", "high"):
        if found[key] is None:
            assert scaled[key] is None
        else:
            assert scaled[key] == pytest.approx(factor * found[key])


@settings(max_examples=50)
@given(some_scores, st.sampled_from(DRAWS))
def test_intervals_hold_the_least_and_the_most(scores: np.ndarray, draw: Draw) -> None:
    found = interquartile_interval(scores, draw, replicates=FEW)
    if found["low"] is not None and found["high"] is not None:
        assert scores.min() - 1e-12 <= found["low"] <= found["high"] <= scores.max() + 1e-12
    else:
        assert len(scores) == 1


@each_draw
@given(some_scores)
@settings(max_examples=30)
def test_equals_improve_nothing_and_the_better_always_win(draw: Draw, scores: np.ndarray) -> None:
    assert probability_of_improvement(scores, scores) == pytest.approx(0.5)
    lower = improvement_interval(scores - scores.max(), scores + 1.0, draw, replicates=FEW)
    assert lower["value"] == 1.0
    assert len(scores) == 1 or (lower["low"], lower["high"]) == (1.0, 1.0)
    assert improvement_interval(scores + 2.0, scores, draw, replicates=FEW)["value"] == 0.0
    one = scores[:1]
    alone = improvement_interval(one, one, draw)
    assert alone == {"value": 0.5, "low": None, "high": None, "method": None}


@each_draw
def test_seeds_that_agree_have_no_spread(draw: Draw) -> None:
    scores = np.tile([0.8, 0.9, 1.0, 1.1], (5, 1))
    found = interquartile_interval(scores, draw)
    assert found["low"] == found["high"] == pytest.approx(found["value"])


def test_many_blocks_are_one_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(0).normal(size=(5, 16))
    whole = interquartile_interval(scores)
    monkeypatch.setattr("carbon_gym.metrics.seeds._BLOCK_CELLS", 12_345)
    cut = interquartile_interval(scores)
    assert cut["low"] == pytest.approx(whole["low"], abs=0.02)
    assert interquartile_interval(scores) == cut


@pytest.mark.parametrize(
    "scores", [[1.0, 2.0], [[]], [[[1.0]]], [[1.0, float("nan")]], [[float("inf")]]]
)
def test_what_are_no_scores_is_refused(scores: Any) -> None:
    with pytest.raises(ValueError, match="scores"):
        interquartile_interval(scores)


def test_fleets_must_be_the_same() -> None:
    with pytest.raises(ValueError, match="2 fleets against 3"):
        probability_of_improvement([[1.0, 2.0]], [[1.0, 2.0, 3.0]])


# --- populations whose truth is known ---------------------------------------------------------


def coverage(draw: Draw, of_seeds: float, seeds: int = 10, trials: int = 300) -> float:
    """How often an interval holds the truth, 0, where seeds differ by so much on all fleets."""
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(trials):
        scores = rng.normal(size=(seeds, 8)) + of_seeds * rng.normal(size=(seeds, 1))
        found = interquartile_interval(scores, draw, replicates=400)
        assert found["low"] is not None
        assert found["high"] is not None
        held += found["low"] <= 0.0 <= found["high"]
    return held / trials


def test_the_stratified_interval_holds_the_truth_of_independent_scores() -> None:
    assert 0.89 <= coverage(STRATIFIED, of_seeds=0.0) <= 0.98


def test_seeds_that_differ_on_all_fleets_need_the_wider_interval() -> None:
    """Why both are given: one router serves all fleets."""
    assert coverage(STRATIFIED, of_seeds=1.0) < 0.7
    assert coverage(WHOLE, of_seeds=1.0) > 0.85


@each_draw
def test_the_probability_of_improvement_covers_its_truth(draw: Draw) -> None:
    """Of two normal scores a distance of one deviation apart: Φ(1/√2) = 0.7602."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(200):
        mine, theirs = rng.normal(0, 1, (10, 8)), rng.normal(1, 1, (10, 8))
        found = improvement_interval(mine, theirs, draw, replicates=300)
        assert found["low"] is not None
        assert found["high"] is not None
        held += found["low"] <= 0.7602 <= found["high"]
    assert held / 200 > 0.87
