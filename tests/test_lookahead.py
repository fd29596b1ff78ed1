"""The look-ahead rule: against a plain one, and where it must agree with CCAR."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from baselines.lookahead import NAMES, Lookahead
from baselines.settings import SETTINGS, setting_of
from carbon_gym import make_policy
from carbon_gym.errors import InputError
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.scenario import load_scenario
from carbon_gym.simulator.arrays import NOWHERE
from carbon_gym.simulator.quotes import Quotes
from carbon_gym.simulator.run import run_policy
from carbon_gym.simulator.simulator import Simulator

SIZES = (1.0, 12.0, 80.0)


def drawn(seed: int) -> tuple[dict[str, float], tuple[tuple[float, float], ...]]:
    rng = np.random.default_rng(seed)
    weights = {name: float(rng.normal(0.0, 0.2)) for name in NAMES}
    return weights, tuple((size, float(rng.normal(0.0, 0.2))) for size in SIZES)


def plain_price(
    q: Quotes,
    b: int,
    d: int,
    scale_g: float,
    price_g: float,
    weights: dict[str, float],
    caches: tuple[tuple[float, float], ...],
) -> float:
    """The price of one deployment, straight from the docstring."""
    fleet = q.fleet
    model, region, unit = (int(x[d]) for x in (fleet.model, fleet.region, fleet.unit))
    knots = [math.log(size) for size, _ in caches]
    size = math.log(fleet.params_billion[model])
    value = float(np.interp(size, knots, [weight for _, weight in caches]))
    last = int(q.previous[b])
    if d == last:
        value += weights["staying"]
    elif last != NOWHERE:
        value += weights["same_region"] * (fleet.region[last] == region)
        value += weights["same_model"] * (fleet.model[last] == model)
    tokens = q.history_tokens[b] + q.prompt_tokens[b] + q.predicted_output_tokens[b]
    value += weights["cached"] * q.cached_tokens[b, d] / max(tokens, 1.0)
    energy = fleet.energy_kwh_per_token
    thriftiest = min(energy[e] for e in range(len(fleet)) if fleet.model[e] == model)
    value += weights["gpu_energy"] * (energy[d] / thriftiest - 1.0)
    places, others = int(q.unit_places[b, unit]), int(q.unit_load[b, unit])
    if places == NOWHERE:
        load = others / max(int(q.unit_load[b].sum()), 1)
    else:
        load = min(1.0, others / max(places, 1))
    value += weights["load"] * load
    intensity = q.facility_intensity[b]
    cleaner = max(0.0, 1.0 - intensity[region] / intensity.mean())
    place = weights["place"] * load + weights["place_clean"] * load * cleaner
    place += weights["place_full"] * load**2
    quality = price_g * math.exp(weights["log_price"]) * q.quality[b, model]
    worth_g = value * tokens * energy[d] * intensity[region]
    return float(q.co2_g[b, d] - worth_g + scale_g * place - quality)


@pytest.mark.parametrize(
    ("scenario", "price_g"), [("tiny", 0.0), ("congested", 0.0), ("sharegpt-budget", 0.05)]
)
def test_it_takes_the_least_price(scenario: str, price_g: float) -> None:
    world = load_scenario(scenario)
    laid = evaluation_fleets(world, split="train", fleets=2, sessions=60)
    weights, caches = drawn(7)
    policy = Lookahead(0.01, weights, caches, price_g)
    simulator = Simulator(world, laid.traces, laid.grid)
    policy.reset(simulator.fleet, simulator.slots)
    differ = 0
    while not simulator.done:
        quotes = simulator.quote()
        choice = policy.choose(quotes)
        for b in np.flatnonzero(quotes.row != NOWHERE):
            feasible = np.flatnonzero(quotes.feasible[b])
            if not len(feasible):
                assert choice[b] == quotes.cheapest()[b]
                continue
            prices = [plain_price(quotes, b, d, 0.01, price_g, weights, caches) for d in feasible]
            assert choice[b] in feasible
            chosen = prices[feasible.tolist().index(choice[b])]
            assert chosen == pytest.approx(min(prices), rel=1e-9, abs=1e-12)
            differ += choice[b] != quotes.cheapest()[b]
        simulator.commit(choice)
    assert differ > 0, "the weights mattered"


@pytest.mark.parametrize("scenario", ["tiny", "congested", "sharegpt-budget"])
def test_without_weights_it_is_ccar_without_a_gate(scenario: str) -> None:
    world = load_scenario(scenario)
    laid = evaluation_fleets(world, split="train", fleets=2, sessions=200)
    ours, theirs = (
        run_policy(world, policy, laid.traces, laid.grid).ledger
        for policy in (Lookahead(1.0, {}), make_policy("ccar-no-gate", world))
    )
    np.testing.assert_array_equal(ours, theirs)


def test_weights_by_lane_are_as_many_rules_side_by_side() -> None:
    world = load_scenario("congested")
    laid = evaluation_fleets(world, split="train", fleets=2, sessions=100)
    sets: list[Any] = [drawn(seed) for seed in (1, 2)]
    alone = [
        run_policy(world, Lookahead(0.01, w, c), laid.traces, laid.grid).ledger for w, c in sets
    ]
    weights = {name: np.repeat([w[name] for w, _ in sets], 2) for name in NAMES}
    caches = tuple((size, np.repeat([c[k][1] for _, c in sets], 2)) for k, size in enumerate(SIZES))
    together = Lookahead(0.01, weights, caches)
    both = run_policy(world, together, laid.traces * 2, laid.grid).ledger
    np.testing.assert_array_equal(both, np.concatenate(alone))


def test_caches_of_other_models_are_interpolated() -> None:
    fleet = Deployments.of(load_scenario("sharegpt"))
    size = float(fleet.params_billion[0])
    policy = Lookahead(1.0, {}, ((size / 2.0, 1.0), (size * 2.0, 3.0)))
    policy.reset(fleet, 1)
    assert policy._weights_of(1)[0, 0] == pytest.approx(2.0)
    assert policy._weights_of(1)[0, np.argmax(fleet.params_billion)] == pytest.approx(3.0)


def test_an_unknown_weight_is_named() -> None:
    with pytest.raises(InputError, match="'stayin' is not known; did you mean"):
        Lookahead(1.0, {"stayin": 1.0})


def test_settings() -> None:
    assert {setting_of(load_scenario(name)) for name in ("sharegpt", "sharechat-evict")} == {
        "filter"
    }
    assert setting_of(load_scenario("congested")) == "congested"
    assert setting_of(load_scenario("sharechat-budget-evict")) == "budget"
    assert len(SETTINGS) == 3


@pytest.mark.parametrize("name", ["lookahead", "lookahead-places"])
@pytest.mark.parametrize("scenario", ["sharegpt", "congested", "sharechat-budget"])
def test_the_shipped_weights_serve(name: str, scenario: str) -> None:
    world = load_scenario(scenario)
    laid = evaluation_fleets(world, split="train", fleets=1, sessions=100)
    run = run_policy(world, make_policy(name, world), laid.traces, laid.grid)
    assert run.policy == name
    assert not run.ledger["capacity_violation"].any()
