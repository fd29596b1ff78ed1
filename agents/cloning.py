"""Behaviour cloning: a warm start from recorded decisions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import nn

from carbon_gym.datasets.reader import Stacked
from carbon_gym.errors import InputError


def clone(
    policy: ActorCriticPolicy | MaskableActorCriticPolicy,
    observations: NDArray[np.float32] | Stacked,
    actions: NDArray[np.int64],
    masks: NDArray[np.bool_] | None = None,
    *,
    rows: NDArray[np.int64] | None = None,
    epochs: int = 10,
    batch_size: int = 1024,
    learning_rate: float = 1e-3,
    seed: int = 0,
    on_epoch: Callable[[float, float], None] = lambda loss, agreement: None,
) -> list[float]:
    """Teach a policy to act as recorded, by cross-entropy among the allowed actions.

    The value function and the policy's own optimizer are left as they are.

    Args:
        policy: Any actor-critic policy with discrete actions; it is changed.
        observations: float32 (N, n); may be a memory map, of which batches are read.
        actions: Integers (N,).
        masks: bool (N, D), which actions were allowed; None: all.
        rows: int64, the rows to learn from; None: all.
        epochs: Passes over the data.
        batch_size: Turns in a step.
        learning_rate: Adam's.
        seed: Of the order of the data.
        on_epoch: Called after every epoch with its mean loss, nats a turn, and its agreement: the
            share of the turns in which the allowed action of the highest logit was the recorded
            one. Both are measured as it goes.

    Returns:
        Mean loss of every epoch, nats a turn, measured as it went.

    Raises:
        InputError: Lengths differ, there is no data, or an action is not allowed by its mask.
    """
    count = len(observations)
    if count == 0 or len(actions) != count or (masks is not None and len(masks) != count):
        raise InputError(
            f"{count} observations, {len(actions)} actions and "
            f"{'no' if masks is None else len(masks)} masks were given; give as many of each, at "
            "least one"
        )
    learned = np.arange(count) if rows is None else rows
    if len(learned) == 0:
        raise InputError("no row is left to learn from; record more, or another policy")
    if masks is not None:
        wrong = learned[~np.asarray(masks)[learned, actions[learned]].astype(bool)]
        if len(wrong):
            raise InputError(
                f"row {wrong[0]}: action {actions[wrong[0]]} is outside its mask; leave such rows "
                "out, or give no masks"
            )
    policy.set_training_mode(True)
    optimizer = torch.optim.Adam(policy.parameters(), lr=learning_rate)
    order = np.random.default_rng(seed)
    losses = []
    for _ in range(epochs):
        total, agreed = 0.0, 0
        shuffled = order.permutation(learned)
        for begin in range(0, len(learned), batch_size):
            # In order: kinder to a memory map.
            batch = np.sort(shuffled[begin : begin + batch_size])
            seen, done = (
                torch.as_tensor(np.asarray(array[batch])).to(policy.device)
                for array in (observations, actions)
            )
            logits = policy.get_distribution(seen).distribution.logits  # type: ignore[union-attr]
            if masks is not None:
                allowed = torch.as_tensor(np.asarray(masks[batch]), dtype=torch.bool)
                logits = logits.masked_fill(~allowed.to(policy.device), -torch.inf)
            loss = nn.functional.cross_entropy(logits, done.long())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += float(loss.detach()) * len(batch)
            agreed += int((logits.detach().argmax(dim=1) == done).sum())
        losses.append(total / len(learned))
        on_epoch(losses[-1], agreed / len(learned))
    policy.set_training_mode(False)
    return losses
