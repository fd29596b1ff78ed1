"""Recorded datasets: what stands in them is what the environment gives, whole and found again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from commandline import carbon_gym

from carbon_gym.datasets import load_dataset, recorder
from carbon_gym.doors import make_policy
from carbon_gym.envs import kernels
from carbon_gym.envs.fleet_view import FleetView
from carbon_gym.envs.options import resolve
from carbon_gym.errors import InputError
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.scenario import Scenario, load_scenario
from carbon_gym.simulator.allocate import rows_by_session
from carbon_gym.simulator.run import run_policy
from carbon_gym.simulator.simulator import Simulator

FLEETS = 2


def laid(scenario: Scenario | str = "tiny", fleets: int = FLEETS) -> Evaluation:
    loaded = load_scenario(scenario) if isinstance(scenario, str) else scenario
    return evaluation_fleets(loaded, split="train", fleets=fleets)


def recorded(folder: Path, policy: str, evaluation: Evaluation, **options: Any) -> dict[str, Any]:
    rules = resolve(scenario=evaluation.scenario).rules
    return recorder.record(evaluation, policy, folder, rules, split="train", **options)


# ----------------------------------------------------------------------------- content


@pytest.mark.parametrize(
    ("scenario", "policy"),
    [
        ("tiny", "ccar"),
        ("tiny", "carbon-greedy"),  # leaves the mask
        ("memory-tight", "cache-aware"),
    ],
)
def test_it_holds_what_the_fleet_environment_gives(
    tmp_path: Path, scenario: str, policy: str
) -> None:
    world = load_scenario(scenario, workload={"sessions_per_fleet": 60})
    evaluation = laid(world)
    recorded(tmp_path, policy, evaluation)
    data = load_dataset(tmp_path)
    env = gym.make("CarbonRoutingFleet-v0", scenario=world, fleets=FLEETS, window_s=86_400.0)
    fleet, trace = data.fleets[1], evaluation.traces[1]
    rows = np.argsort(rows_by_session(trace))  # of the turns in the order of events
    start = trace.origin_unix_s + int(trace.arrival_s[0])
    seen, info = env.reset(options={"start": start})
    for at in rows:
        np.testing.assert_array_equal(fleet.observations[at], seen)
        np.testing.assert_array_equal(fleet.masks[at], info["action_mask"])
        seen, reward, _, over, info = env.step(fleet.actions[at])
        assert fleet.rewards[at] == reward
        assert fleet.reward_terms[at].sum() == pytest.approx(reward)
        assert fleet.co2_g[at] == info["co2_g"]
        if over:
            break
    assert np.array_equal(np.flatnonzero(fleet.terminations), fleet.first[1:] - 1)
    assert np.array_equal(np.diff(fleet.first), trace.session_turns)


@pytest.mark.parametrize("policy", ["ccar", "ccar-budget-follow"])
def test_a_policy_is_served_as_in_a_run_of_its_own(tmp_path: Path, policy: str) -> None:
    evaluation = laid("tiny")
    if policy.startswith("ccar-budget"):
        bounds = {"quality_constraint": "budget", "quality_target": 0.6}
        evaluation = laid(load_scenario("tiny", bounds=bounds))
    recorded(tmp_path, policy, evaluation)
    alone = make_policy(policy, evaluation.scenario)
    run = run_policy(evaluation.scenario, alone, evaluation.traces, evaluation.grid)
    for k, fleet in enumerate(load_dataset(tmp_path).fleets):
        ledger = run.ledger[slice(*run.bounds[k : k + 2])][rows_by_session(evaluation.traces[k])]
        assert np.array_equal(fleet.actions, ledger["deployment"])
        assert np.array_equal(fleet.co2_g, ledger["co2_g"])


def test_metadata_say_where_it_comes_from(tmp_path: Path) -> None:
    evaluation = laid()
    made = recorded(tmp_path, "ccar", evaluation)
    data = load_dataset(tmp_path)
    assert data.metadata == made
    rules = resolve(scenario="tiny").rules
    assert (made["policy"], made["digest"]) == ("ccar", load_scenario("tiny").digest())
    assert made["co2_scale_g"] == rules.co2_scale_g
    assert made["weights"]["quality"] == rules.quality_weight
    assert made["counts"]["turns"] == len(data) == sum(trace.turns for trace in evaluation.traces)
    assert made["counts"]["co2_g"] == pytest.approx(data.column("co2_g").sum())
    assert len(list(data.sessions())) == made["counts"]["sessions"]
    assert data.observations.shape == (len(data), made["observations"]["size"])


def test_fleets_are_stepped_side_by_side_as_they_are_committed() -> None:
    evaluation = laid("tiny")
    made = (evaluation.scenario, evaluation.traces, evaluation.grid)
    stepped, committed = Simulator(*made), Simulator(*made)
    view = FleetView(stepped, rules=resolve(scenario="tiny").rules)
    lanes = view.kit.lanes
    ends = np.diff(stepped.bounds)
    assert len(set(ends)) == len(ends)  # one is done before the other
    view.observe()
    for step in range(ends.max()):
        actions = committed.quote().cheapest().copy()
        committed.commit(actions)
        kernels.step_fleets(view.words, actions)
        assert np.array_equal(lanes.acted, step < ends)
        assert (lanes.reward[step >= ends] == 0.0).all()
        assert np.array_equal(lanes.ended, step + 1 >= ends)
    assert stepped.ledger.tobytes() == committed.ledger.tobytes()


# ----------------------------------------------------------------------------- foreseen plans


def test_a_plan_without_limits_is_followed_to_the_end(tmp_path: Path) -> None:
    world = load_scenario("tiny", capacity={"limit": None}, cache={"memory_pressure": False})
    evaluation = laid(world, 1)
    made = recorded(tmp_path, "clairvoyant", evaluation)
    plan = make_policy("clairvoyant", world)
    run = run_policy(world, plan, evaluation.traces, evaluation.grid)
    assert made["counts"]["replaced"] == made["counts"]["outside_mask"] == 0
    assert made["counts"]["co2_g"] == pytest.approx(run.ledger["co2_g"].sum(), rel=1e-12)


class Planned:
    """Foresees that everything goes to the same deployment, and notes what it is shown."""

    name = "planned"
    unbounded = True
    goal = 1

    def __init__(self) -> None:
        self.prices_g: list[Any] = []
        self.foreseen = 0

    def foresee(self, simulator: Any) -> None:
        assert not simulator._static.bounded_memory
        self.foreseen += simulator.slots

    def reset(self, fleet: Any, slots: int) -> None:
        self.prices_g = []

    def choose(self, quotes: Any) -> Any:
        self.prices_g.append(quotes.co2_g[0].copy())
        return np.array([self.goal])


@pytest.mark.parametrize("instead", ["nearest", "cheapest"])
def test_a_forbidden_plan_gives_way_by_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instead: str
) -> None:
    evaluation, planned = laid("tiny", 1), Planned()
    monkeypatch.setattr(recorder, "make_policy", lambda *_: planned)
    monkeypatch.setattr(recorder, "policy_key", lambda *_: "")
    made = recorded(tmp_path, "planned", evaluation, instead=instead)
    fleet = load_dataset(tmp_path).fleets[0]
    order = np.argsort(rows_by_session(evaluation.traces[0]))
    masks, actions = fleet.masks[order], fleet.actions[order]
    assert planned.foreseen == evaluation.traces[0].sessions
    replaced = ~masks[:, planned.goal]
    assert 0 < replaced.sum() == made["counts"]["replaced"] < len(masks)
    assert (actions[~replaced] == planned.goal).all()
    for prices_g, mask, action in zip(planned.prices_g, masks, actions, strict=True):
        if not mask[planned.goal]:
            goal_g = prices_g[planned.goal] if instead == "nearest" else 0.0
            gaps = np.where(mask, np.abs(prices_g - goal_g), np.inf)
            assert gaps[action] == gaps.min()


# ----------------------------------------------------------------------------- going on


def test_a_killed_recording_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation, write = laid("tiny", 3), recorder.write_arrays
    recorded(tmp_path / "whole", "ccar", evaluation)

    def killed(path: Path, arrays: Any) -> None:
        if path.name == "fleet-0001.npz":
            raise KeyboardInterrupt
        write(path, arrays)

    monkeypatch.setattr(recorder, "write_arrays", killed)
    with pytest.raises(KeyboardInterrupt):
        recorded(tmp_path / "cut", "ccar", evaluation)
    monkeypatch.undo()
    with pytest.raises(InputError, match="only 1 of 3 fleets are recorded"):
        load_dataset(tmp_path / "cut")
    first = tmp_path / "cut" / "fleet-0000.npz"
    before, served = first.stat().st_mtime_ns, []
    recorded(tmp_path / "cut", "ccar", evaluation, on_turns=served.append)
    assert sum(served) == sum(trace.turns for trace in evaluation.traces)
    assert first.stat().st_mtime_ns == before
    names = sorted(path.name for path in (tmp_path / "cut").iterdir())
    assert names == ["dataset.json", *(f"fleet-000{k}.npz" for k in range(3))]
    for name in names:
        whole, cut = (tmp_path / folder / name for folder in ("whole", "cut"))
        assert whole.read_bytes() == cut.read_bytes()


def test_a_fleet_that_was_deleted_is_recorded_again(tmp_path: Path) -> None:
    evaluation = laid("tiny", 2)
    recorded(tmp_path, "ccar", evaluation)
    gone = tmp_path / "fleet-0000.npz"
    content = gone.read_bytes()
    gone.unlink()
    with pytest.raises(InputError, match=r"fleet-0000\.npz: there is no such file"):
        load_dataset(tmp_path)
    recorded(tmp_path, "ccar", evaluation)
    assert gone.read_bytes() == content


# ----------------------------------------------------------------------------- command line


def test_the_command_records_and_goes_on(tmp_path: Path) -> None:
    line = ("record", "ccar", "--scenario", "tiny", "--fleets", 2, "--sessions", 10)
    for _ in range(2):
        done = carbon_gym(*line, "--out", tmp_path / "data")
        assert (done.code, done.err) == (0, "")
        assert "(2 fleets, 20 sessions, " in done.out
    assert load_dataset(tmp_path / "data").metadata["split"] == "train"
    done = carbon_gym(*line, "--split", "validation", "--out", tmp_path / "data")
    assert done.code == 2
    assert "holds another dataset ('ccar' on 'tiny', 2 fleets)" in done.err


def test_the_command_says_what_gave_way(tmp_path: Path) -> None:
    line = ("record", "--scenario", "tiny", "--fleets", 1)
    done = carbon_gym(*line, "clairvoyant", "--out", tmp_path / "plan")
    counts = load_dataset(tmp_path / "plan").metadata["counts"]
    assert counts["replaced"] > 0
    assert f"{counts['replaced']} turns: the mask forbids what clairvoyant planned" in done.out
    done = carbon_gym(*line, "carbon-greedy", "--out", tmp_path / "outside")
    counts = load_dataset(tmp_path / "outside").metadata["counts"]
    assert counts["outside_mask"] > 0
    assert f"{counts['outside_mask']} turns: the choice is outside the mask" in done.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ccra"], "did you mean 'ccar'?"),
        (["lower-bound"], "is a bound that no run can follow"),
        (["nowhere.npz"], "nowhere.npz: there is no such file"),
        (["ccar", "--split", "trian"], "--split 'trian' is not known (nearest: 'train')"),
        (["ccar", "--fleets", 0], "--fleets 0 is not allowed"),
        (["ccar", "--sessions", 0], "--sessions 0 is not allowed"),
        (["ccar", "--instead", "cheap"], "--instead 'cheap' is not known (nearest: 'cheapest')"),
        (["ccar", "--format", "hdf5"], "--format 'hdf5' is not known"),
        (["ccar", "--scenario", "tny"], "did you mean 'tiny'?"),
    ],
)
def test_faults_are_said_before_the_work(tmp_path: Path, arguments: list[Any], said: str) -> None:
    scenario = [] if "--scenario" in arguments else ["--scenario", "tiny"]
    done = carbon_gym("record", *arguments, *scenario, "--out", tmp_path / "data")
    assert done.code == 2
    assert said in done.err
    assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "data").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file"
    done = carbon_gym("record", "ccar", "--scenario", "tiny", "--fleets", 1, "--out", out)
    assert done.code == 2
    assert "is a file; name a folder" in done.err


# ----------------------------------------------------------------------------- Minari


def test_without_minari_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    done = carbon_gym("record", "ccar", "--format", "minari", "--out", tmp_path / "data")
    assert done.code == 2
    assert 'pip install "carbon-gym[minari]"' in done.err
    assert not (tmp_path / "data").exists()


def test_minari_reads_the_copy(tmp_path: Path) -> None:
    minari = pytest.importorskip("minari", reason="the minari extra is not installed")
    pytest.importorskip("h5py", reason="the minari extra is not installed")
    line = ("record", "ccar", "--scenario", "tiny", "--fleets", 2, "--format", "minari")
    for _ in range(2):
        done = carbon_gym(*line, "--out", tmp_path)
        assert done.code == 0, done.err
    ours, theirs = load_dataset(tmp_path), minari.MinariDataset(tmp_path / "minari" / "data")
    assert theirs.spec.dataset_id == "carbon-gym/tiny/ccar-v0"
    assert theirs.total_steps == len(ours)
    for session, episode in zip(ours.sessions(), theirs.iterate_episodes(), strict=True):
        assert np.array_equal(episode.observations[:-1], session.observations)
        assert np.array_equal(episode.actions, session.actions)
        assert np.array_equal(episode.rewards, session.rewards)
        assert np.array_equal(episode.terminations, session.terminations)
        assert np.array_equal(episode.infos["action_mask"][:-1], session.masks)
        assert not episode.truncations.any()
        assert theirs.observation_space.contains(episode.observations[-1])
    env = theirs.recover_environment()
    assert env.observation_space == theirs.observation_space
    assert env.action_space == theirs.action_space
