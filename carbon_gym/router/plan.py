"""What the scorer sees of a turn: of each deployment its numbers, of all of them pooled ones.

The network never sees an index. What belongs to a region, model or pool is gathered for each
deployment in it, so that permuting deployments permutes logits and fleets may be of any size.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError

if TYPE_CHECKING:
    from carbon_gym.envs.layout import ObservationLayout

Float32s = NDArray[np.float32]
Int32s = NDArray[np.int32]

TURN = ("prompt", "history", "predicted_output", "turn", "idle", "stake", "hour")
"""What all deployments of a turn share. Not the day and month: they would tell the years apart."""
OF_REGION = ("intensity", "change_1h", "change_24h", "rank")
OF_MODEL = ("quality", "quality_ratio", "admissible")
OF_UNIT = ("room", "load")
OWN = ("cached", "age", "margin", "co2", "ttft", "feasible", "current")
"""What is seen of a region, model, pool (with whether the session is there) and deployment."""
PRICE, CURRENT = OWN.index("co2"), OWN.index("current")
CONSTANTS = (
    "energy",
    "params",
    "prefill_rate",
    "decode_rate",
    "kv_bytes_per_token",
    "kv_room",
    "context",
    "pue",
    "round_trip",
    "unit_share",
)
LEAST_CONSTANT = 1e-3
"""Constants, over the fleet's largest, are seen down to this on their log scale (ASSUMED)."""

GROUP_INPUTS = (len(OF_REGION) + 1, len(OF_MODEL) + 1, len(OF_UNIT) + 1)
SEEN = len(OWN) + sum(GROUP_INPUTS)
"""Numbers seen of each deployment: its own, its region's, its model's and its pool's."""
POOLED = 3
"""Mean, minimum and maximum over the regions, models, pools and deployments."""
TURN_INPUTS = len(TURN) + 1 + POOLED * (SEEN - 3)
"""Length of a turn's context; the hour is two numbers, presence is not pooled."""
CONSTANT_INPUTS = 2 * len(CONSTANTS)
"""Each as a share of the fleet's largest, and the logarithm of that."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Where the scorer finds its inputs in the observations of one fleet.

    With R regions, M models, U pools and D deployments:

    Attributes:
        size: Length n of an observation.
        turn: Slice of what all deployments share.
        blocks: int64 (4, 3): begin, features and entries of the blocks of the regions, models,
            pools and deployments: features one after another, each of so many entries.
        groups: int32 (3, D), region, model and pool of every deployment.
        columns: int64 (SEEN, D), columns of what is seen of each deployment in the extended
            observation: the observation, then for each region, model and pool whether the session
            is there.
        constants: float32 (D, CONSTANT_INPUTS), what never changes.
    """

    size: int
    turn: slice
    blocks: NDArray[np.int64]
    groups: Int32s
    columns: NDArray[np.int64]
    constants: Float32s

    @property
    def member(self) -> Float32s:
        """float32 (D, R + M + U), 1 where a deployment belongs to a region, model or pool."""
        counts = self.blocks[:3, 2]
        found = [
            np.arange(count)[None] == group[:, None]
            for count, group in zip(counts, self.groups, strict=True)
        ]
        return np.concatenate(found, axis=1).astype(np.float32)


def plan_of(layout: ObservationLayout) -> Plan:
    """Where everything is in the observations of a layout.

    Raises:
        InputError: The layout lacks something, or has it in another order.
    """
    fleet = layout.fleet
    groups = np.stack([fleet.region, fleet.model, fleet.unit]).astype(np.int32)
    counts = (len(fleet.regions), len(fleet.models), len(fleet.unit_share), len(fleet))
    places = [_block(layout, names) for names in (OF_REGION, OF_MODEL, OF_UNIT, OWN)]
    features = (len(OF_REGION), len(OF_MODEL), len(OF_UNIT), len(OWN))
    everywhere = np.arange(len(fleet))
    columns = [places[-1].start + len(fleet) * f + everywhere for f in range(len(OWN))]
    present = layout.size
    for kind, group in enumerate(groups.astype(np.int64)):
        begin, count = places[kind].start, counts[kind]
        columns += [begin + count * f + group for f in range(features[kind])]
        columns.append(present + group)
        present += count
    at = [layout.constant_names.index(name) for name in CONSTANTS]
    share = layout.constants[:, at]
    log = 1.0 - np.log(np.maximum(share, LEAST_CONSTANT)) / np.log(LEAST_CONSTANT)
    return Plan(
        size=layout.size,
        turn=_block(layout, TURN),
        blocks=np.stack([[place.start for place in places], features, counts], axis=1),
        groups=groups,
        columns=np.stack(columns),
        constants=np.concatenate([share, log], axis=1).astype(np.float32),
    )


def _block(layout: ObservationLayout, names: tuple[str, ...]) -> slice:
    """The slice of consecutive features."""
    found = [layout.slices[name] for name in names if name in layout.slices]
    broken = any(a.stop != b.start for a, b in pairwise(found))
    if len(found) < len(names) or broken or not set(CONSTANTS) <= set(layout.constant_names):
        raise InputError(
            f"this observation layout has not {', '.join(names)} one after another, or lacks a "
            "constant that the scorer needs; use the layout of a carbon_gym environment"
        )
    return slice(found[0].start, found[-1].stop)


def signature(layout: ObservationLayout) -> dict[str, Any]:
    """What a router must find again in a layout to run on it; not the fleet's size.

    Returns:
        JSON-plain: name, lower and upper bound of every feature that is seen, and the constants.
    """
    seen = {*TURN, *OF_REGION, *OF_MODEL, *OF_UNIT, *OWN}
    return {
        "features": [[row[0], row[3], row[4]] for row in layout.describe() if row[0] in seen],
        "constants": [name for name in CONSTANTS if name in layout.constant_names],
    }
