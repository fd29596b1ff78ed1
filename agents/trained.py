"""Trained runs as policies over whole fleets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy

from agents.export import _read_state
from agents.network import Network, generator_kept
from agents.scorer import MaskableScorerPolicy, ScorerPolicy
from agents.training.config import Config, OnPolicy, QrDqn
from agents.training.model import ALGORITHMS
from agents.training.run import read_run
from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.errors import InputError
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.router.policy import RouterPolicy
from carbon_gym.simulator.simulator import Simulator


class TrainedPolicy(RouterPolicy):
    """Serves every turn on the allowed deployment that a training run's best model prefers.

    Allowed are the feasible deployments, else that of best effort, whatever mask it trained with:
    as for an exported router. The network is made as the run's `config.yaml` says, and reads its
    weights alone from ``best/model.zip``: that file holds pickles, of which none is opened here.
    (Stable-Baselines3's own ``load`` opens them, and hence could run what a stranger put there.)

    Args:
        run: Folder that `carbon-gym train` wrote.
        name: In tables; None: the folder as given.

    Raises:
        InputError: The folder holds no run or no best model, or one that cannot be read.
    """

    def __init__(self, run: str | Path, name: str | None = None) -> None:
        folder = Path(run)
        config, scenario = read_run(folder)
        state = _read_state(folder / "best" / "model.zip")
        layout = ObservationLayout(Deployments.of(scenario))
        with generator_kept():
            policy = _untrained(config, layout)
        try:
            policy.load_state_dict(state)
        except RuntimeError:  # names or shapes
            raise InputError(
                f"{folder}: best/model.zip is not of the network that config.yaml describes, or "
                "was trained on observations of another kind than this carbon_gym makes; train it "
                "again"
            ) from None
        policy.set_training_mode(False)
        self._network = Network(policy, layout, str(folder))
        router: Any = self._network  # of a router nothing but `act` is asked
        super().__init__(router, str(run) if name is None else name)

    def accompany(self, simulator: Simulator) -> None:
        """See what the observations show, if the fleet is one that can be served."""
        super().accompany(simulator)
        if self._layout is not None:
            self._network.fit(self._layout)


def _untrained(config: Config, layout: ObservationLayout) -> BasePolicy:
    """The network of a configuration, on the CPU."""
    kind: Any = ALGORITHMS[config.algo].policy_aliases["MlpPolicy"]
    options: dict[str, Any] = {"net_arch": list(config.net_arch)}
    if isinstance(config, QrDqn):
        options["n_quantiles"] = config.n_quantiles
    if isinstance(config, OnPolicy) and config.policy == "scorer":
        kind = MaskableScorerPolicy if config.algo == "maskable-ppo" else ScorerPolicy
        options = {"layout": layout, **config.scorer.model_dump()}
    policy: BasePolicy = kind(
        spaces.Box(layout.low, layout.high, dtype=np.float32),
        spaces.Discrete(len(layout.fleet)),
        lambda _: 0.0,  # it learns no more
        **options,
    )
    return policy
