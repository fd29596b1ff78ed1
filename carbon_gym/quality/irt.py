"""Quality by item response theory on the judge scale (SPEC §4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from carbon_gym import draws
from carbon_gym.scenario.fleet import Model
from carbon_gym.scenario.schema import CATEGORIES, Quality
from carbon_gym.workload.trace import Floats, Ints


def draw_difficulty(
    session_key: NDArray[np.uint64], turn: Ints, quality: Quality, seed: int
) -> Floats:
    """Difficulty b of every turn, logits (SPEC §4).

    b = session effect + turn effect, both normal, + 0.25 from the second turn on - 0.2; the
    spreads and constants are those of `quality`.

    Args:
        session_key: uint64 (T,), key of the turn's session.
        turn: int64 (T,), index of the turn in its session.
        quality: Spreads and shifts.
        seed: `Seeds.quality`.

    Returns:
        float64 (T,).
    """
    session_effect = quality.session_sd * draws.normal(seed, "difficulty/session", session_key)
    turn_effect = quality.turn_sd * draws.normal(seed, "difficulty/turn", session_key, turn)
    shift = np.where(turn > 0, quality.later_turn_shift, 0.0) + quality.centring
    return np.asarray(session_effect + turn_effect + shift, dtype=np.float64)


def ability_matrix(models: Sequence[Model]) -> Floats:
    """Quality at b = 0, μ[m, k] in (0, 1), float64 (M, 5), columns in `CATEGORIES` order."""
    return np.asarray(
        [[getattr(model.ability, name) for name in CATEGORIES] for model in models],
        dtype=np.float64,
    ).reshape(len(models), len(CATEGORIES))


def item_response(
    models: Sequence[Model], category: NDArray[np.int8], difficulty: Floats
) -> Floats:
    """Realised quality σ(logit(μ[m, k]) - b) of every turn and model (SPEC §4).

    Args:
        models: M models.
        category: int8 (T,), index into `CATEGORIES`.
        difficulty: float64 (T,), logits.

    Returns:
        float64 (T, M), in [0, 1].
    """
    ability = ability_matrix(models)
    logit = np.log(ability) - np.log1p(-ability)
    margin = logit.T[category] - difficulty[:, None]
    # σ by tanh: no overflow at any difficulty
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * margin)), dtype=np.float64)
