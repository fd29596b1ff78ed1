"""Scenarios: where they load from, what they refuse and in which words, and what they promise."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from carbon_gym import InputError, Scenario, load_scenario, scenario_names
from carbon_gym.benchmark import evaluation_key
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.fleet import Deployments
from carbon_gym.resources import packaged

PACKAGED = (
    "congested",
    "memory-tight",
    "sharechat",
    "sharechat-evict",
    "sharechat-long",
    "sharegpt",
    "sharegpt-evict",
    "sharegpt-long",
    "tiny",
)


def refusal(*source: Any, **overrides: Any) -> str:
    """The sentence that loading ends with: one line, whatever was wrong."""
    with pytest.raises(InputError) as caught:
        load_scenario(*source, **overrides)
    message = str(caught.value)
    assert "\n" not in message
    assert "pydantic" not in message
    return message


def written(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# ---------------------------------------------------------------------------------- packaged


def test_the_packaged_scenarios_are_those_of_the_documentation() -> None:
    assert set(PACKAGED) <= set(scenario_names())


@pytest.mark.parametrize("name", scenario_names())
def test_every_packaged_scenario_builds_its_fleet(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.description
    fleet = Deployments.of(scenario)
    assert len(fleet) == (4 if name == "tiny" else 60)
    assert (fleet.kv_room_bytes > 0).all()
    assert sorted(fleet.name_rank.tolist()) == list(range(len(fleet)))


def test_what_sets_the_packaged_scenarios_apart() -> None:
    of = {name: load_scenario(name) for name in PACKAGED}
    assert load_scenario() == of["sharegpt"]
    assert of["sharegpt"].capacity.limit == 0.5
    assert of["sharegpt"].workload.sessions_per_fleet == 3000
    assert of["sharegpt"].cache.on_leave == of["sharechat"].cache.on_leave == "retain"
    assert of["sharegpt-evict"].cache.on_leave == of["sharechat-evict"].cache.on_leave == "evict"
    assert of["sharechat-long"].workload.statistics == "sharechat"
    assert of["sharegpt-long"].workload.min_turns == of["sharechat-long"].workload.min_turns == 6
    assert (of["congested"].capacity.rule, of["congested"].capacity.limit) == ("turns", 0.5)
    assert of["memory-tight"].workload.sessions_per_fleet == 20_000
    assert of["memory-tight"].fleet.replicas == 1
    assert len({scenario.digest() for scenario in of.values()}) == len(of)


# ----------------------------------------------------------------------------- loading, merging


def test_a_name_a_file_a_mapping_and_keywords_give_the_same(tmp_path: Path) -> None:
    by_keywords = load_scenario("tiny", cache={"ttl_s": 60}, capacity={"limit": None})
    text = "extends: tiny\ncache: {ttl_s: 60}\ncapacity: {limit: null}\n"
    path = written(tmp_path, text)
    mapping = {"extends": "tiny", "cache": {"ttl_s": 60}, "capacity": {"limit": None}}
    kept = json.dumps(mapping)
    for other in (
        load_scenario(path),
        load_scenario(str(path)),
        load_scenario(mapping),
        load_scenario(load_scenario("tiny"), cache={"ttl_s": 60}, capacity={"limit": None}),
        load_scenario("tiny", cache=by_keywords.cache, capacity=by_keywords.capacity),
    ):
        assert other.digest() == by_keywords.digest()
    assert load_scenario(path).name == "mine"
    assert json.dumps(mapping) == kept, "the caller's mapping is left alone"
    assert by_keywords.cache.ttl_s == 60.0
    assert by_keywords.cache.on_leave == "retain", "what is not named stays"
    assert by_keywords.fleet == load_scenario("tiny").fleet


def test_models_gpus_and_regions_by_name_or_spelled_out() -> None:
    whole = load_scenario("sharegpt")
    by_name = load_scenario(
        "sharegpt",
        fleet={"models": ["Qwen2.5-3B-Instruct"], "gpus": ["A10"], "regions": ["FR"]},
    )
    assert [model.name for model in by_name.fleet.models] == ["Qwen2.5-3B-Instruct"]
    spelled = load_scenario(
        "sharegpt",
        fleet={
            "models": [whole.fleet.models[0].model_dump()],
            "gpus": [whole.fleet.gpus[0].model_dump()],
            "regions": [{"zone": "FR"}],
        },
    )
    assert spelled.digest() == by_name.digest()
    pue = load_scenario("tiny", fleet={"regions": ["GB", {"zone": "DE", "pue": 1.3}]})
    assert [region.pue for region in pue.fleet.regions] == [1.0, 1.3]


def test_energy_profiles(tmp_path: Path) -> None:
    assert load_scenario("tiny").energy.reference_kwh_per_token is None
    assert load_scenario("tiny", energy="paper").energy.reference_kwh_per_token == 4.24e-9
    prices = load_scenario("tiny", energy="api-prices").energy
    assert (prices.cached_input_ratio, prices.output_ratio) == (0.1, 5.0)
    mixed = load_scenario("tiny", energy={"profile": "paper", "output_ratio": 5.0}).energy
    assert (mixed.reference_kwh_per_token, mixed.output_ratio) == (4.24e-9, 5.0)
    own = written(tmp_path, "output_ratio: 2.5\n", "own.yaml")
    assert load_scenario("tiny", energy=str(own)).energy.output_ratio == 2.5
    assert load_scenario("tiny", energy={"output_ratio": 3.0}).energy.cached_input_ratio == 0.03


def test_a_chain_of_files_and_a_circle(tmp_path: Path) -> None:
    first = written(tmp_path, "extends: tiny\ncache: {ttl_s: 1}\nbounds: {beta_q: 0.5}\n", "a.yaml")
    second = written(tmp_path, f"extends: {first}\ncache: {{ttl_s: 2}}\n", "b.yaml")
    scenario = load_scenario(second, bounds={"ttft_s": 9.0})
    assert (scenario.cache.ttl_s, scenario.bounds.beta_q, scenario.bounds.ttft_s) == (2, 0.5, 9)
    assert scenario.workload.sessions_per_fleet == 40
    circle = written(tmp_path, f"extends: {tmp_path / 'd.yaml'}\n", "c.yaml")
    written(tmp_path, f"extends: {circle}\n", "d.yaml")
    assert "circle" in refusal(circle)
    assert "extends must be one scenario" in refusal({"extends": ["tiny"]})


# ------------------------------------------------------------------------------------ promises


def test_it_is_frozen_to_its_depth() -> None:
    scenario = load_scenario("tiny")
    for part, field in (
        (scenario, "name"),
        (scenario.cache, "ttl_s"),
        (scenario.fleet.models[0], "params_billion"),
        (scenario.fleet.models[0].ability, "math"),
    ):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(part, field, 1)
    assert isinstance(scenario.fleet.models, tuple)
    assert hash(scenario) == hash(load_scenario("tiny"))


@pytest.mark.parametrize("name", PACKAGED)
def test_it_survives_pickling_and_json(name: str) -> None:
    scenario = load_scenario(name)
    assert pickle.loads(pickle.dumps(scenario)) == scenario
    again = load_scenario(json.loads(json.dumps(scenario.to_dict())))
    assert again == scenario
    assert again.digest() == scenario.digest()
    assert Scenario.model_validate(scenario.to_dict()) == scenario


def test_editing_what_it_was_made_of_changes_nothing() -> None:
    content = load_scenario("tiny").to_dict()
    scenario = load_scenario(content)
    content["fleet"]["models"][0]["params_billion"] = 1.0
    content["cache"]["ttl_s"] = 1.0
    assert scenario == load_scenario("tiny")
    scenario.to_dict()["cache"]["ttl_s"] = 1.0
    assert scenario == load_scenario("tiny")


def test_the_digest_is_of_the_content() -> None:
    tiny = load_scenario("tiny")
    assert load_scenario("tiny", description="other", name="other").digest() == tiny.digest()
    for change in (
        {"cache": {"ttl_s": 601}},
        {"fleet": {"regions": ["GB", "US-CAL-CISO"]}},
        {"seeds": {"grid": 1}},
        {"energy": "paper"},
        {"splits": {"test": {"start": "2023-01-01", "stop": "2023-12-31"}}},
    ):
        assert load_scenario("tiny", **change).digest() != tiny.digest()


SHARES = {"coding": 0.1, "math": 0.2, "reasoning": 0.3, "creative": 0.4, "information": 0.0}
LLAMA = {"model": "Llama-3.1-70B-Instruct", "bias": 0.05}
YOUNGER: list[dict[str, Any]] = [
    {"bounds": {"quality_constraint": "budget"}},
    {"bounds": {"beta_floor": 0.8}},
    {"bounds": {"quality_target": 0.6}},
    {"quality": {"predictor_bias": [LLAMA]}},
    {"workload": {"category_shares": SHARES}},
    {"workload": {"predicted_output_log_sd": 0.5}},
]
"""Keys that came after digests were committed with gates and knobs."""


def test_younger_keys_are_in_the_digest_only_where_they_say_something() -> None:
    committed = json.loads(packaged("gates/sharegpt.json").read_text())["scenario_digest"]
    default = load_scenario("sharegpt")
    assert default.digest() == committed
    spelled_out: list[dict[str, Any]] = [
        {"bounds": {"quality_constraint": "filter", "beta_floor": 0.7, "quality_target": None}},
        {"quality": {"predictor_bias": []}},
        {"workload": {"category_shares": None}},
        {"workload": {"predicted_output_log_sd": 0}},
    ]
    for spelled in spelled_out:
        assert load_scenario("sharegpt", **spelled).digest() == committed
    digests = [load_scenario("sharegpt", **change).digest() for change in YOUNGER]
    assert len({committed, *digests}) == len(YOUNGER) + 1
    back = load_scenario(
        load_scenario("sharegpt", **YOUNGER[4]), workload={"category_shares": None}
    )
    assert back == default


@pytest.mark.parametrize("change", YOUNGER)
def test_scenarios_with_younger_keys_survive_pickling_and_json(change: dict[str, Any]) -> None:
    scenario = load_scenario("sharegpt", **change)
    for again in (
        pickle.loads(pickle.dumps(scenario)),
        load_scenario(json.loads(json.dumps(scenario.to_dict()))),
    ):
        assert again == scenario
        assert again.digest() == scenario.digest()
    assert hash(scenario) == hash(load_scenario("sharegpt", **change))


@pytest.mark.parametrize("change", YOUNGER)
def test_a_comparison_with_younger_keys_is_another_one(change: dict[str, Any]) -> None:
    """Rows that were made without the key are not taken for those with it."""
    keys = {
        evaluation_key(evaluation_fleets(load_scenario("sharegpt", **c), fleets=1, sessions=3))
        for c in ({}, change)
    }
    assert len(keys) == 2


def test_a_bias_follows_its_model_through_the_fleet() -> None:
    names = [model.name for model in load_scenario("sharegpt").fleet.models]
    for models in (names[::-1], names[-1:], [names[-1], names[0]]):
        scenario = load_scenario(
            "sharegpt", fleet={"models": models}, quality={"predictor_bias": [LLAMA]}
        )
        assert scenario.quality.predictor_bias[0].model == "Llama-3.1-70B-Instruct"
    message = refusal("sharegpt", fleet={"models": names[:2]}, quality={"predictor_bias": [LLAMA]})
    assert message.endswith(f"name one of {names[0]}, {names[1]}")


# ------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"cach": {}}, ["key 'cach' is not known", "nearest: 'cache'"]),
        ({"cache": {"tll_s": 1}}, ["key 'cache.tll_s' is not known", "nearest: 'ttl_s'"]),
        (
            {"fleet": {"regions": [{"zone": "GB"}, {"zone": "DE", "peu": 1.2}]}},
            ["'fleet.regions.1.peu'", "nearest: 'pue'"],
        ),
        ({"seeds": {"gird": 1}}, ["'seeds.gird' is not known", "nearest: 'grid'"]),
        ({"fleet": {"models": ["Llama-3.1-8B"]}}, ["fleet.models names 'Llama-3.1-8B'", "-8B-Ins"]),
        ({"fleet": {"gpus": ["H100"]}}, ["fleet.gpus names 'H100'", "nearest: 'H100-80GB'"]),
        ({"energy": "papr"}, ["energy profile 'papr' is not known", "nearest: 'paper'"]),
        ({"energy": 3}, ["energy = 3 is not allowed"]),
        ({"cache": 3}, ["cache = 3 is not allowed"]),
        ({"cache": {"ttl_s": -1}}, ["cache.ttl_s = -1", "greater than or equal to 0"]),
        ({"cache": {"ttl_s": math.nan}}, ["cache.ttl_s = nan"]),
        ({"cache": {"ttl_s": math.inf}}, ["cache.ttl_s = inf"]),
        ({"cache": {"ttl_s": "long"}}, ["cache.ttl_s = 'long'"]),
        ({"cache": {"on_leave": "drop"}}, ["cache.on_leave = 'drop'", "'retain' or 'evict'"]),
        ({"capacity": {"limit": 0}}, ["capacity.limit = 0", "greater than 0"]),
        ({"capacity": {"limit": math.nan}}, ["capacity.limit = nan"]),
        ({"capacity": {"rule": "slots"}}, ["capacity.rule = 'slots'"]),
        ({"bounds": {"beta_q": math.nan}}, ["bounds.beta_q = nan"]),
        ({"bounds": {"beta_q": 1.5}}, ["bounds.beta_q = 1.5"]),
        ({"bounds": {"ttft_s": 0}}, ["bounds.ttft_s = 0"]),
        ({"energy": {"output_ratio": -4}}, ["energy.output_ratio = -4"]),
        ({"quality": {"session_sd": math.nan}}, ["quality.session_sd = nan"]),
        ({"quality": {"centring": math.inf}}, ["quality.centring = inf"]),
        (
            {"quality": {"predictor_bias": [{"model": "Llama-3.1-70B", "bias": 0.1}]}},
            ["names 'Llama-3.1-70B', which is not in the fleet", "did you mean 'Llama-3.1-70B-I"],
        ),
        (
            {"quality": {"predictor_bias": [LLAMA, LLAMA]}},
            ["names 'Llama-3.1-70B-Instruct' twice", "name each model once"],
        ),
        ({"quality": {"predictor_bias": [LLAMA | {"bias": 1.5}]}}, ["predictor_bias.0.bias = 1.5"]),
        (
            {"quality": {"predictor_bias": [LLAMA | {"bias": math.nan}]}},
            ["predictor_bias.0.bias = nan"],
        ),
        ({"quality": {"predictor_bias": [{"model": "x"}]}}, ["predictor_bias.0.bias' is missing"]),
        (
            {"quality": {"predictor_bias": [LLAMA | {"bais": 0.1}]}},
            ["predictor_bias.0.bais' is not known", "nearest: 'bias'"],
        ),
        ({"quality": {"predictor_bias": {"x": 0.1}}}, ["quality.predictor_bias: "]),
        (
            {"workload": {"category_shares": SHARES | {"math": 0.5}}},
            ["workload.category_shares: ", "must add up to 1, not to 1.3"],
        ),
        ({"workload": {"category_shares": SHARES | {"math": -0.2}}}, ["shares.math = -0.2"]),
        (
            {"workload": {"category_shares": {"coding": 1.0}}},
            ["'workload.category_shares.math' is missing"],
        ),
        (
            {"workload": {"category_shares": SHARES | {"codign": 0.0}}},
            ["category_shares.codign' is not known", "nearest: 'coding'"],
        ),
        ({"fleet": {"replicas": 1.5}}, ["fleet.replicas = 1.5"]),
        ({"fleet": {"replicas": 0}}, ["fleet.replicas = 0"]),
        ({"fleet": {"models": []}}, ["fleet.models", "at least 1"]),
        ({"fleet": {"regions": ["GB", "GB"]}}, ["region 'GB' is listed twice"]),
        ({"fleet": {"gpus": ["A10", "A10"]}}, ["GPU 'A10' is listed twice"]),
        ({"fleet": {"regions": [{"zone": "GB", "pue": 0.9}]}}, ["fleet.regions.0.pue = 0.9"]),
        ({"fleet": {"models": [{"name": "x"}]}}, ["'fleet.models.0.params_billion' is missing"]),
        ({"workload": {"source": "file"}}, ["path or format is missing"]),
        ({"workload": {"dispersion": 0.5}}, ["workload.dispersion = 0.5"]),
        ({"grid": {"source": "file"}}, ["grid.paths is empty"]),
        ({"splits": {"train_share": 0.8}}, ["below 1, to leave a test split"]),
        (
            {"splits": {"train": {"start": "2021-01-01", "stop": "2022-06-01"}}},
            ["periods of train and validation overlap"],
        ),
        (
            {"splits": {"train": {"start": "2021-02-01", "stop": "2021-02-01"}}},
            ["must lie after start"],
        ),
    ],
)
def test_a_wrong_key_or_value_is_named(overrides: dict[str, Any], words: list[str]) -> None:
    message = refusal("tiny", **overrides)
    assert message.startswith("tiny: ")
    for word in words:
        assert word in message


def test_an_unknown_scenario_names_the_nearest() -> None:
    message = refusal("shareggpt")
    assert "scenario 'shareggpt' is not known; did you mean 'sharegpt'?" in message
    assert all(name in message for name in scenario_names())
    assert "did you mean" not in refusal("§§")
    assert "nearest: 'extends'" in refusal("tiny", exends="sharegpt")
    assert "key 'fleet' is missing" in refusal({})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cache:\n  ttl_s: 1\n bad: [\n", "line 3"),
        ("cache: {ttl_s: 1\n", "line 2"),
        ("extends: tiny\ncache: {ttl_s: -5}\n", "cache.ttl_s = -5"),
        ("extends: tny\n", "did you mean 'tiny'"),
        ("", "the file is empty"),
        ("# nothing but a comment\n", "the file is empty"),
        ("- tiny\n", "holds a list"),
        ("tiny\n", "holds a str"),
    ],
)
def test_a_bad_file_is_named_with_the_place(text: str, words: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    message = refusal(path)
    assert words in message
    if "extends: tny" not in text:
        assert str(path) in message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "there is no such file" in refusal(tmp_path / "none.yaml")
    folder = tmp_path / "folder.yaml"
    folder.mkdir()
    assert str(folder) in refusal(folder)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x81")
    assert "UTF-8" in refusal(binary)
    assert "no such file" in refusal("tiny", energy=str(tmp_path / "none.yaml"))


def test_a_profile_replaces_the_resolved_energy_of_a_scenario() -> None:
    physical = load_scenario("tiny")
    paper = load_scenario(physical, energy={"profile": "paper"})
    assert paper.energy.reference_kwh_per_token == 4.24e-9


def test_extends_finds_files_beside_the_one_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("extends: tiny\nname: base\ncache: {ttl_s: 60}\n")
    (tmp_path / "child.yaml").write_text("extends: base.yaml\n")
    child = load_scenario(tmp_path / "child.yaml")
    assert (child.name, child.origin, child.cache.ttl_s) == ("child", "tiny", 60)


def test_a_mistyped_key_is_named_before_what_it_leaves_missing() -> None:
    with pytest.raises(InputError, match=r"'splits.train.strat' is not known \(nearest: 'start'\)"):
        load_scenario("tiny", splits={"train": {"strat": "2021-01-01", "stop": "2022-01-01"}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("extends: tiny\nworkload: {path: a.csv, format: tokens}\n", "add `source: file`"),
        ("extends: tiny\ngrid: {paths: [a.csv]}\n", "add `source: file`"),
        ("extends: tiny\nname: a\nname: b\n", "line 3: .*key 'name' is given twice"),
        ("extends: tiny\ncache: {ttl_s: 1, ttl_s: 2}\n", "key 'ttl_s' is given twice"),
        (
            "extends: tiny\nsplits: {test: {start: 2023-02-30, stop: 2024-01-01}}\n",
            "holds a value that cannot be",
        ),
        ("name: a\n", "give `extends: sharegpt` or a fleet"),
    ],
)
def test_what_would_be_ignored_or_break_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        load_scenario(path)
