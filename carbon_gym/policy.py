"""What a policy is: two methods, called lane by lane for many fleets at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from carbon_gym.fleet.deployments import Deployments
    from carbon_gym.simulator.quotes import Quotes


@runtime_checkable
class Policy(Protocol):
    """Chooses a deployment for every turn, from what a router knows at dispatch.

    A policy that keeps something per session indexes it by ``quotes.slot``.
    """

    name: str
    """How the policy is called in tables."""

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Begin a run.

        Args:
            fleet: The deployments.
            slots: Number of session slots of the run, over all lanes.
        """

    def choose(self, quotes: Quotes) -> NDArray[np.int64]:
        """Choose for the current turn of every lane.

        Args:
            quotes: One priced turn per lane; B lanes.

        Returns:
            int64 (B,), a deployment index per lane; entries of lanes that are done are ignored.
        """
