"""How fast all of it is on this machine: what `carbon-gym speed` measures."""

from carbon_gym.speed.environments import Environments, Row, measure_environments
from carbon_gym.speed.rounds import Bar, Measurement
from carbon_gym.speed.simulator import measure_simulator
from carbon_gym.speed.threads import Threads, measure_threads
from carbon_gym.speed.training import Training, measure_training

__all__ = [
    "Bar",
    "Environments",
    "Measurement",
    "Row",
    "Threads",
    "Training",
    "measure_environments",
    "measure_simulator",
    "measure_threads",
    "measure_training",
]
