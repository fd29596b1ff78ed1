"""Files of grid statistics, and grids generated from unusual ones."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from carbon_gym.errors import InputError
from carbon_gym.grid.generator import generate_grid
from carbon_gym.grid.statistics import GridStatistics, load_statistics, parse_statistics
from carbon_gym.resources import packaged


@pytest.fixture(scope="module")
def statistics() -> GridStatistics:
    return load_statistics("electricitymaps_2021_2022")


def small_statistics(**changes: object) -> dict[str, object]:
    zone = {
        "annual_mean": {"2021": 100.0},
        "mean": 100.0,
        "sd": 0.0,
        "min": 100.0,
        "max": 100.0,
        "hourly_change_sd": 0.0,
        "residual_sd": 0.0,
        "residual_lag1": 0.0,
        "profile": [[100.0] * 24] * 12,
    }
    return {
        "schema": 1,
        "label": "ASSUMED",
        "source": "test",
        "license": "none",
        "inputs": [],
        "years": [2021],
        "units": "gCO2eq/kWh, UTC",
        "method": [],
        "subhourly": None,
        "residual_correlation": {"zones": ["A"], "matrix": [[1.0]]},
        "zones": {"A": zone},
    } | changes


def test_a_constant_zone_is_constant() -> None:
    series = generate_grid(small_statistics(), ["A"], date(2024, 1, 1), date(2024, 1, 3), 0)
    assert np.all(series.values == 100.0)


def test_an_impossible_correlation_is_projected() -> None:
    """Three zones cannot all be opposites; the generator still makes finite values."""
    zone = small_statistics()["zones"]["A"] | {"min": 0.0, "max": 200.0, "residual_sd": 20.0}  # type: ignore[index]
    content = small_statistics(
        zones=dict.fromkeys("ABC", zone),
        residual_correlation={
            "zones": list("ABC"),
            "matrix": [[1, -0.9, -0.9], [-0.9, 1, -0.9], [-0.9, -0.9, 1]],
        },
    )
    series = generate_grid(content, list("ABC"), date(2024, 1, 1), date(2025, 1, 1), 0)
    assert np.isfinite(series.values).all()
    correlation = np.corrcoef(series.values[::12].T)
    np.testing.assert_allclose(np.asarray(correlation)[np.triu_indices(3, 1)], -0.5, atol=0.05)


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"schema": 2}, "schema is not allowed"),
        ({"zones": {}}, "zones is not allowed"),
        ({"years": []}, "years is not allowed"),
        ({"extra": 1}, "extra is not allowed"),
        ({"units": "lb/MWh"}, "units is not allowed"),
        ({"residual_correlation": {"zones": ["B"], "matrix": [[1.0]]}}, "same zones"),
        ({"residual_correlation": {"zones": ["A"], "matrix": [[0.5]]}}, "ones on its diagonal"),
        ({"residual_correlation": {"zones": ["A"], "matrix": [[1.0, 0.0]]}}, "1 rows of 1 numb"),
    ],
)
def test_statistics_with_faults(changes: dict[str, object], pattern: str) -> None:
    with pytest.raises(InputError, match=pattern):
        parse_statistics(small_statistics(**changes))


@pytest.mark.parametrize(
    ("key", "value", "pattern"),
    [
        ("profile", [[100.0] * 24] * 11, "zones.A.profile is not allowed"),
        ("profile", [[100.0] * 23] * 12, r"zones.A.profile.0 is not allowed"),
        ("min", 101.0, "max 100.0 is below min 101.0"),
        ("residual_lag1", 1.0, "zones.A.residual_lag1"),
        ("residual_sd", -1.0, "zones.A.residual_sd"),
        ("mean", float("nan"), "zones.A.mean"),
    ],
)
def test_zone_statistics_with_faults(key: str, value: object, pattern: str) -> None:
    content = small_statistics()
    content["zones"] = {"A": content["zones"]["A"] | {key: value}}  # type: ignore[index]
    with pytest.raises(InputError, match=pattern) as caught:
        parse_statistics(content)
    assert "\n" not in str(caught.value)


def test_statistics_by_name_and_path(tmp_path: Path, statistics: GridStatistics) -> None:
    path = packaged("grid/electricitymaps_2021_2022.json")
    assert load_statistics(path) == load_statistics(str(path)) == statistics
    with pytest.raises(InputError, match="nearest: 'electricitymaps_2021_2022'"):
        load_statistics("electricitymap_2021")
    with pytest.raises(InputError, match="no such file"):
        load_statistics(tmp_path / "none.json")
    folder = tmp_path / "folder.json"
    folder.mkdir()
    with pytest.raises(InputError, match="is a folder"):
        load_statistics(folder)
    broken = tmp_path / "broken.json"
    broken.write_text('{\n"schema": 1,\n')
    with pytest.raises(InputError, match=r"broken\.json, row 3: is not valid JSON"):
        load_statistics(broken)
    broken.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read as UTF-8"):
        load_statistics(broken)
    broken.write_text(json.dumps([1]))
    with pytest.raises(InputError, match="the file is not allowed"):
        load_statistics(broken)


def test_what_is_shipped_names_years_source_and_license(statistics: GridStatistics) -> None:
    assert statistics.years == (2021, 2022)
    assert len(statistics.zones) == 16
    assert "Electricity Maps" in statistics.source
    assert "ODbL" in statistics.license
    assert statistics.label == "DERIVED"
    assert all(set(zone.annual_mean) == {"2021", "2022"} for zone in statistics.zones.values())
