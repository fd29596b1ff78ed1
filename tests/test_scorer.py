"""The deployment scorer: the same for any order and number of deployments, and trainable."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from env_worlds import TINY
from scoring import layout_of, permuted, random_masks, random_observations, scorer_policy

from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.errors import InputError

torch = pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("sb3_contrib", reason="the train extra is not installed")

from sb3_contrib import MaskablePPO  # noqa: E402
from stable_baselines3 import A2C, PPO  # noqa: E402

from agents import CarbonVecEnv  # noqa: E402
from agents.cloning import clone  # noqa: E402
from agents.scorer import DeploymentScorer, MaskableScorerPolicy, ScorerPolicy  # noqa: E402


def outputs(policy: Any, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logits (B, D) and values (B,)."""
    seen = torch.from_numpy(observations)
    with torch.no_grad():
        logits = policy.mlp_extractor.forward_actor(seen).numpy()
        return logits, policy.predict_values(seen).numpy()[:, 0]


# ----------------------------------------------------------------------------- the function


@pytest.mark.parametrize("shape", [(5, 3, 4), (3, 2, 6), (1, 1, 2)])
def test_permuting_deployments_permutes_logits_and_leaves_the_value(
    shape: tuple[int, int, int],
) -> None:
    layout = layout_of(*shape)
    order = np.random.default_rng(5).permutation(len(layout.fleet))
    policy, other = scorer_policy(layout), permuted(layout, order)
    observations = random_observations(layout, 50)
    moved = observations.copy()
    other.deployments(moved)[:] = layout.deployments(observations)[:, order]
    logits, values = outputs(policy, observations)
    again, values_again = outputs(policy.on(other), moved)
    np.testing.assert_allclose(again, logits[:, order], atol=1e-5)
    np.testing.assert_allclose(values_again, values, atol=1e-5)
    assert np.ptp(logits, axis=1).min() > 0.01, "deployments are told apart"
    assert np.ptp(values) > 0.01


def test_renaming_regions_models_and_pools_changes_nothing() -> None:
    """Groups are no more than who belongs together: their numbers may be shuffled."""
    layout = layout_of()
    fleet, rng = layout.fleet, np.random.default_rng(0)
    counts = (len(fleet.regions), len(fleet.models), len(fleet.unit_share))
    region, model, unit = (rng.permutation(n) for n in counts)  # old index of each new one
    other = ObservationLayout(
        dataclasses.replace(
            fleet,
            region=np.argsort(region)[fleet.region],
            model=np.argsort(model)[fleet.model],
            unit=np.argsort(unit)[fleet.unit],
            pue=fleet.pue[region],
            params_billion=fleet.params_billion[model],
            context_tokens=fleet.context_tokens[model],
            unit_share=fleet.unit_share[unit],
        )
    )
    observations = random_observations(layout, 20)
    moved = observations.copy()
    over = {"R": region, "M": model, "U": unit}
    names = {"R": ("intensity", "change_1h", "change_24h", "rank"), "U": ("room", "load")}
    names["M"] = ("quality", "quality_ratio", "admissible")
    for kind, old in over.items():
        for name in names[kind]:
            moved[:, layout.slices[name]] = observations[:, layout.slices[name]][:, old]
    policy = scorer_policy(layout)
    for before, after in zip(
        outputs(policy, observations), outputs(policy.on(other), moved), strict=True
    ):
        np.testing.assert_allclose(after, before, atol=1e-5)


def test_every_feature_but_the_date_can_change_a_logit() -> None:
    layout = layout_of()
    policy, rng = scorer_policy(layout), np.random.default_rng(0)
    observations = random_observations(layout, 40)
    before = outputs(policy, observations)[0]
    for name in (row[0] for row in layout.describe()):
        changed = observations.copy()
        block = changed[:, layout.slices[name]]
        block[:] = rng.permuted(block, axis=0)  # another turn's
        moved = np.abs(outputs(policy, changed)[0] - before).max()
        assert (moved == 0.0) == (name in ("weekday", "month")), name


def test_the_same_weights_serve_a_fleet_of_another_size() -> None:
    policy = scorer_policy(layout_of(5, 3, 4))
    other = layout_of(3, 2, 6)
    moved = policy.on(other)
    observations, masks = random_observations(other, 30), random_masks(other, 30)
    actions, _ = moved.predict(observations, action_masks=masks, deterministic=True)
    assert masks[np.arange(30), actions].all()
    before = policy.state_dict()
    assert before.keys() == moved.state_dict().keys()
    assert all(torch.equal(before[key], value) for key, value in moved.state_dict().items())


@pytest.mark.parametrize("prior", [0.0, 6.0])
def test_untrained_it_ranks_by_price_or_not_at_all(prior: float) -> None:
    layout = layout_of()
    scorer = DeploymentScorer(layout, prior_weight=prior)
    observations = random_observations(layout, 20)
    with torch.no_grad():
        logits, _ = scorer(torch.from_numpy(observations))
    np.testing.assert_allclose(
        logits.numpy(), -prior * observations[:, layout.slices["co2"]], atol=1e-6
    )
    assert scorer.prior.requires_grad == (prior != 0.0)


def test_a_layout_of_other_spaces_is_refused() -> None:
    layout = layout_of(3, 2, 6)
    spaces = CarbonVecEnv(1, **TINY)
    for wrong in ({"width": 0}, {"prior_weight": -1.0}, {"prior_weight": float("nan")}):
        with pytest.raises(InputError, match="give widths of at least 1 and a prior of at least 0"):
            DeploymentScorer(layout, **wrong)
    with pytest.raises(InputError, match=r"layout is of \d+ numbers and 36 deployments, but"):
        MaskableScorerPolicy(
            spaces.observation_space, spaces.action_space, lambda _: 1e-3, layout=layout
        )


# ----------------------------------------------------------------------------- training


@pytest.mark.parametrize("algorithm", [PPO, A2C, MaskablePPO])
def test_it_trains_saves_and_loads(algorithm: Any, tmp_path: Path) -> None:
    env = CarbonVecEnv(4, seed=0, **TINY)
    masked = algorithm is MaskablePPO
    model = algorithm(
        MaskableScorerPolicy if masked else ScorerPolicy,
        env,
        n_steps=16,
        seed=0,
        device="cpu",
        policy_kwargs={"layout": env.env.layout, "width": 16, "prior_weight": 2.0},
        **({} if algorithm is A2C else {"batch_size": 32, "n_epochs": 2}),
    )
    before = {key: value.clone() for key, value in model.policy.state_dict().items()}
    model.learn(128)
    after = model.policy.state_dict()
    assert all(
        torch.isfinite(value).all() and not torch.equal(before[key], value)
        for key, value in after.items()
    ), "every array learns"
    model.save(tmp_path / "model")
    loaded = algorithm.load(tmp_path / "model", device="cpu")
    observations = env.reset()
    masks = {"action_masks": env.action_masks()} if masked else {}
    wanted = model.predict(observations, deterministic=True, **masks)[0]
    assert (loaded.predict(observations, deterministic=True, **masks)[0] == wanted).all()
    assert loaded.policy.mlp_extractor.tower.added.out_features == 16


def test_a_saved_run_loads_in_another_process(tmp_path: Path) -> None:
    env = CarbonVecEnv(2, seed=0, **TINY)
    model = MaskablePPO(
        MaskableScorerPolicy, env, n_steps=8, policy_kwargs={"layout": env.env.layout}, device="cpu"
    )
    model.save(tmp_path / "model")
    code = f"""
import numpy as np
from sb3_contrib import MaskablePPO
model = MaskablePPO.load({str(tmp_path / "model")!r}, device="cpu")
print(model.predict(np.zeros(model.observation_space.shape, np.float32), deterministic=True)[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


# ----------------------------------------------------------------------------- cloning


@pytest.mark.parametrize("masked", [True, False])
def test_cloning_learns_a_rule(masked: bool) -> None:
    """Shortest wait among the allowed: not what the prior says."""
    layout = layout_of(2, 2, 2)
    observations, masks = random_observations(layout, 2000), random_masks(layout, 2000)
    if not masked:
        masks[:] = True
    waits = np.where(masks, observations[:, layout.slices["ttft"]], np.inf)
    actions = waits.argmin(axis=1)
    policy = scorer_policy(layout, masked=masked)
    value = outputs(policy, observations)[1]
    losses = clone(
        policy, observations, actions, masks if masked else None, epochs=8, batch_size=100
    )
    assert len(losses) == 8
    assert losses[-1] < losses[0] / 3
    chosen = np.where(masks, outputs(policy, observations)[0], -np.inf).argmax(axis=1)
    assert (chosen == actions).mean() > 0.9
    np.testing.assert_array_equal(outputs(policy, observations)[1], value)


def test_cloning_gives_the_same_for_the_same_seed() -> None:
    layout = layout_of(2, 1, 2)
    observations = random_observations(layout, 100)
    actions = np.zeros(100, dtype=np.int64)
    found = [
        clone(scorer_policy(layout), observations, actions, epochs=2, batch_size=30, seed=seed)
        for seed in (0, 0, 1)
    ]
    assert found[0] == found[1] != found[2]


def test_cloning_refuses_what_does_not_fit() -> None:
    layout = layout_of(2, 1, 2)
    observations, masks = random_observations(layout, 5), random_masks(layout, 5)
    policy, forbidden = scorer_policy(layout), masks.argmin(axis=1)
    masks[3] = [True, False, False, False]
    forbidden[:] = masks.argmax(axis=1)
    forbidden[3] = 2
    with pytest.raises(InputError, match="row 3: action 2 is outside its mask"):
        clone(policy, observations, forbidden, masks)
    with pytest.raises(InputError, match="5 observations, 4 actions and no masks"):
        clone(policy, observations, forbidden[:4])
    with pytest.raises(InputError, match="at least one"):
        clone(policy, observations[:0], forbidden[:0])
