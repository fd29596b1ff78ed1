"""The loop around the verbs, and what the simulator asks of its grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from worlds import POLICY_NAMES, Floats, assert_same_ledger, play, policy_named, random_world

from carbon_gym import InputError
from carbon_gym.scenario.fleet import Model
from carbon_gym.simulator import Simulator, run
from carbon_gym.workload.trace import Trace


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_a_run_is_the_verbs_one_after_the_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_REPORT_EVERY_STEPS", 7)
    world = random_world(11, traces=3)
    heard: list[int] = []
    done = run.run_policy(
        world.scenario,
        policy_named(name),
        world.traces,
        world.grid,
        predictor=world.predictor,
        on_turns=heard.append,
    )
    expected = play(world, name)
    assert_same_ledger(done.ledger, expected.ledger)
    assert done.policy == name
    assert done.bounds.tolist() == expected.bounds.tolist()
    assert sum(heard) == len(done.ledger) == sum(trace.turns for trace in world.traces)
    assert len(heard) > 2
    assert min(heard) >= 0
    assert done.decision_us > 0


@pytest.mark.parametrize("shift_s", [-3 * 86_400, 3 * 86_400])
def test_a_grid_that_does_not_cover_the_turns_is_refused(shift_s: int) -> None:
    world = random_world(12)
    grid = replace(world.grid, start_unix_s=world.grid.start_unix_s + shift_s, source="mine.csv")
    with pytest.raises(InputError, match=r"mine\.csv.* but the turns run from .*choose days"):
        Simulator(world.scenario, world.traces, grid, predictor=world.predictor)


def test_the_last_step_of_a_grid_still_covers_and_one_less_does_not() -> None:
    world = random_world(12)
    end_s = world.trace.origin_unix_s + world.trace.arrival_s[-1] - world.grid.start_unix_s
    steps = int(end_s // 300) + 1
    for kept, enough in ((steps, True), (steps - 1, False)):
        grid = replace(world.grid, values=world.grid.values[:kept])
        short = replace(world, grid=grid)
        if enough:
            assert_same_ledger(play(short, "faircarbon").ledger, play(world, "faircarbon").ledger)
        else:
            with pytest.raises(InputError, match="choose days inside it"):
                play(short, "faircarbon")


def test_a_region_without_grid_is_refused() -> None:
    world = random_world(13, shape=(1, 1, 3))
    zones = (*world.grid.zones[:-1], "ELSEWHERE")
    grid = replace(world.grid, zones=zones)
    with pytest.raises(InputError, match=f"zone '{world.grid.zones[-1]}' is not there"):
        Simulator(world.scenario, world.traces, grid, predictor=world.predictor)


@pytest.mark.parametrize("name", ["ccar-no-gate", "session-affinity", "random"])
def test_unbounded_is_without_capacity_and_memory_pressure(name: str) -> None:
    for seed in range(6):
        world = random_world(seed)
        free = world.with_scenario(capacity={"limit": None}, cache={"memory_pressure": False})
        simulator = Simulator(
            world.scenario, world.traces, world.grid, predictor=world.predictor, unbounded=True
        )
        actions = np.random.default_rng(seed).integers(0, 10**6, (1, 200))
        policy = None if name == "random" else policy_named(name)
        if policy is not None:
            policy.reset(simulator.fleet, simulator.slots)
        for step in range(world.trace.turns):
            quotes = simulator.quote()
            random = actions[:, step] % len(simulator.fleet)
            simulator.commit(random if policy is None else policy.choose(quotes))
        assert not simulator.ledger["capacity_violation"].any()
        assert_same_ledger(simulator.ledger, play(free, name, actions).ledger)


class Stubborn:
    """A predictor of the user's that answers the same to every trace."""

    def __init__(self, predicted: Any, realised: Any) -> None:
        self.answers = (predicted, realised)

    def predict(self, trace: Trace, models: Sequence[Model]) -> Any:
        return self.answers[0]

    def realised_quality(self, trace: Trace, models: Sequence[Model]) -> Any:
        return self.answers[1]


def with_value(shape: tuple[int, int], value: float) -> Floats:
    table = np.full(shape, 0.5)
    table[3, 1] = value
    return table


def test_what_a_predictor_says_is_checked_before_it_is_trusted() -> None:
    world = random_world(14, shape=(2, 1, 2))
    shape = (world.trace.turns, 2)
    good = np.full(shape, 0.5)
    for wrong, words in (
        (np.full((shape[0], 1), 0.5), "shape"),
        (np.full((shape[0], 3), 0.5), "shape"),
        (np.full((shape[0] - 1, 2), 0.5), "shape"),
        (good.T, "shape"),
        (with_value(shape, np.nan), "nan for turn 3 and model 1"),
        (with_value(shape, -0.1), "-0.1 for turn 3 and model 1"),
        (with_value(shape, 1.01), "1.01 for turn 3 and model 1"),
    ):
        for predictor, method in (
            (Stubborn(wrong, good), "predict"),
            (Stubborn(good, wrong), "realised_quality"),
        ):
            with pytest.raises(InputError, match=f"predictor: {method} gave .*{words}"):
                Simulator(world.scenario, world.traces, world.grid, predictor=predictor)


def test_a_predictor_may_answer_in_any_type_and_order() -> None:
    world = random_world(14, shape=(2, 1, 2))
    said = np.round(world.predictor.predict(world.trace, world.scenario.fleet.models), 1)
    accounts = []
    for answer in (said, np.asfortranarray(said), said.tolist()):
        simulator = Simulator(
            world.scenario, world.traces, world.grid, predictor=Stubborn(answer, answer)
        )
        while not simulator.done:
            simulator.commit(simulator.quote().cheapest())
        assert simulator.quality_predicted.flags.c_contiguous
        accounts.append(simulator.ledger)
    for account in accounts[1:]:
        assert_same_ledger(account, accounts[0])
