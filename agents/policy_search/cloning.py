"""The scorer that a search begins with: one that has learned to do what a rule does."""

from __future__ import annotations

import numpy as np
import torch

from agents.cloning import imitate
from agents.export import router_weights
from agents.policy_search.fleets import Fleets, decisions
from agents.scorer import DeploymentScorer
from carbon_gym.policy import Policy
from carbon_gym.router.weights import Weights

PRIOR = 5.0
"""Weight of CCAR's own price in the logits at the beginning (ASSUMED)."""
_BATCH, _RATE = 512, 1e-2
"""Turns of a step and highest rate of Adam, one cycle over all epochs (ASSUMED)."""


def fresh(fleets: Fleets, width: int, turn_width: int, seed: int) -> DeploymentScorer:
    """An untrained scorer: the cheapest deployment is the likeliest."""
    torch.manual_seed(seed)
    layout = fleets.group(0)[0].view.layout
    return DeploymentScorer(
        layout, width=width, turn_width=turn_width, value_width=1, prior_weight=PRIOR
    )


def clone(
    scorer: DeploymentScorer,
    fleets: Fleets,
    policies: list[Policy],
    *,
    groups: int,
    epochs: int,
    seed: int,
) -> list[float]:
    """Teach a scorer the choices of policies on some groups of fleets.

    Args:
        scorer: Changed in place.
        fleets: Training fleets.
        policies: One per scenario.
        groups: How many groups are served.
        epochs: Passes over the decisions.
        seed: Of their order.

    Returns:
        Share of the decisions on which scorer and policy agreed, by epoch.
    """
    parts = []
    for number in range(groups):
        for group, policy in zip(fleets.group(number), policies, strict=True):
            parts.append(decisions(group, policy))
    if len({part[0].shape[1] for part in parts}) > 1:
        raise ValueError("the scenarios' fleets differ in size; clone one of them")
    seen, masks, done = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    del parts
    learned = [p for name, p in scorer.named_parameters() if not name.startswith("value")]
    optimizer = torch.optim.Adam(learned, lr=_RATE)
    steps = epochs * -(-len(seen) // _BATCH)
    lessons = imitate(
        lambda batch: scorer(batch)[0],
        optimizer,
        seen,
        done,
        masks,
        np.arange(len(seen)),
        epochs=epochs,
        batch_size=_BATCH,
        order=np.random.default_rng([seed, 1]),
        schedule=torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=steps + 1),
    )
    scorer.train()
    agreed = [agreement for _, agreement in lessons]
    scorer.eval()
    return agreed


def weights_of(scorer: DeploymentScorer) -> Weights:
    """The scorer's weights as a router has them."""
    return router_weights(scorer.state_dict())
