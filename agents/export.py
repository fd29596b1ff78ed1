"""From a trained scorer to a file that runs on NumPy alone."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from carbon_gym import __version__
from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.errors import InputError
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.router.plan import OWN, signature
from carbon_gym.router.weights import Weights, read_router, write_router
from carbon_gym.scenario import load_scenario
from carbon_gym.scenario.load import read_yaml_mapping

_NETWORK = "mlp_extractor."
"""Where a policy of Stable-Baselines3 keeps the scorer."""
_ITS_OWN = "tower.seen.weight"
_NO_SCORER = (
    "the policy is no deployment scorer, and only those can be exported; train one (agents.scorer)"
)


def _is_scorer(state: Mapping[str, Tensor]) -> bool:
    return _ITS_OWN in state or _NETWORK + _ITS_OWN in state


def export_scorer(
    policy: nn.Module, layout: ObservationLayout, path: Path, recipe: Mapping[str, Any]
) -> None:
    """Write a policy's router: what `carbon_gym.router.load_router` reads.

    Args:
        policy: A `ScorerPolicy`, `MaskableScorerPolicy` or `DeploymentScorer`.
        layout: Of its observations. The router runs on other fleets' too.
        path: The file, ``.npz``.
        recipe: How it was trained: config, seed, scenario, command; plain JSON.

    Raises:
        InputError: The policy is no scorer, its weights are not finite, the recipe is not plain
            JSON, the file would exceed 2 MB or cannot be written.
    """
    export_state(policy.state_dict(), layout, path, recipe)


def export_state(
    state: Mapping[str, Tensor], layout: ObservationLayout, path: Path, recipe: Mapping[str, Any]
) -> None:
    """As `export_scorer`, from a policy's `state_dict`."""
    if not _is_scorer(state):
        raise InputError(f"{path}: {_NO_SCORER}")
    write_router(path, router_weights(state), {"layout": signature(layout), "recipe": dict(recipe)})


def router_weights(state: Mapping[str, Tensor]) -> Weights:
    """The arrays of a router, of a scorer's `state_dict` or that of a policy with one."""
    prefix = _NETWORK if _NETWORK + _ITS_OWN in state else ""

    def of(name: str) -> NDArray[np.float32]:
        tensor = state[prefix + name].detach().cpu().to(torch.float32)
        return np.ascontiguousarray(tensor.numpy().T)

    seen = of(_ITS_OWN)
    return Weights(
        turn=of("tower.turn.weight"),
        turn_bias=of("tower.turn.bias"),
        added=of("tower.added.weight"),
        added_bias=of("tower.added.bias"),
        output=of("output.weight"),
        output_bias=of("output.bias"),
        own=seen[: len(OWN)],
        group=seen[len(OWN) :],
        constants=of("tower.constants.weight"),
        prior=of("prior"),
    )


def export_run(run: Path, path: Path) -> dict[str, Any]:
    """Export the best model of a training run's folder.

    Args:
        run: A folder that `carbon-gym train` wrote.
        path: The router's file.

    Returns:
        The recipe.

    Raises:
        InputError: The folder holds no run or no best model, or it is not a scorer's.
    """
    if not (run / "config.yaml").is_file():
        raise InputError(f"{run}: holds no config.yaml; name the folder of a training run")
    if (run / "router.npz").is_file():  # a policy search leaves nothing else
        weights, header = read_router(run / "router.npz")
        write_router(path, weights, {name: header[name] for name in ("layout", "recipe")})
        return dict(header["recipe"])
    config = read_yaml_mapping(run / "config.yaml")
    model = run / "best" / "model.zip"
    state = _read_state(model)
    if not _is_scorer(state):
        raise InputError(f"{run}: {_NO_SCORER}")
    layout = ObservationLayout(Deployments.of(load_scenario(str(run / "scenario.yaml"))))
    recipe = {
        "carbon_gym": __version__,
        "command": f"carbon-gym train --algo {config.get('algo')} --config config.yaml",
        "scenario": config.get("scenario"),
        "seed": config.get("seed"),
        "config": config,
        "validation": _read_figures(model.with_name("figures.json")),
    }
    export_state(state, layout, path, recipe)
    return recipe


def _read_state(model: Path) -> dict[str, Tensor]:
    """The policy's weights in a model's file; none of its pickles are opened."""
    try:
        with zipfile.ZipFile(model) as archive:
            content = io.BytesIO(archive.read("policy.pth"))
        state: dict[str, Tensor] = torch.load(content, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InputError(
            f"{model}: there is no such file; train until the first validation"
        ) from None
    except Exception as error:  # torch and zipfile raise dozens of kinds for a damaged file
        raise InputError(
            f"{model}: cannot be read as a trained model ({type(error).__name__}); resume the run "
            "from its checkpoint, or train again"
        ) from None
    return state


def _read_figures(path: Path) -> dict[str, Any] | None:
    """What validation said of the best model; None if nothing is there."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
