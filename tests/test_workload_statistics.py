"""Statistics files, calibration, and what is measured."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbon_gym.errors import InputError
from carbon_gym.resources import packaged
from carbon_gym.scenario.schema import Seeds, Splits
from carbon_gym.workload.calibrate import (
    calibrate_workload,
    continuation_hazard,
    fit_dependence,
    normal_scores,
)
from carbon_gym.workload.copula import score_correlation, score_grid, tokens_at
from carbon_gym.workload.generator import generate_sessions, turn_distribution
from carbon_gym.workload.hours import read_hour_shape
from carbon_gym.workload.measure import correlation, measure
from carbon_gym.workload.published import sharechat_statistics, sharegpt_statistics
from carbon_gym.workload.readers import read_conversations
from carbon_gym.workload.split import split_of
from carbon_gym.workload.statistics import (
    WorkloadStatistics,
    dump_statistics,
    load_statistics,
    write_statistics,
)

HEADER = "session,turn,prompt_tokens,output_tokens"


@pytest.mark.parametrize("name", ["sharegpt", "sharechat"])
def test_packaged_statistics_round_trip(name: str, tmp_path: Path) -> None:
    statistics = load_statistics(name)
    assert statistics.name == name
    copy = tmp_path / "copy.json"
    write_statistics(statistics, copy)
    assert copy.read_bytes() == packaged(f"workload/{name}.json").read_bytes()
    assert load_statistics(copy) == statistics
    assert list(tmp_path.iterdir()) == [copy]


def test_the_shipped_files_are_what_the_functions_write(shared_data: Path) -> None:
    folder = shared_data / "conversations"
    sharegpt = sharegpt_statistics(
        folder / "sharegpt_turns.csv.gz", folder / "burstgpt1_inferred_sessions_by_hour.csv"
    )
    for statistics in (sharegpt, sharechat_statistics(sharegpt)):
        shipped = packaged(f"workload/{statistics.name}.json").read_text(encoding="utf-8")
        assert dump_statistics(statistics) == shipped


def test_only_training_sessions_are_used(shared_data: Path, tmp_path: Path) -> None:
    c = read_conversations(shared_data / "conversations" / "sharegpt_turns.csv.gz", "tokens")
    training = split_of(c.session_key, Splits(), Seeds().split) == 0
    statistics = load_statistics("sharegpt")
    assert statistics.training_sessions == int(training.sum())
    assert statistics.training_queries == int(np.diff(c.offsets)[training].sum())
    changed = c.prompt_tokens.copy()
    changed[~np.repeat(training, np.diff(c.offsets))] = 999
    again = calibrate_workload(
        dataclasses.replace(c, prompt_tokens=changed), Splits(), Seeds().split, 32_768
    )
    assert again.prompt == statistics.prompt
    assert again.targets == statistics.targets


def broken(**changes: Any) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(packaged("workload/sharegpt.json").read_text(encoding="utf-8"))
    for key, value in changes.items():
        part = raw
        *path, last = key.split("__")
        for name in path:
            part = part[name]
        part[last] = value
    return raw


BAD_STATISTICS = {
    "unknown key": (broken(extra=1), "extra"),
    "schema": (broken(schema=2), "schema"),
    "hours": (broken(hour_shape=[1.0] * 23), "hour_shape"),
    "no hours": (broken(hour_shape=[0.0] * 24), "positive hour"),
    "quantiles": (broken(reply__later_tokens=[1.0, 2.0]), "one quantile for every probability"),
    "falling": (broken(reply__first_tokens=[2.0, 1.0]), "must not decrease"),
    "shares": (broken(category_shares__math=0.9), "add up to 1"),
    "hazard": (broken(turns__continuation=[0.5]), "every bin_start"),
    "bins": (broken(turns__bin_start=[2, 1]), "ascend strictly"),
    "probability": (broken(turns__continuation=[1.5] * 21), "turns.continuation"),
    "dependence": (broken(prompt__session_share=0.99, prompt__drift_share=0.9), "exceed 1"),
    "probabilities": (broken(probabilities=[0.5, 0.4]), "ascend"),
    "list": ([1], "the file"),
}


@pytest.mark.parametrize(("raw", "finding"), BAD_STATISTICS.values(), ids=BAD_STATISTICS)
def test_bad_statistics(tmp_path: Path, raw: object, finding: str) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(raw))
    with pytest.raises(InputError) as error:
        load_statistics(file)
    assert "mine.json" in str(error.value)
    assert finding in str(error.value)


def test_bad_statistics_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'sharegpt'"):
        load_statistics("sharegtp")
    with pytest.raises(InputError, match="does not exist"):
        load_statistics(tmp_path / "none.json")
    with pytest.raises(InputError, match="is a directory"):
        load_statistics(tmp_path)
    bad = tmp_path / "bad.json"
    bad.write_text('{\n"schema": 1,\n')
    with pytest.raises(InputError, match="line 3"):
        load_statistics(bad)
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        load_statistics(bad)
    with pytest.raises(InputError, match="cannot be written"):
        write_statistics(load_statistics("sharegpt"), tmp_path / "no" / "folder.json")


def write_tokens(path: Path, rows: list[str]) -> Path:
    path.write_text("\n".join(rows))
    return path


def test_calibration_of_own_traffic(tmp_path: Path) -> None:
    """A file with calendar arrivals: its own hours, gaps and lengths."""
    rows = [f"{HEADER},arrival"]
    for session in range(200):
        for turn in range(1 + session % 4):
            time = f"2023-05-0{1 + session % 8}T{9 + session % 2:02d}:0{turn}:00Z"
            rows.append(f"{session},{turn},{10 + session % 7},{100 + turn},{time}")
    c = read_conversations(write_tokens(tmp_path / "own.csv", rows), "tokens")
    statistics = calibrate_workload(c, Splits(), 1, 32_768, name="own", license="CC0")
    assert WorkloadStatistics.model_validate(json.loads(dump_statistics(statistics))) == statistics
    assert np.flatnonzero(statistics.hour_shape).tolist() == [9, 10]
    assert statistics.targets is not None
    assert statistics.targets.unlimited.gap_log_mean == pytest.approx(np.log(60), abs=1e-4)
    assert statistics.category_shares.in_order() == (0.2,) * 5
    pmf = turn_distribution(statistics.turns)
    assert pmf[4:].sum() < 1e-9
    made = measure(generate_sessions(statistics, np.arange(2000, dtype=np.uint64), 3))
    assert made.turns_mean == pytest.approx(statistics.targets.unlimited.turns_mean, rel=0.05)
    assert made.reply_mean_tokens == pytest.approx(statistics.reply_mean_tokens, rel=0.02)


def test_calibration_of_single_turns_works(tmp_path: Path) -> None:
    rows = [HEADER, *(f"{s},0,{s % 9},{s % 5 + 1}" for s in range(300))]
    c = read_conversations(write_tokens(tmp_path / "single.csv", rows), "tokens")
    statistics = calibrate_workload(c, Splits(), 1, 32_768)
    made = generate_sessions(statistics, np.arange(100, dtype=np.uint64), 3)
    assert made.turns == 100
    assert statistics.hour_shape == load_statistics("sharegpt").hour_shape


def test_too_few_sessions_are_refused(tmp_path: Path) -> None:
    rows = [HEADER, *(f"{s},0,1,1" for s in range(20))]
    c = read_conversations(write_tokens(tmp_path / "few.csv", rows), "tokens")
    with pytest.raises(InputError, match=r"few\.csv.*at least 50"):
        calibrate_workload(c, Splits(), 1, 32_768)


BAD_HOURS = {
    "column": ("hour,visits\n0,1\n", "line 1"),
    "text": ("hour,sessions\n0,many\n", "line 2"),
    "hour 24": ("hour,sessions\n24,1\n", "hour 24"),
    "negative": ("hour,sessions\n0,-1\n", "line 2"),
    "twice": ("hour,sessions\n0,1\n0,1\n", "twice"),
    "missing": ("hour,sessions\n" + "".join(f"{h},1\n" for h in range(23)), "hour 23"),
    "zeros": ("hour,sessions\n" + "".join(f"{h},0\n" for h in range(24)), "all counts"),
}


@pytest.mark.parametrize(("text", "finding"), BAD_HOURS.values(), ids=BAD_HOURS)
def test_bad_hours(tmp_path: Path, text: str, finding: str) -> None:
    file = tmp_path / "hours.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=r"hours\.csv") as error:
        read_hour_shape(file)
    assert finding in str(error.value)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=300))
def test_hazard_gives_a_distribution(turns: list[int]) -> None:
    counts = np.asarray(turns)
    pmf = turn_distribution(continuation_hazard(counts))
    assert pmf.sum() == pytest.approx(1.0)
    assert np.all(pmf >= 0)


def test_hazard_keeps_the_mean() -> None:
    turns = np.random.default_rng(0).geometric(0.2, 20_000)
    pmf = turn_distribution(continuation_hazard(turns))
    assert pmf @ np.arange(1, len(pmf) + 1) == pytest.approx(turns.mean(), rel=0.01)


@given(st.floats(0, 0.6), st.floats(0.05, 0.35), st.floats(0.35, 0.9))
def test_dependence_is_found_again(share: float, drift: float, lag1: float) -> None:
    lags = np.asarray([1.0, 2, 3, 4, 6, 8, 12, 16])
    curve = share + drift * lag1**lags
    found_share, found_drift, found_lag1 = fit_dependence(lags, curve)
    assert found_share + found_drift <= 1
    assert found_share + found_drift * found_lag1**lags == pytest.approx(curve, abs=0.01)


def test_score_correlation_undoes_the_attenuation() -> None:
    reply = load_statistics("sharegpt")
    grid = score_grid(reply.probabilities)
    rho = score_correlation(0.56, grid, reply.reply.later_tokens, reply.reply.later_tokens)
    assert rho > 0.57
    rng = np.random.default_rng(1)
    a = rng.standard_normal(400_000)
    b = rho * a + np.sqrt(1 - rho**2) * rng.standard_normal(400_000)
    logs = [np.log(np.maximum(tokens_at(z, grid, reply.reply.later_tokens), 1.0)) for z in (a, b)]
    assert correlation(logs[0], logs[1]) == pytest.approx(0.56, abs=0.01)


def test_normal_scores_are_standard_and_order_free() -> None:
    values = np.random.default_rng(2).integers(0, 10_000, 5_000)
    scores = normal_scores(values)
    assert scores.mean() == pytest.approx(0, abs=0.01)
    assert scores.std() == pytest.approx(1, abs=0.01)
    order = np.argsort(values, kind="stable")
    assert np.all(np.diff(scores[order]) >= 0)
