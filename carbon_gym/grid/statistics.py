"""Grid statistics: the numbers from which the generator makes a grid, as a reviewable JSON file."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from carbon_gym.errors import InputError
from carbon_gym.grid.layouts import MAX_INTENSITY_G_PER_KWH
from carbon_gym.resources import packaged, packaged_names

MAX_LAG1 = 0.9995
"""Largest lag-1 h autocorrelation that the generator takes (ASSUMED: a memory of 80 days)."""

Intensity = Annotated[float, Field(ge=0, le=MAX_INTENSITY_G_PER_KWH)]
Deviation = Annotated[float, Field(ge=0, le=MAX_INTENSITY_G_PER_KWH)]
Correlation = Annotated[float, Field(ge=-1, le=1)]
DayProfile = Annotated[tuple[Intensity, ...], Field(min_length=24, max_length=24)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InputFile(_Section):
    """A file that the statistics were computed from."""

    file: str
    sha256: str


class ZoneStatistics(_Section):
    """Statistics of the hourly means of one zone, gCO2eq/kWh."""

    annual_mean: dict[str, Intensity]
    """Mean per calendar year (UTC)."""
    mean: Intensity
    sd: Deviation
    min: Intensity
    max: Intensity
    hourly_change_sd: Deviation
    """sd of the change from one hour to the next."""
    residual_sd: Deviation
    """sd of what the month x hour profile and the level of the year leave."""
    residual_lag1: Annotated[float, Field(ge=0, le=MAX_LAG1)]
    """Autocorrelation of the residual at a lag of one hour."""
    profile: Annotated[tuple[DayProfile, ...], Field(min_length=12, max_length=12)]
    """Mean per month (January first) and hour of the day (UTC)."""

    @model_validator(mode="after")
    def _range_is_not_empty(self) -> Self:
        if self.max < self.min:
            raise ValueError(f"max {self.max} is below min {self.min}; swap them")
        return self


class ResidualCorrelation(_Section):
    """Correlation of the zones' residuals at the same hour."""

    zones: tuple[str, ...]
    matrix: tuple[tuple[Correlation, ...], ...]

    @model_validator(mode="after")
    def _is_a_correlation_matrix(self) -> Self:
        size = len(self.zones)
        if len(self.matrix) != size or any(len(row) != size for row in self.matrix):
            raise ValueError(f"matrix must have {size} rows of {size} numbers, one per zone")
        matrix = np.array(self.matrix)
        if not np.array_equal(matrix, matrix.T) or not np.all(np.diag(matrix) == 1):
            raise ValueError("matrix must be symmetric with ones on its diagonal")
        return self


class SubHourly(_Section):
    """How intensity moves inside the hour, as measured on one 5-minute series."""

    label: str
    source: str
    relative_sd: Annotated[float, Field(ge=0)]
    """sd of the deviation from the line through the hourly means / mean; for comparison only."""
    sd_over_hourly_change_sd: Annotated[float, Field(ge=0, le=10)]
    """The same sd over the sd of the change from hour to hour, by which it is scaled to zones."""
    lag1_5min: Annotated[float, Field(ge=0, le=0.99)]
    """Autocorrelation of the deviation at a lag of 5 minutes."""
    hours: int


class GridStatistics(_Section):
    """Everything that `generate_grid` reads; written by `write_grid_statistics`."""

    schema_: Literal[1] = Field(alias="schema")
    label: str
    source: str
    license: str
    inputs: tuple[InputFile, ...]
    years: Annotated[tuple[int, ...], Field(min_length=1)]
    units: Literal["gCO2eq/kWh, UTC"]
    method: tuple[str, ...]
    subhourly: SubHourly | None
    residual_correlation: ResidualCorrelation
    zones: Annotated[dict[str, ZoneStatistics], Field(min_length=1)]

    @model_validator(mode="after")
    def _zones_agree(self) -> Self:
        if sorted(self.residual_correlation.zones) != sorted(self.zones):
            raise ValueError("residual_correlation.zones and zones must name the same zones")
        return self


def load_statistics(name_or_path: str | Path) -> GridStatistics:
    """Load grid statistics by packaged name (configs/grid) or from a JSON file.

    Raises:
        InputError: Unknown name (with the nearest), missing or damaged file, or a value that is
            not allowed (names its key).
    """
    shown = str(name_or_path)
    known = packaged_names("grid", ".json")
    if shown in known:
        path = packaged(f"grid/{shown}.json")
    elif shown.endswith(".json"):
        path = Path(shown)
    else:
        near = difflib.get_close_matches(shown, known, n=1, cutoff=0.4)
        nearest = f" (nearest: {near[0]!r})" if near else ""
        raise InputError(
            f"grid statistics {shown!r} are not known{nearest}; use one of {', '.join(known)}, "
            "or a file that ends in .json"
        )
    return parse_statistics(_read_json(path, shown), shown)


def parse_statistics(content: Any, where: str = "grid statistics") -> GridStatistics:
    """Validate the content of a statistics file; `InputError` names the first key at fault."""
    try:
        return GridStatistics.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        message = first["msg"].removeprefix("Value error, ")
        raise InputError(
            f"{where}: {key} is not allowed: {message}; "
            "write the file anew with `carbon-gym calibrate grid`"
        ) from None


def _read_json(path: Path, shown: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{shown}: there is no such file; check the path") from None
    except IsADirectoryError:
        raise InputError(f"{shown}: is a folder; name the JSON file in it") from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"{shown}, row {error.lineno}: is not valid JSON ({error.msg}); mend that row, or "
            "write the file anew with `carbon-gym calibrate grid`"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{shown}: cannot be read as UTF-8 text ({error}); give a JSON file"
        ) from None
