"""Base of the policies that remember nothing between turns."""

from __future__ import annotations

from carbon_gym.fleet.deployments import Deployments


class Stateless:
    """A policy whose choice depends on the quotes alone."""

    name = "stateless"

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Begin a run; there is nothing to forget."""
