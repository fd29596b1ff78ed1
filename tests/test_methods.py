"""Methods of an evaluation: which policies are seeds of one recipe, and their figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from made_up import TINY, write_made_up

from baselines import reference_of
from carbon_gym import methods as grouping
from carbon_gym.benchmark import policy_key
from carbon_gym.errors import InputError
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.methods import Member, Method, methods_of, with_reference
from carbon_gym.metrics.figures import CONSTRAINTS
from carbon_gym.metrics.guard import over_fleets
from carbon_gym.metrics.methods import method_figures
from carbon_gym.metrics.seeds import (
    improvement_interval,
    interquartile_interval,
    interquartile_mean,
)
from carbon_gym.report.evaluation import evaluation_tables
from carbon_gym.resources import packaged
from carbon_gym.scenario import load_scenario


@pytest.fixture(scope="module")
def routers(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two seeds of one recipe."""
    folder = tmp_path_factory.mktemp("routers")
    return [write_made_up(folder / f"mine-{seed}.npz", seed) for seed in (0, 1)]


# --- methods ----------------------------------------------------------------------------------


def names(methods: list[Method]) -> dict[str, list[int | None]]:
    return {method.name: [member.seed for member in method.members] for method in methods}


def test_seeds_of_a_recipe_are_one_method(routers: list[str], tmp_path: Path) -> None:
    wide = write_made_up(tmp_path / "wide.npz", 0, lanes=64)
    given = ["faircarbon", routers[1], wide, routers[0], routers[1]]
    assert names(methods_of(given, TINY)) == {"faircarbon": [None], "mine": [1, 0], "wide": [0]}


def test_what_says_no_recipe_is_by_itself(tmp_path: Path) -> None:
    both = [write_made_up(tmp_path / f"{name}.npz", None) for name in ("a", "b")]
    assert names(methods_of(both, TINY)) == {"a": [None], "b": [None]}


def test_methods_can_be_named(routers: list[str], tmp_path: Path) -> None:
    other = write_made_up(tmp_path / "other.npz", 7, lanes=64)
    found = methods_of([f"both={routers[0]}, {other}", other], TINY)
    assert names(found) == {"both": [0, 7], "other": [7]}


def test_names_are_unlike_one_another(tmp_path: Path) -> None:
    made = []
    for folder, lanes in (("a", 8), ("b", 16)):
        (tmp_path / folder).mkdir()
        made += [
            write_made_up(tmp_path / folder / f"r-{seed}.npz", seed, lanes=lanes)
            for seed in (10, 11)
        ]
    alone = write_made_up(tmp_path / "r.npz", None)
    assert [method.name for method in methods_of([*made, alone], TINY)] == ["r", "r (2)", alone]
    same = []
    for seed in (0, 1):
        (tmp_path / f"run__{seed}").mkdir()
        same.append(write_made_up(tmp_path / f"run__{seed}" / "router.npz", seed))
    assert names(methods_of(same, TINY)) == {"run": [0, 1]}


def test_runs_are_grouped_by_their_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping, "make_policy", lambda *_: None)
    for seed, lanes in ((0, 8), (1, 8), (2, 16)):
        folder = tmp_path / f"tiny__ppo__{seed}__now"
        folder.mkdir()
        text = yaml.safe_dump({"algo": "ppo", "seed": seed, "lanes": lanes})
        (folder / "config.yaml").write_text(text, encoding="utf-8")
    runs = sorted(str(folder) for folder in tmp_path.iterdir())
    assert names(methods_of(runs, TINY)) == {"tiny__ppo": [0, 1], "tiny__ppo__2__now": [2]}


def test_a_folder_named_like_a_policy_is_not_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `make_policy` has it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ccar").mkdir()
    write_made_up(tmp_path / "ccar" / "router.npz", 3)
    assert names(methods_of(["ccar", "./ccar"], TINY)) == {"ccar": [None], "./ccar": [3]}
    evaluation = evaluation_fleets(TINY, fleets=1, sessions=5)
    before = policy_key("ccar", evaluation), policy_key("./ccar", evaluation)
    write_made_up(tmp_path / "ccar" / "router.npz", 4)
    after = policy_key("ccar", evaluation), policy_key("./ccar", evaluation)
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_what_a_router_sees_depends_on_the_scenarios_knobs(
    routers: list[str], tmp_path: Path
) -> None:
    """Its scale is theirs, and under a budget its target: other knobs, other rows."""
    knobs = tmp_path / "knobs.json"
    source = packaged("tuned/tiny.json").read_text(encoding="utf-8")
    keys = []
    for text in (source, source + "\n"):
        knobs.write_text(text, encoding="utf-8")
        scenario = TINY.model_copy(update={"knobs": str(knobs)})
        evaluation = evaluation_fleets(scenario, fleets=1, sessions=5)
        keys.append([policy_key(name, evaluation) for name in ("learned", routers[0])])
    assert all(before != after for before, after in zip(*keys, strict=True))


def test_learned_stands_for_all_that_is_shipped(
    routers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baselines.shipped", lambda scenario: [Path(router) for router in routers])
    assert names(methods_of(["learned", "ccar"], TINY)) == {"learned": [0, 1], "ccar": [None]}
    monkeypatch.setattr("baselines.shipped", lambda scenario: [])
    with pytest.raises(InputError, match="no router is shipped for the setting of tiny"):
        methods_of(["learned"], TINY)


def test_a_seed_does_not_count_twice(routers: list[str], tmp_path: Path) -> None:
    again = write_made_up(tmp_path / "again.npz", 1)
    with pytest.raises(InputError, match="the same seed, 1, and would count twice"):
        methods_of([*routers, again], TINY)
    with pytest.raises(InputError, match="twice; name each once"):
        methods_of([f"m={again},{again}"], TINY)


@pytest.mark.parametrize("text", ["=ccar", "m=,", "m= "])
def test_methods_without_name_or_policy_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no method; write it as NAME=POLICY"):
        methods_of([text], TINY)


def test_the_reference_is_one_of_them_or_put_first(routers: list[str]) -> None:
    methods = methods_of([*routers, "ccar"], TINY)
    assert with_reference(methods, "mine", TINY) == (methods, methods[0])
    assert with_reference(methods, "ccar", TINY) == (methods, methods[1])
    cedar = Method("cedar", (Member("cedar"),))
    assert with_reference(methods, "cedar", TINY) == ([cedar, *methods], cedar)
    one_seed = with_reference(methods, routers[0], TINY)[1]
    assert one_seed == Method("mine-0", (Member(routers[0], 0),))


def test_the_reference_of_a_setting() -> None:
    assert reference_of(TINY) == "ccar"
    assert reference_of(load_scenario("sharegpt-budget")) == "ccar-budget"


# --- figures ----------------------------------------------------------------------------------


def rows_of(policy: str, co2_g: list[float], **figures: float) -> list[dict[str, Any]]:
    whole = {
        "quality_predicted": 0.8,
        "quality_realised": 0.7,
        "ttft_p95_s": 2.0,
        "quality_violation_rate": 0.01,
        "ttft_violation_rate": 0.02,
        "capacity_violation_rate": 0.03,
        **figures,
    }
    fleets: list[tuple[int | str, float]] = [*enumerate(co2_g), ("all", sum(co2_g))]
    return [{"policy": policy, "fleet": fleet, "co2_g": co2, **whole} for fleet, co2 in fleets]


def figures_of(**rows: list[dict[str, Any]]) -> dict[str, Any]:
    members = [(name, number) for number, name in enumerate(rows) if name != "ref"]
    found = method_figures("s", "m", members, ["ref"], rows)
    json.dumps(found, allow_nan=False)
    return found


def test_figures_are_relative_to_the_reference_fleet_by_fleet() -> None:
    theirs = [1.0, 2.0, 4.0, 8.0, 10.0]
    scores = np.array([[0.9, 0.8, 0.7, 1.0, 0.6], [0.8, 0.8, 0.9, 1.1, 0.7]])
    ours = {f"s{k}": rows_of(f"s{k}", list(scores[k] * theirs)) for k in range(2)}
    found = figures_of(**ours, ref=rows_of("ref", theirs))
    assert (found["seeds"], found["fleets"]) == (2, 5)
    assert found["co2_relative"]["value"] == pytest.approx(interquartile_mean(scores))
    assert found["co2_relative"] == pytest.approx(interquartile_interval(scores))
    assert found["saving"] == pytest.approx(over_fleets(1.0 - scores.mean(axis=0)))
    assert found["best"] == {"policy": "s0", "seed": 0, "co2_relative": pytest.approx(0.8)}
    assert found["worst"] == {"policy": "s1", "seed": 1, "co2_relative": pytest.approx(0.86)}
    chance = found["probability_of_improvement"]
    assert chance["value"] == (4 + (0.5 + 0) / 2) / 5  # on one fleet a seed is even, one loses
    assert chance["low"] <= chance["value"] <= chance["high"]


def test_fleets_without_emissions_are_left_out() -> None:
    found = figures_of(a=rows_of("a", [0.0, 1.0, 3.0]), ref=rows_of("ref", [0.0, 2.0, 4.0]))
    assert found["fleets"] == 2
    assert found["co2_relative"]["value"] == pytest.approx((0.5 + 0.75) / 2)
    assert found["saving"]["mean"] == pytest.approx(0.375)
    assert found["saving"]["method"] is None  # too few for an interval
    nothing = figures_of(a=rows_of("a", [0.0]), ref=rows_of("ref", [0.0]))
    assert nothing["co2_relative"] is nothing["best"] is nothing["saving"]["mean"] is None
    for table in evaluation_tables("t", [nothing], "ref", 80):
        assert table.row_count == 1


def test_a_reference_of_several_seeds_is_their_mean() -> None:
    rows = {
        "a": rows_of("a", [1.0, 2.0]),
        "b": rows_of("b", [1.0, 2.0], quality_predicted=0.9),
        "c": rows_of("c", [3.0, 2.0], quality_predicted=0.7),
    }
    found = method_figures("s", "m", [("a", 0)], ["b", "c"], rows)
    assert found["co2_relative"]["value"] == pytest.approx((1 / 2 + 1) / 2)
    assert found["quality_predicted_difference"] == pytest.approx(0.0)
    assert found["constraints_kept"]
    expected = improvement_interval([[0.5, 1.0]], [[0.5, 1.0], [1.5, 1.0]])
    assert found["probability_of_improvement"] == expected
    assert found["probability_of_improvement"]["value"] == (0.75 + 0.5) / 2


@pytest.mark.parametrize("broken", CONSTRAINTS)
def test_every_constraint_is_judged_on_the_whole_and_by_seed(broken: str) -> None:
    co2 = [1.0, 2.0]
    reference = rows_of("ref", co2)
    worse = -0.004 if broken == "quality_predicted" else 0.004
    at = reference[0][broken]
    bad = rows_of("a", co2, **{broken: at + worse})
    good = rows_of("b", co2, **{broken: at - worse / 2})
    found = figures_of(a=bad, b=good, c=rows_of("c", co2), ref=reference)
    assert not found["constraints_kept"]
    assert found["seeds_with_constraints_kept"] == 2
    for name, kept in found["constraints"].items():
        expected = {"kept": False, "seeds_kept": 2} if name == broken else None
        assert kept == (expected or {"kept": True, "seeds_kept": 3})
    missed = [
        [name for name, kept in member["constraints_kept"].items() if not kept]
        for member in found["members"]
    ]
    assert missed == [[broken], [], []]
    better = figures_of(b=good, ref=reference)
    assert better["constraints_kept"]


def test_sums_in_another_order_break_no_constraint() -> None:
    reference = rows_of("ref", [1.0], quality_predicted=0.3)
    assert figures_of(a=rows_of("a", [1.0], quality_predicted=0.1 * 3), ref=reference)[
        "constraints_kept"
    ]
    assert figures_of(a=rows_of("a", [1.0], quality_predicted=0.3 - 1e-12), ref=reference)[
        "constraints_kept"
    ]


def test_the_page_lists_every_key_of_a_method() -> None:
    page = Path(__file__).resolve().parents[1] / "docs" / "evaluate.md"
    text = page.read_text(encoding="utf-8")
    found = figures_of(a=rows_of("a", [1.0]), ref=rows_of("ref", [1.0]))
    keys = {*found, *found["members"][0]} - {"scenario"}
    missing = {
        key
        for key in keys
        if f"`{key.removesuffix('_by_fleet')}`" not in text
        and f"`{key.removesuffix('_difference')}`" not in text
    }
    assert not missing
