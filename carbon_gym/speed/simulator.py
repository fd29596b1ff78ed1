"""How fast the simulator is, beside gymnasium's CartPole in the same run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection

import numpy as np

from carbon_gym.doors import make_policy
from carbon_gym.grid.load import load_grid
from carbon_gym.grid.series import GridSeries, day_start_unix_s
from carbon_gym.scenario import Scenario, load_scenario
from carbon_gym.scenario.schema import Period
from carbon_gym.simulator.run import run_policy
from carbon_gym.simulator.simulator import Simulator
from carbon_gym.speed.rounds import Bar, Measurement, Work, in_turn, measurement, no_bar
from carbon_gym.workload.fleets import Fleets
from carbon_gym.workload.trace import Trace

LANES = 1024
TURNS_PER_LANE = 20
FLEET_TURNS = 130_000
LONG_TRACE_TURNS = 1_000_000
_TURNS_PER_SESSION = 6.1  # of the sharegpt scenario, to size the traces
_CARTPOLE_STEPS = 20_000


def measure_simulator(repeats: int = 5, bar: Bar = no_bar) -> list[Measurement]:
    """The simulator without environments, in this process and one child for the long trace.

    Args:
        repeats: Of each figure but the long trace's, after one that does not count.
        bar: Shows progress.
    """
    with bar("simulator", 3 * (repeats + 1) + 3) as done:
        return _measured(repeats, done)


def _measured(repeats: int, done: Callable[[int], None]) -> list[Measurement]:
    cartpole = _rates(_cartpole, repeats, done)
    scenario = load_scenario("sharegpt")
    trace, grid = _world(scenario, LANES * 40)
    simulator = Simulator(scenario, [_first_turns(trace)], grid, lanes="sessions")
    lanes = _rates(lambda: _quote_and_commit(simulator), repeats, done)
    fleet_trace, fleet_grid = _world(scenario, int(FLEET_TURNS / _TURNS_PER_SESSION))
    fleet = _seconds(lambda: _run(scenario, fleet_trace, fleet_grid), repeats, done)
    long = _in_child(partial(_long_trace, LONG_TRACE_TURNS))
    done(3)
    rows = [
        measurement("CartPole-v1, scalar", cartpole, "steps/s"),
        measurement(
            f"simulator, {simulator.lanes} lanes x {len(simulator.fleet)}", lanes, "turns/s"
        ),
        measurement(f"fleet run of {fleet_trace.turns:,} turns, CCAR's price", fleet, "s"),
        measurement(f"trace of {int(long['turns']):,} turns, CCAR's price", [long["run_s"]], "s"),
        measurement("  the same, with making and loading it", [long["all_s"]], "s"),
    ]
    if "peak_gib" in long:
        rows.append(measurement("  peak memory of that process", [long["peak_gib"]], "GiB"))
    return rows


def _seconds(work: Callable[[], object], repeats: int, done: Callable[[int], None]) -> list[float]:
    """Wall-clock seconds of each repeat, after one that is not counted (compilation)."""
    seconds = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
        done(1)
    return seconds[1:]


def _rates(work: Work, repeats: int, done: Callable[[int], None]) -> list[float]:
    """Units per second of each repeat, after one that is not counted (compilation)."""
    return in_turn({"it": work}, repeats + 1, done)["it"][1:]


def _cartpole() -> tuple[int, float]:
    import gymnasium

    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 2, _CARTPOLE_STEPS).tolist()
    began = time.perf_counter()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return _CARTPOLE_STEPS, time.perf_counter() - began


def _world(scenario: Scenario, sessions: int) -> tuple[Trace, GridSeries]:
    """A test-split trace of about `sessions` sessions on the first test day, and its grid."""
    workload = scenario.workload.model_copy(update={"sessions_per_fleet": sessions})
    fleets = Fleets(workload, scenario.quality, scenario.splits, scenario.seeds)
    first = scenario.splits.test.start
    trace = fleets.trace(0, day_start_unix_s(first), "test")
    zones = [region.zone for region in scenario.fleet.regions]
    period = Period(start=first, stop=first + timedelta(days=2))
    return trace, load_grid(scenario.grid, zones, period, scenario.seeds.grid)


def _first_turns(trace: Trace) -> Trace:
    """The first `TURNS_PER_LANE` turns of the first `LANES` sessions that have so many."""
    chosen = np.flatnonzero(trace.session_turns >= TURNS_PER_LANE)[:LANES]
    number = np.full(trace.sessions, -1)
    number[chosen] = np.arange(len(chosen))
    rows = (number[trace.session] >= 0) & (trace.turn < TURNS_PER_LANE)
    columns = {
        name: getattr(trace, name)[rows]
        for name in (
            "turn",
            "arrival_s",
            "prompt_tokens",
            "history_tokens",
            "output_tokens",
            "predicted_output_tokens",
            "category",
            "difficulty",
        )
    }
    return replace(
        trace,
        **columns,
        session=number[trace.session[rows]],
        session_id=tuple(trace.session_id[s] for s in chosen),
        session_key=trace.session_key[chosen],
        session_turns=np.full(len(chosen), TURNS_PER_LANE),
    )


def _quote_and_commit(simulator: Simulator) -> tuple[int, float]:
    """Serve all lanes on random deployments drawn beforehand: no policy's time is counted."""
    rng = np.random.default_rng(0)
    actions = rng.integers(0, len(simulator.fleet), (TURNS_PER_LANE, simulator.lanes))
    simulator.reset()
    simulator.quote()
    began = time.perf_counter()
    for chosen in actions:
        simulator.step(chosen)
    return actions.size, time.perf_counter() - began


def _run(scenario: Scenario, trace: Trace, grid: GridSeries) -> None:
    run_policy(scenario, make_policy("ccar-no-gate"), [trace], grid)


def _long_trace(turns: int) -> dict[str, float]:
    began = time.perf_counter()
    scenario = load_scenario("sharegpt")
    trace, grid = _world(scenario, int(turns / _TURNS_PER_SESSION))
    small, small_grid = _world(scenario, 10)
    _run(scenario, small, small_grid)  # compiles
    started = time.perf_counter()
    _run(scenario, trace, grid)
    ended = time.perf_counter()
    return {
        "turns": float(trace.turns),
        "run_s": ended - started,
        "all_s": ended - began,
        **_peak_memory(),
    }


def _peak_memory() -> dict[str, float]:
    """Most memory that this process has held; nothing where the system does not tell (Windows)."""
    try:
        import resource
    except ImportError:
        return {}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB; bytes on macOS
    peak_bytes = peak * (1 if sys.platform == "darwin" else 1024)
    return {"peak_gib": peak_bytes / 2**30}


def _in_child(work: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Run in a fresh process, so that its peak memory is its own."""
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(theirs, work))
    child.start()
    theirs.close()
    result: dict[str, float] = ours.recv()
    child.join()
    return result


def _send(pipe: Connection, work: Callable[[], dict[str, float]]) -> None:
    pipe.send(work())
