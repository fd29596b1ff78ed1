"""A policy search: begun, or gone on with."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.tensorboard import SummaryWriter

from agents.policy_search import evolution
from agents.policy_search.cloning import clone, fresh, weights_of
from agents.policy_search.config import Es
from agents.policy_search.fleets import Fleets
from agents.policy_search.linear import LinearSearch, Spread
from agents.policy_search.workers import Workers, measured_by
from agents.training.folder import CONFIG, PROGRESS, SCENARIO, Outcome, write_yaml
from agents.training.progress import Row, order
from baselines.settings import reference_of, setting_of
from carbon_gym import __version__
from carbon_gym.doors import make_policy
from carbon_gym.errors import InputError
from carbon_gym.files import make_writable_folder, remove_if_empty, replacing
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.metrics.figures import Figures
from carbon_gym.router.plan import signature
from carbon_gym.router.rollout import unflat
from carbon_gym.router.weights import Weights, read_router, write_router
from carbon_gym.scenario import load_scenario
from carbon_gym.scenario.load import read_yaml_mapping
from carbon_gym.scenario.scenario import Scenario

ROUTER, RULE, STATE = "router.npz", "rule.json", "state.npz"
_LEAST_STEP = 0.1
"""Share of the step that is left at the end (ASSUMED)."""


class _Stopped(Exception):  # noqa: N818 (nothing went wrong)
    """The search was asked to stop; its state is written."""


def read_search(run: Path, **options: Any) -> tuple[Es, list[Scenario]]:
    """Configuration and scenarios of a search's folder; options of value None are not given."""
    content = read_yaml_mapping(run / CONFIG)
    content |= {name: value for name, value in options.items() if value is not None}
    config = Es.model_validate(content)
    return config, [load_scenario(str(run / name)) for name in _scenario_files(config)]


def search(
    config: Es,
    scenarios: Sequence[Scenario],
    run: Path,
    *,
    resume: bool = False,
    on_steps: Callable[[int], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Search, with everything in one folder.

    ``config.yaml``, the resolved scenarios, TensorBoard's events, ``progress.json``, ``rule.json``
    (the linear rule, with ``warm_start: rule``), ``state.npz``, and ``router.npz``: of the scorers
    that validation measured, the one of the least CO2 among those that keep the constraints, or of
    the least missed.

    Args:
        config: The search.
        scenarios: Those of its names.
        run: The folder; it is made.
        resume: Go on from the folder's state. It ends where a search without a stop ends.
        on_steps: Called with the turns that candidates served since the last call.
        stop: Asked between generations; True: write the state and stop.

    Raises:
        InputError: The scenarios are of several settings or sizes, or the folder cannot be written
            or holds a run already.
    """
    if not resume and (run / CONFIG).exists():
        raise InputError(f"--out {run}: holds a run; go on with --resume {run}, or name another")
    if len({(setting_of(it), len(Deployments.of(it))) for it in scenarios}) > 1:
        raise InputError(
            "beside: scenarios of other settings or with another number of deployments cannot be "
            "learned together; name scenarios that differ in their conversations or grids"
        )
    made = make_writable_folder(run, "--out")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _Search(config, scenarios, run, on_steps, stop).go(resume)
    finally:
        torch.set_num_threads(threads)
        remove_if_empty(made)


class _Search:
    def __init__(
        self,
        config: Es,
        scenarios: Sequence[Scenario],
        run: Path,
        on_steps: Callable[[int], None],
        stop: Callable[[], bool],
    ) -> None:
        self._config, self._scenarios, self._run = config, list(scenarios), run
        self._on_steps, self._stop = on_steps, stop
        each = max(1, config.fleets // len(scenarios))
        self._fleets = Fleets(scenarios, "train", config.groups, each)
        self._held_out = Fleets(scenarios, "validation", 1, config.validation_fleets)
        self._rows: list[Row] = []
        self._steps, self._seconds = 0, 0.0
        self._began_s = time.monotonic()
        self._faircarbon: list[Figures] = []

    def go(self, resume: bool) -> Outcome:
        config, run = self._config, self._run
        state: dict[str, NDArray[Any]] = {}
        if resume:
            state = self._read_state()
        else:
            for scenario, name in zip(self._scenarios, _scenario_files(config), strict=True):
                write_yaml(run / name, scenario.to_dict())
        write_yaml(run / CONFIG, config.model_dump(mode="json"))
        self._log = SummaryWriter(str(run))
        finished = True
        network = config.network
        try:
            with measured_by(
                self._fleets, network.width, network.turn_width, config.margin, config.jobs
            ) as workers:
                if "weights" not in state:
                    state = self._first_weights(state, workers)
                self._evolve(state, workers)
        except _Stopped:
            finished = False
        finally:
            self._log.close()
        content = self._progress()
        if finished:
            self._say_how_long(content)
        return Outcome(finished, self._steps, content)

    def _first_weights(
        self, state: dict[str, NDArray[Any]], workers: Workers
    ) -> dict[str, NDArray[Any]]:
        """What the evolution begins with; the rule is found and cloned."""
        config, fleets = self._config, self._fleets
        scorer = fresh(fleets, config.network.width, config.network.turn_width, config.seed)
        if not self._rows:
            self._measure(weights_of(scorer), "untrained", 0)
        if config.warm_start != "none":
            policies = [
                make_policy(reference_of(scenario), scenario) for scenario in self._scenarios
            ]
            if config.warm_start == "rule":
                linear, found = self._find_rule(state, workers)
                policies = [linear.policy(scenario, found) for scenario in self._scenarios]
            agreed = clone(
                scorer,
                fleets,
                policies,
                groups=config.clone.groups,
                epochs=config.clone.epochs,
                seed=config.seed,
            )
            for epoch, share in enumerate(agreed):
                self._log.add_scalar("clone/agreement", share, epoch)
            self._measure(weights_of(scorer), "cloned", 0)
        return self._evolving(evolution.begin(weights_of(scorer), config.sigma), 0)

    def _find_rule(
        self, state: dict[str, NDArray[Any]], workers: Workers
    ) -> tuple[LinearSearch, Any]:
        """The linear rule's search, and the weights that it ends with."""
        rule, fleets = self._config.rule, self._fleets
        linear = LinearSearch(
            fleets, self._config.seed, rule.population, places=True, margin=self._config.margin
        )
        at, first = linear.begin(), 0
        if "mean" in state:
            at, first = Spread(state["mean"], state["deviation"]), int(state["generation"])
        for number in range(first, rule.generations):
            at, cost = linear.generation(number, at, workers.costs_of_rules)
            self._log.add_scalar("rule/cost", cost, number)
            self._count(fleets.turns(number) * rule.population)
            done = number + 1
            if done % self._config.validation_every == 0 or done == rule.generations:
                policies = [linear.policy(scenario, at.mean) for scenario in self._scenarios]
                self._keep_row(self._held_out.serve_policies(0, policies), "rule", done)
                self._write_progress()
            self._save({"mean": at.mean, "deviation": at.deviation}, number + 1)
        with replacing(self._run / RULE) as partial:
            text = json.dumps(linear.content(at.mean), indent=1) + "\n"
            partial.write_text(text, encoding="utf-8")
        return linear, at.mean

    def _evolve(self, state: dict[str, NDArray[Any]], workers: Workers) -> None:
        config = self._config
        at = evolution.Searched(*(state[name] for name in _SEARCHED))
        number = int(state["generation"])
        while self._steps < config.total_steps:
            at = self._generation(number, at, workers)
            number += 1
            if number % config.validation_every == 0 or self._steps >= config.total_steps:
                self._measure(self._unflat(at.weights), "evolved", number)
                self._write_progress()
            self._save({name: getattr(at, name) for name in _SEARCHED}, number)

    def _generation(
        self, number: int, at: evolution.Searched, workers: Workers
    ) -> evolution.Searched:
        config = self._config
        left = max(_LEAST_STEP, 1.0 - self._steps / config.total_steps)
        at, centre, costs = evolution.generation(
            number,
            at,
            workers,
            seed=config.seed,
            pairs=config.pairs,
            step=config.step * left,
        )
        self._count(self._fleets.turns(number) * (costs.size + 1))
        self._log.add_scalar("evolution/cost", centre, self._steps)
        self._log.add_scalar("evolution/mean_cost", costs.mean(), self._steps)
        self._log.add_scalar("evolution/least_cost", costs.min(), self._steps)
        self._log.add_scalar("evolution/sigma", float(at.sigma), self._steps)
        self._log.add_scalar("time/fps", self._steps / max(self._elapsed_s(), 1e-9), self._steps)
        return at

    def _evolving(self, at: evolution.Searched, number: int) -> dict[str, NDArray[Any]]:
        arrays = {name: getattr(at, name) for name in _SEARCHED}
        self._save(arrays, number)
        return {**arrays, "generation": np.array(number)}

    def _unflat(self, weights: NDArray[np.float64]) -> Weights:
        return unflat(weights, self._config.network.width, self._config.network.turn_width)

    # ----------------------------------------------------------------- what is written

    def _count(self, turns: int) -> None:
        self._steps += turns
        self._on_steps(turns)

    def _elapsed_s(self) -> float:
        return self._seconds + time.monotonic() - self._began_s

    def _measure(self, weights: Weights, stage: str, generation: int) -> None:
        """Validate a scorer; it is kept if it is the best so far, and not untrained."""
        row = self._keep_row(self._held_out.serve(0, weights), stage, generation)
        trained = [one for one in self._rows if one["stage"] in ("cloned", "evolved")]
        if row in trained and row is min(trained, key=order):
            layout = self._fleets.group(0)[0].view.layout
            header = {"layout": signature(layout), "recipe": self._recipe(row)}
            write_router(self._run / ROUTER, weights, header)
        self._write_progress()

    def _keep_row(self, served: list[Figures], stage: str, generation: int) -> Row:
        missed: dict[str, float] = {}
        relative, by_scenario = [], {}
        for scenario, figures, group in zip(
            self._scenarios, served, self._held_out.group(0), strict=True
        ):
            relative.append(figures.co2_relative(group.reference))
            by_scenario[scenario.name] = {"co2_relative": relative[-1], **asdict(figures)}
            for name, gap in figures.missed(group.reference).items():
                missed[name] = missed.get(name, 0.0) + gap
        row = {
            "stage": stage,
            "generation": generation,
            "steps": self._steps,
            "seconds": round(self._elapsed_s(), 1),
            "co2_relative": float(np.mean(relative)),
            "missed": missed,
            "scenarios": by_scenario,
        }
        self._rows.append(row)
        self._log.add_scalar("validation/fleet/co2_relative", row["co2_relative"], self._steps)
        self._log.add_scalar("validation/fleet/missed", sum(missed.values()), self._steps)
        for name, of in by_scenario.items():
            for key, value in of.items():
                self._log.add_scalar(f"validation/fleet/{name}/{key}", value, self._steps)
        return row

    def _recipe(self, row: Row) -> dict[str, Any]:
        config = self._config.model_dump(mode="json", exclude={"jobs"})
        return {
            "carbon_gym": __version__,
            "command": f"carbon-gym train --config {CONFIG} --seed {self._config.seed}",
            "setting": setting_of(self._scenarios[0]),
            "scenario": self._config.scenario,
            "seed": self._config.seed,
            "config": config,
            "validation": row,
        }

    def _say_how_long(self, content: dict[str, Any]) -> None:
        """Write the time of the whole training into the recipe of the best router."""
        weights, header = read_router(self._run / ROUTER)
        header["recipe"]["training"] = {
            "seconds": content["seconds"],
            "steps": content["steps"],
            "processes": self._config.jobs,
        }
        write_router(self._run / ROUTER, weights, header)

    def _progress(self) -> dict[str, Any]:
        if not self._faircarbon:
            policies = [make_policy("faircarbon", scenario) for scenario in self._scenarios]
            self._faircarbon = self._held_out.serve_policies(0, policies)
        groups = self._held_out.group(0)
        trained = [row for row in self._rows if row["stage"] in ("cloned", "evolved")]
        shares = [
            figures.co2_relative(group.reference)
            for figures, group in zip(self._faircarbon, groups, strict=True)
        ]
        return {
            "carbon_gym": __version__,
            "steps": self._steps,
            "total_steps": self._config.total_steps,
            "seconds": round(self._elapsed_s(), 1),
            "reference": {
                "policy": reference_of(self._scenarios[0]),
                "scenarios": {
                    scenario.name: asdict(group.reference)
                    for scenario, group in zip(self._scenarios, groups, strict=True)
                },
            },
            "faircarbon": {"co2_relative": float(np.mean(shares))},
            "best": min(trained, key=order) if trained else None,
            "validations": self._rows,
        }

    def _write_progress(self) -> None:
        with replacing(self._run / PROGRESS) as partial:
            partial.write_text(json.dumps(self._progress(), indent=1) + "\n", encoding="utf-8")

    def _save(self, arrays: dict[str, NDArray[Any]], generation: int) -> None:
        """Write the state, and stop if that is wished."""
        rows = np.frombuffer(json.dumps(self._rows).encode(), dtype=np.uint8)
        clock = np.array([self._steps, self._elapsed_s()])
        with replacing(self._run / STATE) as partial, partial.open("wb") as file:
            whole: dict[str, Any] = {"clock": clock, "rows": rows, **arrays}
            np.savez(file, generation=np.array(generation), **whole)
        if self._stop():
            raise _Stopped

    def _read_state(self) -> dict[str, NDArray[Any]]:
        path = self._run / STATE
        try:
            with np.load(path, allow_pickle=False) as archive:
                state = {name: archive[name] for name in archive.files}
        except FileNotFoundError:
            return {}  # it was stopped before its first generation
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path}: cannot be read as the state of a search ({error}); search anew"
            ) from None
        self._rows = json.loads(state.pop("rows").tobytes())
        steps, self._seconds = state.pop("clock").tolist()
        self._steps = int(steps)
        self._on_steps(self._steps)
        return state


_SEARCHED = ("weights", "scale", "first", "second", "sigma")


def _scenario_files(config: Es) -> list[str]:
    return [SCENARIO, *(f"beside-{number}.yaml" for number, _ in enumerate(config.beside, 1))]
