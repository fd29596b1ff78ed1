"""Item response and the predictor protocol."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbon_gym.quality.irt import ability_matrix, draw_difficulty, item_response
from carbon_gym.quality.predictor import IrtPredictor, QualityPredictor
from carbon_gym.scenario.fleet import Ability, Model
from carbon_gym.scenario.schema import PredictorBias, Quality, Seeds, Splits, Workload
from carbon_gym.workload.fleets import Fleets
from carbon_gym.workload.trace import Floats, Trace


def model(name: str, *ability: float) -> Model:
    names = ("coding", "math", "reasoning", "creative", "information")
    return Model(
        name=name,
        params_billion=8,
        layers=32,
        kv_heads=8,
        head_dim=128,
        context_tokens=131_072,
        ability=Ability(**dict(zip(names, ability, strict=True))),
    )


SMALL = model("small", 0.56, 0.58, 0.60, 0.64, 0.62)
LARGE = model("large", 0.72, 0.71, 0.745, 0.76, 0.75)
OTHER = model("other", 0.665, 0.642, 0.708, 0.748, 0.733)


@pytest.fixture(scope="module")
def trace() -> Trace:
    world = Fleets(Workload(sessions_per_fleet=400), Quality(), Splits(), Seeds())
    return world.trace(0, 0, "test")


def test_difficulty_has_the_spreads_and_shifts_of_the_specification() -> None:
    sessions = np.arange(40_000, dtype=np.uint64)
    key, turn = np.repeat(sessions, 2), np.tile([0, 1], len(sessions))
    b = draw_difficulty(key, turn, Quality(), 1).reshape(-1, 2)
    assert b.mean(axis=0) == pytest.approx([-0.2, 0.05], abs=0.02)
    assert b.std(axis=0) == pytest.approx([np.hypot(0.6, 0.4)] * 2, abs=0.02)
    shared = np.mean((b[:, 0] - b[:, 0].mean()) * (b[:, 1] - b[:, 1].mean()))
    assert shared == pytest.approx(0.36, abs=0.02)
    plain = Quality(session_sd=0, turn_sd=0, later_turn_shift=0.25, centring=-0.2)
    assert np.unique(draw_difficulty(key, turn, plain, 1)).round(9).tolist() == [-0.2, 0.05]


def test_ability_is_the_quality_at_zero_difficulty() -> None:
    category = np.arange(5, dtype=np.int8)
    quality = item_response([SMALL, LARGE], category, np.zeros(5))
    assert quality == pytest.approx(ability_matrix([SMALL, LARGE]).T)
    assert ability_matrix([]).shape == (0, 5)


@given(st.floats(-800, 800), st.floats(0, 50))
def test_harder_is_never_better(difficulty: float, more: float) -> None:
    category = np.zeros(2, dtype=np.int8)
    quality = item_response([SMALL], category, np.asarray([difficulty, difficulty + more]))
    assert np.all((quality >= 0) & (quality <= 1))
    assert quality[1, 0] <= quality[0, 0]


def test_predictions_are_noisy_and_clipped(trace: Trace) -> None:
    predictor = IrtPredictor(Quality(), seed=5)
    assert isinstance(predictor, QualityPredictor)
    predicted = predictor.predict(trace, [SMALL, LARGE])
    realised = predictor.realised_quality(trace, [SMALL, LARGE])
    assert predicted.shape == realised.shape == (trace.turns, 2)
    assert predicted.min() >= 0.01
    assert predicted.max() <= 1
    error = predicted - realised
    assert error.std(axis=0) == pytest.approx([0.03, 0.03], rel=0.1)
    assert abs(np.mean(error[:, 0] * error[:, 1])) < 0.1 * 0.03**2
    wild = IrtPredictor(Quality(predictor_sd=5), seed=5).predict(trace, [SMALL])
    assert set(np.unique(wild[(wild <= 0.01) | (wild >= 1)])) == {0.01, 1.0}
    exact = IrtPredictor(Quality(predictor_sd=0), seed=5).predict(trace, [SMALL])
    assert np.array_equal(exact, realised[:, :1])


def test_models_are_told_apart_by_name_only(trace: Trace) -> None:
    predictor = IrtPredictor(Quality(), seed=5)
    all_three = predictor.predict(trace, [SMALL, OTHER, LARGE])
    permuted = predictor.predict(trace, [LARGE, SMALL])
    assert np.array_equal(permuted, all_three[:, [2, 0]])
    renamed = predictor.predict(trace, [SMALL.model_copy(update={"name": "new"})])
    assert not np.array_equal(renamed[:, 0], all_three[:, 0])


@given(
    bias=st.floats(-1, 1),
    sd=st.sampled_from([0.0, 0.03]),
    order=st.permutations([SMALL, OTHER, LARGE]),
    kept=st.integers(1, 3),
)
def test_a_bias_moves_the_predictions_of_its_model_only(
    trace: Trace, bias: float, sd: float, order: list[Model], kept: int
) -> None:
    models = order[:kept]  # with the biased model or without
    fair = IrtPredictor(Quality(predictor_sd=sd), seed=5)
    entries = (PredictorBias(model="other", bias=bias),)
    biased = IrtPredictor(Quality(predictor_sd=sd, predictor_bias=entries), seed=5)
    realised = fair.realised_quality(trace, models)
    assert np.array_equal(biased.realised_quality(trace, models), realised)
    before, after = fair.predict(trace, models), biased.predict(trace, models)
    assert 0.01 <= after.min() <= after.max() <= 1
    for m, model in enumerate(models):
        if model.name == "other":
            # Where the error alone was clipped, what it was is not to be seen.
            inside = (before[:, m] > 0.01) & (before[:, m] < 1)
            moved = np.clip(before[:, m] + bias, 0.01, 1)[inside]
            assert after[inside, m] == pytest.approx(moved, abs=1e-12)
        else:
            assert np.array_equal(after[:, m], before[:, m])


def test_several_models_are_biased_each_by_its_own(trace: Trace) -> None:
    entries = (PredictorBias(model="large", bias=0.05), PredictorBias(model="small", bias=-0.1))
    biased = IrtPredictor(Quality(predictor_sd=0, predictor_bias=entries), seed=5)
    models = [SMALL, OTHER, LARGE]
    realised = biased.realised_quality(trace, models)
    expected = np.clip(realised + np.asarray([-0.1, 0.0, 0.05]), 0.01, 1)
    assert biased.predict(trace, models) == pytest.approx(expected, abs=1e-12)


def test_a_part_of_the_trace_has_the_same_numbers(trace: Trace) -> None:
    predictor = IrtPredictor(Quality(), seed=5)
    half = slice(0, trace.turns // 2)
    part = dataclasses.replace(
        trace,
        session=trace.session[half],
        turn=trace.turn[half],
        category=trace.category[half],
        difficulty=trace.difficulty[half],
    )
    whole = predictor.predict(trace, [SMALL])
    assert np.array_equal(predictor.predict(part, [SMALL]), whole[half])


def test_a_users_own_predictor_fits_the_protocol(trace: Trace) -> None:
    class Constant:
        def predict(self, trace: Trace, models: Sequence[Model]) -> Floats:
            return np.full((trace.turns, len(models)), 0.5)

        def realised_quality(self, trace: Trace, models: Sequence[Model]) -> Floats:
            return self.predict(trace, models)

    own: QualityPredictor = Constant()
    assert isinstance(own, QualityPredictor)
    assert own.predict(trace, [SMALL, LARGE]).shape == (trace.turns, 2)
    assert not isinstance(object(), QualityPredictor)
