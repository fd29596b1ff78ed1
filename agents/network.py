"""A network of Stable-Baselines3 that serves fleets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sb3_contrib.qrdqn.policies import QRDQNPolicy
from stable_baselines3.dqn.policies import DQNPolicy

from agents.scorer import MaskableScorerPolicy, ScorerPolicy
from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.errors import InputError


class Network:
    """A policy of Stable-Baselines3 that acts as a `carbon_gym.router.Router` does.

    What it prefers are logits (ppo, maskable-ppo, a2c), or values of the actions (dqn, and the mean
    of qrdqn's quantiles); the mask rules for every algorithm, also for those that never saw one.

    Args:
        policy: The policy; it may go on learning, on any device.
        layout: Of its observations.
        source: Where it came from, for messages.
    """

    def __init__(self, policy: Any, layout: ObservationLayout, source: str = "model") -> None:
        self._policy, self._own, self._source = policy, layout, source
        self._fitted: tuple[ObservationLayout, Any] = layout, policy

    def fit(self, layout: ObservationLayout) -> None:
        """Get ready for a fleet: a scorer serves any, another network the one that it learned on.

        Raises:
            InputError: The network cannot serve this fleet.
        """
        if self._fitted[0] is layout:
            return
        policy = self._policy
        if isinstance(policy, ScorerPolicy | MaskableScorerPolicy):
            with generator_kept():  # the weights that it begins with are drawn
                policy = policy.on(layout)
        elif layout.names != self._own.names:
            raise InputError(
                f"{self._source}: a network without `policy: scorer` serves only the fleet of "
                f"{len(self._own.names)} deployments that it was trained on, and this one of "
                f"{len(layout.names)} is another; train with policy: scorer"
            )
        self._fitted = layout, policy

    def act(
        self, observations: NDArray[np.float32], masks: NDArray[Any], layout: ObservationLayout
    ) -> NDArray[np.int64]:
        """The allowed deployment that the network prefers, the first of equals.

        Args:
            observations: float32 (B, n), flat.
            masks: bool (or 0 and 1) (B, D), which deployments are allowed, at least one a row.
            layout: Of the observations.

        Returns:
            int64 (B,).

        Raises:
            InputError: The network cannot serve this fleet.
        """
        self.fit(layout)
        policy = self._fitted[1]
        with torch.no_grad(), _one_thread():
            preferred = _preferences(policy, torch.as_tensor(observations, device=policy.device))
        among = np.where(np.asarray(masks) > 0, preferred.cpu().numpy(), -np.inf)
        chosen: NDArray[np.int64] = among.argmax(axis=1)
        return chosen


@contextmanager
def generator_kept() -> Iterator[None]:
    """Whoever trains in this process shall draw what they would have drawn."""
    with torch.random.fork_rng(devices=[]):
        yield


def _preferences(policy: Any, observations: torch.Tensor) -> torch.Tensor:
    """What a policy likes better, (B, D): logits or values of the actions."""
    if isinstance(policy, DQNPolicy):
        values: torch.Tensor = policy.q_net(observations)
        return values
    if isinstance(policy, QRDQNPolicy):
        quantiles: torch.Tensor = policy.quantile_net(observations)
        return quantiles.mean(dim=1)
    seen = policy.pi_features_extractor(observations)
    logits: torch.Tensor = policy.action_net(policy.mlp_extractor.forward_actor(seen))
    return logits


@contextmanager
def _one_thread() -> Iterator[None]:
    """Networks as small as these only lose time by sharing out a batch (measured)."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
