"""The keyword arguments that both environments share, checked and resolved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

from carbon_gym.doors import our_package
from carbon_gym.envs.arrays import MASK_FEASIBLE, MASK_NONE, MASK_ROOM, Rules
from carbon_gym.envs.background import REFERENCE, background_policy
from carbon_gym.envs.world import World, co2_scale_of, world_of
from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.evaluation import DEFAULT_FLEETS
from carbon_gym.scenario import Scenario, load_scenario
from carbon_gym.scenario.schema import Split

Observation = Literal["flat", "dict"]

DEFAULT_WEIGHTS: dict[str, float] = {"quality": 5.0, "ttft": 1.0, "capacity": 1.0}
"""λ_q, λ_t and λ_c, all ASSUMED. Under a budget λ_q is λ, by default what validation found."""
_MASKS = {None: MASK_NONE, "feasible": MASK_FEASIBLE, "room": MASK_ROOM}
RENDER_MODES = ("ansi", "rgb_array", "human")


@dataclass(frozen=True)
class Options:
    """Resolved arguments of an environment."""

    world: World
    rules: Rules
    observation: Observation
    render_mode: str | None


class Arguments(TypedDict, total=False):
    """Keyword arguments of all environments; `CarbonRoutingEnv` says what they mean."""

    scenario: str | Path | Scenario
    split: Split | None
    fleets: int
    background: str
    observation: str
    mask: str | None
    quality_constraint: str | None
    quality_target: float | None
    weights: Mapping[str, float] | None
    co2_scale_g: float | None
    max_turns: int | None
    render_mode: str | None


def resolve(
    *,
    scenario: str | Path | Scenario = "sharegpt",
    split: Split | None = "train",
    fleets: int = DEFAULT_FLEETS,
    background: str = REFERENCE,
    observation: str = "flat",
    mask: str | None = "feasible",
    quality_constraint: str | None = None,
    quality_target: float | None = None,
    weights: Mapping[str, float] | None = None,
    co2_scale_g: float | None = None,
    max_turns: int | None = None,
    render_mode: str | None = None,
) -> Options:
    """Check the arguments of an environment, and make or find its world.

    Their defaults stand here; see `Arguments`.

    Raises:
        InputError: One of them cannot be used; the sentence names it, what was given and what is
            allowed.
    """
    _one_of("observation", observation, ("flat", "dict"))
    _one_of("mask", mask, tuple(_MASKS))
    _one_of("split", split, ("train", "validation", "test", None))
    _one_of("quality_constraint", quality_constraint, (None, "filter", "budget"))
    _one_of("render_mode", render_mode, (None, *RENDER_MODES))
    check_count("fleets", fleets)
    if max_turns is not None:
        check_count("max_turns", max_turns)
    if co2_scale_g is not None and not (is_number(co2_scale_g) and 0 < co2_scale_g < math.inf):
        raise InputError(f"co2_scale_g = {co2_scale_g!r} is not allowed; give grams above 0")
    if quality_target is not None and not (is_number(quality_target) and 0 <= quality_target <= 1):
        raise InputError(
            f"quality_target = {quality_target!r} is not allowed; give a mean quality from 0 to 1"
        )
    if not isinstance(background, str):
        raise InputError(
            f"background = {background!r} is not allowed; name a policy, or {REFERENCE!r}"
        )
    weight = _weights(weights)
    loaded = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    bounds = {"quality_constraint": quality_constraint, "quality_target": quality_target}
    loaded = _with_bounds(
        loaded, {key: value for key, value in bounds.items() if value is not None}
    )
    background_policy(background, loaded)  # a wrong name is said before the long work
    budget = loaded.bounds.quality_constraint == "budget"
    if quality_target is not None and not budget:
        raise InputError(
            f"quality_target = {quality_target} is of no use without a budget; add "
            "quality_constraint='budget'"
        )
    world = world_of(loaded, split, fleets, background)
    scale_g = co2_scale_g or co2_scale_of(loaded, whole=world if split is None else None)
    target = 0.0
    if budget:
        baselines = our_package("baselines")
        target = baselines.quality_target(loaded)
        if "quality" not in (weights or {}):
            weight["quality"] = baselines.budget_price_g(loaded) / scale_g
    rules = Rules(
        co2_scale_g=scale_g,
        stake_g=our_package("baselines").scale_co2_g(loaded),
        quality_weight=weight["quality"],
        ttft_weight=weight["ttft"],
        capacity_weight=weight["capacity"],
        budget=budget,
        quality_target=target,
        mask=_MASKS[mask],
        max_turns=max_turns or 0,
    )
    if world.sessions == 0:
        raise InputError(
            f"scenario {loaded.name!r} has no conversation in split {split!r}; raise "
            "workload.sessions_per_fleet, or loosen workload.min_turns"
        )
    return Options(world, rules, "flat" if observation == "flat" else "dict", render_mode)


def _with_bounds(scenario: Scenario, update: dict[str, Any]) -> Scenario:
    if not update:
        return scenario
    bounds = type(scenario.bounds).model_validate({**scenario.bounds.model_dump(), **update})
    return scenario.model_copy(update={"bounds": bounds})


def _weights(given: Mapping[str, float] | None) -> dict[str, float]:
    weights = dict(DEFAULT_WEIGHTS)
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"weights = {given!r} is not allowed; give a mapping of {_named(weights)}")
    for name, value in (given or {}).items():
        if name not in weights:
            hint = did_you_mean(name, weights)
            raise InputError(f"weights: {name!r} is not known; {hint}use {_named(weights)}")
        if not is_number(value):
            raise InputError(f"weights: {name} = {value!r} is not a number; give one from 0")
        if not 0.0 <= value < math.inf:
            raise InputError(f"weights: {name} = {value!r} is not allowed; give a number from 0")
        weights[name] = float(value)
    return weights


def _named(weights: Mapping[str, float]) -> str:
    return ", ".join(weights)


def is_number(value: object) -> bool:
    """Whether it is an int or a float, and no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        hint = did_you_mean(value, allowed)
        said = ", ".join(repr(a) for a in allowed)
        raise InputError(f"{name} = {value!r} is not allowed; {hint}use one of {said}")


def check_count(name: str, value: object) -> None:
    """Refuse anything but a whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} = {value!r} is not allowed; give a whole number from 1")
