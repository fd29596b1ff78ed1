"""The kernels as plain Python: the same numbers bit for bit, and coverage sees their lines."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest
from worlds import POLICY_NAMES, assert_same_ledger, play, random_world

from carbon_gym.simulator import kernels
from carbon_gym.simulator import quotes as quotes_module
from carbon_gym.simulator import simulator as simulator_module

KERNEL_MODULES = (
    "pricing",
    "capacity",
    "caches",
    "choosing",
    "quoting",
    "accounting",
    "kernels",
)


@pytest.fixture(scope="module")
def plain_kernels() -> ModuleType:
    """The files of the kernels executed once more with the JIT off.

    Under their own names, so that coverage counts their lines, each seeing the plain ones before
    it; ``sys.modules`` is as before afterwards.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba.config, "DISABLE_JIT", True)
        for name in KERNEL_MODULES:
            compiled = importlib.import_module(f"carbon_gym.simulator.{name}")
            spec = importlib.util.spec_from_file_location(compiled.__name__, compiled.__file__)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            patch.setitem(sys.modules, compiled.__name__, module)
            spec.loader.exec_module(module)
    return module


@pytest.fixture
def without_jit(plain_kernels: ModuleType, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Simulator and quotes call the plain kernels until `undo`."""
    monkeypatch.setattr(simulator_module, "kernels", plain_kernels)
    monkeypatch.setattr(quotes_module, "kernels", plain_kernels)
    return monkeypatch


def test_they_are_plain_functions(plain_kernels: ModuleType) -> None:
    for name in ("quote", "commit", "commit_and_quote", "cheapest", "valid"):
        assert inspect.isfunction(getattr(plain_kernels, name))
        assert not inspect.isfunction(getattr(kernels, name))


RULES = [
    {"capacity": {"rule": rule, "limit": limit}, "cache": {"on_leave": leave, **pressure}}
    for rule, limit in (("sessions", 0.25), ("turns", 0.25), ("sessions", None))
    for leave in ("retain", "evict")
    for pressure in ({"memory_pressure": True, "ttl_s": 600.0}, {"memory_pressure": False})
]


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("name", ["ccar-no-gate", "random"])
def test_the_same_account_bit_for_bit(
    name: str, rules: dict[str, Any], without_jit: pytest.MonkeyPatch
) -> None:
    for seed in (20, 21):
        world = random_world(seed, shape=(2, 2, 2), traces=2, turns=60, **rules)
        actions = np.random.default_rng(seed).integers(0, 10**6, (2, 60))
        plain = play(world, name, actions)
        with without_jit.context() as patch:
            patch.setattr(simulator_module, "kernels", kernels)
            patch.setattr(quotes_module, "kernels", kernels)
            compiled = play(world, name, actions)
        assert compiled.ledger["cached_tokens"].any() or rules["cache"]["on_leave"] == "evict"
        assert_same_ledger(plain.ledger, compiled.ledger)


@pytest.mark.parametrize("name", POLICY_NAMES)
@pytest.mark.parametrize("lanes", ["fleets", "sessions"])
def test_every_policy_and_the_step_in_one_pass(
    name: str, lanes: Any, without_jit: pytest.MonkeyPatch
) -> None:
    world = random_world(31, shape=(2, 2, 3), turns=40)
    plain = play(world, name, lanes=lanes, in_one_pass=True)
    without_jit.undo()
    assert_same_ledger(plain.ledger, play(world, name, lanes=lanes).ledger)


@pytest.mark.usefixtures("without_jit")
def test_an_action_out_of_range_is_refused() -> None:
    world = random_world(2, shape=(1, 2, 2))
    simulator = simulator_module.Simulator(
        world.scenario, world.traces, world.grid, predictor=world.predictor
    )
    simulator.quote()
    with pytest.raises(ValueError, match="0 to 3"):
        simulator.commit(np.array([4]))


def test_the_cheapest_rule_on_quotes_full_of_ties(plain_kernels: ModuleType) -> None:
    """Against a sort: feasible by CO2, then available, then any admissible, both by TTFT."""
    rng = np.random.default_rng(0)
    lanes, deployments = 300, 6
    row = rng.integers(-1, 8, lanes)
    rank = rng.permutation(deployments)
    co2_g, ttft_s = (rng.integers(0, 3, (lanes, deployments)).astype(float) for _ in range(2))
    available, admissible, in_time = (
        rng.random((lanes, deployments)) < rng.random((lanes, 1)) for _ in range(3)
    )
    feasible = available & admissible & in_time

    def key(b: int, d: int) -> tuple[float, ...]:
        if feasible[b, d]:
            return (0, co2_g[b, d], ttft_s[b, d], rank[d])
        return (1 if available[b, d] else 2, ttft_s[b, d], co2_g[b, d], rank[d])

    expected = [
        -1
        if row[b] < 0
        else min(np.flatnonzero(admissible[b]), key=lambda d, b=b: key(b, d), default=-1)
        for b in range(lanes)
    ]
    for module in (plain_kernels, kernels):
        choice, how = np.zeros(lanes, dtype=np.int64), np.zeros(lanes, dtype=np.int64)
        module.cheapest(rank, row, co2_g, ttft_s, feasible, available, admissible, choice, how)
        assert choice.tolist() == expected
        for b in np.flatnonzero(choice >= 0):
            assert how[b] == key(b, choice[b])[0]
