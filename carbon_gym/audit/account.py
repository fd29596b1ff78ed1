"""From two runs on the same turns to what the second saves: in all, and by kinds of turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.fleet import Deployments
from carbon_gym.metrics.figures import Figures
from carbon_gym.metrics.guard import Estimate, over_fleets, session_quality_low_decile
from carbon_gym.metrics.intervals import Interval, reductions, savings
from carbon_gym.metrics.rows import KWH_TO_MWH, FleetAccount
from carbon_gym.reproduce.miss_part import BINS
from carbon_gym.workload.arrivals import DAY_S
from carbon_gym.workload.trace import Trace

HOURS = 3
"""Length of the ranges of the day, hours."""
ADDED_UP = ("co2_g", "energy_kwh", "quality_realised", "ttft_s")
"""Fields of the ledger whose sums over turns are compared."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """One way to tell the turns of a fleet apart.

    Attributes:
        labels: Of the kinds, length K.
        code: int64 (T,), index into `labels` of each turn.
    """

    labels: tuple[str, ...]
    code: Ints


def kinds_of(trace: Trace, present: FleetAccount, fleet: Deployments) -> dict[str, Kinds]:
    """The turns of a fleet by history, by hour and by region.

    Args:
        trace: The turns.
        present: The fleet under the present rule, which decides the region.
        fleet: The deployments.
    """
    ends = np.array([end for _, end in BINS.values()])
    hour = (trace.arrival_s % DAY_S // (3600 * HOURS)).astype(np.int64)
    hours = tuple(f"{first:02d}–{first + HOURS:02d}" for first in range(0, 24, HOURS))
    return {
        "history": Kinds(tuple(BINS), np.searchsorted(ends, trace.history_tokens, side="right")),
        "hour": Kinds(hours, hour),
        "region": Kinds(fleet.regions, fleet.region[present.ledger["deployment"]]),
    }


def figures(accounts: Sequence[FleetAccount]) -> dict[str, Any]:
    """What was served and emitted on some fleets, which have turns; documented in docs/audit.md."""
    ledger = np.concatenate([account.ledger for account in accounts])
    sessions = sum(len(account.session_turns) for account in accounts)
    return {
        "sessions": sessions,
        "turns": len(ledger),
        "energy_kwh": float(ledger["energy_kwh"].sum()),
        **asdict(Figures.of(ledger)),
        "session_quality_low_decile": session_quality_low_decile(
            [account.served() for account in accounts]
        ),
        "ttft_mean_s": float(ledger["ttft_s"].mean()),
        "ttft_p50_s": float(np.quantile(ledger["ttft_s"], 0.5)),
        "recompute_mwh_per_turn": KWH_TO_MWH * float(ledger["recompute_kwh"].mean()),
        "switches_per_session": float(ledger["switched"].sum()) / sessions,
    }


def versus(
    mine: Sequence[FleetAccount],
    present: Sequence[FleetAccount],
    kinds: Sequence[Mapping[str, Kinds]] = (),
) -> dict[str, Any]:
    """A policy beside the present rule on the same fleets, paired.

    Args:
        mine: The policy's account of each fleet.
        present: The present rule's.
        kinds: Of each fleet, of `kinds_of`; none: only what is saved in all.

    Returns:
        ``saving``, a share of the present rule's CO2; ``reduction``, by field of `ADDED_UP` the
        sum over turns under the present rule less that under the policy; ``ttft_p95_difference_s``;
        ``kinds``, by name and label. Intervals are those of `savings`, `reductions`, `over_fleets`.
    """
    sums = [[_by_session(account, ADDED_UP) for account in side] for side in (mine, present)]
    p95_s = [
        np.array([np.quantile(account.ledger["ttft_s"], 0.95) for account in side])
        for side in (mine, present)
    ]
    co2 = [[fleet[:, :1] for fleet in side] for side in sums]
    return {
        "saving": _saving(*co2),
        "reduction": dict(zip(ADDED_UP, reductions(*sums), strict=True)),
        "ttft_p95_difference_s": over_fleets(p95_s[0] - p95_s[1]),
        "kinds": {name: _by_kind(mine, present, [k[name] for k in kinds]) for name in kinds[0]}
        if kinds
        else {},
    }


def _by_session(account: FleetAccount, fields: Sequence[str]) -> Floats:
    """Sums of some fields over the turns of each session, float64 (S, len(fields))."""
    sessions = len(account.session_turns)
    sums = [np.bincount(account.session, account.ledger[name], sessions) for name in fields]
    return np.stack(sums, axis=1).astype(np.float64)


def _saving(mine: Sequence[Floats], present: Sequence[Floats]) -> Estimate | Interval:
    """As `savings` of one group, but where there is no interval the share alone."""
    (interval,) = savings(mine, present)
    if interval is not None:
        return interval
    theirs = float(sum(fleet.sum() for fleet in present))
    ours = float(sum(fleet.sum() for fleet in mine))
    return over_fleets([1.0 - ours / theirs] if theirs else [])


def _by_kind(
    mine: Sequence[FleetAccount], present: Sequence[FleetAccount], kinds: Sequence[Kinds]
) -> dict[str, dict[str, Any]]:
    """By label: turns, CO2 of both, g, and the share that is saved."""
    labels = kinds[0].labels
    ours, theirs = (
        [_co2_by_kind(account, of) for account, of in zip(side, kinds, strict=True)]
        for side in (mine, present)
    )
    turns = np.sum([np.bincount(of.code, minlength=len(labels)) for of in kinds], axis=0)
    emitted = [np.sum([fleet.sum(axis=0) for fleet in side], axis=0) for side in (ours, theirs)]
    return {
        label: {
            "turns": int(turns[k]),
            "co2_g": float(emitted[0][k]),
            "present_co2_g": float(emitted[1][k]),
            "saving": saving,
        }
        for k, (label, saving) in enumerate(zip(labels, savings(ours, theirs), strict=True))
    }


def _co2_by_kind(account: FleetAccount, kinds: Kinds) -> Floats:
    """gCO2eq of each session's turns of each kind, float64 (S, K)."""
    shape = (len(account.session_turns), len(kinds.labels))
    place = account.session * shape[1] + kinds.code
    sums = np.bincount(place, account.ledger["co2_g"], shape[0] * shape[1])
    return sums.reshape(shape).astype(np.float64)
