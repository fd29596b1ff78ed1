"""The public doors to the packages that stand beside `carbon_gym`: fixed and trained policies.

Other distributions also install a top-level ``baselines`` or ``agents``; a door checks that it
got ours.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from carbon_gym.errors import InputError, InstallationError, did_you_mean, from_extra
from carbon_gym.own_class import own_class
from carbon_gym.policy import Policy

if TYPE_CHECKING:
    from carbon_gym.scenario.scenario import Scenario

OWNER = "carbon-gym"
"""Value of ``__distribution__`` in our `baselines` and `agents`."""


def our_package(name: Literal["agents", "baselines"]) -> ModuleType:
    """Import `baselines` or `agents` and check that it is carbon_gym's.

    Raises:
        InstallationError: It is missing, or another distribution's.
    """
    fix = "`pip install --force-reinstall --no-deps carbon-gym` in an environment of its own"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise InstallationError(
            f"the package {name!r} that comes with carbon-gym is missing; run {fix}"
        ) from None
    if getattr(module, "__distribution__", None) != OWNER:
        place = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", "?")))
        raise InstallationError(
            f"import {name} found {place}, which is not carbon_gym's {name!r} (other "
            f"distributions install a package of that name too); remove that one, then run {fix}"
        )
    return module


def policy_names(scenario: Scenario | None = None) -> list[str]:
    """Names of the fixed policies that `make_policy` knows.

    Args:
        scenario: Only those that can serve it; None: all.
    """
    baselines = our_package("baselines")
    names = list(baselines.POLICIES)
    if scenario is None:
        return names
    cannot: set[str] = set() if scenario.workload.log_column else {baselines.Replay.name}
    if scenario.bounds.quality_constraint != "budget":
        cannot |= set(baselines.BUDGETED)
    return [name for name in names if name not in cannot]


def make_policy(name: str, /, scenario: Scenario | None = None, **options: Any) -> Policy:
    """A policy by name.

    Args:
        name: One of `policy_names`, the file of an exported router (``.npz``), the folder of a
            training run or of an exported ``router.npz``, or ``module:Class`` for a policy of your
            own (the module is looked for in the working folder too).
        scenario: Whose gate or tuned knobs the policy uses, by `Scenario.origin`; None: those of
            the packaged scenario `sharegpt`.
        **options: Options of the policy's class; they go before the tuned knobs.

    Returns:
        A fresh policy.

    Raises:
        InputError: Unknown name (with the nearest known one) or option.

    Example:
        >>> make_policy("ccar-no-gate").name
        'ccar-no-gate'
    """
    if name.endswith(".npz"):
        return _router_policy(Path(name), name, scenario, options)
    if ":" in name:
        return _own_policy(name, options)
    baselines = our_package("baselines")
    known = baselines.POLICIES
    if name not in known:
        if Path(name).is_dir():
            return _folder_policy(name, scenario, options)
        hint = did_you_mean(name, known)
        raise InputError(f"policy {name!r} is not known; {hint}use one of {', '.join(known)}")
    try:
        tuned = baselines.tuned_options(name, scenario)
        policy: Policy = known[name](**{**tuned, **options})
    except TypeError as error:
        raise InputError(f"policy {name!r} does not take these options: {error}") from None
    return policy


def _folder_policy(name: str, scenario: Scenario | None, options: dict[str, Any]) -> Policy:
    """Make the policy of a folder: its exported router, else its training run."""
    router = Path(name) / "router.npz"
    if router.is_file():
        return _router_policy(router, name, scenario, options)
    if options:
        raise InputError(
            f"policy {name!r}: a training run takes no options, {', '.join(options)} given; leave "
            "them out"
        )
    our_package("agents")
    with from_extra(f"policy {name!r}: a training run", "train", ", or name its router.npz"):
        from agents.trained import TrainedPolicy
    policy: Policy = TrainedPolicy(name)
    return policy


def _router_policy(
    file: Path, name: str, scenario: Scenario | None, options: dict[str, Any]
) -> Policy:
    """Make the policy of an exported router."""
    from carbon_gym.router import load_router
    from carbon_gym.router.policy import RouterPolicy

    if options:
        raise InputError(
            f"policy {name!r}: a router takes no options, {', '.join(options)} given; leave them "
            "out"
        )
    return RouterPolicy(load_router(file), name, **our_package("baselines").queue_of(scenario))


def _own_policy(spec: str, options: dict[str, Any]) -> Policy:
    """Make a policy of the user's from ``module:Class``."""
    policy = own_class(spec, "policy")(**options)
    if not isinstance(policy, Policy):
        raise InputError(
            f"policy {spec!r}: needs an attribute name and the methods reset(fleet, slots) and "
            "choose(quotes), as carbon_gym.policy.Policy says"
        )
    return policy
