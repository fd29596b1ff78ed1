"""A training run: begun, or gone on with."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from stable_baselines3.common.logger import configure

from agents.training.callbacks import Checkpoint, Stopped, Validate
from agents.training.checkpoints import load_checkpoint
from agents.training.config import Config, load_config
from agents.training.folder import CONFIG, PROGRESS, SCENARIO, Outcome, write_yaml
from agents.training.model import ALGORITHMS, make_model
from agents.training.progress import Progress
from agents.training.validation import HeldOut, HeldOutFleets, validate, validate_fleets
from agents.training.warm_start import prepare, teach
from agents.vec_env import CarbonVecEnv
from carbon_gym.errors import InputError
from carbon_gym.files import make_writable_folder, remove_if_empty
from carbon_gym.scenario import load_scenario
from carbon_gym.scenario.scenario import Scenario


def read_run(run: Path, **options: Any) -> tuple[Config, Scenario]:
    """Configuration and scenario of a run's folder.

    Args:
        run: The folder.
        **options: Fields of `Config` to change; None: not given.

    Raises:
        InputError: The folder holds no run.
    """
    if not (run / CONFIG).is_file():
        raise InputError(f"{run}: holds no {CONFIG}; name the folder of a training run")
    return load_config(None, run / CONFIG, **options), load_scenario(str(run / SCENARIO))


def train(
    config: Config,
    scenario: Scenario,
    run: Path,
    *,
    resume: bool = False,
    on_steps: Callable[[int], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Train, with everything in one folder.

    ``config.yaml`` and ``scenario.yaml`` (resolved), TensorBoard's events, ``progress.json``,
    ``warm_start.json`` where there was one, ``checkpoints/`` and ``best/``: the model of the least
    CO2 on validation (on whole fleets where those are served) among those that keep the
    constraints, or of the least missed.

    Args:
        config: The run.
        scenario: That of its name.
        run: The folder; it is made.
        resume: Go on from the folder's latest checkpoint. On a CPU it ends bit for bit where an
            uninterrupted run ends.
        on_steps: Called with the steps made since the last call, once a rollout.
        stop: Asked between rollouts; True: leave a checkpoint and stop.

    Raises:
        InputError: An argument of the environment or the device that cannot be used, a folder that
            cannot be written, holds a run already, or, with `resume`, holds none.
    """
    if not resume and (run / CONFIG).exists():
        raise InputError(f"--out {run}: holds a run; go on with --resume {run}, or name another")
    if config.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch finds no CUDA device; use cpu or auto")
    made = make_writable_folder(run, "--out")
    threads = torch.get_num_threads()
    torch.set_num_threads(config.torch_threads)
    try:
        return _train(config, scenario, run, resume, on_steps, stop)
    finally:
        torch.set_num_threads(threads)
        remove_if_empty(made)


def _train(
    config: Config,
    scenario: Scenario,
    run: Path,
    resume: bool,
    on_steps: Callable[[int], None],
    stop: Callable[[], bool],
) -> Outcome:
    env = CarbonVecEnv(
        config.lanes,
        scenario=scenario,
        threads=config.lane_threads,
        **config.environment.arguments(),
    )
    held_out = HeldOut(scenario, config.environment, config.validation.sessions)
    count = config.validation.fleets
    fleets = HeldOutFleets(held_out.scenario, count) if count else None
    progress = Progress(
        run / PROGRESS,
        held_out.name,
        held_out.reference,
        None if fleets is None else (fleets.name, fleets.reference),
    )
    if resume:
        model = load_checkpoint(run, ALGORITHMS[config.algo], env, config.device)
        progress.go_back(model.num_timesteps)
        on_steps(model.num_timesteps)
    else:
        lesson = prepare(config, scenario, env.env.layout, run)
        model = make_model(config, env)
    model.set_logger(configure(str(run), ["tensorboard"]))
    if not resume:
        if lesson is not None:
            teach(model, lesson, run)
        # Last: before that there is nothing to go on from.
        write_yaml(run / SCENARIO, scenario.to_dict())
    write_yaml(run / CONFIG, config.model_dump(mode="json"))
    callbacks = [
        Validate(
            run,
            partial(validate, held_out=held_out),
            progress,
            config.validation.every,
            config.total_steps,
            None if fleets is None else partial(validate_fleets, fleets=fleets),
            config.validation.fleets_every,
        ),
        Checkpoint(
            run,
            config.checkpoints.every,
            config.checkpoints.keep,
            model.num_timesteps if resume else None,
            on_steps,
            stop,
        ),
    ]
    finished = True
    try:
        model.learn(
            max(0, config.total_steps - model.num_timesteps),
            callbacks,
            log_interval=config.log_every,
            reset_num_timesteps=not resume,
        )
    except Stopped:
        finished = False
    finally:
        model.logger.close()
        env.close()
    content = json.loads((run / PROGRESS).read_text(encoding="utf-8"))
    return Outcome(finished, model.num_timesteps, content)
