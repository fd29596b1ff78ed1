"""A trained router without the library that trained it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.router.plan import CURRENT, PRICE, TURN_INPUTS, Plan, plan_of, signature
from carbon_gym.router.weights import Weights, read_router

if TYPE_CHECKING:
    from carbon_gym.envs.layout import ObservationLayout
    from carbon_gym.router.kernels import Net

Float32s = NDArray[np.float32]
Floats = NDArray[np.float64]
_BLOCK = 32
"""Turns that NumPy scores at once: their layers stay in the processor's second cache."""


@dataclass(frozen=True, eq=False)
class _Fitted:
    """What is computed once for a fleet: `fixed` is float64 (D, H), from constants and bias."""

    layout: ObservationLayout
    plan: Plan
    fixed: Floats
    member: Float32s
    net: Net | None


class Router:
    """A deployment scorer on NumPy; with numba, if it is installed, many times as fast.

    It serves fleets of any size. `recipe` says how it was trained.

    Args:
        weights: Its arrays.
        header: Of its file: "layout", the layout's signature, and "recipe".
        source: Where it came from, for messages.
        compiled: Whether to use numba; None: if it is installed.

    Attributes:
        recipe: How it was trained: config, seed, scenario, command; as exported.
    """

    def __init__(
        self,
        weights: Weights,
        header: dict[str, Any],
        *,
        source: str = "router",
        compiled: bool | None = None,
    ) -> None:
        self.recipe: dict[str, Any] = header["recipe"]
        self._weights, self._signature, self._source = weights, header["layout"], source
        self._turn, self._turn_bias = weights.turn.astype(float), weights.turn_bias.astype(float)
        self._layers = np.concatenate([weights.added, weights.output], axis=1).astype(float)
        self._biases = np.concatenate([0.0 * weights.added_bias, weights.output_bias]).astype(float)
        self._compiled = _numba_is_there() if compiled is None else compiled
        self._last: _Fitted | None = None

    @property
    def compiled(self) -> bool:
        """Whether numba is used."""
        return self._compiled

    @compiled.setter
    def compiled(self, wanted: bool) -> None:
        self._compiled, self._last = wanted, None

    def logits(self, observations: Float32s, layout: ObservationLayout) -> Float32s:
        """Score all deployments.

        Args:
            observations: float32 (B, n), flat.
            layout: Theirs.

        Returns:
            float32 (B, D).

        Raises:
            InputError: The router was made for observations of another kind.
            ValueError: The observations have another shape.
        """
        fitted = self._fitted(layout)
        seen = _checked(observations, layout)
        if fitted.net is None:
            return self._plainly(fitted, seen)
        from carbon_gym.router.kernels import score

        logits = np.empty((len(seen), len(layout.fleet)), dtype=np.float32)
        score(fitted.net, seen, self._turns(fitted, seen), _memory(fitted), logits)
        return logits

    def act(
        self, observations: Float32s, masks: NDArray[Any], layout: ObservationLayout
    ) -> NDArray[np.int64]:
        """The allowed deployment with the highest logit, the first of equals.

        Args:
            observations: float32 (B, n), flat.
            masks: bool (or 0 and 1) (B, D), which deployments are allowed.
            layout: Of the observations.

        Returns:
            int64 (B,).

        Raises:
            InputError: The router was made for observations of another kind.
            ValueError: Observations or masks have another shape, or a mask allows nothing.
        """
        fitted = self._fitted(layout)
        seen = _checked(observations, layout)
        allowed = np.ascontiguousarray(masks, dtype=np.bool_)
        if allowed.shape != (len(seen), len(layout.fleet)):
            raise ValueError(
                f"masks have shape {allowed.shape}; give ({len(seen)}, {len(layout.fleet)})"
            )
        if fitted.net is None:
            logits = np.where(allowed, self._plainly(fitted, seen), -np.inf)
            best = np.where(allowed.any(axis=1), logits.argmax(axis=1), -1)
        else:
            from carbon_gym.router.kernels import choose

            best = np.empty(len(seen), dtype=np.int64)
            choose(fitted.net, seen, allowed, self._turns(fitted, seen), _memory(fitted), best)
        if (best < 0).any():
            raise ValueError(f"row {(best < 0).argmax()}: the mask allows no deployment")
        return best

    def _fitted(self, layout: ObservationLayout) -> _Fitted:
        if self._last is not None and self._last.layout is layout:
            return self._last
        if signature(layout) != self._signature:
            raise InputError(
                f"{self._source}: was trained on observations of another kind than this "
                "carbon_gym makes; use the carbon_gym that trained it, or train it again"
            )
        plan, weights = plan_of(layout), self._weights
        fixed = plan.constants.astype(float) @ weights.constants.astype(float)
        fixed += weights.added_bias
        net = None
        if self._compiled:
            from carbon_gym.router.kernels import Net

            own, group = weights.own.astype(float), weights.group.astype(float)
            prior = weights.prior.astype(float)
            net = Net(plan.blocks, plan.groups, own, group, fixed, prior)
        self._last = _Fitted(layout, plan, fixed, plan.member, net)
        return self._last

    def _turns(self, fitted: _Fitted, seen: Any) -> Floats:
        """What each turn adds to the deployments' layers, then its output weights, (B, 2·H)."""
        plan = fitted.plan
        if fitted.net is None:
            contexts = _contexts(plan, seen)
        else:
            from carbon_gym.router.kernels import read_turns

            contexts = np.empty((len(seen), TURN_INPUTS))
            read_turns(plan.turn.start, plan.turn.stop, plan.blocks, seen, contexts)
        turn = contexts @ self._turn
        turn += self._turn_bias
        np.maximum(turn, 0.0, out=turn)
        both: Floats = turn @ self._layers
        both += self._biases
        return both

    def _plainly(self, fitted: _Fitted, observations: Float32s) -> Float32s:
        """Logits by NumPy alone."""
        plan, weights = fitted.plan, self._weights
        # `columns` begins with a deployment's own numbers, then follow those of the groups.
        of_seen = np.concatenate([weights.own, weights.group]).T.astype(float)
        width = len(of_seen)
        first, _, count = plan.blocks[3]
        logits = np.empty((len(observations), count), dtype=np.float32)
        for begin in range(0, len(observations), _BLOCK):
            x = observations[begin : begin + _BLOCK].astype(float)
            turns = self._turns(fitted, x)
            at = first + CURRENT * count
            extended = np.concatenate([x, x[:, at : at + count] @ fitted.member], axis=1)
            hidden = of_seen @ extended[:, plan.columns]
            hidden += fitted.fixed.T
            hidden += turns[:, :width, None]
            np.maximum(hidden, 0.0, out=hidden)
            scores = (turns[:, None, width:] @ hidden)[:, 0]
            at = first + PRICE * count
            logits[begin : begin + _BLOCK] = scores - weights.prior * x[:, at : at + count]
        return logits


def load_router(path: str | Path, *, compiled: bool | None = None) -> Router:
    """Read an exported router. Nothing in the file is executed.

    Args:
        path: A file that `carbon-gym export` wrote.
        compiled: Whether to use numba; None: if it is installed.

    Raises:
        InputError: There is no such file, or it is damaged or of another kind or version.

    Example:
        >>> router = load_router("router.npz")  # doctest: +SKIP
        >>> router.act(observations, masks, env.unwrapped.layout)  # doctest: +SKIP
    """
    weights, header = read_router(Path(path))
    return Router(weights, header, source=str(path), compiled=compiled)


def _numba_is_there() -> bool:
    try:
        import carbon_gym.router.kernels  # noqa: F401
    except ImportError:
        return False
    return True


def _memory(fitted: _Fitted) -> Any:
    from carbon_gym.router.kernels import Memory

    groups, width = fitted.member.shape[1], fitted.fixed.shape[1]
    allowed = np.empty(len(fitted.fixed) + 1, dtype=np.int64)
    return Memory(np.empty((groups, width)), np.empty(groups), allowed)


def _checked(observations: Float32s, layout: ObservationLayout) -> Float32s:
    seen = np.ascontiguousarray(observations, dtype=np.float32)
    if seen.ndim != 2 or seen.shape[1] != layout.size:
        raise ValueError(f"observations have shape {seen.shape}; give (B, {layout.size})")
    return seen


def _contexts(plan: Plan, x: Floats) -> Floats:
    """The turns' contexts (B, TURN_INPUTS): what is shared, then mean, minimum and maximum."""
    found = [x[:, plan.turn]]
    for begin, features, entries in plan.blocks.tolist():
        block = x[:, begin : begin + features * entries].reshape(len(x), features, entries)
        found += [block.mean(axis=2), block.min(axis=2), block.max(axis=2)]
    return np.concatenate(found, axis=1)
