"""A second run of the same turns, for a router that keeps another router in its shadow."""

from __future__ import annotations

import copy

import numpy as np

from carbon_gym.simulator.allocate import quotes_of
from carbon_gym.simulator.pricing import filter_all
from carbon_gym.simulator.simulator import Simulator


def shadow_of(simulator: Simulator) -> Simulator:
    """A fresh simulator of the same turns, quality filtered per query (β_Q, SPEC §4).

    Lane by lane it serves the same turn at the same step, so that whoever steps it once for every
    step of the first knows no more than a router that has seen the turns so far. State, ledger and
    quotes are its own; the turns are shared.

    Args:
        simulator: Left as it is.
    """
    shadow = copy.copy(simulator)
    shadow.scenario = simulator.scenario.filtered()
    static = simulator._static
    shadow._static = static._replace(beta_q=static.beta_filter)
    turns = simulator._turns
    admissible = np.zeros_like(turns.model_admissible)
    filter_all(shadow._static, turns.turn, turns.quality_predicted, admissible)
    shadow._turns = turns._replace(model_admissible=admissible)
    shadow._quotes = quotes_of(shadow._static, shadow.fleet, shadow.lanes)
    shadow.reset()
    return shadow
