"""From the account of a run to the rows of `results.json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.metrics.intervals import Interval, savings

LONGER_THAN = (5, 10, 20, 30)
"""Session lengths, turns, above which results are also given apart."""
LARGEST_SESSIONS = 10
"""How many of the largest sessions the report names the CO2 share of."""

KWH_TO_MWH = 1e6
"""kWh to milliwatt-hours."""


@dataclass(frozen=True, slots=True, eq=False)
class FleetAccount:
    """One fleet served by one policy.

    Attributes:
        ledger: Structured array (T,) of `carbon_gym.simulator.arrays.OUTCOME`.
        session: int64 (T,), session of each row, 0..S-1.
        session_turns: int64 (S,).
        decision_us: Mean time of a choice, microseconds.
    """

    ledger: NDArray[np.void]
    session: NDArray[np.int64]
    session_turns: NDArray[np.int64]
    decision_us: float = 0.0

    def session_co2_g(self) -> NDArray[np.float64]:
        """gCO2eq of each session, float64 (S,)."""
        return np.bincount(
            self.session, weights=self.ledger["co2_g"], minlength=len(self.session_turns)
        ).astype(np.float64)

    def co2_g_by_group(self) -> NDArray[np.float64]:
        """gCO2eq of each session, float64 (S, 1 + len(LONGER_THAN)).

        The first column holds every session, the others only the sessions longer than each bound
        of `LONGER_THAN`, 0 elsewhere.
        """
        longer = self.session_turns[:, None] > np.array((0, *LONGER_THAN))[None, :]
        return self.session_co2_g()[:, None] * longer


def row(
    scenario: str,
    policy: str,
    fleet: int | str,
    accounts: Sequence[FleetAccount],
    affinity: Sequence[FleetAccount],
    faircarbon: Sequence[FleetAccount],
) -> dict[str, Any]:
    """One row of `results.json`, from the fleets that it covers.

    Args:
        scenario: Its name.
        policy: The policy's name.
        fleet: Number of the fleet, or "all" for the pooled row.
        accounts: The policy's accounts, one per fleet covered.
        affinity: session-affinity's accounts of the same fleets.
        faircarbon: faircarbon's accounts of the same fleets.
    """
    ledger = np.concatenate([account.ledger for account in accounts])
    per_session = np.concatenate([account.session_co2_g() for account in accounts])
    turns, sessions = len(ledger), len(per_session)
    co2_g = float(ledger["co2_g"].sum())
    saving, *saving_by_length = savings(
        [account.co2_g_by_group() for account in accounts],
        [account.co2_g_by_group() for account in faircarbon],
    )
    largest = np.sort(per_session)[::-1][:LARGEST_SESSIONS]
    return {
        "scenario": scenario,
        "policy": policy,
        "fleet": fleet,
        "sessions": sessions,
        "turns": turns,
        "co2_g": co2_g,
        "co2_relative": _ratio(co2_g, sum(float(a.ledger["co2_g"].sum()) for a in affinity)),
        "saving_vs_faircarbon": saving,
        "energy_kwh": float(ledger["energy_kwh"].sum()),
        "recompute_mwh_per_turn": _recompute_mwh_per_turn(ledger),
        "quality_predicted": _mean(ledger["quality_predicted"]),
        "quality_realised": _mean(ledger["quality_realised"]),
        "quality_violation_rate": _mean(ledger["quality_violation"]),
        "ttft_p50_s": _quantile(ledger["ttft_s"], 0.50),
        "ttft_p95_s": _quantile(ledger["ttft_s"], 0.95),
        "ttft_violation_rate": _mean(ledger["ttft_violation"]),
        "capacity_violation_rate": _mean(ledger["capacity_violation"]),
        "switches_per_session": _ratio(float(ledger["switched"].sum()), sessions),
        "gate_proposals_per_session": 0.0,
        "gate_blocks_per_session": 0.0,
        "decision_us": _mean(np.array([account.decision_us for account in accounts])),
        "largest_sessions_co2_share": _ratio(float(largest.sum()), co2_g),
        "by_session_turns": {
            f">{bound}": _long_sessions(bound, accounts, interval)
            for bound, interval in zip(LONGER_THAN, saving_by_length, strict=True)
        },
    }


def _long_sessions(
    bound: int, accounts: Sequence[FleetAccount], saving: Interval | None
) -> dict[str, Any]:
    ledger = np.concatenate(
        [account.ledger[(account.session_turns > bound)[account.session]] for account in accounts]
    )
    return {
        "sessions": int(sum((account.session_turns > bound).sum() for account in accounts)),
        "turns": len(ledger),
        "co2_g": float(ledger["co2_g"].sum()),
        "saving_vs_faircarbon": saving,
        "recompute_mwh_per_turn": _recompute_mwh_per_turn(ledger),
        "ttft_p95_s": _quantile(ledger["ttft_s"], 0.95),
    }


def _recompute_mwh_per_turn(ledger: NDArray[np.void]) -> float | None:
    total = float(ledger["recompute_kwh"].sum()) * KWH_TO_MWH
    return _ratio(total, len(ledger))


def _ratio(value: float, by: float) -> float | None:
    return value / by if by else None


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None


def _quantile(values: NDArray[np.float64], share: float) -> float | None:
    return float(np.quantile(values, share)) if len(values) else None
