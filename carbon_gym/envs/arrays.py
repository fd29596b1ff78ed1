"""The arrays of the environments' lanes, beside those of the simulator.

B lanes, D deployments, F features of an observation, S sessions, N turns, T threads.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carbon_gym.simulator.arrays import (
    OUTCOME,
    Bools,
    Float32Table,
    Floats,
    Int8Table,
    Ints,
    Keys,
    QuoteBuffers,
    Shape,
    State,
    Static,
    Turns,
)

MASK_NONE, MASK_FEASIBLE, MASK_ROOM = 0, 1, 2
RESET_NEXT_STEP, RESET_SAME_STEP, RESET_NEVER = 0, 1, 2
DRAW = -1
"""A session to be drawn."""

STEP = np.dtype(
    [
        # Terms of the reward; their sum is the reward.
        ("reward_co2", np.float64),
        ("reward_refund", np.float64),
        ("reward_quality", np.float64),
        ("reward_ttft", np.float64),
        ("reward_capacity", np.float64),
        ("recomputed_tokens", np.int32),  # H − C on turns after the first
        ("feasible", np.bool_),  # within quality, TTFT and capacity
        ("masked", np.bool_),  # the action was outside the mask
        ("refused", np.bool_),  # its pool had no room: executed on the forced deployment
    ],
    align=True,
)


class Rules(NamedTuple):
    """What an environment adds to a scenario."""

    co2_scale_g: float
    stake_g: float  # s of the feature "stake"
    quality_weight: float  # λ_q, or λ of the budget
    ttft_weight: float  # λ_t
    capacity_weight: float  # λ_c
    budget: bool
    quality_target: float
    mask: int
    max_turns: int  # 0: no limit


class Lanes(NamedTuple):
    """Outputs and clocks of the lanes."""

    observation: Float32Table  # (B, F)
    mask: Int8Table  # (B, D)
    reward: Floats  # (B,)
    terminated: Bools  # (B,)
    truncated: Bools  # (B,)
    step: Annotated[NDArray[np.void], Shape(STEP, 1)]  # (B,)
    acted: Bools  # (B,) the last call served a turn of this lane
    ended: Bools  # (B,) the lane's episode ended and it waits for a reset
    final_observation: Float32Table  # (B, F); (1, F) where lanes are not reset in the same step
    final_mask: Int8Table  # (B, D), likewise
    forced: Ints  # (B,) the deployment of best effort, or the cheapest feasible one
    stream: Keys  # (B,) key of the lane's draws
    episode: Ints  # (B,) episodes drawn so far
    upcoming: Ints  # (B,) the session to be drawn next
    session: Ints  # (B,) the session that is observed
    steps: Ints  # (B,) of the episode
    known: Ints  # (B,) rows before it can be observed
    episode_return: Floats  # (B,) of the running episode, or of the one that just ended
    episode_co2_g: Floats  # (B,)


class Kit(NamedTuple):
    """All that a step needs."""

    static: Static
    turns: Turns
    state: State
    scratch: QuoteBuffers  # (T, ...) one quote per thread
    ledger: Annotated[NDArray[np.void], Shape(OUTCOME, 1)]  # (B,), or (N,) where lanes are fleets
    context: Float32Table  # (N, features that no action changes)
    first: Ints  # (S + 1,) rows of the sessions; (2,) where the lane is a fleet
    rules: Rules
    lanes: Lanes
