"""`carbon-gym tune-baselines`: find the knobs of the baselines on the validation split."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from carbon_gym.cli.choices import ScenariosOption, at_least_one, processes_of
from carbon_gym.cli.comparing import JobsOption, say_what_is_there
from carbon_gym.cli.console import finish, out_folder, output_console, say, turns_bar
from carbon_gym.doors import our_package
from carbon_gym.files import make_writable_folder, remove_if_empty, replacing

if TYPE_CHECKING:
    from carbon_gym.scenario import Scenario

DEFAULT_FLEETS = 8
EXAMPLES = """\b
Examples:
  carbon-gym tune-baselines
  carbon-gym tune-baselines --scenario congested --jobs 2 --out knobs
"""


def tune_baselines(
    scenario: ScenariosOption = None,
    fleets: Annotated[
        int, typer.Option(metavar="K", help="Validation fleets (days).")
    ] = DEFAULT_FLEETS,
    candidates: Annotated[
        int | None, typer.Option(metavar="N", help="Knobs tried per policy; default 128.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Of the candidates' draws; default 20270.")
    ] = None,
    jobs: JobsOption = None,
    again: Annotated[
        bool, typer.Option("--again", help="Tune anew what DIR holds already.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for SCENARIO.json; default runs/<time>-tune-baselines. A run that was "
            "cut short goes on where it was when given the same DIR.",
        ),
    ] = None,
) -> None:
    """Tune gar-eps, gar-pd, cedar and the policies under a quality budget on validation.

    Least CO2 with mean predicted quality not below and P95 TTFT not above faircarbon's; under a
    budget the quality, predicted and realised, is CCAR's.
    """
    our_package("baselines")
    from baselines import tuning
    from carbon_gym.scenario import load_scenario

    at_least_one("--fleets", fleets)
    processes = processes_of(jobs)
    candidates = at_least_one("--candidates", candidates) or tuning.CANDIDATES
    seed = tuning.SEED if seed is None else seed
    scenarios = [load_scenario(source) for source in dict.fromkeys(scenario or ["sharegpt"])]
    folder = out_folder(out, "tune-baselines", goes_on=not again)
    made = make_writable_folder(folder, "--out")
    console = output_console()
    found: dict[str, Any] = {}
    written: list[Path] = []
    try:
        for chosen in scenarios:
            path = folder / f"{chosen.name}.json"
            content = _tuned(chosen, path, fleets, candidates, seed, processes, again)
            for line in _summary(content):
                console.print(line, soft_wrap=True)
            found[chosen.name] = content["policies"]
            written.append(path)
    finally:
        remove_if_empty(made)
    finish(found, written, folder)


def _tuned(
    scenario: Scenario,
    path: Path,
    fleets: int,
    candidates: int,
    seed: int,
    jobs: int,
    again: bool,
) -> dict[str, Any]:
    """Tune what the file does not hold yet; it is written after every policy."""
    from baselines import tuning
    from baselines.budget_tuning import PRICED, BudgetTuning, measure_ccar
    from baselines.knobs import TUNABLE, TUNABLE_UNDER_BUDGET
    from carbon_gym.evaluation import evaluation_fleets

    command = (
        f"carbon-gym tune-baselines --scenario {scenario.name} --fleets {fleets} "
        f"--candidates {candidates} --seed {seed}"
    )
    policies = [*TUNABLE, *TUNABLE_UNDER_BUDGET, *PRICED]
    with turns_bar(scenario.name, candidates * len(policies)) as on_candidates:
        filtered = evaluation_fleets(scenario.filtered(), split="validation", fleets=fleets)
        reference = tuning.measure_reference(filtered)
        budgeted = replace(filtered, scenario=_with_budget(scenario))
        bounds, co2_relative = measure_ccar(budgeted, reference)
        # A rule that is blind to caches has no chance against CCAR's TTFT: faircarbon's binds it.
        blind_bounds = replace(bounds, ttft_p95_s=reference.ttft_p95_s)
        content = {
            "command": command,
            **tuning.heading(filtered, reference, seed),
            "ccar": {
                "co2_relative": co2_relative,
                "quality": bounds.quality,
                "quality_realised": bounds.quality_realised,
                "ttft_p95_s": bounds.ttft_p95_s,
            },
            "beta_floor": budgeted.scenario.bounds.beta_floor,
        }
        done = {} if again else _done_before(path, content)
        content["policies"] = done
        say_what_is_there(f"{scenario.name}: {len(policies)} policies", list(done), path)
        for policy in policies:
            if policy in done:
                on_candidates(candidates)
                continue
            tried = 0

            def advance() -> None:
                nonlocal tried
                if tried < candidates:  # some policies try a few more
                    tried += 1
                    on_candidates(1)

            if policy in PRICED:
                done[policy] = BudgetTuning(budgeted, bounds, advance).tune(policy, done)
            else:
                world = (filtered, reference) if policy in TUNABLE else (budgeted, blind_bounds)
                with tuning.scorer(*world, jobs) as score:
                    done[policy] = tuning.tune(
                        policy,
                        world[1],
                        score,
                        candidates=candidates,
                        seed=seed,
                        on_candidate=advance,
                    )
            on_candidates(candidates - tried)
            content["policies"] = {name: done[name] for name in policies if name in done}
            with replacing(path) as partial:
                partial.write_text(_text(content), encoding="utf-8")
            say(f"{scenario.name}: {policy} is tuned")
    return content


def _with_budget(scenario: Scenario) -> Scenario:
    """The scenario under a quality budget, its target that of CCAR."""
    update = {"quality_constraint": "budget", "quality_target": None}
    return scenario.model_copy(update={"bounds": scenario.bounds.model_copy(update=update)})


_YOUNGER_KEYS = ("ccar", "beta_floor")
"""A file from before the budget lacks them; what it holds does not depend on them."""


def _done_before(path: Path, heading: Mapping[str, Any]) -> dict[str, Any]:
    """Policies of the file, where it was made by the same command on the same fleets."""
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        for key in _YOUNGER_KEYS:
            before.setdefault(key, heading.get(key))
        same = all(before.get(key) == value for key, value in heading.items())
        return dict(before["policies"]) if same else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _text(content: Mapping[str, Any]) -> str:
    """JSON with one line per candidate."""
    rows: list[str] = []

    def shortened(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: shortened(item) for key, item in value.items()}
        if isinstance(value, list):
            if value and isinstance(value[0], list):
                return [shortened(item) for item in value]
            rows.append(json.dumps(value))
            return f"row {len(rows) - 1}"
        return value

    text = json.dumps(shortened(content), indent=1, allow_nan=False)
    for number, row in enumerate(rows):
        text = text.replace(f'"row {number}"', row, 1)
    return text + "\n"


def _summary(content: Mapping[str, Any]) -> list[str]:
    lines = []
    for policy, found in content["policies"].items():
        knobs = ", ".join(f"{name} = {value}" for name, value in found["knobs"].items())
        missed = [name for name, met in found["met"].items() if not met]
        lines.append(
            f"{content['scenario']}: {policy}: {knobs}; CO2 {found['co2_relative']:.3f} of "
            f"faircarbon's" + (f"; not met: {', '.join(missed)}" if missed else "")
        )
    return lines
