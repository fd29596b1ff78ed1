"""Outcomes, rewards and observations once more, in plain Python from the specification."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from math import cos, inf, pi, sin
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from env_worlds import constraint_of, random_scenario, scalar
from reference.simulator import ReferenceSimulator
from test_simulator_differential import check_quote

from baselines import scale_co2_g
from carbon_gym.grid.series import STEP_S
from carbon_gym.simulator.arrays import OUTCOME

SEEDS = range(16)


def options_of(seed: int) -> dict[str, Any]:
    weights = {"quality": 3.0, "ttft": 0.5, "capacity": 2.0} if seed % 3 == 0 else None
    return {"mask": None, "weights": weights, **constraint_of(seed % 2 == 1)}


def intensity_of(world: Any, zone: str, unix_s: float) -> float:
    """The last value published by then, else the first."""
    grid = world.evaluation.grid
    row = max(int((unix_s - grid.start_unix_s) // STEP_S), 0)
    return float(grid.values[row, grid.zones.index(zone)])


# -------------------------------------------------------------- against the slow simulator


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lone_session_is_the_slow_simulators(seed: int, tmp_path: Path) -> None:
    """Fleets of one session, so that capacity and memory are those of that session alone."""
    scenario = random_scenario(seed, tmp_path, sessions=1)
    env = scalar(scenario=scenario, fleets=6, **options_of(seed))
    world = env.world
    scenario = world.scenario
    rng = np.random.default_rng(seed)
    for session, trace in enumerate(t for t in world.evaluation.traces if t.turns):
        rows = slice(*world.first[session : session + 2])
        turns = world.session_turns
        slow = ReferenceSimulator(
            scenario,
            trace,
            lambda zone, unix_s: intensity_of(world, zone, unix_s),
            turns.quality_predicted[rows],
            turns.quality_realised[rows],
        )
        env.reset(options={"session": session})
        for row in range(trace.turns):
            where = f"seed {seed}, session {session}, turn {row}"
            check_quote(env.quotes, slow.quote(row), where)
            *_, terminated, _, info = env.step(int(rng.integers(env.action_space.n)))
            outcome = slow.commit(row, info["deployment_index"])
            for name in OUTCOME.names or ():
                found = info["deployment_index" if name == "deployment" else name]
                assert np.isclose(found, getattr(outcome, name), rtol=1e-12, atol=0.0), where
            assert terminated == (row == trace.turns - 1)


# --------------------------------------------------------------------------------- rewards


def plain_reward(env: Any, row: int, quotes: Any, action: int, info: dict[str, Any]) -> list[float]:
    """The five terms from the issue's formula, what was quoted, and the turn's true reply."""
    rules, world = env.options.rules, env.world
    scenario, turn = world.scenario, world.session_turns.turn[row]
    bounds, profile, fleet = scenario.bounds, scenario.energy, world.fleet
    forced = plain_forced(quotes)
    refused = not quotes.available[0, action] and action != forced
    d = forced if refused else action

    def account(at: int) -> tuple[float, float]:
        cached, history = int(quotes.cached_tokens[0, at]), int(turn["history_tokens"])
        fresh = history - cached + int(turn["prompt_tokens"])
        spent = profile.cached_input_ratio * cached + fresh
        spent += profile.output_ratio * int(turn["output_tokens"])
        region = scenario.fleet.regions[int(fleet.region[at])]
        unix_s = world.origin_unix_s[world.by_session][row] + float(turn["arrival_s"])
        carbon = region.pue * intensity_of(world, region.zone, unix_s)
        wait_s = fresh / float(fleet.prefill_tokens_per_s[at]) + region.round_trip_s
        return carbon * float(fleet.energy_kwh_per_token[at]) * spent, wait_s

    def lateness(wait_s: float) -> float:
        return rules.ttft_weight * max(0.0, wait_s / bounds.ttft_s - 1.0)

    co2_g, wait_s = account(d)
    needed = quotes.history_tokens[0] + quotes.prompt_tokens[0] + quotes.predicted_output_tokens[0]
    contexts = [model.context_tokens for model in scenario.fleet.models]
    fits = [tokens >= min(needed, max(contexts)) for tokens in contexts]
    said = quotes.quality[0]
    best = max(said[m] for m in range(len(fits)) if fits[m])
    m = int(fleet.model[d])
    reached = said[m] if fits[m] else 0.0
    share = bounds.beta_floor if rules.budget else bounds.beta_q
    # A model whose context does not fit answers with quality 0: a violation even of a share of 0.
    short = max(0.0, share * best - reached) if fits[m] else (share or 1.0) * best
    quality = -rules.quality_weight * short
    if rules.budget:
        quality += rules.quality_weight * (reached - rules.quality_target)
    refund = 0.0
    late = wait_s > bounds.ttft_s
    if d != forced and (late or not quotes.admissible[0, d]):
        forced_g, forced_s = account(forced)
        better = (forced_g - co2_g) / rules.co2_scale_g
        if rules.budget:
            better += rules.quality_weight * (reached - said[int(fleet.model[forced])])
        refund = -max(0.0, better) - max(0.0, lateness(forced_s) - lateness(wait_s))
    assert info["masked"] is False
    assert info["refused"] == refused
    assert info["deployment_index"] == d
    room = -rules.capacity_weight if refused else 0.0
    return [-co2_g / rules.co2_scale_g, refund, quality, -lateness(wait_s), room]


def plain_forced(quotes: Any) -> int:
    """The cheapest feasible, or best effort (SPEC §5, §10)."""
    everywhere = range(len(quotes.fleet))
    feasible, admissible, room = (
        [bool(getattr(quotes, name)[0, d]) for d in everywhere]
        for name in ("feasible", "admissible", "available")
    )
    co2_g, wait_s = quotes.co2_g[0].tolist(), quotes.ttft_s[0].tolist()
    names = [quotes.fleet.triple(d) for d in everywhere]
    if any(feasible):
        best = [d for d in everywhere if feasible[d]]
        return min(best, key=lambda d: (co2_g[d], wait_s[d], names[d]))
    best = [d for d in everywhere if admissible[d] and room[d]]
    best = best or [d for d in everywhere if admissible[d]]
    return min(best, key=lambda d: (wait_s[d], co2_g[d], names[d]))


@pytest.mark.parametrize("seed", SEEDS)
def test_rewards_are_the_formulas(seed: int, tmp_path: Path) -> None:
    env = scalar(scenario=random_scenario(seed, tmp_path), **options_of(seed))
    rng = np.random.default_rng(seed)
    happened: Counter[str] = Counter()
    for session in range(env.world.sessions):
        env.reset(options={"session": session})
        for row in range(*env.world.first[session : session + 2]):
            action = int(rng.integers(env.action_space.n))
            quotes = env.quotes.copy()
            _, reward, _, _, info = env.step(action)
            names = ("co2", "refund", "quality", "ttft", "capacity")
            found = [info[f"reward_{name}"] for name in names]
            expected = plain_reward(env, row, quotes, action, info)
            assert np.allclose(found, expected, rtol=1e-9, atol=1e-12), f"{seed} {session} {row}"
            assert np.isclose(reward, sum(found), rtol=1e-12, atol=1e-12)
            happened.update(name for name, term in zip(names, found, strict=True) if term)
    assert sum(happened.values())


# ---------------------------------------------------------------------------- observations


def plain_observation(env: Any, row: int, last_use_s: dict[int, float]) -> dict[str, list[float]]:
    """Every named slice from the quotes, by the meanings that the layout states."""
    world, quotes = env.world, env.quotes
    scenario, fleet = world.scenario, world.fleet
    ttl_s, tau_s = scenario.cache.ttl_s, scenario.bounds.ttft_s
    turn = world.session_turns.turn[row]
    unix_s = int(world.origin_unix_s[world.by_session][row]) + float(turn["arrival_s"])
    moment = datetime.fromtimestamp(unix_s, UTC)
    begin = datetime(moment.year, 1, 1, tzinfo=UTC)
    year_s = (datetime(moment.year + 1, 1, 1, tzinfo=UTC) - begin).total_seconds()
    day = (moment - moment.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
    shares = {
        "hour": day / 86_400,
        "weekday": (moment.weekday() + day / 86_400) / 7,
        "month": (moment - begin).total_seconds() / year_s,
    }
    history, prompt = int(quotes.history_tokens[0]), int(quotes.prompt_tokens[0])
    reply = float(quotes.predicted_output_tokens[0])
    idle_s = float(quotes.idle_s[0])
    seen = {name: [sin(2 * pi * x), cos(2 * pi * x)] for name, x in shares.items()}
    seen["prompt"] = [prompt / (prompt + 512)]
    seen["history"] = [history / (history + 4096)]
    seen["predicted_output"] = [reply / (reply + 512)]
    seen["turn"] = [quotes.turn[0] / (quotes.turn[0] + 8)]
    seen["idle"] = [1.0 if idle_s == inf else ratio(idle_s, idle_s + ttl_s)]
    now = quotes.intensity[0].tolist()
    stale_s = unix_s - scenario.grid.staleness_s
    zones = [region.zone for region in scenario.fleet.regions]
    day_ago = [intensity_of(world, zone, stale_s - 86_400) for zone in zones]
    hour_ago = [intensity_of(world, zone, stale_s - 3600) for zone in zones]
    assert hour_ago == quotes.intensity_hour_ago[0].tolist()
    assert now == [intensity_of(world, zone, stale_s) for zone in zones]
    seen["intensity"] = [x / (x + 300) for x in now]
    seen["change_1h"] = [ratio(a - b, a + b) for a, b in zip(now, hour_ago, strict=True)]
    seen["change_24h"] = [ratio(a - b, a + b) for a, b in zip(now, day_ago, strict=True)]
    seen["rank"] = [sum(y < x for y in now) / max(len(now) - 1, 1) for x in now]
    said = quotes.quality[0].tolist()
    needed = history + prompt + reply
    contexts = [model.context_tokens for model in scenario.fleet.models]
    enough = min(needed, max(contexts))
    best = max(q for q, tokens in zip(said, contexts, strict=True) if tokens >= enough)
    seen["quality"] = said
    seen["quality_ratio"] = [min(q / best, 1.0) for q in said]
    seen["admissible"] = quotes.model_admissible[0].tolist()
    loads, places = quotes.unit_load[0].tolist(), quotes.unit_places[0].tolist()
    seen["room"] = quotes.unit_available[0].tolist()
    if scenario.capacity.limit is None:
        seen["load"] = [ratio(load, sum(loads)) for load in loads]
    else:
        seen["load"] = [
            min(load / most, 1.0) if most > 0 else 1.0
            for load, most in zip(loads, places, strict=True)
        ]
    evicted = world.session_turns.evicted_until_s
    evicted = evicted[row if len(evicted) > 1 else 0].tolist()
    columns: list[list[float]] = []
    forced = plain_forced(quotes)
    price_g = quotes.co2_g[0].tolist()
    for d in range(len(fleet)):
        cached, wait_s = int(quotes.cached_tokens[0, d]), float(quotes.ttft_s[0, d])
        age, margin = 1.0, 0.0
        if cached:
            age = ratio(float(turn["arrival_s"]) - last_use_s[d], ttl_s)
            margin = min(1.0 - age, ratio(last_use_s[d] - evicted[d], ttl_s))
        columns.append(
            [
                ratio(cached, history),
                age,
                margin,
                ratio(price_g[d] - price_g[forced], price_g[d] + price_g[forced]),
                (wait_s - tau_s) / (wait_s + tau_s),
                float(quotes.feasible[0, d]),
                float(quotes.previous[0] == d),
            ]
        )
    seen["stake"] = [ratio(price_g[forced], price_g[forced] + scale_co2_g(scenario))]
    for name, column in zip(env.layout.feature_names, zip(*columns, strict=True), strict=True):
        seen[name] = list(column)
    return seen


def ratio(part: float, whole: float) -> float:
    """0 / 0 is 0."""
    return part / whole if whole else 0.0


@pytest.mark.parametrize("seed", SEEDS)
def test_observations_are_what_the_layout_says(seed: int, tmp_path: Path) -> None:
    options = {**options_of(seed), "background": ("reference", "faircarbon")[seed % 2]}
    env = scalar(scenario=random_scenario(seed, tmp_path, sessions=60), **options)
    blocks = scalar(scenario=env.world.scenario, **{**options, "observation": "dict"})
    rng = np.random.default_rng(seed)
    usable = 0
    for session in rng.permutation(env.world.sessions)[:12]:
        observation, _ = env.reset(options={"session": int(session)})
        as_dict, _ = blocks.reset(options={"session": int(session)})
        last_use_s: dict[int, float] = {}
        for row in range(*env.world.first[session : session + 2]):
            seen = plain_observation(env, row, last_use_s)
            named = [name for name, *_ in env.layout.describe()]
            assert set(seen) == set(named)
            for name in named:
                found = observation[env.layout.slices[name]]
                assert np.allclose(found, seen[name], rtol=1e-5, atol=2e-6), f"{name}, row {row}"
            matrix = env.layout.deployments(observation)
            assert np.shares_memory(matrix, observation)
            assert np.array_equal(matrix[:, -1], np.float32(seen["current"]))
            assert np.array_equal(env.layout.deployments(as_dict["deployments"]), matrix)
            assert np.array_equal(np.concatenate(list(as_dict.values())), observation)
            usable += int(env.quotes.cached_tokens.any())
            action = int(rng.integers(env.action_space.n))
            observation, *_, info = env.step(action)
            as_dict = blocks.step(action)[0]
            last_use_s[info["deployment_index"]] = float(
                env.world.session_turns.turn[row]["arrival_s"]
            )
    assert usable or env.world.scenario.cache.ttl_s < 100.0 or seed % 5 == 3
