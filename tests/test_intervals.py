"""Confidence intervals: against tables, by hand, and on populations whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carbon_gym.metrics import intervals
from carbon_gym.metrics.intervals import Floats, Interval, paired_t, savings, t_quantile


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [
        (1, 12.7062047),
        (2, 4.3026527),
        (4, 2.7764451),
        (7, 2.3646243),
        (15, 2.1314495),
        (30, 2.0422725),
        (120, 1.9799304),
        (100_000, 1.9599877),
    ],
)
def test_t_quantiles_are_those_of_the_tables(degrees: int, quantile: float) -> None:
    assert t_quantile(0.975, degrees) == pytest.approx(quantile, abs=2e-6)


@pytest.mark.parametrize(
    ("probability", "degrees", "quantile"),
    [(0.75, 1, 1.0), (0.95, 9, 1.8331129), (0.995, 5, 4.0321430), (0.9995, 2, 31.5990546)],
)
def test_other_t_quantiles(probability: float, degrees: int, quantile: float) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(quantile, abs=2e-6)


def test_a_paired_interval_by_hand() -> None:
    # Squared deviations add up to 0.004, over 4 degrees of freedom: sd = sqrt(0.001).
    found = paired_t([0.06, 0.08, 0.10, 0.12, 0.14])
    half = 2.7764451 * 0.0316227766 / np.sqrt(5)
    assert found["mean"] == pytest.approx(0.10)
    assert found["low"] == pytest.approx(0.10 - half, abs=1e-8)
    assert found["high"] == pytest.approx(0.10 + half, abs=1e-8)
    assert found["method"] == "paired-t-over-fleets"


def fleets(totals: Sequence[Sequence[float]]) -> list[Floats]:
    """One group: per fleet the gCO2eq of its sessions."""
    return [np.array(sessions, dtype=np.float64)[:, None] for sessions in totals]


def only(found: list[Interval | None]) -> Interval:
    assert len(found) == 1
    assert found[0] is not None
    return found[0]


def test_five_fleets_are_compared_whole_and_count_alike() -> None:
    theirs = fleets([[1.0, 1.0], [10.0, 10.0], [1.0, 1.0], [1.0, 1.0], [2.0, 2.0]])
    ours = fleets([[0.5, 0.5], [9.0, 9.0], [0.9, 0.9], [0.8, 0.8], [1.0, 2.0]])
    found = only(savings(ours, theirs))
    per_fleet = [0.5, 0.1, 0.1, 0.2, 0.25]
    assert found == pytest.approx(paired_t(per_fleet))
    assert found["method"] == "paired-t-over-fleets"
    assert found["mean"] == pytest.approx(np.mean(per_fleet))  # not weighted by the fleets' size


def test_four_fleets_give_the_pooled_saving_and_a_labelled_bootstrap() -> None:
    theirs = fleets([[1.0, 1.0], [10.0, 10.0], [1.0, 1.0], [1.0, 1.0]])
    ours = fleets([[0.5, 0.5], [9.0, 9.0], [0.9, 0.9], [0.8, 0.8]])
    found = only(savings(ours, theirs))
    assert found["method"] == "bootstrap-over-sessions"
    assert found["mean"] == pytest.approx(1 - 22.4 / 26.0)
    assert found["low"] < found["mean"] < found["high"]


def test_each_group_has_its_own_interval() -> None:
    rng = np.random.default_rng(0)
    theirs = [rng.uniform(1.0, 2.0, (30, 1)) * np.array([1.0, 1.0, 0.0]) for _ in range(6)]
    ours = [fleet * np.array([0.9, 0.7, 1.0]) for fleet in theirs]
    whole, long, nobody = savings(ours, theirs)
    assert whole is not None
    assert long is not None
    assert whole["mean"] == pytest.approx(0.1)
    assert long["mean"] == pytest.approx(0.3)
    assert nobody is None


def test_a_group_that_few_fleets_have_is_bootstrapped_while_the_others_are_not() -> None:
    rng = np.random.default_rng(1)
    theirs = [rng.uniform(1.0, 2.0, (20, 2)) for _ in range(8)]
    for fleet in theirs[3:]:
        fleet[:, 1] = 0.0  # five of eight fleets have no long session
    ours = [fleet * 0.8 for fleet in theirs]
    whole, long = savings(ours, theirs)
    assert whole is not None
    assert long is not None
    assert whole["method"] == "paired-t-over-fleets"
    assert long["method"] == "bootstrap-over-sessions"
    assert long["mean"] == pytest.approx(0.2)


@pytest.mark.parametrize("count", [1, 3, 8])
def test_without_emissions_of_the_reference_there_is_no_saving(count: int) -> None:
    nothing = fleets([[0.0, 0.0]] * count)
    something = fleets([[1.0, 1.0]] * count)
    assert savings(something, nothing) == [None]
    assert savings(nothing, nothing) == [None]
    saved = only(savings(nothing, something))
    assert (saved["mean"], saved["low"], saved["high"]) == (1.0, 1.0, 1.0)


def test_an_empty_fleet_is_not_counted() -> None:
    theirs = fleets([[1.0, 3.0], [2.0, 2.0], [1.0, 2.0], [3.0, 1.0], [2.0, 1.0]])
    ours = [fleet * (0.8 + 0.02 * f) for f, fleet in enumerate(theirs)]
    empty: Floats = np.zeros((0, 1))
    assert savings([*ours, empty], [*theirs, empty]) == savings(ours, theirs)
    assert savings([empty], [empty]) == [None]


def test_one_session_has_no_interval() -> None:
    assert savings(fleets([[1.0]]), fleets([[2.0]])) == [None]
    assert savings(fleets([[1.0, 5.0]]), fleets([[2.0, 0.0]])) == [None]


def test_a_policy_against_itself_saves_nothing_for_certain() -> None:
    rng = np.random.default_rng(2)
    for count in (1, 4, 9):
        same = [rng.lognormal(0.0, 2.0, (50, 1)) for _ in range(count)]
        found = only(savings(same, same))
        assert (found["mean"], found["low"], found["high"]) == (0.0, 0.0, 0.0)


def test_the_bootstrap_is_the_same_each_time_whatever_ran_before() -> None:
    rng = np.random.default_rng(3)
    theirs = [rng.lognormal(0.0, 1.0, (200, 1))]
    ours = [theirs[0] * rng.uniform(0.7, 1.0, (200, 1))]
    first = savings(ours, theirs)
    intervals._poisson_weights.cache_clear()
    savings(fleets([[1.0, 2.0]]), fleets([[2.0, 3.0]]))
    assert savings(ours, theirs) == first


def test_the_bootstrap_in_blocks_is_that_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small block must change the draws only, not what is estimated."""
    rng = np.random.default_rng(4)
    theirs = [rng.lognormal(0.0, 0.5, (400, 1))]
    ours = [theirs[0] * rng.uniform(0.7, 1.0, (400, 1))]
    whole = only(savings(ours, theirs))
    monkeypatch.setattr(intervals, "_BLOCK_CELLS", 400 * 37)
    blocks = only(savings(ours, theirs))
    assert blocks["mean"] == whole["mean"]
    width = whole["high"] - whole["low"]
    assert blocks["low"] == pytest.approx(whole["low"], abs=0.15 * width)
    assert blocks["high"] == pytest.approx(whole["high"], abs=0.15 * width)


@pytest.mark.parametrize("fleet_count", [1, 8])
def test_intervals_cover_the_truth_about_as_often_as_they_say(fleet_count: int) -> None:
    """Sessions save 0..40 % of what they emit, whatever they emit: the truth is 20 %."""
    rng = np.random.default_rng(5)
    covered, widths = 0, []
    trials = 120
    for _ in range(trials):
        theirs = [rng.gamma(2.0, 1.0, (150, 1)) for _ in range(fleet_count)]
        ours = [fleet * rng.uniform(0.6, 1.0, fleet.shape) for fleet in theirs]
        found = only(savings(ours, theirs))
        covered += found["low"] <= 0.2 <= found["high"]
        widths.append(found["high"] - found["low"])
    assert 0.87 <= covered / trials <= 1.0
    assert np.mean(widths) < 0.1


@settings(max_examples=40)
@given(
    st.lists(st.floats(0.05, 1.5), min_size=2, max_size=9),
    st.floats(0.1, 10.0),
)
def test_an_interval_holds_its_mean_and_does_not_feel_the_unit(
    shares: list[float], unit: float
) -> None:
    rng = np.random.default_rng(6)
    theirs = [rng.uniform(1.0, 2.0, (12, 1)) for _ in shares]
    ours = [fleet * share for fleet, share in zip(theirs, shares, strict=True)]
    found = only(savings(ours, theirs))
    assert found["low"] <= found["mean"] + 1e-12
    assert found["mean"] <= found["high"] + 1e-12
    scaled = only(savings([unit * f for f in ours], [unit * f for f in theirs]))
    for key in ("mean", "low", "high"):
        assert scaled[key] == pytest.approx(found[key], abs=1e-9)  # type: ignore[literal-required]
