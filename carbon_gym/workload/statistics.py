"""Statistics of a kind of traffic: what the generator draws from, as one reviewable JSON file.

Packaged in ``configs/workload``; `carbon_gym.workload.calibrate` computes the same file from
conversations that the user has.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.files import replacing
from carbon_gym.resources import packaged, packaged_names
from carbon_gym.scenario.schema import CategoryShares
from carbon_gym.scenario.section import NonNegative, Positive, Section, Unit

SCHEMA: Final = 1
"""Number of the file format; raised whenever a reader of the old one would go wrong."""

MAX_TURNS: Final = 300
"""Longest session that is generated, turns (ASSUMED; the longest of ShareGPT has 300)."""

Count = Annotated[int, Field(ge=0)]
Loading = Annotated[float, Field(gt=-1, lt=1)]


class TurnStatistics(Section):
    """How long sessions last: the hazard of a further turn by turn index."""

    bin_start: Annotated[tuple[int, ...], Field(min_length=1)]
    """First turn count k of every bin, ascending from 1; the last bin reaches to `maximum`."""
    continuation: Annotated[tuple[Unit, ...], Field(min_length=1)]
    """P(turns > k | turns >= k) for every k of the bin."""
    maximum: Annotated[int, Field(ge=1)] = MAX_TURNS
    """No session has more turns."""

    @model_validator(mode="after")
    def _bins_fit(self) -> Self:
        if self.bin_start[0] != 1 or any(np.diff(self.bin_start) <= 0):
            raise ValueError("bin_start must ascend strictly from 1")
        if len(self.bin_start) != len(self.continuation):
            raise ValueError("continuation needs one probability for every bin_start")
        return self


class TokenStatistics(Section):
    """Marginal and dependence of prompt or reply tokens.

    With z the normal score of a turn's tokens among the first (or the later) turns of all
    sessions, later turns follow ``corr(z_t, z_{t+L}) = session_share + drift_share · drift_lag1^L``
    and the first turn carries `first_loading` times the common part of the later ones.
    """

    first_tokens: Annotated[tuple[NonNegative, ...], Field(min_length=2)]
    """Quantiles of the first turn's tokens at `WorkloadStatistics.probabilities`."""
    later_tokens: Annotated[tuple[NonNegative, ...], Field(min_length=2)]
    """Quantiles of the later turns' tokens at `WorkloadStatistics.probabilities`."""
    session_share: Unit
    """Share of the variance of z that all later turns of a session have in common."""
    drift_share: Unit
    """Share of the variance of z that drifts slowly within a session (an AR(1))."""
    drift_lag1: Unit
    """Correlation of the drifting part at successive turns."""
    first_loading: NonNegative
    """Weight of the common and drifting parts in the first turn, relative to a later turn."""
    first_turns_loading: Loading
    """Correlation of z with the log of the session's number of turns, first turns."""
    later_turns_loading: Loading
    """The same for later turns (long sessions have shorter replies)."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        common = self.session_share + self.drift_share
        if common > 1 or self.first_loading**2 * common > 1 + 1e-9:
            raise ValueError(
                "session_share + drift_share must not exceed 1, nor first_loading squared times it"
            )
        for name in ("first_tokens", "later_tokens"):
            if np.any(np.diff(getattr(self, name)) < 0):
                raise ValueError(f"{name} must not decrease")
        return self


class Measured(Section):
    """Summary of a set of sessions, to set a generated set beside it (tokens, shares, turns)."""

    sessions: Count
    queries: Count
    turns_mean: NonNegative
    turns_p50: NonNegative
    turns_p75: NonNegative
    turns_p90: NonNegative
    turns_p99: NonNegative
    one_turn_share: Unit
    over_5_turns_share: Unit
    over_10_turns_share: Unit
    over_30_turns_share: Unit
    prompt_mean_tokens: NonNegative
    first_prompt_median_tokens: NonNegative
    later_prompt_median_tokens: NonNegative
    reply_mean_tokens: NonNegative
    first_reply_median_tokens: NonNegative
    later_reply_median_tokens: NonNegative
    history_2000_share: Unit
    """Share of the queries that carry at least 2,000 tokens of history."""
    history_4000_share: Unit
    history_8000_share: Unit
    prompt_log_correlation: float
    """Correlation of log prompt tokens at successive turns of a session."""
    reply_log_correlation: float
    prompt_between_share: Unit
    """Share of the variance of log prompt tokens that lies between sessions' means."""
    reply_between_share: Unit
    gap_log_mean: float | None = None
    """Mean of the log gap between arrivals of successive turns, log s; None without arrivals."""
    gap_log_sd: NonNegative | None = None


class Targets(Section):
    """Measured summaries of the training sessions, before and after the context limit."""

    context_limit_tokens: Annotated[int, Field(ge=1)]
    unlimited: Measured
    limited: Measured
    long_unlimited: Measured
    """Sessions of at least 6 turns."""
    long_limited: Measured
    """Sessions that keep at least 6 turns under the limit."""


class PublishedMeans(Section):
    """Means that a publication states, where the conversations themselves cannot be had."""

    turns: Positive
    prompt_tokens: Positive
    reply_tokens: Positive


class WorkloadStatistics(Section):
    """Everything that the generator needs to know about a kind of traffic."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_number: Annotated[Literal[1], Field(alias="schema")] = 1
    kind: Literal["workload"] = "workload"
    name: Annotated[str, Field(min_length=1)]
    label: str
    """PUBLISHED, DERIVED or ASSUMED, with what each part rests on."""
    source: str
    license: str
    notes: tuple[str, ...] = ()
    training_sessions: Count = 0
    training_queries: Count = 0
    training_ids_sha256: str | None = None
    """SHA-256 of the sorted training session ids, one per line: which sessions were used."""
    split_seed: int | None = None
    train_share: Unit | None = None
    validation_share: Unit | None = None
    probabilities: tuple[Annotated[float, Field(gt=0, lt=1)], ...]
    """Probabilities of all token quantiles, ascending."""
    turns: TurnStatistics
    prompt: TokenStatistics
    reply: TokenStatistics
    reply_mean_tokens: Positive
    """Mean reply of a training turn: the prior of ô (SPEC §5)."""
    category_shares: CategoryShares
    hour_shape: Annotated[tuple[NonNegative, ...], Field(min_length=24, max_length=24)]
    """Relative rate of session starts by hour of the UTC day, mean 1."""
    hour_shape_source: str
    targets: Targets | None = None
    published: PublishedMeans | None = None

    @field_validator("probabilities")
    @classmethod
    def _ascend(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if any(np.diff(value) <= 0):
            raise ValueError("probabilities must ascend strictly")
        return value

    @model_validator(mode="after")
    def _lengths_agree(self) -> Self:
        for kind in ("prompt", "reply"):
            for name in ("first_tokens", "later_tokens"):
                if len(getattr(getattr(self, kind), name)) != len(self.probabilities):
                    raise ValueError(f"{kind}.{name} needs one quantile for every probability")
        if sum(self.hour_shape) <= 0:
            raise ValueError("hour_shape must have a positive hour")
        return self


def load_statistics(name_or_path: str | Path) -> WorkloadStatistics:
    """Statistics from a packaged name (``"sharegpt"``) or from a JSON file.

    Raises:
        InputError: If there is no such name or file, or it does not hold valid statistics.
    """
    path = _path_of(str(name_or_path))
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}: line {error.lineno} is not valid JSON ({error.msg}); "
            "write the file again with `carbon-gym calibrate`"
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; give a JSON file of statistics") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); name a JSON file") from None
    return parse_statistics(raw, str(path))


def parse_statistics(raw: object, where: str) -> WorkloadStatistics:
    """Validate decoded JSON; `where` names its file in the message of an `InputError`."""
    try:
        return WorkloadStatistics.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InputError(
            f"{where}: {key}: {first['msg']}; compare with configs/workload/sharegpt.json or "
            "write the file again with `carbon-gym calibrate`"
        ) from None


def _path_of(name_or_path: str) -> Path:
    if name_or_path.endswith(".json") or os.sep in name_or_path or "/" in name_or_path:
        path = Path(name_or_path)
        if not path.is_file():
            found = "is a directory" if path.is_dir() else "does not exist"
            raise InputError(
                f"workload.statistics: {name_or_path} {found}; name a JSON file written by "
                "`carbon-gym calibrate` or a packaged name"
            )
        return path
    path = packaged(f"workload/{name_or_path}.json")
    if not path.is_file():
        names = packaged_names("workload", ".json")
        hint = did_you_mean(name_or_path, names)
        raise InputError(
            f"workload.statistics: no packaged statistics are called {name_or_path!r}; {hint}"
            f"known: {', '.join(names)}, or the path of a JSON file"
        )
    return path


def dump_statistics(statistics: WorkloadStatistics) -> str:
    """The JSON text of statistics: one key a line, arrays on one line, newline at the end."""
    plain = statistics.model_dump(mode="json", by_alias=True, exclude_none=True)
    return _dump(plain, 0) + "\n"


def _dump(value: Any, depth: int) -> str:
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    inner = "  " * (depth + 1)
    lines = [f"{inner}{json.dumps(key)}: {_dump(item, depth + 1)}" for key, item in value.items()]
    return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}"


def write_statistics(statistics: WorkloadStatistics, path: Path) -> None:
    """Write the JSON file whole or not at all.

    Raises:
        InputError: If the place cannot be written to.
    """
    with replacing(path) as partial:
        partial.write_text(dump_statistics(statistics), encoding="utf-8", newline="\n")
