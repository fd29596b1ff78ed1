"""Recording: whole fleets served by a policy, written session by session as it goes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from carbon_gym import __version__
from carbon_gym.benchmark import evaluation_key, policy_key
from carbon_gym.datasets.mapped import write_arrays
from carbon_gym.datasets.reader import FILE, FORMAT, VERSION, read_metadata
from carbon_gym.doors import make_policy
from carbon_gym.envs import kernels
from carbon_gym.envs.arrays import MASK_FEASIBLE, MASK_NONE, MASK_ROOM, STEP, Rules
from carbon_gym.envs.fleet_view import FleetView
from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.errors import InputError
from carbon_gym.evaluation import Evaluation
from carbon_gym.files import make_writable_folder, replacing
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.policy import Policy
from carbon_gym.router.plan import signature
from carbon_gym.simulator.allocate import rows_by_session
from carbon_gym.simulator.arrays import Ints
from carbon_gym.simulator.simulator import Simulator
from carbon_gym.workload.trace import Trace

TERMS = [name for name in STEP.names or () if name.startswith("reward_")]
"""Columns of `FleetData.reward_terms`."""
MASKS = {MASK_NONE: None, MASK_FEASIBLE: "feasible", MASK_ROOM: "room"}
"""Names of the masks, as the environments' argument."""
Instead = Literal["nearest", "cheapest"]
INSTEAD: tuple[Instead, ...] = ("nearest", "cheapest")
_COUNTED = ("sessions", "turns", "outside_mask", "refused", "replaced", "co2_g")
_REPORT_EVERY_TURNS = 500


def recordable(name: str, evaluation: Evaluation) -> Policy:
    """The policy to be recorded.

    Raises:
        InputError: It is unknown, or a bound that no run can follow.
    """
    policy = make_policy(name, evaluation.scenario)
    if getattr(policy, "full_cache", False):
        raise InputError(
            f"policy {name!r} is a bound that no run can follow; record a router, or 'clairvoyant'"
        )
    return policy


def record(
    evaluation: Evaluation,
    name: str,
    folder: Path,
    rules: Rules,
    *,
    split: str | None = None,
    instead: Instead = "cheapest",
    on_turns: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """Serve the fleets one by one, and write what was seen, done and rewarded.

    A fleet is in memory at a time, and is written when it is done; fleets that an earlier, killed
    recording of the same left are kept. Actions are executed as the environments do: where a pool
    has no room, on the deployment of best effort.

    A policy that foresees its plan (`clairvoyant`) plans without capacity and memory pressure. Here
    it meets both: where the mask forbids what it planned, `instead` says which of the allowed
    deployments it takes.

    Args:
        evaluation: The fleets.
        name: Any policy of `carbon_gym.make_policy` but a bound that needs full caches.
        folder: Made if it is missing.
        rules: Of the reward and the mask, as `carbon_gym.envs.options.resolve` gives them.
        split: Of the sessions, for the metadata.
        instead: "nearest": that whose estimated CO2 is nearest to the planned deployment's;
            "cheapest": that of the least estimated CO2.
        on_turns: Called with the number of turns served, or found served, since its last call.

    Returns:
        Content of ``dataset.json``.

    Raises:
        InputError: A policy that cannot be recorded, or a folder that cannot be written or holds
            another dataset.
    """
    policy = recordable(name, evaluation)
    layout = ObservationLayout(Deployments.of(evaluation.scenario))
    rules = rules._replace(max_turns=0)
    metadata = _metadata(evaluation, name, layout, rules, split, instead)
    make_writable_folder(folder, "--out")
    done = {entry["file"]: entry for entry in _kept(folder, metadata)}
    for number, (trace, day) in enumerate(zip(evaluation.traces, evaluation.days, strict=True)):
        file = f"fleet-{number:04d}.npz"
        if file in done:
            on_turns(trace.turns)
        else:
            arrays, counts = _serve(evaluation, trace, policy, layout, rules, instead, on_turns)
            write_arrays(folder / file, arrays)
            done[file] = {"file": file, "day": date.isoformat(day), **counts}
        metadata["fleets"] = [done[key] for key in sorted(done)]
        for count in _COUNTED:
            metadata["counts"][count] = sum(entry[count] for entry in done.values())
        with replacing(folder / FILE) as partial:
            partial.write_text(json.dumps(metadata, indent=1) + "\n", encoding="utf-8")
    return metadata


def _metadata(
    evaluation: Evaluation,
    name: str,
    layout: ObservationLayout,
    rules: Rules,
    split: str | None,
    instead: Instead,
) -> dict[str, Any]:
    scenario = evaluation.scenario
    digest = hashlib.sha256(evaluation_key(evaluation).encode())
    digest.update(policy_key(name, evaluation).encode())
    digest.update(repr((rules, layout.describe(), instead)).encode())
    said = {
        "format": FORMAT,
        "version": VERSION,
        "key": digest.hexdigest()[:16],
        "carbon_gym": __version__,
        "policy": name,
        "scenario": scenario.name,
        "digest": scenario.digest(),
        "scenario_content": scenario.to_dict(),
        "split": split,
        "instead": instead,
        "observations": {"size": layout.size, "signature": signature(layout)},
        "deployments": list(layout.names),
        "mask": MASKS[rules.mask],
        "co2_scale_g": rules.co2_scale_g,
        "weights": {
            "quality": rules.quality_weight,
            "ttft": rules.ttft_weight,
            "capacity": rules.capacity_weight,
        },
        "quality_target": rules.quality_target if rules.budget else None,
        "reward_terms": TERMS,
        "notes": list(evaluation.notes),
        "counts": {"fleets_wanted": len(evaluation.traces)},
        "fleets": [],
    }
    return json.loads(json.dumps(said))  # type: ignore[no-any-return]  # as it will be read again


def _kept(folder: Path, metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Fleets of the same recording that lie in the folder already."""
    old = read_metadata(folder)
    if old is None:
        return []
    if old.get("key") != metadata["key"]:
        raise InputError(
            f"--out {folder}: holds another dataset ({old.get('policy')!r} on "
            f"{old.get('scenario')!r}, {old['counts']['fleets_wanted']} fleets), or one of other "
            "sources; name another folder"
        )
    return [entry for entry in old["fleets"] if (folder / entry["file"]).is_file()]


def _serve(
    evaluation: Evaluation,
    trace: Trace,
    policy: Policy,
    layout: ObservationLayout,
    rules: Rules,
    instead: Instead,
    on_turns: Callable[[int], None],
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and counts of one fleet."""
    scenario, grid = evaluation.scenario, evaluation.grid
    simulator = Simulator(scenario, [trace], grid)
    foresee = getattr(policy, "foresee", None)
    if foresee is not None:
        foresee(Simulator(scenario, [trace], grid, unbounded=True))
    if hasattr(policy, "accompany"):
        policy.accompany(simulator)
    policy.reset(simulator.fleet, simulator.slots)
    view = FleetView(simulator, layout, rules)
    order = rows_by_session(trace)
    place = np.empty(trace.turns, dtype=np.int64)
    place[order] = np.arange(trace.turns)
    turns, deployments, lanes = trace.turns, len(layout.fleet), view.kit.lanes
    observations = np.empty((turns, layout.size), dtype=np.float32)
    masks = np.empty((turns, deployments), dtype=np.bool_)
    actions = np.empty(turns, dtype=np.int64)
    rewards = np.empty(turns)
    terms = np.empty((turns, len(TERMS)))
    counts: dict[str, Any] = dict.fromkeys(_COUNTED, 0)
    view.observe()
    for row, at in enumerate(place.tolist()):
        quotes = simulator.quote()
        chosen = _checked(policy, policy.choose(quotes), deployments)
        allowed = view.mask[0] != 0
        if foresee is not None and not allowed[chosen[0]]:
            planned_g = quotes.co2_g[0, chosen[0]] if instead == "nearest" else 0.0
            gap_g = np.abs(quotes.co2_g[0] - planned_g)
            chosen = np.array([np.where(allowed, gap_g, np.inf).argmin()])
            counts["replaced"] += 1
        observations[at], masks[at], actions[at] = view.observation[0], allowed, chosen[0]
        kernels.step_fleets(view.words, chosen)
        step = lanes.step[0]
        rewards[at] = lanes.reward[0]
        terms[at] = [step[name] for name in TERMS]
        counts["outside_mask"] += int(step["masked"])
        counts["refused"] += int(step["refused"])
        if (row + 1) % _REPORT_EVERY_TURNS == 0:
            on_turns(_REPORT_EVERY_TURNS)
    on_turns(turns % _REPORT_EVERY_TURNS)
    first = np.concatenate([[0], np.cumsum(trace.session_turns)]).astype(np.int64)
    ended = np.zeros(turns, dtype=np.bool_)
    ended[first[1:][np.diff(first) > 0] - 1] = True
    ledger = simulator.ledger[order]
    counts |= {"sessions": trace.sessions, "turns": turns, "co2_g": float(ledger["co2_g"].sum())}
    arrays: dict[str, NDArray[Any]] = {
        "first": first,
        "observations": observations,
        "actions": actions,
        "rewards": rewards,
        "reward_terms": terms,
        "masks": masks,
        "terminations": ended,
    }
    for name in ("co2_g", "quality_predicted", "ttft_s"):
        arrays[name] = ledger[name]
    return arrays, counts


def _checked(policy: Policy, given: Any, deployments: int) -> Ints:
    """The policy's choice for the one lane, int64 (1,)."""
    chosen = np.asarray(given)
    right = chosen.shape == (1,) and chosen.dtype.kind in "iu"
    if not right or not 0 <= chosen[0] < deployments:
        raise InputError(
            f"policy {policy.name!r}: choose() gave {given!r} for one lane; give an array of one "
            f"deployment index from 0 to {deployments - 1}"
        )
    return np.ascontiguousarray(chosen, dtype=np.int64)
