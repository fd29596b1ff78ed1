"""What an evaluation compares: methods, each with one policy or with one for each training seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from carbon_gym.benchmark import is_folder
from carbon_gym.doors import make_policy, our_package
from carbon_gym.errors import InputError
from carbon_gym.scenario import Scenario
from carbon_gym.scenario.load import read_yaml_mapping

LEARNED = "learned"
"""Stands for all routers that are shipped for a scenario's setting."""
_OF_RECIPE = "recipe "


@dataclass(frozen=True, slots=True)
class Member:
    """A policy of a method.

    Attributes:
        policy: What `carbon_gym.make_policy` knows it by.
        seed: Of its training; None where it was not trained, or does not say.
    """

    policy: str
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """Policies that differ in nothing but the seed of their training.

    Attributes:
        name: In tables, unlike that of any other.
        members: At least one.
    """

    name: str
    members: tuple[Member, ...]


def methods_of(policies: Sequence[str], scenario: Scenario) -> list[Method]:
    """Group policies by the recipe of their training.

    Args:
        policies: Each is a name, ``module:Class``, a router's file or the folder of a training
            run, or ``METHOD=POLICY,POLICY,...``, which makes these one method whatever their
            recipes. Routers and runs whose configurations agree but for the seed are one method;
            ``learned`` is one of all shipped routers; anything else is one by itself.
        scenario: The one that they are to serve.

    Returns:
        Methods in the order in which they are first named.

    Raises:
        InputError: A policy that cannot be made, or that would count twice in a method.
    """
    groups: dict[str, list[Member]] = {}
    names: dict[str, str] = {}
    for text in dict.fromkeys(policies):
        key, named, members = _members(text, scenario)
        if named is not None:
            names[key] = named
        groups.setdefault(key, []).extend(members)
    methods: list[Method] = []
    for key, members in groups.items():
        if key.startswith(_OF_RECIPE):
            _check_different(members)
        name = names.get(key) or _common_name([member.policy for member in members])
        taken = {method.name for method in methods} | (set(names.values()) - {names.get(key)})
        if name in taken and len(members) == 1:
            name = members[0].policy
        number, free = 2, name
        while free in taken:
            free, number = f"{name} ({number})", number + 1
        methods.append(Method(free, tuple(members)))
    for member in dict.fromkeys(m for method in methods for m in method.members):
        make_policy(member.policy, scenario)
    return methods


def with_reference(
    methods: Sequence[Method], reference: str, scenario: Scenario
) -> tuple[list[Method], Method]:
    """Methods with the one that all are compared with, which is put first if it is a new one.

    Args:
        methods: Of `methods_of`.
        reference: Name of one of them, or a policy as `methods_of` takes it.
        scenario: As there.

    Raises:
        InputError: As there.
    """
    for method in methods:
        if method.name == reference:
            return list(methods), method
    (found,) = methods_of([reference], scenario)
    for method in methods:
        if set(method.members) == set(found.members):
            return list(methods), method
    if any(method.name == found.name for method in methods):
        found = Method(reference, found.members)
    return [found, *methods], found


def _members(text: str, scenario: Scenario) -> tuple[str, str | None, list[Member]]:
    """Key of a method, its name if it is given, and its members."""
    named, _, rest = text.partition("=")
    if rest and not Path(text).exists():
        policies = [policy.strip() for policy in rest.split(",") if policy.strip()]
        if not named.strip() or not policies:
            raise InputError(
                f"{text!r} is no method; write it as NAME=POLICY,POLICY with a policy at least"
            )
        for policy in policies:
            if policies.count(policy) > 1:
                raise InputError(f"{text!r} names {policy!r} twice; name each once")
        return f"named {named.strip()}", named.strip(), [_member(p) for p in policies]
    if text == LEARNED:
        return LEARNED, LEARNED, [_member(_from_here(file)) for file in _shipped(scenario)]
    recipe = _recipe(text)
    config = recipe.get("config")
    if not isinstance(config, Mapping) or not config:
        return f"alone {text}", None, [_member(text)]
    rest_of_config = {name: value for name, value in config.items() if name != "seed"}
    key = json.dumps(rest_of_config, sort_keys=True, default=str)
    return f"{_OF_RECIPE}{key}", None, [_member(text)]


def _member(policy: str) -> Member:
    seed = _recipe(policy).get("seed")
    return Member(policy, seed if isinstance(seed, int) else None)


def _check_different(members: Sequence[Member]) -> None:
    """Two members of the same seed would make an interval over seeds too narrow."""
    first: dict[int, str] = {}
    for member in members:
        if member.seed is None:
            continue
        if member.seed in first:
            raise InputError(
                f"{first[member.seed]} and {member.policy} were trained by the same recipe with "
                f"the same seed, {member.seed}, and would count twice; name one of them"
            )
        first[member.seed] = member.policy


def _shipped(scenario: Scenario) -> list[Path]:
    """Files of the routers that are shipped for a scenario's setting."""
    files: list[Path] = our_package("baselines").shipped(scenario)
    if not files:
        raise InputError(
            f"policy {LEARNED!r}: no router is shipped for the setting of {scenario.name}; train "
            "one with `carbon-gym train` and name its folder"
        )
    return files


def _from_here(path: Path) -> str:
    """A path as a user would write it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _recipe(policy: str) -> dict[str, Any]:
    """How a router or a run was trained, as far as it says; empty for other policies."""
    path = Path(policy)
    if policy.endswith(".npz"):
        from carbon_gym.router import load_router

        return load_router(path).recipe
    if not is_folder(policy):
        return {}
    if (path / "config.yaml").is_file():
        config = read_yaml_mapping(path / "config.yaml")
        return {"config": config, "seed": config.get("seed")}
    return _recipe(str(path / "router.npz")) if (path / "router.npz").is_file() else {}


def _common_name(policies: Sequence[str]) -> str:
    """What the names of a method's policies have in common, without the seed at the end."""
    paths = [Path(policy) for policy in policies]
    if not (policies[0].endswith(".npz") or is_folder(policies[0])):
        return policies[0]
    stems = [path.stem if path.suffix == ".npz" else path.resolve().name for path in paths]
    if len(set(stems)) == 1 and len(stems) > 1:
        stems = [path.resolve().parent.name for path in paths]
    if len(stems) == 1:
        return stems[0]
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*stems, strict=False))
    shared = "".join(letters[0] for letters in same).rstrip("0123456789").rstrip("-_. ")
    return shared or "recipe"
