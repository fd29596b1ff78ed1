"""The guard's figures, against the plain loops that their definitions say."""

from __future__ import annotations

import io
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from test_rows import account

from carbon_gym.metrics.guard import Estimate, over_fleets, versus_ccar
from carbon_gym.metrics.intervals import paired_t
from carbon_gym.metrics.rows import FleetAccount, row
from carbon_gym.report.table import guard_table, markdown_guard
from carbon_gym.scenario.schema import CATEGORIES
from carbon_gym.simulator.arrays import OUTCOME

NONE = Estimate(mean=None, low=None, high=None, method=None)
BOTH = ("realised", "predicted")


def fleet(seed: int, policy: int, categories: int = 5, sessions: int = 23) -> FleetAccount:
    """A fleet with its sessions mixed; the seed says which turns, the policy how they go."""
    rng = np.random.default_rng(seed)
    turns = rng.integers(1, 6, sessions)
    session = rng.permutation(np.repeat(np.arange(sessions), turns))
    category = rng.integers(0, categories, sessions).astype(np.int8)[session]
    served = np.random.default_rng((seed, policy))
    ledger = np.zeros(len(session), dtype=OUTCOME)
    for name in ("co2_g", "ttft_s", "quality_predicted", "quality_realised"):
        ledger[name] = served.uniform(0.3, 0.9, len(session))
    return FleetAccount(ledger, session, turns, category)


def found_of(
    mine: Sequence[FleetAccount], ccar: Sequence[FleetAccount], name: int | str = "all"
) -> dict[str, Any]:
    found = row("s", "p", name, mine, ccar, ccar, [theirs.served() for theirs in ccar])
    json.dumps(found, allow_nan=False)
    return found


# --- plain definitions ------------------------------------------------------------------------


def session_means(served: FleetAccount, kind: str) -> dict[int, float]:
    got: dict[int, list[float]] = defaultdict(list)
    for session, outcome in zip(served.session, served.ledger, strict=True):
        got[int(session)].append(float(outcome[f"quality_{kind}"]))
    return {session: sum(values) / len(values) for session, values in got.items()}


def worst(means: dict[int, float]) -> list[int]:
    return sorted(means, key=lambda session: means[session])[: math.ceil(len(means) / 10)]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def category_mean(served: FleetAccount, name: str, kind: str = "realised") -> float | None:
    values = [
        float(outcome[f"quality_{kind}"])
        for category, outcome in zip(served.category, served.ledger, strict=True)
        if CATEGORIES[category] == name
    ]
    return mean(values) if values else None


# --- a row of its own -------------------------------------------------------------------------


def test_categories_and_the_lowest_tenth_of_a_row() -> None:
    both = [fleet(1, 0), fleet(2, 0)]
    found = row("s", "p", "all", both, both, both)
    assert found["versus_ccar"] is None
    joined = FleetAccount(
        np.concatenate([f.ledger for f in both]),
        np.concatenate([both[0].session, both[1].session + 23]),
        np.concatenate([f.session_turns for f in both]),
        np.concatenate([f.category for f in both]),
    )
    assert tuple(found["quality_by_category"]) == CATEGORIES
    for name, part in found["quality_by_category"].items():
        assert part["turns"] == sum(CATEGORIES[c] == name for c in joined.category)
        for kind in BOTH:
            assert part[f"quality_{kind}"] == pytest.approx(category_mean(joined, name, kind))
    means = session_means(joined, "realised")
    assert found["session_quality_low_decile"] == pytest.approx(
        mean([means[session] for session in worst(means)])
    )


def test_a_category_that_does_not_occur_keeps_its_keys() -> None:
    mine, ccar = [fleet(s, 1, categories=2) for s in range(5)], [fleet(s, 0, 2) for s in range(5)]
    found = found_of(mine, ccar)
    assert found["quality_by_category"]["information"] == {
        "turns": 0,
        "quality_predicted": None,
        "quality_realised": None,
    }
    by_category = found["versus_ccar"]["quality_realised_difference_by_category"]
    assert by_category["information"] == NONE
    assert by_category["coding"]["method"] == "paired-t-over-fleets"


def test_a_category_in_some_fleets_only_is_paired_over_those() -> None:
    mine = [fleet(s, 1, categories=2 if s else 5) for s in range(6)]
    ccar = [fleet(s, 0, categories=2 if s else 5) for s in range(6)]
    math_, creative = (
        found_of(mine, ccar)["versus_ccar"]["quality_realised_difference_by_category"][name]
        for name in ("math", "creative")
    )
    assert math_["method"] == "paired-t-over-fleets"
    ours, theirs = category_mean(mine[0], "creative"), category_mean(ccar[0], "creative")
    assert ours is not None
    assert theirs is not None
    assert creative["mean"] == pytest.approx(ours - theirs)
    assert creative["low"] is creative["high"] is creative["method"] is None


# --- beside ccar ------------------------------------------------------------------------------


@pytest.mark.parametrize("fleets", [1, 4, 5, 8])
def test_every_figure_beside_ccar(fleets: int) -> None:
    mine, ccar = [fleet(s, 1) for s in range(fleets)], [fleet(s, 0) for s in range(fleets)]
    found = found_of(mine, ccar)["versus_ccar"]
    pairs = list(zip(mine, ccar, strict=True))

    def check(estimate: dict[str, Any], differences: list[float]) -> None:
        assert estimate["mean"] == pytest.approx(mean(differences))
        if fleets >= 5:
            assert estimate == pytest.approx(dict(paired_t(differences)))
        else:
            assert estimate["low"] is estimate["high"] is estimate["method"] is None

    for kind in BOTH:
        key = f"quality_{kind}"
        check(
            found[f"{key}_difference"],
            [float(a.ledger[key].mean() - b.ledger[key].mean()) for a, b in pairs],
        )
        ratios = [
            mine_mean / session_means(b, kind)[session]
            for a, b in pairs
            for session, mine_mean in session_means(a, kind).items()
        ]
        ratio = found["session_quality_ratio"][kind]
        assert ratio["below_95_percent"] == pytest.approx(mean([r < 0.95 for r in ratios]))
        assert ratio["smallest"] == pytest.approx(min(ratios))
        assert ratio["p01"] == pytest.approx(np.quantile(ratios, 0.01))
        assert ratio["p10"] == pytest.approx(np.quantile(ratios, 0.10))
    check(
        found["ttft_p95_difference_s"],
        [
            float(np.quantile(a.ledger["ttft_s"], 0.95) - np.quantile(b.ledger["ttft_s"], 0.95))
            for a, b in pairs
        ],
    )
    for name in CATEGORIES:
        values = [(category_mean(a, name), category_mean(b, name)) for a, b in pairs]
        check(
            found["quality_realised_difference_by_category"][name],
            [a - b for a, b in values if a is not None and b is not None],
        )
    for key, chooser in (("of_ccar", 1), ("own", 0)):
        differences = []
        for pair in pairs:
            ours, theirs = (session_means(served, "realised") for served in pair)
            chosen = worst(session_means(pair[chooser], "realised"))
            differences.append(mean([ours[s] - theirs[s] for s in chosen]))
        check(found["low_decile_difference"][key], differences)
    savings = [1 - float(a.ledger["co2_g"].sum() / b.ledger["co2_g"].sum()) for a, b in pairs]
    if fleets >= 5:
        check(found["saving"], savings)
    else:  # as the saving over faircarbon: of the pooled totals, labelled
        total = sum(float(f.ledger["co2_g"].sum()) for f in mine)
        assert found["saving"]["mean"] == pytest.approx(
            1 - total / sum(float(f.ledger["co2_g"].sum()) for f in ccar)
        )
        assert found["saving"]["method"] == "bootstrap-over-sessions"


@pytest.mark.parametrize("fleets", [1, 6])
def test_ccar_beside_itself_differs_in_nothing(fleets: int) -> None:
    ccar = [fleet(s, 0) for s in range(fleets)]
    found = found_of(ccar, ccar)["versus_ccar"]
    by_category = found.pop("quality_realised_difference_by_category")
    ratios = found.pop("session_quality_ratio")
    estimates = [*by_category.values(), *found.pop("low_decile_difference").values()]
    for estimate in [*estimates, *found.values()]:
        assert estimate["mean"] == 0.0
        assert estimate["low"] in (0.0, None)
        assert estimate["high"] in (0.0, None)
    for ratio in ratios.values():
        assert ratio == {"below_95_percent": 0.0, "p01": 1.0, "p10": 1.0, "smallest": 1.0}


def test_a_session_kept_at_95_percent_is_not_below_it() -> None:
    ccar = account([3] * 50, quality_realised=np.linspace(0.21, 0.83, 150).tolist())
    kept = account([3] * 50, quality_realised=[0.95 * q for q in ccar.ledger["quality_realised"]])
    less = account([3] * 50, quality_realised=[0.949 * q for q in ccar.ledger["quality_realised"]])
    for mine, share in ((kept, 0.0), (less, 1.0)):
        ratio = found_of([mine], [ccar])["versus_ccar"]["session_quality_ratio"]["realised"]
        assert ratio["below_95_percent"] == share
    # All qualities are zero on the predicted side: there is no ratio, and no division.
    assert found_of([kept], [ccar])["versus_ccar"]["session_quality_ratio"]["predicted"] == {
        "below_95_percent": None,
        "p01": None,
        "p10": None,
        "smallest": None,
    }


def test_one_group_that_pays_is_seen_though_the_mean_is_kept() -> None:
    """Half of the sessions gain what the math half loses."""
    sessions, gain = [2] * 20, 0.1
    halves = [k % 2 for k in range(20)]  # coding, math
    ccar = account(sessions, categories=halves, quality_realised=[0.6] * 40)
    changed = [0.6 + (-gain if half else gain) for half in halves for _ in range(2)]
    found = found_of(
        [account(sessions, categories=halves, quality_realised=changed)] * 5, [ccar] * 5
    )["versus_ccar"]
    assert found["quality_realised_difference"]["mean"] == pytest.approx(0.0)
    by_category = found["quality_realised_difference_by_category"]
    assert by_category["math"]["high"] == pytest.approx(-gain)
    assert by_category["coding"]["low"] == pytest.approx(gain)
    assert found["session_quality_ratio"]["realised"]["below_95_percent"] == 0.5
    assert found["low_decile_difference"]["own"]["mean"] == pytest.approx(-gain)


def test_fleets_without_sessions_change_nothing() -> None:
    empty = account([])
    mine, ccar = [fleet(s, 1) for s in range(5)], [fleet(s, 0) for s in range(5)]
    without, with_it = found_of(mine, ccar), found_of([*mine, empty], [*ccar, empty])
    for key in ("versus_ccar", "quality_by_category", "session_quality_low_decile"):
        assert with_it[key] == without[key]
    alone = found_of([empty], [empty], 0)
    assert alone["session_quality_low_decile"] is None
    found = alone["versus_ccar"]
    assert found["saving"] == found["quality_realised_difference"] == NONE
    assert found["ttft_p95_difference_s"] == found["low_decile_difference"]["own"] == NONE
    assert found.keys() == without["versus_ccar"].keys()


def test_a_lone_session_has_a_saving_but_no_interval() -> None:
    mine, ccar = account([2], co2_g=[1.0, 2.0]), account([2], co2_g=[2.0, 4.0])
    saving = found_of([mine], [ccar], 0)["versus_ccar"]["saving"]
    assert saving == Estimate(mean=0.5, low=None, high=None, method=None)


@given(st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.01, 1.0)), min_size=1, max_size=45))
def test_the_two_lowest_tenths_enclose_the_difference_of_the_policies_own(
    qualities: list[tuple[float, float]],
) -> None:
    ours, theirs = (
        account([1] * len(qualities), quality_realised=column)
        for column in zip(*qualities, strict=True)
    )
    found = versus_ccar([ours.served()], [theirs.served()])["low_decile_difference"]
    own, reference = (
        row("s", "p", 0, [a], [a], [a])["session_quality_low_decile"] for a in (ours, theirs)
    )
    assert found["own"]["mean"] - 1e-12 <= own - reference <= found["of_ccar"]["mean"] + 1e-12


def test_nothing_to_average_is_none() -> None:
    assert over_fleets([]) == NONE


# --- the table --------------------------------------------------------------------------------


def rendered(rows: list[dict[str, Any]], width: int) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    table = guard_table(rows, width)
    assert table is not None
    console.print(table)
    return console.export_text()


@pytest.mark.parametrize("fleets", [2, 6])
def test_the_table_fits_80_columns_and_names_who_pays(fleets: int) -> None:
    sessions, categories = [4] * 30, [4] + [0] * 29
    ccar = account(sessions, categories=categories, quality_realised=[0.6] * 120, co2_g=[1] * 120)
    mine = account(
        sessions,
        categories=categories,
        quality_realised=[0.1] * 4 + [0.62] * 116,
        co2_g=[0.5] * 120,
        ttft_s=[12.0] * 120,
    )
    accounts = [mine] * fleets
    pooled = row(
        "s", "ccar-budget-sessions", "all", accounts, accounts, accounts, [ccar.served()] * fleets
    )
    text = rendered([{**pooled, "fleet": 0}, pooled], 80)
    assert "…" not in text
    assert text.count("ccar-budget-sessions") == 1
    (line,) = [line for line in text.splitlines() if line.startswith("ccar-budget-sessions")]
    assert line.split()[-2:] == ["-500.0", "inform"]
    assert ("±" in line) == (fleets >= 5)
    assert "-500.0 information" in rendered([pooled], 120)
    assert "-500.0 information" in "\n".join(markdown_guard([pooled]))


def test_there_is_no_table_without_anything_to_compare() -> None:
    ccar = fleet(0, 0)
    itself = {**found_of([ccar], [ccar]), "policy": "ccar"}
    filtered = row("s", "p", "all", [ccar], [ccar], [ccar])
    older = {key: value for key, value in filtered.items() if key != "versus_ccar"}
    for rows in ([], [itself], [filtered], [older]):
        assert guard_table(rows, 80) is None


def test_a_table_of_nothing_served_has_dashes() -> None:
    empty = account([])
    text = rendered([found_of([empty], [empty])], 120)
    (line,) = [line for line in text.splitlines() if line.startswith("p ")]
    assert line.split() == ["p", "–", "–", "–", "–/–", "–", "–", "–", "–", "–"]
