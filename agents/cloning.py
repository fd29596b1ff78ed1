"""Behaviour cloning: a warm start from recorded decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

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

    def logits_of(seen: torch.Tensor) -> torch.Tensor:
        distribution: Any = policy.get_distribution(seen)
        logits: torch.Tensor = distribution.distribution.logits
        return logits

    policy.set_training_mode(True)
    lessons = imitate(
        logits_of,
        torch.optim.Adam(policy.parameters(), lr=learning_rate),
        observations,
        actions,
        masks,
        learned,
        epochs=epochs,
        batch_size=batch_size,
        order=np.random.default_rng(seed),
    )
    losses = []
    for loss, agreement in lessons:
        losses.append(loss)
        on_epoch(loss, agreement)
    policy.set_training_mode(False)
    return losses


def imitate(
    logits_of: Callable[[torch.Tensor], torch.Tensor],
    optimizer: torch.optim.Optimizer,
    observations: NDArray[np.float32] | Stacked,
    actions: NDArray[np.int64],
    masks: NDArray[np.bool_] | None,
    rows: NDArray[np.int64],
    *,
    epochs: int,
    batch_size: int,
    order: np.random.Generator,
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
) -> Iterator[tuple[float, float]]:
    """The loop behind `clone`, for whatever gives logits (B, D) of observations (B, n).

    Args:
        logits_of: Of a batch, on the device of the optimizer's parameters.
        optimizer: Of what is learned.
        observations: As of `clone`.
        actions: Likewise; allowed ones.
        masks: Likewise; None: all are allowed.
        rows: What to learn from.
        epochs: Passes.
        batch_size: Turns in a step.
        order: Shuffles the rows.
        schedule: Stepped with every batch; None: the rate stays.

    Yields:
        Mean loss of each epoch, nats a turn, and agreement, as `clone` tells them.
    """
    device = optimizer.param_groups[0]["params"][0].device
    for _ in range(epochs):
        total, agreed = 0.0, 0
        shuffled = order.permutation(rows)
        for begin in range(0, len(rows), batch_size):
            # In order: kinder to a memory map.
            batch = np.sort(shuffled[begin : begin + batch_size])
            seen, done = (
                torch.as_tensor(np.asarray(array[batch])).to(device)
                for array in (observations, actions)
            )
            logits = logits_of(seen)
            if masks is not None:
                allowed = torch.as_tensor(np.asarray(masks[batch]), dtype=torch.bool)
                logits = logits.masked_fill(~allowed.to(device), -torch.inf)
            loss = nn.functional.cross_entropy(logits, done.long())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if schedule is not None:
                schedule.step()
            total += float(loss.detach()) * len(batch)
            agreed += int((logits.detach().argmax(dim=1) == done).sum())
        yield total / len(rows), agreed / len(rows)
