"""From the account of a run to the rows of `results.json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from carbon_gym.metrics.guard import (
    Served,
    quality_by_category,
    session_quality_low_decile,
    versus_ccar,
)
from carbon_gym.metrics.intervals import Interval, savings

LONGER_THAN = (5, 10, 20, 30)
"""Session lengths, turns, above which results are also given apart."""
LARGEST_SESSIONS = 10
"""How many of the largest sessions the report names the CO2 share of."""

KWH_TO_MWH = 1e6
"""kWh to milliwatt-hours."""


class SessionTotals(Protocol):
    """gCO2eq by session: all that a reference needs to say."""

    def session_co2_g(self) -> NDArray[np.float64]:
        """gCO2eq of each session, float64 (S,)."""

    def co2_g_by_group(self) -> NDArray[np.float64]:
        """gCO2eq of each session, float64 (S, 1 + len(LONGER_THAN)).

        The first column holds every session, the others only the sessions longer than each bound
        of `LONGER_THAN`, 0 elsewhere.
        """


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceAccount:
    """One fleet served by a reference policy, reduced to its sessions.

    Attributes:
        co2_g: float64 (S,).
        session_turns: int64 (S,).
    """

    co2_g: NDArray[np.float64]
    session_turns: NDArray[np.int64]

    def session_co2_g(self) -> NDArray[np.float64]:
        """See `SessionTotals`."""
        return self.co2_g

    def co2_g_by_group(self) -> NDArray[np.float64]:
        """See `SessionTotals`."""
        longer = self.session_turns[:, None] > np.array((0, *LONGER_THAN))[None, :]
        return self.co2_g[:, None] * longer


@dataclass(frozen=True, slots=True, eq=False)
class FleetAccount:
    """One fleet served by one policy.

    Attributes:
        ledger: Structured array (T,) of `carbon_gym.simulator.arrays.OUTCOME`.
        session: int64 (T,), session of each row, 0..S-1.
        session_turns: int64 (S,).
        category: int8 (T,), index into `carbon_gym.scenario.schema.CATEGORIES`.
        decision_us: Mean time of a choice, microseconds.
        gate_proposals: int64 (S,), how often a gate was asked, by session; None: no gate.
        gate_blocks: int64 (S,), how often it stayed.
    """

    ledger: NDArray[np.void]
    session: NDArray[np.int64]
    session_turns: NDArray[np.int64]
    category: NDArray[np.int8]
    decision_us: float = 0.0
    gate_proposals: NDArray[np.int64] | None = None
    gate_blocks: NDArray[np.int64] | None = None

    def reference(self) -> ReferenceAccount:
        """What other policies' rows need of this one."""
        return ReferenceAccount(self.session_co2_g(), self.session_turns)

    def served(self) -> Served:
        """What the users got."""
        return Served.of(self.ledger, self.session, self.category)

    def session_co2_g(self) -> NDArray[np.float64]:
        """See `SessionTotals`."""
        return np.bincount(
            self.session, weights=self.ledger["co2_g"], minlength=len(self.session_turns)
        ).astype(np.float64)

    def co2_g_by_group(self) -> NDArray[np.float64]:
        """See `SessionTotals`."""
        return self.reference().co2_g_by_group()


def row(
    scenario: str,
    policy: str,
    fleet: int | str,
    accounts: Sequence[FleetAccount],
    affinity: Sequence[SessionTotals],
    faircarbon: Sequence[SessionTotals],
    ccar: Sequence[Served] | None = None,
) -> dict[str, Any]:
    """One row of `results.json`, from the fleets that it covers.

    Args:
        scenario: Its name.
        policy: The policy's name.
        fleet: Number of the fleet, or "all" for the pooled row.
        accounts: The policy's accounts, one per fleet covered.
        affinity: session-affinity's accounts of the same fleets.
        faircarbon: faircarbon's accounts of the same fleets.
        ccar: What ccar gave the users of the same fleets, where it was run as a reference.
    """

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([account.ledger[name] for account in accounts])

    per_session = np.concatenate([account.session_co2_g() for account in accounts])
    session_turns = np.concatenate([account.session_turns for account in accounts])
    turns_of_row = np.concatenate([account.session_turns[account.session] for account in accounts])
    ttft_s, recompute_kwh = column("ttft_s"), column("recompute_kwh")
    blocks = _by_session([account.gate_blocks for account in accounts], accounts)
    proposals = _by_session([account.gate_proposals for account in accounts], accounts)
    saving, *saving_by_length = savings(
        [account.co2_g_by_group() for account in accounts],
        [account.co2_g_by_group() for account in faircarbon],
    )
    co2_g = float(per_session.sum())
    affinity_co2_g = float(np.concatenate([account.session_co2_g() for account in affinity]).sum())
    sessions = len(per_session)
    served = [account.served() for account in accounts]

    def longer_than(bound: int, interval: Interval | None) -> dict[str, Any]:
        rows, chosen = turns_of_row > bound, session_turns > bound
        count = int(chosen.sum())
        return {
            "sessions": count,
            "turns": int(rows.sum()),
            "co2_g": float(per_session[chosen].sum()),
            "saving_vs_faircarbon": interval,
            "recompute_mwh_per_turn": _mwh_per_turn(recompute_kwh[rows]),
            "ttft_p95_s": _quantile(ttft_s[rows], 0.95),
            "gate_blocks_per_session": _ratio(float(blocks[chosen].sum()), count),
        }

    return {
        "scenario": scenario,
        "policy": policy,
        "fleet": fleet,
        "sessions": sessions,
        "turns": len(ttft_s),
        "co2_g": co2_g,
        "co2_relative": _ratio(co2_g, affinity_co2_g),
        "saving_vs_faircarbon": saving,
        "energy_kwh": float(column("energy_kwh").sum()),
        "recompute_mwh_per_turn": _mwh_per_turn(recompute_kwh),
        "quality_predicted": _mean(column("quality_predicted")),
        "quality_realised": _mean(column("quality_realised")),
        "quality_by_category": quality_by_category(served),
        "session_quality_low_decile": session_quality_low_decile(served),
        "versus_ccar": None if ccar is None else versus_ccar(served, ccar),
        "quality_violation_rate": _mean(column("quality_violation")),
        "ttft_p50_s": _quantile(ttft_s, 0.50),
        "ttft_p95_s": _quantile(ttft_s, 0.95),
        "ttft_violation_rate": _mean(column("ttft_violation")),
        "capacity_violation_rate": _mean(column("capacity_violation")),
        "switches_per_session": _ratio(float(column("switched").sum()), sessions),
        "gate_proposals_per_session": _ratio(float(proposals.sum()), sessions),
        "gate_blocks_per_session": _ratio(float(blocks.sum()), sessions),
        "decision_us": _mean(np.array([account.decision_us for account in accounts])),
        "largest_sessions_co2_share": _ratio(
            float(np.sort(per_session)[::-1][:LARGEST_SESSIONS].sum()), co2_g
        ),
        "by_session_turns": {
            f">{bound}": longer_than(bound, interval)
            for bound, interval in zip(LONGER_THAN, saving_by_length, strict=True)
        },
    }


def _by_session(
    counts: Sequence[NDArray[np.int64] | None], accounts: Sequence[FleetAccount]
) -> NDArray[np.int64]:
    """Counts by session over all fleets; zeros where a policy has no gate."""
    return np.concatenate(
        [
            np.zeros(len(account.session_turns), dtype=np.int64) if count is None else count
            for count, account in zip(counts, accounts, strict=True)
        ]
    )


def _mwh_per_turn(recompute_kwh: NDArray[np.float64]) -> float | None:
    return _ratio(float(recompute_kwh.sum()) * KWH_TO_MWH, len(recompute_kwh))


def _ratio(value: float, by: float) -> float | None:
    return value / by if by else None


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None


def _quantile(values: NDArray[np.float64], share: float) -> float | None:
    return float(np.quantile(values, share)) if len(values) else None
