"""A warm start: the policy network first learns to decide as another policy did."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from agents.cloning import clone
from agents.training.config import Config, OnPolicy, WarmStart
from carbon_gym.datasets.reader import FILE as DESCRIPTION
from carbon_gym.datasets.reader import Dataset, load_dataset
from carbon_gym.datasets.recorder import record
from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.envs.options import resolve
from carbon_gym.errors import InputError
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.files import replacing
from carbon_gym.router.plan import signature
from carbon_gym.scenario.scenario import Scenario

FILE = "warm_start.json"
_RECORDED = "warm_start"
"""Folder of what is recorded for it, in the run's; removed when it is learned."""


@dataclass(frozen=True)
class Lesson:
    """What is to be learned before training.

    Attributes:
        dataset: The decisions.
        made: Folder that was made for it; None: the user's.
        rows: int64, the decisions to learn: those that the environment's mask allows.
        masks: bool (N, D), what the algorithm will choose among; None: all.
        how: The configuration's part.
        seed: Of the order.
    """

    dataset: Dataset
    made: Path | None
    rows: NDArray[np.int64]
    masks: NDArray[np.bool_] | None
    how: WarmStart
    seed: int


def prepare(
    config: Config, scenario: Scenario, layout: ObservationLayout, run: Path
) -> Lesson | None:
    """Record, or open, what the run begins by learning; None if it begins untaught.

    Args:
        config: The run.
        scenario: Its scenario.
        layout: Of the environment.
        run: The run's folder. What is recorded there by a run that is killed then is found again.

    Raises:
        InputError: The policy is unknown, or the folder holds nothing that this run can learn from.
    """
    if not isinstance(config, OnPolicy) or config.warm_start.policy is None:
        return None
    how, made = config.warm_start, None
    assert how.policy is not None
    folder = Path(how.policy)
    if not (folder / DESCRIPTION).is_file():
        made = folder = run / _RECORDED
        options = resolve(**config.environment.arguments(), scenario=scenario)
        evaluation = evaluation_fleets(options.world.scenario, split="train", fleets=how.fleets)
        record(evaluation, how.policy, folder, options.rules, split="train")
    dataset = load_dataset(folder)
    _check(dataset, layout)
    masks, actions = dataset.column("masks"), dataset.column("actions")
    rows = np.flatnonzero(masks[np.arange(len(actions)), actions])
    # An algorithm that sees no masks, or wider ones, has to learn that the rest is not taken.
    same = config.algo == "maskable-ppo" and dataset.metadata["mask"] == config.environment.mask
    return Lesson(dataset, made, rows, masks if same else None, how, config.seed)


def teach(model: BaseAlgorithm, lesson: Lesson, run: Path) -> None:
    """Clone the recorded decisions into the model's policy network, and say how it went.

    The value function, the model's optimizer and all generators are left as they are. Loss and
    agreement of every epoch go to the model's logger, as ``warm_start/loss`` and
    ``warm_start/agreement`` at the epoch's number, and into ``warm_start.json``.

    Args:
        model: Of ppo, maskable-ppo or a2c, with its logger.
        lesson: Of `prepare`; a folder made for it is removed.
        run: The run's folder.
    """
    epochs: list[dict[str, float]] = []

    def note(loss: float, agreement: float) -> None:
        epochs.append({"loss": loss, "agreement": agreement})
        for name, value in epochs[-1].items():
            model.logger.record(f"warm_start/{name}", value)
        model.logger.dump(len(epochs))

    dataset, how = lesson.dataset, lesson.how
    policy: Any = model.policy
    clone(
        policy,
        dataset.observations,
        dataset.column("actions"),
        lesson.masks,
        rows=lesson.rows,
        epochs=how.epochs,
        batch_size=how.batch_size,
        learning_rate=how.learning_rate,
        seed=lesson.seed,
        on_epoch=note,
    )
    content = {
        "policy": dataset.metadata["policy"],
        "scenario": dataset.metadata["scenario"],
        "key": dataset.metadata["key"],
        "counts": dataset.metadata["counts"],
        "turns_learned": len(lesson.rows),
        "masked": lesson.masks is not None,
        "epochs": epochs,
    }
    with replacing(run / FILE) as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if lesson.made is not None:
        shutil.rmtree(lesson.made)


def _check(dataset: Dataset, layout: ObservationLayout) -> None:
    """Refuse what was recorded on other fleets, or on those of validation and test."""
    said, place = dataset.metadata, dataset.folder
    if said["split"] != "train":
        raise InputError(
            f"warm_start.policy = {str(place)!r}: was recorded on split {said['split']!r}; record "
            "with --split train: the others are held out"
        )
    seen = (said["deployments"], said["observations"])
    here = {"size": layout.size, "signature": signature(layout)}
    if seen != (list(layout.names), json.loads(json.dumps(here))):
        raise InputError(
            f"warm_start.policy = {str(place)!r}: was recorded on the fleet of "
            f"{said['scenario']!r} or by another carbon_gym, whose observations are of another "
            "kind than this run's; record it on the run's scenario"
        )
