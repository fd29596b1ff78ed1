"""Rows of results from hand-made ledgers: every key, its unit and its value."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from carbon_gym.metrics.rows import FleetAccount, row
from carbon_gym.report.table import comparison_table
from carbon_gym.simulator.arrays import OUTCOME

KEYS = {
    "scenario",
    "policy",
    "fleet",
    "sessions",
    "turns",
    "co2_g",
    "co2_relative",
    "saving_vs_faircarbon",
    "energy_kwh",
    "recompute_mwh_per_turn",
    "quality_predicted",
    "quality_realised",
    "quality_by_category",
    "session_quality_low_decile",
    "versus_ccar",
    "quality_violation_rate",
    "ttft_p50_s",
    "ttft_p95_s",
    "ttft_violation_rate",
    "capacity_violation_rate",
    "switches_per_session",
    "gate_proposals_per_session",
    "gate_blocks_per_session",
    "decision_us",
    "by_session_turns",
}
"""Of the issue; further ones may be there."""
LONG_KEYS = {"co2_g", "saving_vs_faircarbon", "recompute_mwh_per_turn", "ttft_p95_s"}


def account(
    session_turns: Sequence[int],
    decision_us: float = 0.0,
    categories: Sequence[int] | None = None,
    **columns: Sequence[Any],
) -> FleetAccount:
    """Sessions one after the other; columns of the ledger that are not given are zero.

    `categories` has one index per session; None: all coding.
    """
    turns = np.array(session_turns, dtype=np.int64)
    ledger = np.zeros(int(turns.sum()), dtype=OUTCOME)
    for name, values in columns.items():
        ledger[name] = values
    category = np.repeat(np.array(categories or [0] * len(turns), dtype=np.int8), turns)
    session = np.repeat(np.arange(len(turns)), turns)
    return FleetAccount(ledger, session, turns, category, decision_us)


def alone(mine: FleetAccount, other: FleetAccount | None = None) -> dict[str, Any]:
    """The row of one fleet, with `other` as both references."""
    reference = [other or mine]
    return row("s", "p", 0, [mine], reference, reference)


TWO = account(
    [1, 3],
    decision_us=2.0,
    energy_kwh=[1e-3, 2e-3, 3e-3, 4e-3],
    co2_g=[1.0, 2.0, 3.0, 4.0],
    ttft_s=[0.1, 0.2, 0.3, 2.4],
    recompute_kwh=[0.0, 1e-6, 2e-6, 5e-6],
    quality_predicted=[0.8, 0.6, 0.7, 0.7],
    quality_realised=[0.9, 0.5, 0.6, 0.6],
    quality_violation=[True, False, False, False],
    ttft_violation=[False, False, False, True],
    capacity_violation=[True, True, False, False],
    switched=[False, True, False, True],
)


def test_one_fleet_by_hand() -> None:
    found = row("sharegpt", "ccar", 7, [TWO], [TWO], [TWO])
    assert found.keys() >= KEYS
    assert (found["scenario"], found["policy"], found["fleet"]) == ("sharegpt", "ccar", 7)
    assert (found["sessions"], found["turns"]) == (2, 4)
    assert found["co2_g"] == 10.0
    assert found["co2_relative"] == 1.0
    assert found["energy_kwh"] == pytest.approx(0.01)
    # 8e-6 kWh = 8e-3 Wh = 8 mWh over four turns.
    assert found["recompute_mwh_per_turn"] == pytest.approx(2.0)
    assert found["quality_predicted"] == pytest.approx(0.7)
    assert found["quality_realised"] == pytest.approx(0.65)
    assert found["quality_violation_rate"] == 0.25
    assert found["ttft_p50_s"] == pytest.approx(0.25)
    assert found["ttft_p95_s"] == pytest.approx(np.quantile([0.1, 0.2, 0.3, 2.4], 0.95))
    assert found["ttft_violation_rate"] == 0.25
    assert found["capacity_violation_rate"] == 0.5
    assert found["switches_per_session"] == 1.0
    assert found["gate_proposals_per_session"] == 0.0
    assert found["gate_blocks_per_session"] == 0.0
    assert found["decision_us"] == 2.0
    assert found["largest_sessions_co2_share"] == 1.0


def test_the_published_recomputation_comes_out_in_its_unit() -> None:
    """The paper's 205 mWh per query: 205e-6 kWh each."""
    found = alone(account([4], recompute_kwh=[205e-6] * 4, co2_g=[1.0] * 4))
    assert found["recompute_mwh_per_turn"] == pytest.approx(205.0)


def test_relative_co2_and_saving_have_their_own_references() -> None:
    mine = account([2, 2], co2_g=[1.0, 2.0, 3.0, 3.0])
    affinity = account([2, 2], co2_g=[3.0, 3.0, 6.0, 6.0])
    faircarbon = account([2, 2], co2_g=[2.0, 2.0, 4.0, 4.0])
    found = row("s", "p", 0, [mine], [affinity], [faircarbon])
    assert found["co2_relative"] == 0.5
    saving = found["saving_vs_faircarbon"]
    assert set(saving) >= {"mean", "low", "high"}
    assert saving["mean"] == pytest.approx(0.25)
    assert saving["low"] <= saving["mean"] <= saving["high"]


def test_the_pooled_row_adds_turns_and_not_means() -> None:
    small = account([1], co2_g=[1.0], ttft_s=[1.0], quality_predicted=[0.4], decision_us=1.0)
    large = account(
        [3], co2_g=[3.0] * 3, ttft_s=[2.0] * 3, quality_predicted=[0.8] * 3, decision_us=3.0
    )
    both = [small, large]
    pooled = row("s", "p", "all", both, both, both)
    assert pooled["fleet"] == "all"
    assert (pooled["sessions"], pooled["turns"]) == (2, 4)
    assert pooled["co2_g"] == alone(small)["co2_g"] + alone(large)["co2_g"] == 10.0
    assert pooled["quality_predicted"] == pytest.approx(0.7)
    assert pooled["ttft_p50_s"] == 2.0
    assert pooled["decision_us"] == 2.0


def test_pooled_savings_of_five_fleets_are_paired_over_fleets() -> None:
    theirs = [account([2], co2_g=[1.0 + f, 1.0]) for f in range(5)]
    ours = [account([2], co2_g=[0.9 * (1.0 + f), 0.8]) for f in range(5)]
    pooled = row("s", "p", "all", ours, theirs, theirs)
    single = row("s", "p", 0, ours[:1], theirs[:1], theirs[:1])
    per_fleet = [1 - (0.9 * (1 + f) + 0.8) / (2 + f) for f in range(5)]
    assert pooled["saving_vs_faircarbon"]["method"] == "paired-t-over-fleets"
    assert pooled["saving_vs_faircarbon"]["mean"] == pytest.approx(np.mean(per_fleet))
    assert single["saving_vs_faircarbon"] is None  # one fleet, one session: no interval


def test_long_sessions_are_counted_apart() -> None:
    lengths = [5, 6, 11, 21, 31]
    turns = sum(lengths)
    ttft = np.repeat([0.1, 0.2, 0.3, 0.4, 0.5], lengths)
    theirs = account(lengths, co2_g=[2.0] * turns, ttft_s=ttft)
    mine = account(lengths, co2_g=[1.0] * turns, ttft_s=ttft, recompute_kwh=[3e-6] * turns)
    by_length = alone(mine, theirs)["by_session_turns"]
    assert list(by_length) == [">5", ">10", ">20", ">30"]
    for name, sessions, covered, least_ttft_s in (
        (">5", 4, 69, 0.2),
        (">10", 3, 63, 0.3),
        (">20", 2, 52, 0.4),
        (">30", 1, 31, 0.5),
    ):
        found = by_length[name]
        assert found.keys() >= LONG_KEYS
        assert (found["sessions"], found["turns"], found["co2_g"]) == (sessions, covered, covered)
        assert found["recompute_mwh_per_turn"] == pytest.approx(3.0)
        assert least_ttft_s <= found["ttft_p95_s"] <= 0.5
    assert by_length[">5"]["saving_vs_faircarbon"]["mean"] == pytest.approx(0.5)
    assert by_length[">30"]["saving_vs_faircarbon"] is None


def test_the_largest_sessions_are_ten_of_all_fleets() -> None:
    whale = account([1] * 12, co2_g=[100.0] + [1.0] * 11)
    shoal = account([1] * 20, co2_g=[1.0] * 20)
    both = [whale, shoal]
    found = row("s", "p", "all", both, both, both)
    assert found["largest_sessions_co2_share"] == pytest.approx((100 + 9) / (111 + 20))
    assert alone(shoal)["largest_sessions_co2_share"] == pytest.approx(0.5)


def test_sessions_of_a_ledger_in_the_order_of_events() -> None:
    """Rows stand by arrival, so that sessions are mixed: each row counts for its own session."""
    ledger = np.zeros(4, dtype=OUTCOME)
    ledger["co2_g"] = [1.0, 10.0, 2.0, 20.0]
    mixed = FleetAccount(ledger, np.array([0, 1, 0, 1]), np.array([2, 2]), np.zeros(4, np.int8))
    assert mixed.session_co2_g().tolist() == [3.0, 30.0]


@pytest.mark.parametrize("sessions", [[], [1, 2]])
def test_nothing_served_or_nothing_emitted_gives_none_and_never_nan(sessions: list[int]) -> None:
    empty = account(sessions)
    for found in (alone(empty), row("s", "p", "all", [empty] * 6, [empty] * 6, [empty] * 6)):
        json.dumps(found, allow_nan=False)
        assert found["co2_g"] == 0.0
        assert found["co2_relative"] is None
        assert found["saving_vs_faircarbon"] is None
        assert found["largest_sessions_co2_share"] is None
        if not sessions:
            for key in ("quality_predicted", "ttft_p95_s", "switches_per_session"):
                assert found[key] is None
            assert found["by_session_turns"][">5"]["recompute_mwh_per_turn"] is None


def test_a_fleet_without_turns_among_others_changes_nothing() -> None:
    empty = account([])
    with_it = row("s", "p", "all", [TWO, empty], [TWO, empty], [TWO, empty])
    without = row("s", "p", "all", [TWO], [TWO], [TWO])
    with_it["decision_us"] = without["decision_us"] = 0.0
    assert with_it == without
    json.dumps(with_it, allow_nan=False)


def test_a_table_can_be_made_of_rows_without_numbers() -> None:
    empty = account([])
    rows = [row("s", "p", fleet, [empty], [empty], [empty]) for fleet in (0, "all")]
    for width in (80, 120):
        table = comparison_table("title", rows, width)
        assert table.row_count == 1
        cells = [next(iter(column.cells)) for column in table.columns]
        assert cells[0] == "p"
        assert "–" in cells
