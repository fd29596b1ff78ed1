"""Playing environments at random or greedily, and what must hold of every step."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import numpy as np
from env_worlds import assert_inside, masked_actions, vector
from numpy.typing import NDArray

from carbon_gym.policy import Policy
from carbon_gym.simulator.arrays import OUTCOME

Floats = NDArray[np.float64]


def play_episodes(env: Any, episodes: int, seed: int, allowed: bool) -> Counter[str]:
    """Plays at least so many episodes of a flat vector environment; checks every step.

    Actions are uniformly random among the allowed ones, or among all. Physics are accounted for
    once more from the world's tables; the totals of the episodes must be those sums.
    """
    rng = np.random.default_rng(seed)
    book = Book(env.world)
    lanes, happened = env.num_envs, Counter[str]()
    mode = env.metadata["autoreset_mode"].value
    observation, info = env.reset(seed=seed)
    session, turn = env.lanes.session.copy(), np.zeros(lanes, dtype=np.int64)
    totals, returns = np.zeros(lanes), np.zeros(lanes)
    ended = np.zeros(lanes, dtype=bool)
    while happened["episodes"] < episodes:
        assert_inside(env.layout, observation)
        mask = env.action_masks()
        assert np.array_equal(mask, info["action_mask"] == 1)
        assert mask.any(axis=1).all()
        begins = ended if mode == "NextStep" else np.zeros(lanes, dtype=bool)
        actions = masked_actions(rng, mask if allowed else np.ones_like(mask))
        observation, reward, terminated, truncated, info = env.step(actions)
        assert np.array_equal(info["_co2_g"], ~begins)
        acted = np.flatnonzero(~begins)
        row = env.world.first[session] + turn
        book.check(row[acted], info, acted)
        assert np.isfinite(reward).all()
        terms = sum(info[f"reward_{name}"] for name in ("co2", "refund", "quality", "ttft"))
        terms = (terms + info["reward_capacity"])[acted]
        assert np.allclose(reward[acted], terms, rtol=1e-12, atol=1e-300)
        assert not info["masked"][acted].any() or not allowed
        assert not reward[begins].any()
        totals[acted] += info["co2_g"][acted]
        returns[acted] += reward[acted]
        turn[acted] += 1
        length = np.diff(env.world.first)[session]
        cut = env.options.rules.max_turns or length.max() + 1
        last = ~begins & (turn == length)
        assert np.array_equal(terminated, last)
        assert np.array_equal(truncated, ~begins & ~last & (turn == cut))
        ended = terminated | truncated
        assert np.array_equal(env.lanes.episode_co2_g[ended], totals[ended])
        assert np.array_equal(env.lanes.episode_return[ended], returns[ended])
        happened["episodes"] += int(ended.sum())
        happened["turns"] += len(acted)
        for flag in ("masked", "refused", "feasible", "switched", "capacity_violation"):
            happened[flag] += int(info[flag][acted].sum())
        happened["hits"] += int((info["cached_tokens"][acted] > 0).sum())
        fresh = ended if mode == "SameStep" else begins
        session[fresh], turn[fresh] = env.lanes.session[fresh], 0
        totals[fresh] = returns[fresh] = 0.0
    return happened


def serve_sessions(policy: Policy, sessions: Any, **arguments: Any) -> np.ndarray:
    """Serves conversations one by one, each alone with the background's traffic, by a policy.

    Returns:
        Structured (N,), outcome and reward of every turn by row of the world's session order;
        "deployment" is -1 where no turn was served.
    """
    world = vector(1, **arguments).world
    found = np.zeros(len(world.session_turns.turn), dtype=[*OUTCOME.descr, ("reward", float)])
    found["deployment"] = -1
    length = np.diff(world.first)[sessions]
    for turns in np.unique(length):  # so that lanes end together
        chosen = np.asarray(sessions)[length == turns]
        env = vector(len(chosen), autoreset_mode="Disabled", **arguments)
        env.reset(options={"session": chosen})
        policy.reset(world.fleet, env.slots)
        for turn in range(turns):
            actions = policy.choose(env.quotes)
            _, reward, terminated, _, info = env.step(actions)
            rows = world.first[chosen] + turn
            for name in OUTCOME.names or ():
                found[name][rows] = info["deployment_index" if name == "deployment" else name]
            found["reward"][rows] = reward
            assert np.array_equal(terminated, np.full(len(chosen), turn == turns - 1))
    return found


class Book:
    """The account of SPEC §2 in plain numpy, from the world's tables and what `info` says."""

    def __init__(self, world: Any) -> None:
        self.fleet, self.scenario, self.turns = world.fleet, world.scenario, world.session_turns

    def check(self, row: NDArray[np.int64], info: dict[str, Any], lanes: Any) -> None:
        turn = self.turns.turn[row]
        said = {key: info[key][lanes] for key in info if not key.startswith(("_", "final"))}
        d, cached = said["deployment_index"], said["cached_tokens"]
        history = turn["history_tokens"]
        assert ((cached >= 0) & (cached <= history)).all()
        profile = self.scenario.energy
        tokens = profile.cached_input_ratio * cached + (history - cached) + turn["prompt_tokens"]
        tokens = tokens + profile.output_ratio * turn["output_tokens"]
        e_in = self.fleet.energy_kwh_per_token[d]
        same(said["energy_kwh"], e_in * tokens)
        region = self.fleet.region[d]
        intensity = self.turns.intensity[turn["account_step"], region]
        same(said["co2_g"], self.fleet.pue[region] * intensity * said["energy_kwh"])
        later = turn["turn"] > 0
        same(said["recompute_kwh"], np.where(later, e_in * (history - cached), 0.0))
        assert np.array_equal(said["recomputed_tokens"], np.where(later, history - cached, 0))
        wait = (history - cached + turn["prompt_tokens"]) / self.fleet.prefill_tokens_per_s[d]
        same(said["ttft_s"], wait + self.fleet.round_trip_s[d])
        model = self.fleet.model[d]
        assert np.array_equal(said["quality_predicted"], self.turns.quality_predicted[row, model])
        assert np.array_equal(said["quality_realised"], self.turns.quality_realised[row, model])
        bad = said["quality_violation"] | said["ttft_violation"] | said["capacity_violation"]
        assert np.array_equal(said["feasible"], ~bad)


def same(found: Floats, expected: Floats) -> None:
    assert np.allclose(found, expected, rtol=1e-12, atol=0.0)


class Greedy:
    """Tries every action of every turn, and takes the one of the highest one-step reward."""

    def __init__(self, **arguments: Any) -> None:
        self.deployments = len(vector(1, **arguments).world.fleet)
        arguments = {"mask": None, **arguments}
        self.env = vector(self.deployments, autoreset_mode="Disabled", **arguments)
        kit = self.env._desk.kit
        self.arrays = [*kit.state, *kit.lanes, kit.ledger]

    def play(self, turns: int, seed: int) -> Counter[str]:
        """Counts avoidable violations and what else happened, over at least so many turns."""
        rng = np.random.default_rng(seed)
        happened: Counter[str] = Counter()
        sessions = rng.permutation(self.env.world.sessions)
        while happened["turns"] < turns:
            session = sessions[happened["episodes"] % len(sessions)]
            self.env.reset(options={"session": int(session)})
            ended = False
            while not ended:
                ended = self._turn(happened)
            happened["episodes"] += 1
        return happened

    def _turn(self, happened: Counter[str]) -> bool:
        env, everywhere = self.env, np.arange(self.deployments)
        quotes = env.quotes
        feasible, forced = quotes.feasible[0].copy(), int(quotes.cheapest()[0])
        saved = [it.copy() for it in self.arrays]
        _, reward, _, _, info = env.step(everywhere)
        for it, before in zip(self.arrays, saved, strict=True):
            it[...] = before
        env._desk._fresh = False
        if feasible.any():
            avoidable = ~feasible
            happened["free"] += 1
        else:
            avoidable = np.zeros(len(feasible), dtype=bool)
            for flag in ("quality_violation", "ttft_violation", "capacity_violation"):
                avoidable |= info[flag] & (not info[flag][forced])
            happened["overfull" if info["capacity_violation"][forced] else "late"] += 1
        refused = info["refused"]
        best = reward.max()
        # In favour of a violation where rewards tie.
        tied = np.flatnonzero(reward == best)
        chosen = int(tied[np.argmax(avoidable[tied] | refused[tied])])
        happened["turns"] += 1
        happened["avoidable"] += int(avoidable[chosen] and not refused[chosen])
        happened["refused"] += int(refused[chosen])
        happened["not the cheapest"] += int(chosen != forced)
        if (avoidable[chosen] or refused[chosen]) and len(tied) > 1:
            happened["tied"] += 1
        *_, terminated, truncated, _ = env.step(np.full(self.deployments, chosen))
        return bool(terminated[0] or truncated[0])


def lanes_trajectory(
    env: Any, seed: Any, steps: int, after: Any = None, masked: bool = False
) -> list[Any]:
    """All that a vector environment returns, copied if it does not copy; ended lanes are reset.

    `after` is called with what was returned, once it was noted.
    """
    rng = np.random.default_rng(seed)

    def note(found: Any) -> None:
        keep = copy.deepcopy(found) if after is not None or not env.copy else found
        for ended in [keep[-1][key] for key in ("_final_obs",) if key in keep[-1]]:
            forget(keep[-1]["final_obs"], ~ended)  # rows that nobody is to read
            forget(keep[-1]["final_info"]["action_mask"], ~ended)
        seen.append(keep)
        if after is not None:
            after(found)

    seen: list[Any] = []
    note(env.reset(seed=seed))
    ended = np.zeros(env.num_envs, dtype=bool)
    for _ in range(steps):
        if env.metadata["autoreset_mode"].value == "Disabled" and ended.any():
            note(env.reset(options={"reset_mask": ended.copy()}))
        masks = env.action_masks() if masked else np.ones(env.action_masks().shape, dtype=bool)
        note(env.step(masked_actions(rng, masks)))
        ended = seen[-1][2] | seen[-1][3]
    return seen


def forget(value: Any, rows: np.ndarray) -> None:
    """Set some rows of every array inside to 0."""
    for it in value.values() if isinstance(value, dict) else [value]:
        it[rows] = 0
