"""Own fleets: measured profiles in the physics, `carbon-gym fleet`, the documents' examples."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from carbon_gym import InputError, load_scenario
from carbon_gym.benchmark import compare
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.fleet import Deployments
from carbon_gym.fleet.plausible import doubts_of
from carbon_gym.fleet.summary import deployment_rows
from carbon_gym.scenario import Scenario, scenario_names
from carbon_gym.scenario.measured import MEASURES
from tests.commandline import carbon_gym
from tests.inputs import MONDAY, write_grid

LARGE, SMALL, GPU = "Llama-3.1-70B-Instruct", "Llama-3.1-8B-Instruct", "H100-80GB"
FULL = {
    "model": LARGE,
    "gpu": GPU,
    "kwh_per_input_token": 2e-7,
    "kwh_per_cached_token": 1e-8,
    "kwh_per_output_token": 1e-6,
    "prefill_tokens_per_s": 5000.0,
    "decode_tokens_per_s": 50.0,
    "gpus_per_replica": 8,
    "kv_room_gb": 100.0,
}
GPU_KEYS = {
    "name": GPU,
    "peak_tflops": 989.4,
    "bandwidth_tb_s": 3.35,
    "memory_gb": 80,
    "tdp_w": 700,
    "prefill_utilisation": 0.3449,
}
EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "docs/examples/fleets").glob("*.yaml"))


def with_measured(*entries: dict[str, Any], **changes: Any) -> Scenario:
    return load_scenario("tiny", fleet={"measured": list(entries)}, **changes)


def of(fleet: Deployments, model: str) -> np.ndarray[Any, Any]:
    return np.array([fleet.triple(d)[0] == model for d in range(len(fleet))])


def test_what_is_measured_takes_the_place_of_what_is_computed() -> None:
    before, after = Deployments.of(load_scenario("tiny")), Deployments.of(with_measured(FULL))
    large = of(after, LARGE)
    for name, value in (
        ("energy_kwh_per_token", 2e-7),
        ("cached_input_ratio", 0.05),
        ("output_ratio", 5.0),
        ("prefill_tokens_per_s", 5000.0),
        ("decode_tokens_per_s", 50.0),
        ("gpus_per_replica", 8),
        ("kv_room_bytes", 2 * 100e9),
    ):
        found = getattr(after, name)
        np.testing.assert_allclose(found[large], value, rtol=1e-12)
        np.testing.assert_array_equal(found[~large], getattr(before, name)[~large])


def test_what_is_left_out_is_computed() -> None:
    plain = Deployments.of(load_scenario("tiny"))
    large = of(plain, LARGE)
    energy = Deployments.of(
        with_measured({"model": LARGE, "gpu": GPU, "kwh_per_input_token": 2e-7})
    )
    np.testing.assert_allclose(energy.energy_kwh_per_token[large], 2e-7)
    np.testing.assert_array_equal(energy.output_ratio, plain.output_ratio)
    np.testing.assert_array_equal(energy.prefill_tokens_per_s, plain.prefill_tokens_per_s)
    gpus = Deployments.of(with_measured({"model": LARGE, "gpu": GPU, "gpus_per_replica": 8}))
    np.testing.assert_allclose(
        gpus.prefill_tokens_per_s[large] / plain.prefill_tokens_per_s[large], 2.0
    )
    np.testing.assert_allclose(gpus.kv_room_bytes[large], 2 * (0.9 * 640e9 - 2 * 70.55e9))
    free = Deployments.of(with_measured({"model": LARGE, "gpu": GPU, "kwh_per_cached_token": 0}))
    assert free.cached_input_ratio[large].tolist() == [0.0, 0.0]


def test_no_entry_is_as_if_the_key_were_not_there() -> None:
    plain = load_scenario("tiny")
    assert with_measured().digest() == plain.digest()
    assert with_measured(FULL).digest() != plain.digest()
    again = load_scenario(with_measured(FULL).to_dict())
    assert again == with_measured(FULL)


def test_the_simulator_prices_with_what_was_measured() -> None:
    # Measured as twice what is computed: every kWh doubles, and nothing else changes.
    plain = load_scenario("tiny")
    fleet, ratios = Deployments.of(plain), plain.energy
    entries = []
    for model in (SMALL, LARGE):
        e_in = float(fleet.energy_kwh_per_token[of(fleet, model)][0])
        entries.append(
            {
                "model": model,
                "gpu": GPU,
                "kwh_per_input_token": 2 * e_in,
                "kwh_per_cached_token": 2 * e_in * ratios.cached_input_ratio,
                "kwh_per_output_token": 2 * e_in * ratios.output_ratio,
            }
        )
    rows = {}
    for name, scenario in (("plain", plain), ("twice", with_measured(*entries))):
        evaluation = evaluation_fleets(scenario, fleets=1, sessions=30)
        rows[name] = compare(evaluation, ["session-affinity", "faircarbon", "lower-bound"], jobs=1)
    for one, two in zip(rows["plain"], rows["twice"], strict=True):
        assert two["energy_kwh"] == pytest.approx(2 * one["energy_kwh"], rel=1e-12)
        assert two["co2_g"] == pytest.approx(2 * one["co2_g"], rel=1e-12)
        assert two["ttft_p95_s"] == one["ttft_p95_s"]


def test_output_that_costs_nothing_leaves_the_energy_of_the_input() -> None:
    entries = [{"model": m, "gpu": GPU, "kwh_per_output_token": 0.0} for m in (SMALL, LARGE)]
    results = [
        compare(evaluation_fleets(scenario, fleets=1, sessions=30), ["faircarbon"], jobs=1)[0]
        for scenario in (with_measured(*entries), load_scenario("tiny", energy={"output_ratio": 0}))
    ]
    assert results[0]["energy_kwh"] == pytest.approx(results[1]["energy_kwh"], rel=1e-12)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (
            [FULL | {"model": "Llama-3.1-70B"}],
            "measured names the model 'Llama-3.1-70B', .*did you",
        ),
        ([FULL | {"gpu": "H100"}], "measured names the gpu 'H100', .*did you mean 'H100-80GB'"),
        ([FULL, FULL], "measured has 'Llama-3.1-70B-Instruct' on 'H100-80GB' twice"),
        ([{"model": LARGE, "gpu": GPU}], "measures nothing; give at least one of kwh_per_input"),
        ([FULL | {"kwh_per_input_token": 0}], r"measured.0.kwh_per_input_token = 0 is not allowed"),
        ([FULL | {"kwh_per_token": 1}], "'fleet.measured.0.kwh_per_token' is not known.*nearest"),
        ([FULL | {"gpus_per_replica": 1.5}], "gpus_per_replica = 1.5 is not allowed"),
        ([FULL | {"prefill_tokens_per_s": float("inf")}], "prefill_tokens_per_s = inf"),
    ],
)
def test_entries_that_cannot_be(entries: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        with_measured(*entries)
    assert "\n" not in str(caught.value)


def test_a_number_of_gpus_that_leaves_no_room() -> None:
    entry = {"model": LARGE, "gpu": GPU, "gpus_per_replica": 1}
    with pytest.raises(InputError, match=r"leaves no room for caches on 1 'H100-80GB'.*kv_room_gb"):
        Deployments.of(with_measured(entry))
    assert len(Deployments.of(with_measured(entry | {"kv_room_gb": 5.0}))) == 4


def test_the_command_prints_the_table_and_writes_every_deployment(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        yaml.safe_dump({"extends": "tiny", "fleet": {"measured": [FULL]}}), encoding="utf-8"
    )
    done = carbon_gym("fleet", path, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert "4 deployments (models x GPU types x regions: 2 x 1 x 2)" in done.out
    for cell in ("200", "1e+03", "5,000", "measured", "US-CAL-CISO", "kwh_per_input_token"):
        assert cell in done.out
    with (tmp_path / "out" / "deployments.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    measured = [row for row in rows if row["measured"]]
    assert {row["model"] for row in measured} == {LARGE}
    assert measured[0]["measured"].split() == list(MEASURES)
    assert float(measured[0]["kwh_per_cached_token"]) == pytest.approx(1e-8)
    assert float(measured[0]["kv_room_gb"]) == 200.0
    assert int(measured[0]["kv_room_tokens"]) == int(200e9 / 327_680)


@pytest.mark.parametrize(
    ("fleet", "said"),
    [
        ({"measured": [FULL | {"kwh_per_input_token": 1.1e-4}]}, "kwh_per_input_token = 0.00011"),
        ({"measured": [FULL | {"kwh_per_output_token": 6e-4}]}, "neither Wh nor J"),
        ({"measured": [FULL | {"prefill_tokens_per_s": 7.4}]}, "prefill_tokens_per_s = 7.4 is 1/"),
        ({"measured": [FULL | {"kv_room_gb": 1e11}]}, "more than the 640 GB of the 8 GPUs"),
        ({"measured": [FULL | {"kwh_per_cached_token": 3e-7}]}, "of a token that is not cached"),
        ({"regions": [{"zone": "GB", "pue": 156}]}, "region 'GB': pue = 156 is above 3"),
        ({"regions": [{"zone": "GB", "round_trip_s": 95}]}, "give seconds, 0.095 for 95 ms"),
        ({"gpus": [{**GPU_KEYS, "peak_tflops": 9.894e14}]}, "tdp_w / peak_tflops"),
        ({"gpus": [{**GPU_KEYS, "bandwidth_tb_s": 3350}]}, "bandwidth_tb_s = 3350 is not between"),
    ],
)
def test_numbers_in_another_unit_are_doubted(fleet: dict[str, Any], said: str) -> None:
    found = doubts_of(load_scenario("tiny", fleet=fleet))
    assert len(found) == 1
    assert said in found[0]


def test_likely_numbers_are_not_doubted() -> None:
    for scenario in map(load_scenario, [*scenario_names(), *map(str, EXAMPLES)]):
        assert doubts_of(scenario) == []
    # What decoding draws at batch one, and what is measured as free.
    alone = {"kwh_per_output_token": 8.2e-6, "kwh_per_cached_token": 0.0}
    assert doubts_of(with_measured(FULL | alone)) == []


def test_the_command_prints_what_it_doubts(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: tiny\nfleet: {regions: [{zone: GB, pue: 156}]}\n", encoding="utf-8")
    done = carbon_gym("fleet", path)
    assert done.code == 0, done.err
    assert "- check: region 'GB': pue = 156 is above 3" in done.out


def test_a_fleet_alone_is_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "alone.yaml"
    fleet = {"models": [SMALL], "gpus": [GPU], "regions": ["GB", "DE"]}
    path.write_text(yaml.safe_dump({"fleet": fleet}), encoding="utf-8")
    done = carbon_gym("fleet", path)
    assert done.code == 0, done.err
    assert "alone: 2 deployments" in done.out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "fleet: {models: [Llama], gpus: [A10], regions: [GB]}",
            "'Llama', which is not in the cat",
        ),
        ("extends: tiny\nfleet: {regions: [GP]}", "zone 'GP' is not there; nearest: "),
        ("extends: tiny\nfleet: {max_gpus_per_replica: 1}", "fits on no number of 'H100-80GB'"),
        ("extends: tiny\nfleet: {regions: [{zone: GB, pue: 0.9}]}", "fleet.regions.0.pue = 0.9"),
        ("extends: tiny\nfleet: {regions: [{zone: GB, rtt: 1}]}", "rtt' is not known"),
        ("fleet: [", "is not valid YAML"),
    ],
)
def test_what_is_wrong_with_a_fleet_is_said(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(content, encoding="utf-8")
    done = carbon_gym("fleet", path, "--out", tmp_path / "out")
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "out").exists()


def test_zones_are_looked_for_in_the_grid_files(tmp_path: Path) -> None:
    grid = write_grid(tmp_path / "grid.csv", start=MONDAY, zones=("GB", "FR"))
    content = {
        "extends": "tiny",
        "fleet": {"regions": ["GB", "US-CAL-CISO"]},
        "grid": {"source": "file", "paths": [str(grid)]},
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    done = carbon_gym("fleet", path)
    assert done.code == 2
    assert "zone 'US-CAL-CISO' is not there" in done.err


def test_there_are_the_examples_that_the_documents_name() -> None:
    names = [path.stem for path in EXAMPLES]
    assert names == ["measured", "newer-gpus", "on-premises", "two-hundred"]
    sizes = {path.stem: len(deployment_rows(load_scenario(str(path)))) for path in EXAMPLES}
    assert sizes["two-hundred"] == 200


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_run(path: Path) -> None:
    done = carbon_gym("fleet", path)
    assert done.code == 0, done.err
    evaluation = evaluation_fleets(load_scenario(str(path)), fleets=1, sessions=15)
    names = ["session-affinity", "faircarbon", "ccar", "ccar-no-gate", "lower-bound"]
    rows = compare(evaluation, names, jobs=1)
    assert all(row["co2_g"] > 0 for row in rows)


def test_measured_numbers_reach_only_their_model_in_the_example() -> None:
    path = next(path for path in EXAMPLES if path.stem == "measured")
    rows = deployment_rows(load_scenario(str(path)))
    for row in rows:
        assert (row["model"] == LARGE) == bool(row["measured"])
    large = next(row for row in rows if row["model"] == LARGE)
    assert large["kwh_per_output_token"] == pytest.approx(6e-7)
    assert large["prefill_tokens_per_s"] == 7400
