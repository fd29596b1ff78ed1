"""The front: its points, its folder and the command."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import carbon_gym

from carbon_gym import front as module
from carbon_gym.benchmark import compare
from carbon_gym.errors import InputError
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.front import (
    FILTERED,
    PRICED,
    Point,
    Sweep,
    front_points,
    point_keys,
    reference_point,
    run_points,
    scenario_at,
    turns_to_serve,
)
from carbon_gym.report.front_file import FrontFile
from carbon_gym.scenario import Scenario, load_scenario

FEW = Sweep(beta_q=(0.7, 1.0), lambdas=(0, 8, 128), floors=(0.0, 0.7), co2_budgets=(0.4, 1.6))
SOME = ["ccar", "faircarbon", "largest-model", "ccar-budget-fixed"]


def odd() -> Scenario:
    """`tiny` under a budget, with a name that is no file name."""
    return load_scenario("tiny", name="tiny: a/budget", bounds={"quality_constraint": "budget"})


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluation_fleets(odd(), fleets=5, sessions=15)


def measure(evaluation: Evaluation, folder: Path, names: list[str] = SOME) -> dict[str, Any]:
    """The front's folder as the command makes it; what its file holds."""
    points = front_points(evaluation.scenario, names, FEW)
    with FrontFile(folder) as file:
        for point, figures in run_points(evaluation, file.begin(evaluation, points)):
            file.add(evaluation.scenario.name, point, figures)
            content(folder)  # whole at every moment
        file.finish(evaluation.scenario.name)
    return content(folder)


def content(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "front.json").read_text(encoding="utf-8"))
    return read


@pytest.fixture(scope="module")
def measured(evaluation: Evaluation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("front")
    measure(evaluation, folder)
    return folder


# --- points -----------------------------------------------------------------------------------


def test_every_family_is_there_unless_policies_are_named() -> None:
    scenario = odd()
    points = front_points(scenario)
    policies = list(dict.fromkeys(point.policy for point in points))
    assert policies == [*FILTERED, "largest-model", "smallest-model", *PRICED]
    assert len({point.id for point in points}) == len(points)
    assert len([point for point in points if point.policy == "ccar"]) == 7
    families = {point.family for point in points if point.policy == "ccar-budget-fixed"}
    assert families == {f"ccar-budget-fixed, floor {floor}" for floor in ("0", "0.7", "0.8")}
    for point in points:
        assert Point.of(json.loads(json.dumps(point.to_dict()))) == point


def test_the_reference_stands_at_the_scenarios_own_bound() -> None:
    scenario = load_scenario("tiny", bounds={"beta_q": 0.9})
    with_ccar = front_points(scenario, ["ccar", "cedar"], FEW)
    assert [p.value for p in with_ccar] == [0.7, 0.9, 1.0, 0.7, 1.0]
    without = front_points(scenario, ["cedar", "cedar"], FEW)
    assert without == [reference_point(scenario), *with_ccar[3:]]


@pytest.mark.parametrize("constraint", ["filter", "budget"])
def test_points_set_the_constraint_themselves(constraint: str) -> None:
    scenario = load_scenario("tiny", bounds={"quality_constraint": constraint, "beta_floor": 0.5})
    bounds = {
        point.id: scenario_at(scenario, point).bounds
        for point in front_points(scenario, [*SOME, "gar-pd-budget", "ccar-budget"], FEW)
    }
    assert bounds["faircarbon, beta_q = 1"].admissible_share == 1.0
    assert bounds["faircarbon, beta_q = 1"].quality_constraint == "filter"
    assert bounds["ccar-budget-fixed, floor 0, lambda_start = 8"].admissible_share == 0.0
    for budget in ("gar-pd-budget, co2_budget = 0.4", "ccar-budget"):
        assert bounds[budget].quality_constraint == "budget"
        assert bounds[budget].admissible_share == 0.7


def test_the_reference_is_what_the_comparison_gives(evaluation: Evaluation, measured: Path) -> None:
    fleets = evaluation_fleets(load_scenario("tiny"), fleets=5, sessions=15)
    rows = compare(fleets, ["ccar"])
    (point,) = [
        record
        for record in content(measured)["points"]["tiny: a/budget"]
        if (record["family"], record["value"]) == ("ccar", 0.85)
    ]
    for row, figures in zip(rows, [*point["fleets"], point["all"]], strict=True):
        assert {key: row[key] for key in figures} == pytest.approx(figures)
    for compared in ("saving_vs_ccar", "quality_difference"):
        assert {point[compared][key] for key in ("mean", "low", "high")} == {0.0}


def test_processes_change_nothing(evaluation: Evaluation) -> None:
    points = front_points(evaluation.scenario, ["faircarbon"], FEW)
    served: list[int] = []
    both = run_points(evaluation, points, jobs=2, on_turns=served.append)
    assert {point.id: figures for point, figures in both} == {
        point.id: figures for point, figures in run_points(evaluation, points)
    }
    assert sum(served) == turns_to_serve(evaluation, points)


# --- the folder -------------------------------------------------------------------------------


def test_what_the_file_says_hangs_together(measured: Path, evaluation: Evaluation) -> None:
    found = content(measured)
    name = evaluation.scenario.name
    assert found["schema"] == 1
    assert found["inputs"][name]["reference"] == "ccar, beta_q = 0.85"
    assert load_scenario(found["scenario"][name]) == evaluation.scenario
    families, points = found["families"][name], found["points"][name]
    assert list(families) == [
        *SOME[:3],
        "ccar-budget-fixed, floor 0",
        "ccar-budget-fixed, floor 0.7",
    ]
    assert families["ccar"]["saving_at_equal_quality"]["mean"] == 0.0
    assert families["ccar"]["by_fleet"] == [0.0] * 5
    assert families["largest-model"]["reason"] == "a single point has no curve"
    assert families["ccar-budget-fixed, floor 0"]["values"] == [0, 8, 128]
    reference = next(point for point in points if point["value"] == 0.85)
    for point in points:
        assert sum(fleet["co2_g"] for fleet in point["fleets"]) == pytest.approx(
            point["all"]["co2_g"]
        )
        savings = [
            1 - mine["co2_g"] / theirs["co2_g"]
            for mine, theirs in zip(point["fleets"], reference["fleets"], strict=True)
        ]
        assert point["saving_vs_ccar"]["mean"] == pytest.approx(np.mean(savings))


def test_what_is_made_from_it_is_named_by_a_slug(measured: Path, evaluation: Evaluation) -> None:
    assert {path.name for path in measured.iterdir()} == {
        "front.json",
        *(f"tiny-a-budget-front.{ending}" for ending in ("csv", "md", "png")),
    }
    points = content(measured)["points"][evaluation.scenario.name]
    with (measured / "tiny-a-budget-front.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    figures = [of for point in points for of in (*point["fleets"], point["all"])]
    assert [float(line["co2_g"]) for line in lines] == [of["co2_g"] for of in figures]
    pooled = [line for line in lines if line["fleet"] == "all"]
    assert [float(line["saving_vs_ccar.mean"]) for line in pooled] == [
        point["saving_vs_ccar"]["mean"] for point in points
    ]
    table = (measured / "tiny-a-budget-front.md").read_text(encoding="utf-8")
    assert table.count("\n| ") == 2 + len(points) + 5
    assert (measured / "tiny-a-budget-front.png").read_bytes().startswith(b"\x89PNG")


def runs_of(monkeypatch: pytest.MonkeyPatch, stop_at: int | None = None) -> list[str]:
    """Names of the policies that are run from now on, the last of them in vain."""
    ran: list[str] = []
    real = module.run_policy

    def watched(scenario: Any, policy: Any, *args: Any, **options: Any) -> Any:
        ran.append(policy.name)
        if len(ran) == stop_at:
            raise KeyboardInterrupt
        return real(scenario, policy, *args, **options)

    monkeypatch.setattr(module, "run_policy", watched)
    return ran


@pytest.mark.parametrize("stop_at", [1, 2, 6])
def test_a_killed_front_is_taken_up_where_it_stopped(
    evaluation: Evaluation,
    measured: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop_at: int,
) -> None:
    folder = tmp_path / "cut"
    with monkeypatch.context() as patch:
        runs_of(patch, stop_at)
        with pytest.raises(KeyboardInterrupt):
            measure(evaluation, folder)
    assert folder.exists() == (stop_at > 1)  # nothing was written
    ran = runs_of(monkeypatch)
    measure(evaluation, folder)
    assert len(ran) == len(front_points(evaluation.scenario, SOME, FEW)) - stop_at + 1
    for path in measured.iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes()
    ran.clear()
    measure(evaluation, folder, ["ccar"])  # the others stay
    assert ran == []
    assert content(folder) == content(measured)


def test_what_would_be_measured_otherwise_gives_way(
    evaluation: Evaluation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure(evaluation, tmp_path, ["faircarbon", "largest-model"])
    real = module.policy_key
    with monkeypatch.context() as patch:  # faircarbon's source changes
        patch.setattr(
            module, "policy_key", lambda name, e: real(name, e) + "'" * (name == "faircarbon")
        )
        ran = runs_of(patch)
        found = measure(evaluation, tmp_path, ["largest-model"])
    assert ran == []
    assert list(found["families"][evaluation.scenario.name]) == ["ccar", "largest-model"]
    ran = runs_of(monkeypatch)
    fewer = evaluation_fleets(odd(), fleets=2, sessions=15)
    found = measure(fewer, tmp_path, ["faircarbon"])
    assert ran == ["ccar", "faircarbon", "faircarbon"]
    points = found["points"][evaluation.scenario.name]
    assert {len(point["fleets"]) for point in points} == {2}
    assert {point["saving_vs_ccar"]["low"] for point in points} == {None}


def test_keys_tell_points_apart(evaluation: Evaluation) -> None:
    points = front_points(evaluation.scenario, SOME, FEW)
    keys = point_keys(evaluation, points)
    assert len(set(keys.values())) == len(points)
    assert keys == point_keys(evaluation, points)


@pytest.mark.parametrize(
    ("text", "said"),
    [("[1, 2]", "is not a front of carbon-gym"), ('{"schema": 1}', "is not a front")],
)
def test_a_foreign_file_is_left_alone(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "front.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        FrontFile(tmp_path)
    assert (tmp_path / "front.json").read_text(encoding="utf-8") == text


def test_a_front_of_another_version_is_left_alone(measured: Path, tmp_path: Path) -> None:
    old = content(measured)
    old["versions"]["carbon-gym"] = "9.9"
    (tmp_path / "front.json").write_text(json.dumps(old), encoding="utf-8")
    with pytest.raises(InputError, match=r"was made by carbon-gym 9\.9"):
        FrontFile(tmp_path)


# --- the command ------------------------------------------------------------------------------


def front(*arguments: Any) -> Any:
    return carbon_gym("benchmark", "--front", "--jobs", 1, *arguments)


def test_the_command(tmp_path: Path) -> None:
    own = tmp_path / "my tiny, own.yaml"
    own.write_text("extends: tiny\nbounds: {beta_q: 0.9}\n", encoding="utf-8")
    outcome = front(
        *("--scenario", "tiny", "--scenario", own, "--fleets", 5, "--sessions", 10),
        *("--policies", "faircarbon,smallest-model", "--out", tmp_path / "o"),
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert "CO2 saved at ccar's realised quality" in outcome.out
    assert "ccar at β_Q = 0.9" in outcome.out
    assert "none: a single point has no curve" in outcome.out
    assert list(content(tmp_path / "o")["points"]) == ["tiny", "my tiny, own"]
    assert (tmp_path / "o" / "my-tiny-own-front.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--policies", "faircarbn"), "did you mean 'faircarbon'?"),
        (("--policies", ","), "--policies ',' names nothing"),
        (("--fleets", 0), "--fleets 0 is not allowed"),
        (("--scenario", "tinny"), "did you mean 'tiny'?"),
    ],
)
def test_faults_are_one_sentence_before_the_work(
    tmp_path: Path, arguments: tuple[Any, ...], said: str
) -> None:
    outcome = front("--scenario", "tiny", *arguments, "--out", tmp_path / "o")
    assert outcome.code == 2
    assert said in outcome.err
    assert not (tmp_path / "o").exists()


def test_a_scenario_without_a_session_has_no_front(tmp_path: Path) -> None:
    own = tmp_path / "none.yaml"
    own.write_text("extends: tiny\nworkload: {sessions_per_fleet: 0}\n", encoding="utf-8")
    outcome = front("--scenario", own, "--policies", "ccar", "--out", tmp_path / "o")
    assert outcome.code == 2
    assert "no fleet has a turn" in outcome.err
    assert not (tmp_path / "o").exists()
