"""A policy for fleets of any size: one small network scores every deployment alike."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn

from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.errors import InputError
from carbon_gym.router.plan import CONSTANT_INPUTS, CURRENT, PRICE, SEEN, TURN_INPUTS, plan_of

WIDTH, TURN_WIDTH, VALUE_WIDTH = 32, 32, 32
"""Default widths: of a deployment's layer, of the turn's, and of the value's own (ASSUMED)."""

_SIZES = ("width", "turn_width", "value_width", "prior_weight")


class Linear(nn.Linear):
    """A layer that computes in the precision of its input; its weights are float32."""

    def forward(self, x: Tensor) -> Tensor:
        """``x @ weight.T + bias``."""
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return nn.functional.linear(x, self.weight.to(x.dtype), bias)


class Sight(nn.Module):
    """From observations to what the scorer sees; nothing in it is learned or saved.

    Args:
        layout: Of the observations.
    """

    member: Tensor
    columns: Tensor
    constants: Tensor

    def __init__(self, layout: ObservationLayout) -> None:
        super().__init__()
        self.plan = plan = plan_of(layout)
        ones = np.full((1, len(layout.fleet)), plan.size + plan.member.shape[1])
        columns = np.concatenate([plan.columns, ones]).ravel()
        arrays = {"member": plan.member, "columns": columns}
        arrays["constants"] = np.ascontiguousarray(plan.constants.T)
        for name, array in arrays.items():
            self.register_buffer(name, torch.from_numpy(array), persistent=False)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """See a batch.

        Args:
            observations: (B, n), float32 or float64, as what is returned.

        Returns:
            The turns' contexts (B, TURN_INPUTS), and what is seen of each deployment, (B, SEEN + 1,
            D), the last of it 1.
        """
        pooled = [observations[:, self.plan.turn]]
        for begin, features, entries in self.plan.blocks.tolist():
            block = observations[:, begin : begin + features * entries]
            block = block.reshape(-1, features, entries)
            pooled += [block.mean(dim=2), block.amin(dim=2), block.amax(dim=2)]
        own = block  # the last block is the deployments'
        here = own[:, CURRENT] @ self.member.to(own.dtype)
        one = observations.new_ones(len(observations), 1)
        extended = torch.cat([observations, here, one], dim=1)
        seen = extended.index_select(1, self.columns).view(len(observations), SEEN + 1, -1)
        return torch.cat(pooled, dim=1), seen


class Tower(nn.Module):
    """One hidden layer over each deployment, into which the turn's layer is added.

    Args:
        width: Units H of the layer of each deployment.
        turn_width: Units T of the layer of the turn.
    """

    def __init__(self, width: int, turn_width: int) -> None:
        super().__init__()
        self.turn = Linear(TURN_INPUTS, turn_width)
        self.added = Linear(turn_width, width)
        self.seen = Linear(SEEN, width, bias=False)
        self.constants = Linear(CONSTANT_INPUTS, width, bias=False)
        nn.init.orthogonal_(self.turn.weight, gain=2**0.5)
        nn.init.zeros_(self.turn.bias)
        for part in (self.added, self.seen, self.constants):  # three that add up to one layer
            nn.init.orthogonal_(part.weight, gain=(2 / 3) ** 0.5)
        nn.init.zeros_(self.added.bias)

    def forward(self, context: Tensor, seen: Tensor, constants: Tensor) -> tuple[Tensor, Tensor]:
        """The turn's layer (B, T), and that of each deployment (B, H, D)."""
        turn = torch.relu(self.turn(context))
        # What the turn adds to every deployment rides along as the weight of the 1: added to
        # (B, H, D) by itself it would take as long again, forwards and backwards.
        every = self.seen.weight.to(seen.dtype).expand(len(seen), -1, -1)
        weight = torch.cat([every, self.added(turn)[:, :, None]], dim=2)
        fixed = self.constants.weight.to(seen.dtype) @ constants.to(seen.dtype)
        fixed = fixed.expand(len(seen), -1, -1)  # (H, D), contiguous: else copying it takes longest
        return turn, torch.relu_(torch.baddbmm(fixed, weight, seen))


class DeploymentScorer(nn.Module):
    """Logits of the deployments, and features of the value.

    ``logit_d = (w + V t)·relu(A x_d + C k_d + B t + b) − p·co2_d`` with ``t = relu(T c + a)``,
    where x_d is what is seen of a deployment, k_d its constants, c the turn's context, co2_d the
    price feature of the observation and p the weight of that prior. A second such pair of layers,
    pooled over the deployments by mean and maximum, gives the value. `carbon_gym.router.plan` says
    what is in x_d, k_d and c; no index is.

    Before training w and V are 0: without a prior all deployments are alike, with one the cheapest
    is the likeliest.

    Weights and gradients are float32. Logits of a policy that acts (not in training mode, or
    without gradients) are computed in float64: where a policy tells near prices apart they are sums
    of much that cancels, and float32 would leave errors of 1e-4 in them.

    Args:
        layout: Of the observations.
        width: Units of the layer of each deployment.
        turn_width: Units of the turn's layer.
        value_width: Units of the value's layer of each deployment; its turn's and its last layer
            have twice as many.
        prior_weight: Initial p ≥ 0, which is then learned; 0: there is no prior.

    Attributes:
        latent_dim_pi: D.
        latent_dim_vf: Length of the value's features.

    Raises:
        InputError: A width below 1, or a negative prior.
    """

    def __init__(
        self,
        layout: ObservationLayout,
        *,
        width: int = WIDTH,
        turn_width: int = TURN_WIDTH,
        value_width: int = VALUE_WIDTH,
        prior_weight: float = 0.0,
    ) -> None:
        super().__init__()
        if min(width, turn_width, value_width) < 1 or not prior_weight >= 0.0:
            raise InputError(
                f"the scorer's widths are {width}, {turn_width} and {value_width} and its prior "
                f"{prior_weight}; give widths of at least 1 and a prior of at least 0"
            )
        self.sight = Sight(layout)
        self.tower = Tower(width, turn_width)
        self.output = Linear(turn_width, width)
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)
        self.prior = nn.Parameter(torch.tensor([float(prior_weight)]))
        self.prior.requires_grad_(prior_weight != 0.0)
        self.value_tower = Tower(value_width, 2 * value_width)
        self.value = nn.Linear(4 * value_width, 2 * value_width)
        nn.init.orthogonal_(self.value.weight, gain=2**0.5)
        nn.init.zeros_(self.value.bias)
        self.latent_dim_pi, self.latent_dim_vf = len(layout.fleet), 2 * value_width
        self.eval()

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, D) and value features (B, V) of float32 observations (B, n)."""
        if not self._learns():
            return self.forward_actor(observations), self.forward_critic(observations)
        context, seen = self.sight(observations)
        return self._logits(context, seen), self._valued(context, seen)

    def forward_actor(self, observations: Tensor) -> Tensor:
        """Logits (B, D), float32."""
        exact = observations if self._learns() else observations.double()
        return self._logits(*self.sight(exact)).to(observations.dtype)

    def forward_critic(self, observations: Tensor) -> Tensor:
        """Value features (B, V)."""
        return self._valued(*self.sight(observations))

    def _learns(self) -> bool:
        return self.training and torch.is_grad_enabled()

    def _logits(self, context: Tensor, seen: Tensor) -> Tensor:
        turn, hidden = self.tower(context, seen, self.sight.constants)
        scores = torch.bmm(self.output(turn)[:, None], hidden)[:, 0]
        return scores - self.prior * seen[:, PRICE]

    def _valued(self, context: Tensor, seen: Tensor) -> Tensor:
        turn, hidden = self.value_tower(context, seen, self.sight.constants)
        mean = hidden.sum(dim=2) / hidden.shape[2]  # `mean` would divide backwards at each
        pooled = [turn, mean, hidden.max(dim=2).values]
        return torch.relu(self.value(torch.cat(pooled, dim=1)))


class _Scored:
    """What makes an actor-critic policy of Stable-Baselines3 a deployment scorer.

    The network's "latent" of the actor is the logits already, so that `action_net` does nothing.
    """

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    mlp_extractor: Any
    _scorer: dict[str, Any]

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        *,
        layout: ObservationLayout,
        **options: Any,
    ) -> None:
        found = (observation_space.shape, getattr(action_space, "n", None))
        if found != ((layout.size,), len(layout.fleet)):
            raise InputError(
                f"the scorer's layout is of {layout.size} numbers and {len(layout.fleet)} "
                f"deployments, but the spaces are {found[0]} and {found[1]}; give the layout of "
                'the environment, with observation="flat"'
            )
        sizes = {name: options.pop(name) for name in _SIZES if name in options}
        self._scorer = {"layout": layout, **sizes}
        super().__init__(observation_space, action_space, lr_schedule, **options)  # type: ignore[call-arg]

    def _build(self, lr_schedule: Schedule) -> None:
        self.mlp_extractor = DeploymentScorer(**self._scorer).to(self.device)  # type: ignore[attr-defined]
        self.action_net: Any = nn.Identity()
        self.value_net = nn.Linear(self.mlp_extractor.latent_dim_vf, 1)
        nn.init.orthogonal_(self.value_net.weight)
        nn.init.zeros_(self.value_net.bias)
        make: Any = self.optimizer_class  # type: ignore[attr-defined]
        options = self.optimizer_kwargs  # type: ignore[attr-defined]
        self.optimizer = make(self.parameters(), lr=lr_schedule(1), **options)  # type: ignore[attr-defined]

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {**super()._get_constructor_parameters(), **self._scorer}  # type: ignore[misc]

    def on(self, layout: ObservationLayout) -> Self:
        """The same weights for another fleet's observations, which may be of another size.

        Returns:
            A policy of its own: training it leaves this one as it is.
        """
        options = self._get_constructor_parameters()
        options["layout"] = layout
        options["observation_space"] = spaces.Box(layout.low, layout.high, dtype=np.float32)
        options["action_space"] = spaces.Discrete(len(layout.fleet))
        other = type(self)(**options)
        other.load_state_dict(self.state_dict())  # type: ignore[attr-defined]
        return other.to(self.device)  # type: ignore[attr-defined, no-any-return]


class ScorerPolicy(_Scored, ActorCriticPolicy):
    """The deployment scorer for SB3's PPO and A2C, on the flat observation.

    Args (`policy_kwargs`):
        layout: Layout of the environment, e.g. ``env.env.layout`` of a `CarbonVecEnv`.
        width, turn_width, value_width, prior_weight: As of `DeploymentScorer`.
        **options: Of SB3's `ActorCriticPolicy`; those of its network have no effect.

    Raises:
        InputError: The layout does not fit the spaces.

    Example:
        >>> env = CarbonVecEnv(64, scenario="tiny")  # doctest: +SKIP
        >>> PPO(ScorerPolicy, env, policy_kwargs={"layout": env.env.layout})  # doctest: +SKIP
    """


class MaskableScorerPolicy(_Scored, MaskableActorCriticPolicy):
    """The same for sb3-contrib's MaskablePPO."""
