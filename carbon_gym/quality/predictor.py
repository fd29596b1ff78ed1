"""Predicted and realised quality of a trace; the predictor can be replaced by the user's own.

A predictor is any object with the two methods of `QualityPredictor`. One that trusts a router
model of the user's, for instance::

    class MyPredictor:
        def __init__(self, scores):  # {model name: array over all turns of the trace}
            self.scores = scores

        def predict(self, trace, models):
            return np.stack([self.scores[model.name] for model in models], axis=1)

        def realised_quality(self, trace, models):
            return IrtPredictor(Quality(), seed=20263).realised_quality(trace, models)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np

from carbon_gym import draws
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
