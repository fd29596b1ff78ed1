"""Exported routers: equal to what was trained, on NumPy alone, and safe to read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from commandline import carbon_gym as command
from commandline import program
from env_worlds import TINY
from scoring import layout_of, permuted, random_masks, random_observations, scorer_policy

from carbon_gym.errors import InputError
from carbon_gym.router import load_router

torch = pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("sb3_contrib", reason="the train extra is not installed")

from sb3_contrib import MaskablePPO  # noqa: E402

from agents import CarbonVecEnv  # noqa: E402
from agents.cloning import clone  # noqa: E402
from agents.export import export_run, export_scorer  # noqa: E402
from agents.scorer import MaskableScorerPolicy  # noqa: E402

RECIPE = {"seed": 3, "scenario": "tiny", "command": "carbon-gym train", "config": {"lanes": 8}}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("router") / "router.npz"
    export_scorer(scorer_policy(layout_of()), layout_of(), path, RECIPE)
    return path


def torch_logits(policy: Any, observations: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = policy.mlp_extractor.forward_actor(torch.from_numpy(observations))
    return np.asarray(found)


# ----------------------------------------------------------------------------- equality


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("width", [32, 64, 7])
def test_ten_thousand_decisions_are_those_of_torch(
    tmp_path: Path, width: int, compiled: bool
) -> None:
    """Of a policy whose logits are far apart, and sums of much that cancels."""
    layout, count = layout_of(), 10_000
    policy = scorer_policy(layout, width=width)
    observations, masks = random_observations(layout, count), random_masks(layout, count)
    price = observations[:, layout.slices["co2"]] + observations[:, layout.slices["ttft"]] ** 2
    clone(policy, observations, np.where(masks, price, 9.0).argmin(axis=1), masks, epochs=2)
    with torch.no_grad():
        policy.mlp_extractor.output.weight.mul_(20.0)
        policy.mlp_extractor.tower.added.bias.add_(30.0)
    export_scorer(policy, layout, tmp_path / "router.npz", RECIPE)
    router = load_router(tmp_path / "router.npz", compiled=compiled)
    wanted = torch_logits(policy, observations)
    assert np.abs(router.logits(observations, layout) - wanted).max() <= 1e-5
    allowed = np.where(masks, wanted, -np.inf)
    second, first = np.sort(allowed, axis=1)[:, -2:].T
    clear = first - second > 2e-5
    assert clear.mean() > 0.99
    chosen = router.act(observations, masks, layout)
    assert chosen.dtype == np.int64
    np.testing.assert_array_equal(chosen[clear], allowed.argmax(axis=1)[clear])
    assert masks[np.arange(count), chosen].all()


@pytest.mark.parametrize("compiled", [True, False])
def test_a_file_serves_fleets_of_any_size_one_after_another(exported: Path, compiled: bool) -> None:
    router, policy = load_router(exported, compiled=compiled), scorer_policy(layout_of())
    shapes = [(5, 3, 4), (3, 2, 6), (1, 1, 1), (5, 3, 4)]
    for shape in shapes:
        layout = layout_of(*shape)
        for count in (1, 33):
            observations = random_observations(layout, count)
            wanted = torch_logits(policy.on(layout), observations)
            np.testing.assert_allclose(router.logits(observations, layout), wanted, atol=1e-5)
    order = np.random.default_rng(0).permutation(60)
    other = permuted(layout_of(), order)
    observations = random_observations(other, 5)
    wanted = torch_logits(policy.on(other), observations)
    np.testing.assert_allclose(router.logits(observations, other), wanted, atol=1e-5)


def test_what_an_environment_gives_can_be_handed_on(exported: Path) -> None:
    """int8 masks, arrays that are not contiguous, and masks that allow one deployment only."""
    layout = layout_of()
    router = load_router(exported)
    observations, masks = random_observations(layout, 8), random_masks(layout, 8)
    wanted = router.act(observations, masks, layout)
    np.testing.assert_array_equal(router.act(observations, masks.astype(np.int8), layout), wanted)
    apart = np.repeat(observations, 2, axis=0)[::2].astype(np.float64)
    np.testing.assert_array_equal(router.act(apart, masks, layout), wanted)
    masks[:] = False
    masks[:, 7] = True
    assert (router.act(observations, masks, layout) == 7).all()
    assert len(router.act(observations[:0], masks[:0], layout)) == 0


@pytest.mark.parametrize("compiled", [True, False])
def test_arrays_that_do_not_fit_are_refused(exported: Path, compiled: bool) -> None:
    layout, router = layout_of(), load_router(exported, compiled=compiled)
    observations, masks = random_observations(layout, 4), random_masks(layout, 4)
    with pytest.raises(ValueError, match=r"observations have shape \(4, 486\); give \(B, 487\)"):
        router.logits(observations[:, 1:], layout)
    with pytest.raises(ValueError, match="observations have shape"):
        router.act(observations[0], masks, layout)
    with pytest.raises(ValueError, match=r"masks have shape \(4, 59\); give \(4, 60\)"):
        router.act(observations, masks[:, 1:], layout)
    masks[2] = False
    with pytest.raises(ValueError, match="row 2: the mask allows no deployment"):
        router.act(observations, masks, layout)


# ----------------------------------------------------------------------------- NumPy alone

_ALONE = """
import sys
import numpy as np
{before}
import carbon_gym.router
loaded = {{name.partition(".")[0] for name in sys.modules}}
assert not loaded & {{"torch", "numba", "pandas", "pydantic", "stable_baselines3"}}, loaded
router = carbon_gym.router.load_router({path!r})
from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.fleet.deployments import Deployments
layout = ObservationLayout(Deployments.of(__import__("carbon_gym").load_scenario("sharegpt")))
observations = np.load({observations!r})
print(router.act(observations, np.ones((5, 60)), layout).tolist())
assert "torch" not in sys.modules and "stable_baselines3" not in sys.modules
"""


@pytest.mark.parametrize("before", ["", "sys.modules['numba'] = None"])
def test_it_runs_without_torch_and_without_numba(
    exported: Path, tmp_path: Path, before: str
) -> None:
    observations = random_observations(layout_of(), 5)
    np.save(tmp_path / "observations.npy", observations)
    code = _ALONE.format(
        before=before, path=str(exported), observations=str(tmp_path / "observations.npy")
    )
    if before:
        code = code.replace('"numba", ', "")
    printed = program(code)
    wanted = load_router(exported).act(observations, np.ones((5, 60)), layout_of())
    assert printed.strip() == str(wanted.tolist())


# ----------------------------------------------------------------------------- the file


def test_the_file_is_small_and_says_how_it_was_trained(exported: Path) -> None:
    assert exported.stat().st_size < 100_000
    router = load_router(exported)
    assert router.recipe == RECIPE
    with np.load(exported, allow_pickle=False) as content:
        header = json.loads(content["header"].tobytes())
    assert header["version"] == 1
    assert "60" not in json.dumps(header["layout"]), "nothing of the fleet's size"


def test_what_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    layout, path = layout_of(), tmp_path / "router.npz"
    policy = scorer_policy(layout)
    for recipe in ({"seed": Path("x")}, {"loss": float("nan")}):
        with pytest.raises(InputError, match="the recipe is not plain JSON"):
            export_scorer(policy, layout, path, recipe)
    with pytest.raises(InputError, match=r"would take .* bytes, more than 2,000,000"):
        export_scorer(policy, layout, path, {"config": "x" * 2_000_000})
    with pytest.raises(InputError, match="the policy is no deployment scorer"):
        export_scorer(torch.nn.Linear(2, 2), layout, path, {})
    with pytest.raises(InputError, match="cannot be written"):
        export_scorer(policy, layout, tmp_path / "none" / "router.npz", {})
    with torch.no_grad():
        policy.mlp_extractor.prior.fill_(torch.nan)
    with pytest.raises(InputError, match="cannot be exported: array 'prior' holds"):
        export_scorer(policy, layout, path, {})
    assert not list(tmp_path.iterdir()), "nothing half-written is left"


# ----------------------------------------------------------------------------- the command


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder as `carbon-gym train` leaves it."""
    env = CarbonVecEnv(2, seed=0, **TINY)
    model = MaskablePPO(
        MaskableScorerPolicy, env, n_steps=8, policy_kwargs={"layout": env.env.layout}, device="cpu"
    )
    folder = tmp_path / "run"
    (folder / "best").mkdir(parents=True)
    model.save(folder / "best" / "model.zip")
    config = {"algo": "maskable-ppo", "policy": "scorer", "scenario": "tiny", "seed": 4}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "best" / "figures.json").write_text(json.dumps({"steps": 16}))
    scenario = yaml.safe_dump(env.env.world.scenario.to_dict())
    (folder / "scenario.yaml").write_text(scenario)
    return folder


def test_a_run_is_exported_with_its_recipe(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "router.npz"
    done = command("export", run, "--out", out)
    assert done.code == 0, done.err
    assert f"{out.stat().st_size:,} bytes, tiny, seed 4" in done.out
    recipe = load_router(out).recipe
    assert recipe["command"] == "carbon-gym train --algo maskable-ppo --config config.yaml"
    assert (recipe["seed"], recipe["scenario"]) == (4, "tiny")
    assert recipe["config"]["policy"] == "scorer"
    assert recipe["validation"] == {"steps": 16}
    env = CarbonVecEnv(16, seed=0, **TINY)
    model = MaskablePPO.load(run / "best" / "model.zip", device="cpu")
    observations, masks = env.reset(), env.action_masks()
    chosen = load_router(out).act(observations, masks, env.env.layout)
    wanted = model.predict(observations, action_masks=masks, deterministic=True)[0]
    np.testing.assert_array_equal(chosen, wanted)


def test_folders_that_are_no_scorer_s_run_are_refused(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "router.npz"
    with pytest.raises(InputError, match=r"holds no config\.yaml; name the folder"):
        export_run(tmp_path, out)
    model = run / "best" / "model.zip"
    whole = model.read_bytes()
    model.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"model\.zip: cannot be read as a trained model"):
        export_run(run, out)
    model.unlink()
    with pytest.raises(InputError, match="train until the first validation"):
        export_run(run, out)
    env = CarbonVecEnv(2, seed=0, **TINY)
    MaskablePPO("MlpPolicy", env, n_steps=8, device="cpu").save(model)
    done = command("export", run, "--out", out)
    assert done.code == 2
    assert "the policy is no deployment scorer, and only those can be exported" in done.err
    assert not out.exists()
