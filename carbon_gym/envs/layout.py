"""Where everything stands in an observation, and what never changes about a fleet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carbon_gym.fleet.deployments import Deployments

Float32s = NDArray[np.float32]

PROMPT_SCALE_TOKENS = 512.0
HISTORY_SCALE_TOKENS = 4096.0
OUTPUT_SCALE_TOKENS = 512.0
TURN_SCALE = 8.0
INTENSITY_SCALE_G_PER_KWH = 300.0
"""x becomes x / (x + scale): monotone, in [0, 1), 1/2 at the scale (all five ASSUMED)."""


class Feature(NamedTuple):
    """One named slice of the observation."""

    name: str
    over: str  # "": one number; "sc": sine and cosine; R, M, U, D: one per region, model, ...
    low: float
    meaning: str


CONTEXT_FEATURES = (
    Feature("prompt", "", 0.0, "q / (q + 512 tokens)"),
    Feature("history", "", 0.0, "H / (H + 4,096 tokens)"),
    Feature("predicted_output", "", 0.0, "ô / (ô + 512 tokens)"),
    Feature("turn", "", 0.0, "i / (i + 8), i = 0 on the first turn"),
    Feature("idle", "", 0.0, "s / (s + TTL), s since the session's last turn; 1 on the first"),
    Feature("stake", "", 0.0, "r / (r + s): CO2 of the reference (see co2), mean of faircarbon"),
    Feature("hour", "sc", -1.0, "time of day, UTC"),
    Feature("weekday", "sc", -1.0, "time of the week, UTC"),
    Feature("month", "sc", -1.0, "time of the year, UTC"),
    Feature("intensity", "R", 0.0, "CI / (CI + 300 g/kWh), as the router sees it"),
    Feature("change_1h", "R", -1.0, "(CI − CI an hour ago) / (their sum)"),
    Feature("change_24h", "R", -1.0, "the same against a day ago"),
    Feature("rank", "R", 0.0, "share of the other regions that are cleaner"),
    Feature("quality", "M", 0.0, "predicted quality q̂"),
    Feature("quality_ratio", "M", 0.0, "q̂ / best q̂ of those whose context fits, at most 1"),
    Feature("admissible", "M", 0.0, "1 if the model is admissible"),
)
STAKE = [feature.name for feature in CONTEXT_FEATURES].index("stake")
"""Its place in an observation: all features before it are one number."""
UNIT_FEATURES = (
    Feature("room", "U", 0.0, "1 if the pool takes this turn"),
    Feature("load", "U", 0.0, "others' load / places, at most 1; share of all where no limit"),
)
DEPLOYMENT_FEATURES = (
    Feature("cached", "D", 0.0, "C / H; 0 without history"),
    Feature("age", "D", 0.0, "age of a usable cache / TTL; 1 without one"),
    Feature("margin", "D", 0.0, "how far TTL and memory pressure are from it, / TTL"),
    Feature("co2", "D", -1.0, "(CO2 − reference) / (CO2 + reference), both estimated"),
    Feature("ttft", "D", -1.0, "(TTFT − τ) / (TTFT + τ)"),
    Feature("feasible", "D", 0.0, "1 if it is in F"),
    Feature("current", "D", 0.0, "1 if it served the session's last turn"),
)
DEPLOYMENT_WIDTH = len(DEPLOYMENT_FEATURES)
FEATURES = CONTEXT_FEATURES + UNIT_FEATURES + DEPLOYMENT_FEATURES


@dataclass(frozen=True, eq=False)
class ObservationLayout:
    """Names the slices of the flat observation of one fleet.

    The flat vector has the context of the turn, then the pools, then the deployments, feature
    after feature. ``deployments`` gives the last block as a matrix.

    Attributes:
        fleet: The deployments: names, index maps `model`, `gpu`, `region`, `unit`.
        names: ``model @ GPU @ region`` of every deployment, length D.
        slices: Slice of every feature by name, and of the blocks "context", "units" and
            "deployments".
        size: Length of the vector.
        low: float32 (size,), lower bounds of the observation.
        high: float32 (size,).
        feature_names: Names of the columns of the deployment matrix, length F.
        constant_names: Names of the columns of `constants`.
        constants: float32 (D, K), what never changes, each over its largest value in the fleet, so
            that none need be in the observation.
    """

    fleet: Deployments
    names: tuple[str, ...] = field(init=False)
    slices: Mapping[str, slice] = field(init=False)
    size: int = field(init=False)
    low: Float32s = field(init=False)
    high: Float32s = field(init=False)
    feature_names: tuple[str, ...] = field(init=False)
    constant_names: tuple[str, ...] = field(init=False)
    constants: Float32s = field(init=False)

    def __post_init__(self) -> None:
        fleet = self.fleet
        width = {"": 1, "sc": 2, "R": len(fleet.regions), "M": len(fleet.models)}
        width |= {"U": len(fleet.unit_share), "D": len(fleet)}
        slices: dict[str, slice] = {}
        low: list[float] = []
        for feature in FEATURES:
            begin = len(low)
            low += [feature.low] * width[feature.over]
            slices[feature.name] = slice(begin, len(low))
        units, deployments = slices["room"].start, slices["cached"].start
        slices["context"] = slice(0, units)
        slices["units"] = slice(units, deployments)
        slices["deployments"] = slice(deployments, len(low))
        constants = _constants(fleet)
        self._set("names", tuple(fleet.name(d) for d in range(len(fleet))))
        self._set("slices", MappingProxyType(slices))
        self._set("size", len(low))
        self._set("low", _frozen(np.array(low, dtype=np.float32)))
        self._set("high", _frozen(np.ones(len(low), dtype=np.float32)))
        self._set("feature_names", tuple(feature.name for feature in DEPLOYMENT_FEATURES))
        self._set("constant_names", tuple(constants))
        matrix = np.stack(list(constants.values()), axis=1).astype(np.float32)
        self._set("constants", _frozen(matrix))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[type[ObservationLayout], tuple[Deployments]]:
        return ObservationLayout, (self.fleet,)

    def deployments(self, observation: Float32s) -> Float32s:
        """The per-deployment features as a view (..., D, F).

        Args:
            observation: Flat, (..., size), or its block "deployments", (..., F·D).
        """
        wide = len(self.feature_names) * len(self.fleet)
        block = observation[..., observation.shape[-1] - wide :]
        shape = (*observation.shape[:-1], len(self.feature_names), len(self.fleet))
        return block.reshape(shape).swapaxes(-1, -2)

    def by_block(self, observation: Float32s) -> dict[str, Float32s]:
        """The dict form: views of observations (..., size).

        Returns:
            "turn" (..., 12), "grid" (..., 4·R), "quality" (..., 3·M), "units" (..., 2·U) and
            "deployments" (..., 7·D), feature after feature.
        """
        grid, quality = self.slices["intensity"].start, self.slices["quality"].start
        units = self.slices["units"]
        return {
            "turn": observation[..., :grid],
            "grid": observation[..., grid:quality],
            "quality": observation[..., quality : units.start],
            "units": observation[..., units],
            "deployments": observation[..., self.slices["deployments"]],
        }

    def describe(self) -> list[tuple[str, int, int, float, float, str]]:
        """Rows (name, begin, end, min, max, meaning) of every feature, for tables."""
        return [
            (f.name, self.slices[f.name].start, self.slices[f.name].stop, f.low, 1.0, f.meaning)
            for f in FEATURES
        ]


def _constants(fleet: Deployments) -> dict[str, NDArray[np.float64]]:
    columns = {
        "energy": fleet.energy_kwh_per_token,
        "params": fleet.params_billion[fleet.model],
        "prefill_rate": fleet.prefill_tokens_per_s,
        "decode_rate": fleet.decode_tokens_per_s,
        "kv_bytes_per_token": fleet.kv_bytes_per_token,
        "kv_room": fleet.kv_room_bytes,
        "context": fleet.context_tokens[fleet.model].astype(np.float64),
        "pue": fleet.pue[fleet.region],
        "round_trip": fleet.round_trip_s,
        "unit_share": fleet.unit_share[fleet.unit],
    }
    return {name: column / max(column.max(), 1e-300) for name, column in columns.items()}


def _frozen(array: Float32s) -> Float32s:
    array.flags.writeable = False
    return array
