"""Policies against each other, paired by fleet."""

from __future__ import annotations

from typing import Any

import pytest

from carbon_gym.metrics.intervals import paired_t
from carbon_gym.metrics.versus import versus
from carbon_gym.report.tables import to_markdown


def rows(**totals: list[float]) -> list[dict[str, Any]]:
    return [
        {"policy": name.replace("_", "-"), "fleet": fleet, "co2_g": co2_g}
        for name, values in totals.items()
        for fleet, co2_g in [*enumerate(values), ("all", sum(values))]
    ]


def test_savings_are_paired_by_fleet() -> None:
    found = versus(rows(a=[1.0, 2.0, 3.0, 4.0, 5.0], b=[2.0, 4.0, 6.0, 8.0, 10.0]))
    assert found["a"]["b"] == pytest.approx(
        {"mean": 0.5, "low": 0.5, "high": 0.5, "method": "paired-t-over-fleets"}
    )
    assert found["b"]["a"]["mean"] == pytest.approx(-1.0)
    noisy = versus(rows(a=[1.0, 2.0, 3.0, 4.0, 6.0], b=[2.0, 4.0, 6.0, 8.0, 10.0]))
    assert noisy["a"]["b"] == paired_t([0.5, 0.5, 0.5, 0.5, 0.4])


@pytest.mark.parametrize(
    "given",
    [
        [],
        rows(a=[1.0] * 4, b=[2.0] * 4),  # too few fleets
        rows(a=[1.0] * 5, b=[2.0] * 4 + [0.0]),  # one that emits nothing
    ],
)
def test_nothing_is_said_where_nothing_can_be(given: list[dict[str, Any]]) -> None:
    assert versus(given) == {}


def test_the_page_sets_ccar_against_the_others() -> None:
    found = versus(rows(ccar=[1.0] * 5, faircarbon=[2.0] * 5))
    assert "| faircarbon | 50.00 [50.00, 50.00] |" in to_markdown([], {}) + _page(found)


def _page(found: Any) -> str:
    pooled = {
        "scenario": "s",
        "policy": "ccar",
        "fleet": "all",
        "co2_g": 5.0,
        "co2_relative": 1.0,
        "saving_vs_faircarbon": None,
        "quality_predicted": 0.7,
        "ttft_p95_s": 0.1,
        "quality_violation_rate": 0.0,
        "ttft_violation_rate": 0.0,
        "capacity_violation_rate": 0.0,
        "recompute_mwh_per_turn": 1.0,
        "switches_per_session": 1.0,
        "gate_proposals_per_session": 0.0,
        "gate_blocks_per_session": 0.0,
        "decision_us": 1.0,
    }
    return to_markdown([pooled], {"s": found})
