"""What is saved at equal quality: interpolation without extrapolation, paired by fleet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbon_gym.metrics.equal_quality import co2_at_quality, estimate, saving_at_equal_quality
from carbon_gym.metrics.intervals import paired_t


@given(
    st.lists(st.floats(0.01, 0.2), min_size=1, max_size=6),
    st.lists(st.floats(0.01, 1e3), min_size=7, max_size=7),
    st.floats(0.0, 1.5),
)
def test_interpolation_is_numpys_on_the_logarithm(
    steps: list[float], co2_g: list[float], wanted: float
) -> None:
    quality = np.cumsum([0.1, *steps])
    curve = np.array(co2_g[: len(quality)])
    found = co2_at_quality(quality, curve, wanted)
    if quality[0] <= wanted <= quality[-1]:
        assert found == pytest.approx(np.exp(np.interp(wanted, quality, np.log(curve))))
    else:
        assert found is None  # nothing is extrapolated
    backwards = co2_at_quality(quality[::-1], curve[::-1], wanted)
    assert backwards == (found if found is None else pytest.approx(found))


def test_a_point_of_the_curve_is_met_exactly() -> None:
    quality, co2_g = [0.61, 0.67, 0.7], [0.3, 0.7, 1.1]
    assert [co2_at_quality(quality, co2_g, q) for q in quality] == co2_g
    assert co2_at_quality([0.6, 0.6], [3.0, 2.0], 0.6) == 2.0


def test_of_a_curve_that_turns_back_the_cheapest_crossing_counts() -> None:
    quality, co2_g = [0.6, 0.7, 0.65], [1.0, 2.0, 3.0]
    assert co2_at_quality(quality, co2_g, 0.68) == pytest.approx(2**0.8)
    assert co2_at_quality(quality, co2_g, 0.65) == pytest.approx(2**0.5)


def test_saving_at_equal_quality_is_paired_by_fleet() -> None:
    quality = np.array([[0.6] * 6, [0.7] * 6])
    co2_g = np.array([np.arange(1.0, 7.0), 4 * np.arange(1.0, 7.0)])
    wanted, theirs = np.full(6, 0.65), np.array([4.0, 8.0, 12.0, 16.0, 20.0, 25.0])
    found = saving_at_equal_quality(quality, co2_g, wanted, theirs)
    expected = 1 - 2 * np.arange(1.0, 7.0) / theirs
    assert found["by_fleet"] == pytest.approx(expected.tolist())
    assert found["reason"] is None
    assert found["saving"] is not None
    known = paired_t(expected)
    assert found["saving"]["mean"] == pytest.approx(known["mean"])
    assert found["saving"]["low"] == pytest.approx(known["low"])
    assert found["saving"]["high"] == pytest.approx(known["high"])


def test_fleets_that_the_curve_does_not_reach_leave_no_mean() -> None:
    quality, co2_g = np.array([[0.6] * 5, [0.7] * 5]), np.ones((2, 5))
    wanted = np.array([0.65, 0.5, 0.8, 0.65, 0.9])
    found = saving_at_equal_quality(quality, co2_g, wanted, np.full(5, 2.0))
    assert found["saving"] is None
    assert found["reason"] == (
        "ccar's quality is below the curve on 1 and above the curve on 2 of 5 fleets"
    )
    assert found["by_fleet"] == [0.5, None, None, 0.5, None]
    above = saving_at_equal_quality(quality, co2_g, np.full(5, 0.8), np.ones(5))
    assert above["reason"] == "ccar's quality is above the curve on 5 of 5 fleets"
    single = saving_at_equal_quality(quality[:1], co2_g[:1], wanted, np.ones(5))
    assert (single["saving"], single["reason"]) == (None, "a single point has no curve")


def test_a_fleet_without_turns_does_not_count() -> None:
    quality = np.array([[0.6, np.nan, 0.6], [0.7, np.nan, 0.7]])
    co2_g = np.array([[1.0, 0.0, 1.0], [2.0, 0.0, 2.0]])
    found = saving_at_equal_quality(quality, co2_g, np.array([0.7, np.nan, 0.7]), co2_g[1])
    assert found["by_fleet"] == [0.0, None, 0.0]
    assert found["saving"] is not None
    assert found["saving"]["fleets"] == 2
    nothing = saving_at_equal_quality(quality[:, 1:2], co2_g[:, 1:2], quality[0, 1:2], np.zeros(1))
    assert nothing["reason"] == "no fleet on which all emit"


def test_estimates_have_an_interval_from_five_fleets_on() -> None:
    assert estimate([np.nan]) is None
    four = estimate([1.0, np.nan, 2.0, 3.0, 4.0])
    assert four is not None
    assert (four["mean"], four["low"], four["high"], four["fleets"]) == (2.5, None, None, 4)
    five = estimate([1.0, np.nan, 2.0, 3.0, 4.0, 5.0])
    assert five is not None
    assert five["low"] == paired_t([1.0, 2.0, 3.0, 4.0, 5.0])["low"]
