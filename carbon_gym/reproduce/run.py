"""Running the worlds of `carbon-gym reproduce`, each once, and laying out the report."""

from __future__ import annotations

import hashlib
import json
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from carbon_gym.benchmark import REFERENCES, compare, evaluation_key, policy_key
from carbon_gym.doors import our_package
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.parallel import in_processes
from carbon_gym.report.document import Document
from carbon_gym.report.work_file import versions
from carbon_gym.reproduce.inputs import evaluation_of, scenario_of
from carbon_gym.reproduce.parts import PARTS
from carbon_gym.reproduce.plan import Part, Plan, Row, World
from carbon_gym.reproduce.rows_file import Known, ReproduceFile, Served
from carbon_gym.reproduce.worlds import ON_LEAVE, dataset_world
from carbon_gym.scenario import Scenario, load_scenario

TITLE = "The paper's tables and figures, made anew"
WITHOUT_TIME = ("decision_us",)
"""Figures of a row that differ from run to run; they are not kept."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A world as it is run: its rules resolved, with the policies that any part wants of it.

    Attributes:
        id: Hash of rules, gate, its threshold, knobs and number of fleets.
        scenario: Rules; its name is the world's.
        fleets: Days.
        policies: Names in a fixed order.
        threshold: Of the gate; None: its own.
    """

    id: str
    scenario: Scenario
    fleets: int
    policies: tuple[str, ...]
    threshold: float | None = None

    @property
    def size(self) -> int:
        """What it costs to run, roughly: days served."""
        return self.fleets * len(self.policies)


class Rows:
    """`carbon_gym.reproduce.plan.Found`, from a file.

    Args:
        file: With all units that were planned.
        ids: Unit of each world's rules.
    """

    def __init__(self, file: ReproduceFile, ids: Mapping[str, str]) -> None:
        self._file = file
        self._ids = ids

    def rows(self, world: World, policy: str) -> Sequence[Row]:
        """See `carbon_gym.reproduce.plan.Found`."""
        return self._file.rows(self._ids[world.rules], policy)

    def facts(self, world: World) -> Mapping[str, Any] | None:
        """What its fleets are; None where it was not run."""
        return self._file.facts(self._ids[world.rules]) if world.rules in self._ids else None


def units_of(plan: Plan, parts: Sequence[Part]) -> tuple[list[Unit], dict[str, str]]:
    """What has to be run for some parts.

    Returns:
        Units, the largest first, so that processes end at about the same time; and the id of each
        world's unit by `World.rules`. Worlds that come to the same rules share a unit.
    """
    bases: dict[str, Scenario] = {}
    units: dict[str, Unit] = {}
    ids: dict[str, str] = {}
    for world in [world for part in parts for world in part.worlds(plan)]:
        if world.rules not in ids:
            if world.scenario not in bases:
                bases[world.scenario] = scenario_of(plan, world.scenario)
            scenario = load_scenario(bases[world.scenario], **json.loads(world.changes))
            name = _id_of(scenario, world)
            unit = Unit(name, scenario, world.fleets, REFERENCES, world.threshold)
            ids[world.rules] = unit.id
            units.setdefault(unit.id, unit)
        unit = units[ids[world.rules]]
        policies = tuple(dict.fromkeys((*unit.policies, *world.policies)))
        units[unit.id] = replace(unit, policies=policies)
    return sorted(units.values(), key=lambda unit: (-unit.size, unit.id)), ids


def run_units(
    plan: Plan,
    units: Sequence[Unit],
    file: ReproduceFile,
    *,
    jobs: int = 1,
    on_served: Callable[[int], None] | None = None,
    on_unit: Callable[[Unit, int], None] | None = None,
) -> None:
    """Run what the file does not have, or has of other fleets, rules, knobs or code.

    Args:
        plan: Sizes.
        units: Of `units_of`.
        file: Written after every unit.
        jobs: Processes; 1 runs in this one.
        on_served: Called with the size of each unit that is done.
        on_unit: Called with each unit that is done, and how many policies were run for it.
    """
    known = {unit.id: file.known(unit.id) for unit in units}
    for unit, served in _each((plan, known), units, jobs):
        file.keep(unit.id, served)
        if on_served is not None:
            on_served(unit.size)
        if on_unit is not None:
            on_unit(unit, len(served.rows))


def document(plan: Plan, found: Rows, parts: Sequence[Part]) -> Document:
    """The report of some parts."""
    return Document(
        TITLE,
        [introduction(plan)],
        [part.section(plan, found) for part in parts],
        {"command": command_of(plan, parts), **_sizes(plan), **_inputs(plan, found), **versions()},
    )


def introduction(plan: Plan) -> str:
    """What a reader must know before any number."""
    own = plan.files.names
    generated = [] if plan.files.conversations else ["conversations"]
    generated += [] if plan.files.grid else ["grids"]
    made = f"{' and '.join(generated)} are generated from statistics of real ones" * bool(generated)
    data = [f"The files are {', '.join(own)}"] * bool(own) + [made.capitalize()] * bool(made)
    return (
        "Every published figure that our summary of the paper (arXiv 2610.35230) gives, with ours "
        f"beside it. {'. '.join(data)}. All policies of a table serve "
        "the same fleets: a fleet is a day of conversations on a day of the grid. Numbers are "
        "means over fleets with a 95 % paired t interval in brackets, where there are five fleets "
        "or more; quality, latency and rates are of all turns. No policy was tuned for the "
        "published savings. ρ_c and ρ_o (to §2.2 and §2.3 of the paper) and the utilisation of "
        "the GPUs (to its appendix A) were set from published figures (SPEC §2)."
    )


def command_of(plan: Plan, parts: Sequence[Part]) -> str:
    """The command that gives this report, with files by their names."""
    files = plan.files
    options: list[Any] = ["--quick"] if plan.quick else []
    if len(parts) < len(PARTS):
        options += [word for part in parts for word in ("--only", part.name)]
    if files.conversations is not None:
        options += ["--conversations", files.conversations.name, "--format", files.format]
    if files.tokenizer is not None:
        options += ["--tokenizer", files.tokenizer.name]
    for path in files.grid:
        options += ["--grid", path.name]
    options += ["--zones", ",".join(files.zones)] if files.zones else []
    options += ["--start", plan.start] if plan.start is not None else []
    options += ["--fleets", plan.fleets]
    options += ["--sessions", plan.sessions] if plan.sessions is not None else []
    return shlex.join(["carbon-gym", "reproduce", *map(str, options)])


def _sizes(plan: Plan) -> dict[str, str]:
    sessions = "as the scenario has them" if plan.sessions is None else str(plan.sessions)
    return {
        "fleets": f"{plan.fleets}; {plan.sensitivity_fleets} of each setting that is varied",
        "sessions a day": sessions,
    }


def _inputs(plan: Plan, found: Rows) -> dict[str, str]:
    """What the data sets are, and the seeds of what was drawn."""
    said = {}
    for dataset in plan.datasets:
        facts = found.facts(dataset_world(plan, dataset, ON_LEAVE[0], ()))
        if facts is None:  # no part ran it as it is
            facts = facts_of(evaluation_of(plan, dataset))
        days = f"{facts['turns']:,} turns on {min(facts['days'])} to {max(facts['days'])}"
        said[plan.label(dataset)] = "; ".join([days, facts["grid"], *facts["notes"]])
    return said


def facts_of(evaluation: Evaluation) -> dict[str, Any]:
    """What the fleets of an evaluation are."""
    return {
        "fleets": len(evaluation.traces),
        "turns": sum(trace.turns for trace in evaluation.traces),
        "days": [day.isoformat() for day in evaluation.days],
        "grid": evaluation.grid.source,
        "notes": list(evaluation.notes),
        "rules": evaluation.scenario.to_dict(),
    }


def _id_of(scenario: Scenario, world: World) -> str:
    """Hash of what is to be run; the content of its files is in the keys."""
    content = scenario.to_dict()
    del content["name"], content["description"]
    threshold = [] if world.threshold is None else [world.threshold]
    text = json.dumps([content, world.fleets, *threshold], sort_keys=True)
    return f"{scenario.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _each(
    shared: tuple[Plan, Mapping[str, Known]], units: Sequence[Unit], jobs: int
) -> Iterator[tuple[Unit, Served]]:
    """(unit, what it gave) in the order in which they are done."""
    if jobs <= 1 or len(units) <= 1:
        for unit in units:
            yield unit, _serve(shared, unit)
        return
    yield from in_processes(_serve, shared, units, jobs)


def _serve(shared: tuple[Plan, Mapping[str, Known]], unit: Unit) -> Served:
    """Run the policies of a unit that are not known as they are now."""
    if unit.threshold is None:
        return _serve_as_it_is(shared, unit)
    with tempfile.TemporaryDirectory() as folder:
        gate = Path(folder) / "gate.json"
        gate.write_text(_gate_with(unit.scenario, unit.threshold), encoding="utf-8")
        scenario = unit.scenario.model_copy(update={"gate": str(gate)})
        return _serve_as_it_is(shared, replace(unit, scenario=scenario))


def _gate_with(scenario: Scenario, threshold: float) -> str:
    """The scenario's gate as it would be with another threshold, JSON."""
    content = json.loads(our_package("baselines").gate_of(scenario).read_text(encoding="utf-8"))
    return json.dumps({**content, "threshold": threshold})


def _serve_as_it_is(shared: tuple[Plan, Mapping[str, Known]], unit: Unit) -> Served:
    plan, known = shared
    evaluation = evaluation_fleets(
        unit.scenario, fleets=unit.fleets, start=plan.start, sessions=plan.sessions
    )
    now = Known(
        evaluation_key(evaluation), {name: policy_key(name, evaluation) for name in unit.policies}
    )
    before = known[unit.id]
    missing = [
        name
        for name, key in now.policies.items()
        if before.fleets != now.fleets or before.policies.get(name) != key
    ]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in missing}
    for row in compare(evaluation, missing):
        kept = {key: value for key, value in row.items() if key not in WITHOUT_TIME}
        rows[row["policy"]].append(kept)
    facts = facts_of(evaluation)
    if unit.threshold is None:
        made_for = our_package("baselines").notes_on(evaluation.scenario, list(unit.policies))
        facts["notes"] += made_for
    else:
        facts["rules"]["gate"] = f"its own, but stays from {unit.threshold:g}"
    return Served(now, rows, facts)
