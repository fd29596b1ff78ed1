"""What happens between the rollouts of a run: validation, checkpoints, the wish to stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from agents.training.checkpoints import MODEL, replacing_folder, save_checkpoint
from agents.training.progress import Progress, Row, better
from carbon_gym.metrics.figures import Figures

BEST = "best"
_FIGURES = "figures.json"


class Stopped(Exception):  # noqa: N818 (nothing went wrong)
    """The run was asked to stop; its checkpoint is written."""


class Validate(BaseCallback):
    """Figures every so many steps into TensorBoard and `progress.json`; the best model kept.

    An untrained model is measured, but is not the best.

    Args:
        run: The run's folder.
        validate: What gives a model's figures.
        progress: Where they go.
        every: Steps from one validation to the next.
        total_steps: Of the run.
        fleets: What gives a model's figures on whole fleets; None: none are served.
        fleets_every: Steps, at least, from one validation that serves fleets to the next.
    """

    def __init__(
        self,
        run: Path,
        validate: Callable[[BaseAlgorithm], Figures],
        progress: Progress,
        every: int,
        total_steps: int,
        fleets: Callable[[BaseAlgorithm], Figures] | None = None,
        fleets_every: int = 1,
    ) -> None:
        super().__init__()
        self._folder, self._validate, self._progress = run / BEST, validate, progress
        self._every, self._total_steps = every, total_steps
        self._fleets, self._fleets_every = fleets, fleets_every

    @property
    def best(self) -> Row | None:
        """Figures of the best model so far."""
        path = self._folder / _FIGURES
        row: Row | None = json.loads(path.read_text("utf-8")) if path.is_file() else None
        return row

    def _on_rollout_start(self) -> None:
        values = self.logger.name_to_value
        if "train/entropy_loss" in values:  # of the update that just ended
            self.logger.record("train/entropy", -values["train/entropy_loss"])
        rows = self._progress.rows
        if not rows or self.num_timesteps - rows[-1]["steps"] >= self._every:
            last = max((row["steps"] for row in rows if "fleet" in row), default=None)
            self._measure(last is None or self.num_timesteps - last >= self._fleets_every)

    def _on_training_end(self) -> None:
        if self._progress.rows[-1]["steps"] < self.num_timesteps:
            self._measure(with_fleets=True)

    def _on_step(self) -> bool:
        return True

    def _measure(self, with_fleets: bool) -> None:
        fleets = self._fleets(self.model) if self._fleets and with_fleets else None
        row = self._progress.row(self.num_timesteps, self._validate(self.model), fleets)
        self._progress.rows.append(row)
        if self.num_timesteps and better(row, self.best):  # untrained, it is none
            with replacing_folder(self._folder) as folder:
                self.model.save(folder / MODEL)
                (folder / _FIGURES).write_text(json.dumps(row, indent=1) + "\n", "utf-8")
        self._log("validation", row)
        if "fleet" in row:
            self._log("validation/fleet", row["fleet"])
        self.logger.dump(self.num_timesteps)
        self._progress.write(self.num_timesteps, self._total_steps, self.best)

    def _log(self, group: str, row: Row) -> None:
        for name, value in row.items():
            if isinstance(value, float):
                self.logger.record(f"{group}/{name}", value)
        self.logger.record(f"{group}/missed", sum(row["missed"].values()))


class Checkpoint(BaseCallback):
    """A checkpoint every so many steps, at the end, and when the run is to stop.

    Args:
        run: The run's folder.
        every: Steps from one checkpoint to the next.
        keep: How many of the latest are kept.
        last: Steps of the one that the run went on from; None: it begins.
        on_steps: Called with the steps made since the last call.
        stop: Asked between rollouts; True: checkpoint and raise `Stopped`.
    """

    def __init__(
        self,
        run: Path,
        every: int,
        keep: int,
        last: int | None,
        on_steps: Callable[[int], None],
        stop: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._run, self._every, self._keep, self._last = run, every, keep, last
        self._on_steps, self._stop, self._told = on_steps, stop, last or 0

    def _on_rollout_start(self) -> None:
        stop = self._stop()
        if self._last is None or self.num_timesteps - self._last >= self._every or stop:
            self._save()
        if stop:
            raise Stopped

    def _on_rollout_end(self) -> None:
        self._on_steps(self.num_timesteps - self._told)
        self._told = self.num_timesteps

    def _on_training_end(self) -> None:
        self._save()

    def _on_step(self) -> bool:
        return True

    def _save(self) -> None:
        if self._last != self.num_timesteps:
            save_checkpoint(self._run, self.model, self._keep)
            self._last = self.num_timesteps
