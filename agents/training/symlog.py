"""A value function fitted to symlog(return) = sign(R)·ln(1 + |R|), for heavy-tailed returns.

The network's value is on that scale. Where actions are chosen and advantages estimated it is read
back by the inverse; where it is fitted the targets are transformed instead. What it estimates is
hence symexp(E[symlog R]), nearer to the median than to the mean: a baseline that a few very dear
conversations do not rule, at the price of a bias in what is bootstrapped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sb3_contrib.common.maskable.buffers import MaskableRolloutBuffer
from stable_baselines3.common.buffers import RolloutBuffer


def symlog(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """sign(x)·ln(1 + |x|)."""
    return np.sign(x) * np.log1p(np.abs(x))


def symexp(x: torch.Tensor) -> torch.Tensor:
    """The inverse of `symlog`: sign(x)·(exp|x| − 1)."""
    return torch.sign(x) * torch.expm1(torch.abs(x))


class SymlogValues:
    """Lies over an actor-critic policy: its values are read back from the logarithmic scale.

    `evaluate_actions`, which the loss asks, is left as it is.
    """

    def forward(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        """Actions, values and log-probabilities."""
        actions, values, log_prob = super().forward(*args, **kwargs)  # type: ignore[misc]
        return actions, symexp(values), log_prob

    def predict_values(self, obs: Any) -> torch.Tensor:
        """Values, (B, 1)."""
        return symexp(super().predict_values(obs))  # type: ignore[misc]


class _SymlogTargets:
    """Lies over a rollout buffer: what the value function is fitted to, on its scale."""

    values: NDArray[np.float32]
    returns: NDArray[np.float32]

    def compute_returns_and_advantage(self, last_values: torch.Tensor, dones: Any) -> None:
        """Advantages of the returns; then returns and old values transformed for the loss."""
        super().compute_returns_and_advantage(last_values, dones)  # type: ignore[misc]
        self.values, self.returns = symlog(self.values), symlog(self.returns)


class SymlogRolloutBuffer(_SymlogTargets, RolloutBuffer):
    """Of ppo and a2c."""


class SymlogMaskableRolloutBuffer(_SymlogTargets, MaskableRolloutBuffer):
    """Of maskable-ppo."""
