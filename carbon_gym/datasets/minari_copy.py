"""A recorded dataset in the format of Minari, for libraries that read that."""

from __future__ import annotations

import copy
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from carbon_gym.datasets.reader import Dataset, Session
from carbon_gym.envs.layout import DEPLOYMENT_WIDTH, ObservationLayout
from carbon_gym.errors import from_extra
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.scenario import Scenario, load_scenario, scenario_names

FOLDER = "minari"


def check_minari() -> None:
    """Find out before the work whether Minari can be written.

    Raises:
        InstallationError: Something that it needs is missing.
    """
    with from_extra("--format minari", "minari"):
        import h5py  # noqa: F401
        import minari  # noqa: F401
        import PIL  # noqa: F401


def write_minari(
    dataset: Dataset, scenario: Scenario, on_turns: Callable[[int], None] = lambda _: None
) -> Path:
    """Write a copy of a dataset, one episode a session, into its folder.

    Args:
        dataset: Read by `load_dataset`.
        scenario: Of the dataset.
        on_turns: Called with the number of turns written since its last call.

    Returns:
        The folder ``minari/data``, which ``minari.MinariDataset`` reads. It is there whole or not
        at all; if it is there already, nothing is written.

    Raises:
        InstallationError: Minari or something that it needs is missing.
    """
    check_minari()
    import minari
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    place = (dataset.folder / FOLDER).resolve()  # Minari measures its size by absolute names only
    if place.is_dir():
        return place / "data"
    partial = place.with_name(f".{FOLDER}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    layout = ObservationLayout(Deployments.of(scenario))
    storage = MinariStorage.new(
        partial / "data",
        spaces.Box(layout.low, layout.high, dtype=np.float32),
        spaces.Discrete(len(layout.fleet)),
        _environment(scenario),
        data_format="hdf5",
    )
    names = [re.sub(r"\W+", "-", dataset.metadata[key]) for key in ("scenario", "policy")]
    storage.update_metadata(
        {
            "dataset_id": f"carbon-gym/{names[0]}/{names[1]}-v0",
            "minari_version": minari.__version__,
            "algorithm_name": dataset.metadata["policy"],
            "code_permalink": f"carbon-gym {dataset.metadata['carbon_gym']}",
        }
    )

    def episodes(sessions: list[Session]) -> Iterator[Any]:
        for session in sessions:
            yield EpisodeBuffer(
                observations=_with_last(session.observations, len(layout.fleet)),
                actions=session.actions,
                rewards=session.rewards,
                terminations=session.terminations,
                truncations=np.zeros(len(session.actions), dtype=np.bool_),
                infos={"action_mask": np.concatenate([session.masks, session.masks[-1:]])},
            )

    for k in range(len(dataset.fleets)):
        of_fleet = Dataset(dataset.folder, dataset.metadata, dataset.fleets[k : k + 1])
        storage.update_episodes(episodes(list(of_fleet.sessions())))
        on_turns(len(of_fleet))
    partial.rename(place)
    return place / "data"


def _with_last(observations: NDArray[np.float32], deployments: int) -> NDArray[np.float32]:
    """Observations (T + 1, n), the last with its deployment block zero, as environments end."""
    last = observations[-1:].copy()
    last[:, -DEPLOYMENT_WIDTH * deployments :] = 0.0
    return np.concatenate([observations, last])


def _environment(scenario: Scenario) -> Any:
    """In which a policy learned from this could be tried, if the scenario has a name to find."""
    if scenario.name not in scenario_names() or load_scenario(scenario.name) != scenario:
        return None
    spec = copy.deepcopy(gymnasium.spec("CarbonRouting-v0"))
    spec.kwargs = {"scenario": scenario.name}
    return spec
