"""The simulator: all mutable state, and the three verbs quote, choose, commit."""

from carbon_gym.simulator.quotes import Quotes
from carbon_gym.simulator.simulator import Simulator

__all__ = ["Quotes", "Simulator"]
