"""Training runs as policies over whole fleets, of every algorithm, and fleets of another size."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import carbon_gym as command
from commandline import program
from inputs import write_grid

import carbon_gym
from carbon_gym.envs.fleet_view import FleetView
from carbon_gym.errors import InputError, InstallationError
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.policy import Policy
from carbon_gym.router.policy import RouterPolicy
from carbon_gym.scenario import Scenario, load_scenario
from carbon_gym.simulator.arrays import NOWHERE
from carbon_gym.simulator.run import PolicyRun, run_policy
from carbon_gym.simulator.simulator import Simulator

torch = pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("sb3_contrib", reason="the train extra is not installed")

from agents.trained import TrainedPolicy  # noqa: E402
from agents.training.config import load_config  # noqa: E402
from agents.training.model import ALGORITHMS  # noqa: E402
from agents.training.run import train  # noqa: E402

KINDS = (
    *((algo, "mlp") for algo in ALGORITHMS),
    *((algo, "scorer") for algo in ("ppo", "maskable-ppo", "a2c")),
)
SMALL: dict[str, Any] = {
    "lanes": 8,
    "total_steps": 2_000,
    "scenario": "tiny",
    "net_arch": [16],
    "environment": {"fleets": 1, "co2_scale_g": 0.05},
    "validation": {"every": 2_000, "sessions": 12, "fleets": 1},
}
OF_THE_ALGORITHM: dict[str, dict[str, Any]] = {
    "ppo": {"n_steps": 32, "batch_size": 64, "n_epochs": 2, "value_target": "symlog"},
    "maskable-ppo": {"n_steps": 32, "batch_size": 64, "n_epochs": 2, "value_target": "symlog"},
    "a2c": {},
    "dqn": {"buffer_size": 2_000, "learning_starts": 64},
    "qrdqn": {"buffer_size": 2_000, "learning_starts": 64, "n_quantiles": 7},
}
Runs = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Trained runs, each made when it is first asked for."""
    folder = tmp_path_factory.mktemp("runs")

    @cache
    def run(algo: str, network: str) -> Path:
        content = {**SMALL, "algo": algo, **OF_THE_ALGORITHM[algo]}
        if network == "scorer":
            content |= {"policy": "scorer", "scorer": {"width": 8, "prior_weight": 2.0}}
        file = folder / f"{algo}-{network}.yaml"
        file.write_text(json.dumps(content), encoding="utf-8")
        train(load_config(None, file), load_scenario("tiny"), folder / f"{algo}-{network}")
        return folder / f"{algo}-{network}"

    return run


@pytest.fixture
def copied(runs: Runs, tmp_path: Path) -> Path:
    """A run to be tampered with."""
    return Path(shutil.copytree(runs("maskable-ppo", "mlp"), tmp_path / "copied"))


@cache
def fleets() -> Evaluation:
    return evaluation_fleets(load_scenario("tiny"), fleets=2)


def served(policy: Any, laid: Evaluation) -> PolicyRun:
    return run_policy(laid.scenario, policy, laid.traces, laid.grid)


def other_fleet(folder: Path) -> Scenario:
    """3 models, 2 GPU types and 6 regions."""
    fleet = load_scenario("sharegpt").to_dict()["fleet"]
    zones = [f"zone-{k}" for k in range(6)]
    return load_scenario(
        "tiny",
        fleet={
            "models": fleet["models"][:3],
            "gpus": fleet["gpus"][:2],
            "regions": [{**fleet["regions"][0], "zone": zone} for zone in zones],
        },
        grid={
            "source": "file",
            "paths": [str(write_grid(folder / "grid.csv", hours=120, zones=zones))],
        },
    )


def preferred(algo: str, policy: Any, seen: Any) -> Any:
    """Logits or values (B, D) by the ways that Stable-Baselines3 has for them."""
    if algo == "dqn":
        return policy.q_net(seen)
    if algo == "qrdqn":
        return policy.quantile_net(seen).mean(dim=1)
    return policy.get_distribution(seen).distribution.logits


# ------------------------------------------------------------------------------- what it serves


@pytest.mark.parametrize(("algo", "network"), KINDS)
def test_a_run_serves_fleets_as_its_best_model_says(runs: Runs, algo: str, network: str) -> None:
    """Turn by turn against the model as Stable-Baselines3 itself loads it."""
    run, laid = runs(algo, network), fleets()
    policy = carbon_gym.make_policy(str(run), laid.scenario)
    assert isinstance(policy, TrainedPolicy)
    assert policy.name == str(run)
    found = served(policy, laid).ledger["deployment"]
    model = ALGORITHMS[algo].load(run / "best" / "model.zip", device="cpu")
    simulator = Simulator(laid.scenario, laid.traces, laid.grid)
    view, lanes, free_and_allowed = FleetView(simulator), np.arange(2), 0
    while not simulator.done:
        quotes = simulator.quote()
        view.observe()
        with torch.no_grad():
            liked = preferred(algo, model.policy, torch.from_numpy(view.observation)).numpy()
        chosen = np.where(view.mask > 0, liked, -np.inf).argmax(axis=1)
        free, _ = model.predict(view.observation, deterministic=True)
        alone = (view.mask[lanes, free] > 0) & (quotes.row != NOWHERE)
        free_and_allowed += int(alone.sum())
        np.testing.assert_array_equal(chosen[alone], free[alone])
        simulator.commit(chosen)
    assert free_and_allowed > 0
    np.testing.assert_array_equal(found, simulator.ledger["deployment"])
    assert not simulator.ledger["quality_violation"].any()


@pytest.mark.parametrize("algo", ["ppo", "maskable-ppo", "a2c"])
def test_a_scorer_and_its_exported_router_serve_alike(
    runs: Runs, algo: str, tmp_path: Path
) -> None:
    run, router = runs(algo, "scorer"), tmp_path / "exported" / "router.npz"
    router.parent.mkdir()
    assert command("export", run, "--out", router).code == 0
    wanted = served(carbon_gym.make_policy(str(router)), fleets())
    of_folder = carbon_gym.make_policy(str(router.parent))
    assert type(of_folder) is RouterPolicy
    assert of_folder.name == str(router.parent)
    for policy in (carbon_gym.make_policy(str(run)), of_folder):
        found = served(policy, fleets()).ledger["deployment"]
        np.testing.assert_array_equal(found, wanted.ledger["deployment"])


def test_a_scorer_serves_a_fleet_of_another_size_and_then_its_own(
    runs: Runs, tmp_path: Path
) -> None:
    run = runs("maskable-ppo", "scorer")
    scenario = other_fleet(tmp_path)
    laid = evaluation_fleets(scenario, fleets=2)
    assert command("export", run, "--out", tmp_path / "router.npz").code == 0
    policy, router = (
        carbon_gym.make_policy(str(name), scenario) for name in (run, tmp_path / "router.npz")
    )
    for fleet in (laid, fleets(), laid):
        assert choices_agree(policy, router, fleet) > (4 if fleet is laid else 1)


def choices_agree(policy: Policy, router: RouterPolicy, fleet: Evaluation) -> int:
    """Serve by the router; the policy chooses the same unless the best two are as good as equal.

    Returns:
        How many deployments were chosen.
    """
    simulator = Simulator(fleet.scenario, fleet.traces, fleet.grid)
    for one in (policy, router):
        one.accompany(simulator)  # type: ignore[attr-defined]
        one.reset(simulator.fleet, simulator.slots)
    view, used = FleetView(simulator), set()
    while not simulator.done:
        quotes = simulator.quote()
        chosen, other = router.choose(quotes).copy(), policy.choose(quotes)
        view.observe()
        logits = router.router.logits(view.observation, view.layout)
        for lane in np.flatnonzero(quotes.row != NOWHERE):
            ours, theirs = logits[lane, chosen[lane]], logits[lane, other[lane]]
            assert chosen[lane] == other[lane] or abs(ours - theirs) <= 2e-5
        used |= set(chosen[quotes.row != NOWHERE].tolist())
        simulator.commit(chosen)
    return len(used)


@pytest.mark.parametrize("algo", ["maskable-ppo", "qrdqn"])
def test_another_network_serves_its_own_fleet_only(runs: Runs, algo: str, tmp_path: Path) -> None:
    policy = carbon_gym.make_policy(str(runs(algo, "mlp")))
    laid = evaluation_fleets(other_fleet(tmp_path), fleets=1)
    with pytest.raises(InputError, match=r"only the fleet of 4 deployments .* of 36") as caught:
        served(policy, laid)
    assert "\n" not in str(caught.value)
    moved = load_scenario("tiny", fleet={"regions": [{"zone": "GB"}, {"zone": "DE"}]})
    with pytest.raises(InputError, match="this one of 4 is another; train with policy: scorer"):
        served(policy, evaluation_fleets(moved, fleets=1))


def test_a_run_can_be_the_background_of_another(runs: Runs) -> None:
    from agents import CarbonVecEnv

    run = runs("dqn", "mlp")
    arguments: dict[str, Any] = {"scenario": "tiny", "fleets": 2, "co2_scale_g": 0.05}
    env = CarbonVecEnv(1, background=str(run), **arguments)
    laid = evaluation_fleets(load_scenario("tiny"), split="train", fleets=2)
    wanted = served(TrainedPolicy(run), laid).ledger["deployment"]
    np.testing.assert_array_equal(env.env.world.background.deployment, wanted)


def test_it_leaves_generator_and_threads_as_they_were(runs: Runs) -> None:
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        served(carbon_gym.make_policy(str(runs("maskable-ppo", "scorer"))), fleets())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(before, torch.get_rng_state())


def test_the_benchmark_compares_runs(runs: Runs, tmp_path: Path) -> None:
    run = runs("a2c", "scorer")
    arguments = ["--scenario", "tiny", "--fleets", 1, "--jobs", 1, "--out", tmp_path / "out"]
    done = command("benchmark", *arguments, "--policies", f"ccar-no-gate,{run}")
    assert done.code == 0, done.err
    rows = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    assert {row["policy"] for row in rows} >= {"ccar-no-gate", str(run)}


# ------------------------------------------------------------------------------------- the doors


def test_a_policy_s_name_goes_before_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faircarbon").mkdir()
    monkeypatch.chdir(tmp_path)
    assert carbon_gym.make_policy("faircarbon").name == "faircarbon"


def test_folders_without_a_run_are_refused(copied: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"holds no config\.yaml; name the folder of a training"):
        carbon_gym.make_policy(str(tmp_path / "empty"))
    (copied / "best" / "model.zip").unlink()
    with pytest.raises(InputError, match="train until the first validation"):
        carbon_gym.make_policy(str(copied))


@pytest.mark.parametrize("network", ["mlp", "scorer"])
def test_options_are_refused(runs: Runs, network: str, tmp_path: Path) -> None:
    run = runs("maskable-ppo", network)
    with pytest.raises(InputError, match="takes no options, pricing given"):
        carbon_gym.make_policy(str(run), pricing=True)
    if network == "scorer":
        assert command("export", run, "--out", tmp_path / "router.npz").code == 0
        with pytest.raises(InputError, match="a router takes no options, pricing given"):
            carbon_gym.make_policy(str(tmp_path / "router.npz"), pricing=True)


def test_a_model_that_is_damaged_or_another_s_is_refused(copied: Path, runs: Runs) -> None:
    model = copied / "best" / "model.zip"
    shutil.copy(runs("qrdqn", "mlp") / "best" / "model.zip", model)
    with pytest.raises(InputError, match=r"not of the network that config\.yaml describes"):
        carbon_gym.make_policy(str(copied))
    model.write_bytes(model.read_bytes()[:5_000])
    with pytest.raises(InputError, match=r"model\.zip: cannot be read as a trained model"):
        carbon_gym.make_policy(str(copied))


class _Bomb:
    """Leaves a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("member", ["data", "policy.pth", "pytorch_variables.pth"])
def test_no_pickle_of_a_model_is_opened(copied: Path, tmp_path: Path, member: str) -> None:
    model, went_off = copied / "best" / "model.zip", tmp_path / "went-off"
    with zipfile.ZipFile(model) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    assert member in content
    content[member] = pickle.dumps(_Bomb(went_off))
    with zipfile.ZipFile(model, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    if member == "policy.pth":
        with pytest.raises(InputError, match="cannot be read as a trained model"):
            carbon_gym.make_policy(str(copied))
    else:
        carbon_gym.make_policy(str(copied))
    assert not went_off.exists()


def test_without_torch_it_says_what_to_install(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "import carbon_gym\n"
        f"try:\n    carbon_gym.make_policy({str(copied)!r})\n"
        "except carbon_gym.errors.InstallationError as error:\n    print(error)\n"
    )
    printed = program(code)
    assert 'a training run needs torch; run `pip install "carbon-gym[train]"`' in printed
    monkeypatch.setitem(sys.modules, "agents", None)
    with pytest.raises(InstallationError):
        carbon_gym.make_policy(str(copied))
