"""Predicted and realised quality of a trace; the predictor can be replaced by the user's own.

A predictor is any object with the two methods of `QualityPredictor`. One that trusts scores of the
user's, by model and turn, and leaves the realised quality as it is::

    class MyPredictor(IrtPredictor):
        def predict(self, trace, models):
            return np.stack([my_scores(trace, model.name) for model in models], axis=1)

A scenario names it, ``quality: {predictor: "my_module:MyPredictor"}``, or it is handed to
`Simulator` and `run_policy`. docs/extending.md has one in full.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np

from carbon_gym import draws
from carbon_gym.errors import InputError
from carbon_gym.own_class import own_class
from carbon_gym.quality.irt import item_response
from carbon_gym.scenario.fleet import Model
from carbon_gym.scenario.schema import Quality
from carbon_gym.workload.trace import Floats, Trace

LOWEST_PREDICTION: Final = 0.01
"""Predictions are clipped to [0.01, 1] (SPEC §4)."""


@runtime_checkable
class QualityPredictor(Protocol):
    """What the simulator asks of a predictor: two float64 arrays per trace."""

    def predict(self, trace: Trace, models: Sequence[Model]) -> Floats:
        """Predicted quality q̂, float64 (T, M) in [0, 1]: all that policies see.

        Row t may depend on turns up to t only (no reply of turn t, no later turn).
        """

    def realised_quality(self, trace: Trace, models: Sequence[Model]) -> Floats:
        """Quality q of the replies, float64 (T, M) in [0, 1]: for the account only."""


@dataclass(frozen=True, slots=True)
class IrtPredictor:
    """The default: realised quality by item response, predictions with a normal error (SPEC §4).

    The error is keyed by (seed, session, turn, model name), and the bias goes by model name, so
    that dropping or reordering models changes no other number.

    Attributes:
        quality: Spread of the predictor's error, and its bias for models that it misjudges.
        seed: `Seeds.quality`.
    """

    quality: Quality
    seed: int

    def predict(self, trace: Trace, models: Sequence[Model]) -> Floats:
        """q̂ = clip(q + bias + error, 0.01, 1), float64 (T, M)."""
        predicted = self.realised_quality(trace, models)
        bias = {entry.model: entry.bias for entry in self.quality.predictor_bias}
        row_key = trace.session_key[trace.session]
        for m, model in enumerate(models):
            predicted[:, m] += bias.get(model.name, 0.0)
            if self.quality.predictor_sd > 0:
                name = np.uint64(draws.key_of_text(model.name))
                error = draws.normal(self.seed, "predictor", row_key, trace.turn, name)
                predicted[:, m] += self.quality.predictor_sd * error
        return np.clip(predicted, LOWEST_PREDICTION, 1.0)

    def realised_quality(self, trace: Trace, models: Sequence[Model]) -> Floats:
        """σ(logit(μ[m, k]) - b), float64 (T, M)."""
        return item_response(models, trace.category, trace.difficulty)


def predictor_of(quality: Quality, seed: int) -> QualityPredictor:
    """The predictor that a scenario names: the user's own class, or `IrtPredictor`.

    Args:
        quality: Names it.
        seed: `Seeds.quality`.

    Raises:
        InputError: There is no such class, or what it makes is no predictor.
    """
    if quality.predictor is None:
        return IrtPredictor(quality, seed)
    made = own_class(quality.predictor, "predictor")
    try:
        inspect.signature(made).bind(quality, seed)
    except TypeError:
        raise InputError(
            f"predictor {quality.predictor!r}: its class cannot be made from (quality, seed); give "
            "its __init__ these two arguments"
        ) from None
    predictor = made(quality, seed)
    if not isinstance(predictor, QualityPredictor):
        raise InputError(
            f"predictor {quality.predictor!r}: needs the methods predict(trace, models) and "
            "realised_quality(trace, models), as carbon_gym.quality.predictor.QualityPredictor says"
        )
    return predictor
