"""Random small worlds for the simulator: fleet, rules, trace, grid and qualities.

Times are multiples of 1/8 s, so that ages at the edges of the windows are exact in binary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from carbon_gym import make_policy
from carbon_gym.grid.series import STEP_S, GridSeries
from carbon_gym.policy import Policy
from carbon_gym.scenario.fleet import Model
from carbon_gym.scenario.scenario import Scenario
from carbon_gym.scenario.schema import CATEGORIES
from carbon_gym.simulator import Simulator
from carbon_gym.simulator.arrays import OUTCOME
from carbon_gym.workload.trace import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

START_UNIX_S = 1_680_000_000
TICK_S = 0.125
_TOP_TOKENS = {False: (900, 700), True: (200, 160)}  # of prompts and replies
ABILITY = dict.fromkeys(CATEGORIES, 0.5)
POLICY_NAMES = (
    "session-affinity",
    "faircarbon",
    "ccar-no-gate",
    "ccar-no-pricing",
    "largest-model",
    "lower-bound",
)


class FixedQuality:
    """A predictor that says what it was told, by trace (its identity) and model name."""

    def __init__(self) -> None:
        self.tables: dict[int, dict[str, Floats]] = {}

    def tell(self, trace: Trace, names: Sequence[str], predicted: Floats) -> None:
        """Column m of `predicted` (T, M) belongs to model ``names[m]``."""
        self.tables[id(trace)] = {name: predicted[:, m] for m, name in enumerate(names)}

    def predict(self, trace: Trace, models: Sequence[Model]) -> Floats:
        table = self.tables[id(trace)]
        return np.stack([table[model.name] for model in models], axis=1)

    def realised_quality(self, trace: Trace, models: Sequence[Model]) -> Floats:
        return self.predict(trace, models) ** 2


@dataclass
class World:
    """All that a simulator is built from."""

    scenario: Scenario
    traces: list[Trace]
    grid: GridSeries
    predictor: FixedQuality

    @property
    def trace(self) -> Trace:
        return self.traces[0]

    def with_scenario(self, **sections: Any) -> World:
        """The same world with some fields of some sections changed: ``cache={"ttl_s": 1.0}``."""
        update = {
            name: getattr(self.scenario, name).model_copy(update=change)
            for name, change in sections.items()
        }
        return replace(self, scenario=self.scenario.model_copy(update=update))

    def grid_at(self) -> Callable[[str, float], float]:
        """Carbon intensity of a zone at an instant: the last value published, else the first."""

        def at(zone: str, t_unix_s: float) -> float:
            row = max(int((t_unix_s - self.grid.start_unix_s) // STEP_S), 0)
            return float(self.grid.values[row, self.grid.zones.index(zone)])

        return at


def policy_named(name: str) -> Policy:
    """One of `POLICY_NAMES`; without pricing also without the gate, which the reference lacks."""
    return make_policy(name, **({"gate": None} if name == "ccar-no-pricing" else {}))


def play(
    world: World,
    name: str,
    actions: Ints | None = None,
    *,
    lanes: Literal["fleets", "sessions"] = "fleets",
    in_one_pass: bool = False,
) -> Simulator:
    """A finished run of a policy, or of given ``actions`` (lanes, steps) taken modulo D.

    Verb by verb, or by `Simulator.step`.
    """
    simulator = Simulator(
        world.scenario,
        world.traces,
        world.grid,
        predictor=world.predictor,
        full_cache=name == "lower-bound",
        lanes=lanes,
    )
    policy = None if name == "random" else policy_named(name)
    if policy is not None:
        policy.reset(simulator.fleet, simulator.slots)
    quotes = simulator.quote()
    step = 0
    while not simulator.done:
        if policy is not None:
            chosen = policy.choose(quotes)
        else:
            assert actions is not None
            chosen = actions[: simulator.lanes, step] % len(simulator.fleet)
        if in_one_pass:
            quotes = simulator.step(chosen)
        else:
            simulator.commit(chosen)
            quotes = simulator.quote()
        step += 1
    return simulator


def assert_same_ledger(found: NDArray[np.void], expected: NDArray[np.void]) -> None:
    """Every field of every row, bit for bit."""
    assert len(found) == len(expected)
    for field in OUTCOME.names or ():
        assert np.array_equal(found[field], expected[field]), field


def pick(rng: np.random.Generator, *options: Any) -> Any:
    """One of the options, as it is."""
    return options[int(rng.integers(len(options)))]


def random_world(
    seed: int,
    *,
    shape: tuple[int, int, int] | None = None,
    traces: int = 1,
    turns: int = 120,
    coarse: bool = False,
    **sections: dict[str, Any],
) -> World:
    """A world of some shape (models, GPUs, regions); `sections` fix fields of the scenario.

    `coarse`: of round numbers, so that deployments tie, and that KV rooms, places and TTFT are
    met exactly; with many sessions.
    """
    rng = np.random.default_rng(seed)
    models, gpus, regions = shape or (
        int(rng.integers(1, 5)),
        int(rng.integers(1, 4)),
        int(rng.integers(1, 8)),
    )
    content = _rules(rng)
    content["fleet"] = _fleet(rng, models, gpus, regions)
    if coarse:
        _make_coarse(content)
    for name, change in sections.items():
        content[name] = {**content[name], **change}
    scenario = Scenario.model_validate(content)
    predictor = FixedQuality()
    world = World(scenario, [], _grid(rng, scenario), predictor)
    for _ in range(traces):
        trace = random_trace(rng, scenario, int(rng.integers(turns // 4, turns + 1)), coarse)
        world.traces.append(trace)
        tell_quality(rng, world, trace)
    return world


def tell_quality(rng: np.random.Generator, world: World, trace: Trace) -> None:
    """Draw what the predictor says of a trace; rounded now and then, so that qualities tie."""
    names = [model.name for model in world.scenario.fleet.models]
    said = np.asarray(rng.uniform(0.01, 1.0, (trace.turns, len(names))))
    world.predictor.tell(trace, names, said if rng.random() < 0.7 else np.round(said, 1))


def _rules(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "energy": {
            "cached_input_ratio": pick(rng, 0.0, 0.03, 0.1, 1.0),
            "output_ratio": pick(rng, 0.0, 4.0, 5.0),
            "reference_kwh_per_token": pick(rng, None, 4.24e-9, 1e-7),
        },
        "cache": {
            "ttl_s": pick(rng, 0.0, 60.0, 600.0, 600.0),
            "on_leave": pick(rng, "retain", "evict"),
            "memory_pressure": pick(rng, True, True, False),
        },
        "capacity": {
            "limit": pick(rng, None, 0.1, 0.25, 0.5, 1.0),
            "scope": pick(rng, "pool", "region"),
            "rule": pick(rng, "sessions", "turns"),
            "residency_s": pick(rng, 0.0, 300.0, 1800.0),
            "slot_s": pick(rng, 0.0, 60.0, 300.0),
        },
        "bounds": {"beta_q": pick(rng, 0.0, 0.5, 0.85, 1.0), "ttft_s": pick(rng, 0.1, 0.5, 2.0)},
        "grid": {"staleness_s": pick(rng, 0.0, 0.0, 300.0, 450.125, 7200.0)},
    }


def _fleet(rng: np.random.Generator, models: int, gpus: int, regions: int) -> dict[str, Any]:
    names = [str(x) for x in rng.permutation([f"{c}{k}" for c in "xay" for k in range(8)])]
    fleet: dict[str, Any] = {"replicas": int(rng.integers(1, 3)), "max_gpus_per_replica": 64}
    fleet["models"] = [
        {
            "name": f"model-{names[m]}",
            "params_billion": pick(rng, 1.0, 3.09, 8.03, float(rng.uniform(1, 40))),
            "layers": 40,
            "kv_heads": 8,
            # 0.3 to 3 MB a token: a replica's few GB of room hold a few thousand tokens
            "head_dim": int(rng.integers(250, 2500)),
            "context_tokens": pick(rng, 900, 2500, 6000, 131_072),
            "ability": ABILITY,
        }
        for m in range(models)
    ]
    fleet["gpus"] = [
        {
            "name": f"gpu-{names[g]}",
            "peak_tflops": float(rng.uniform(20, 400)),
            "bandwidth_tb_s": float(rng.uniform(0.5, 4)),
            "memory_gb": float(rng.uniform(3, 30)),
            "tdp_w": float(rng.uniform(100, 700)),
            "prefill_utilisation": float(rng.uniform(0.2, 0.6)),
            "relative_energy": pick(rng, None, 1.0, float(rng.uniform(0.5, 2))),
            "share": pick(rng, None, float(rng.uniform(0.05, 1.0))),
        }
        for g in range(gpus)
    ]
    fleet["regions"] = [
        {
            "zone": f"zone-{names[r]}",
            "pue": pick(rng, 1.0, 1.2, float(rng.uniform(1, 2))),
            "round_trip_s": pick(rng, 0.0, 0.0, float(rng.uniform(0, 0.2))),
        }
        for r in range(regions)
    ]
    return fleet


def _make_coarse(content: dict[str, Any]) -> None:
    """Prefill of 256 tokens/s, room for 320 tokens, and all deployments alike but for their CI."""
    content["bounds"]["ttft_s"] = 160 / 256
    content["capacity"]["limit"] = 0.1
    content["fleet"]["replicas"] = 1
    for model in content["fleet"]["models"]:
        model |= {"params_billion": 1.0, "layers": 1, "kv_heads": 1, "head_dim": 1_250_000}
    for gpu in content["fleet"]["gpus"]:
        gpu |= {"peak_tflops": 1.024, "prefill_utilisation": 0.5, "memory_gb": 4.0}
        gpu |= {"tdp_w": 900.0, "relative_energy": 1.0, "share": 0.4}
    for region in content["fleet"]["regions"]:
        region |= {"pue": 1.0, "round_trip_s": 0.0}


def _grid(rng: np.random.Generator, scenario: Scenario) -> GridSeries:
    zones = tuple(sorted(region.zone for region in scenario.fleet.regions))
    shape = (3 * 288, len(zones))
    values = pick(
        rng,
        rng.uniform(0.0, 700.0, shape),
        rng.uniform(0.0, 700.0, shape),
        rng.choice([0.0, 100.0, 250.0], shape),  # ties, and a zero-carbon grid
    )
    return GridSeries(zones, START_UNIX_S // STEP_S * STEP_S, np.asarray(values))


def random_trace(
    rng: np.random.Generator, scenario: Scenario, turns: int, coarse: bool = False
) -> Trace:
    """A trace whose gaps fall on, just inside and just outside every window of the rules."""
    sessions = int(rng.integers(1, 60 if coarse else 16)) if turns else 0
    session = np.sort(rng.integers(0, max(sessions, 1), turns))
    used, session = np.unique(session, return_inverse=True)
    turn = np.concatenate([np.arange(n) for n in np.bincount(session)] or [np.zeros(0)])
    turn = turn.astype(np.int64)
    edges = [scenario.cache.ttl_s, scenario.capacity.residency_s, scenario.capacity.slot_s]
    arrival_s = np.zeros(turns)
    unit = 40 if coarse else 1
    prompt, output = (rng.integers(0, top // unit, turns) * unit for top in _TOP_TOKENS[coarse])
    history = np.zeros(turns, dtype=np.int64)
    for i in range(turns):
        if turn[i] == 0:
            # Few distinct starts: sessions arrive together, some with a history of their own.
            arrival_s[i] = pick(rng, 0.0, 300.0, 300.0, float(rng.integers(0, 8 * 3000)) * TICK_S)
            history[i] = pick(rng, 0, 0, 0, int(rng.integers(0, 2000 // unit**2)) * unit)
            continue
        edge = max(pick(rng, *edges) + pick(rng, -TICK_S, 0.0, TICK_S), 0.0)
        short = float(rng.integers(0, 8 * 120)) * TICK_S
        arrival_s[i] = arrival_s[i - 1] + pick(rng, short, short, short, edge, 0.0)
        # Most clients send the whole conversation back; some trim or edit it.
        whole = int(history[i - 1] + prompt[i - 1] + output[i - 1])
        history[i] = pick(rng, whole, whole, whole, whole // 2, whole + 280)
    order = np.lexsort((turn, session, arrival_s))
    return Trace(
        origin_unix_s=START_UNIX_S + int(rng.integers(0, 4000)),
        session=session[order].astype(np.int64),
        turn=turn[order],
        arrival_s=arrival_s[order],
        prompt_tokens=prompt[order],
        history_tokens=history[order],
        output_tokens=output[order],
        predicted_output_tokens=np.asarray(rng.uniform(0.0, 700.0, turns)),
        category=np.zeros(turns, dtype=np.int8),
        difficulty=np.zeros(turns),
        session_id=tuple(f"s{k}" for k in used),
        session_key=used.astype(np.uint64),
        session_turns=np.bincount(session, minlength=len(used)).astype(np.int64),
    )
