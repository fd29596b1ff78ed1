"""What an experiment is about: one frozen, validated object."""

from carbon_gym.scenario.load import load_scenario, scenario_names
from carbon_gym.scenario.scenario import Scenario

__all__ = ["Scenario", "load_scenario", "scenario_names"]
