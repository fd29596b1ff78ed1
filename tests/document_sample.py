"""A report of made-up numbers, as large and as varied as real ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from carbon_gym.report.document import Column, Document, Measured, Picture, Section, Table
from carbon_gym.report.style import colour, new_figure, plain

POLICIES = (
    "session-affinity",
    "faircarbon",
    "gar-eps",
    "gar-pd",
    "cedar",
    "cache-aware",
    "largest-model",
    "ccar-no-pricing",
    "ccar-no-gate",
    "ccar",
    "ccar-ev",
    "ccar-budget",
    "clairvoyant",
    "lower-bound",
)
REGIONS = ("US-CAL-CISO", "US-TEX-ERCO", "GB", "DE")


def sample() -> Document:
    """The report; made anew at each call, figures included."""
    return Document(
        "Context is not free, reproduced",
        [
            "What a router saves that prices the KV cache, against routers that do not: **12.1 %** "
            "of CO2 on 16 made-up fleets, at no loss of quality. The paper has 16.1 %; why ours is "
            "smaller stands under [Honest differences](#differences).",
            savings(),
        ],
        [
            Section("policies", "Table 1: all policies", [_POLICIES_TEXT, policies(), curves()]),
            Section("grid", "Grid: how clean, when and where", [grid(), week()]),
            Section(
                "sensitivity", "Tables 3 and 4: what the saving hangs on", [settings(), map_()]
            ),
            Section("differences", "Honest differences", [_DIFFERENCES, reasons()]),
        ],
        {
            "Command": "carbon-gym reproduce --quick --jobs 2",
            "Version": "carbon-gym 0.1.0, numpy 2.4.1, Python 3.11.7",
            "Conversations": "generated, ShareGPT's statistics; 16 fleets of 3,000 sessions",
            "Seeds": "0 to 15, the test split",
        },
    )


_POLICIES_TEXT = """Every policy serves the same fleets. Intervals are 95 % paired *t* intervals
over fleets. Three things to see:

- pricing the cache is worth 8.9 %;
- the gate adds nothing when caches are retained (`on_leave: retain`);
- the rest of the way to `lower-bound` is quality, not carbon: see
  [the paper](https://arxiv.org/abs/2610.35230)."""
_DIFFERENCES = """The paper's gate gains 3.5 %; ours gains nothing by default. With caches evicted
and a time to live of 30 minutes it gains 0.98 % [0.71, 1.24]."""


def _draws(name: str) -> np.random.Generator:
    return np.random.default_rng(list(name.encode()))


def _around(draws: np.random.Generator, value: float, half: float) -> Measured:
    value += float(draws.normal(0, half))
    return Measured(value, value - half, value + half * float(draws.uniform(0.8, 1.2)))


def policies() -> Table:
    """Many columns, intervals with and without sign, nothing to say here and there."""
    rows: list[list[Any]] = []
    for place, name in enumerate(POLICIES):
        draws = _draws(name)
        saving = None if name == "faircarbon" else _around(draws, 3.0 * place - 12, 0.9)
        rows.append(
            [
                name,
                int(3300 - 130 * place + draws.integers(40)),
                float(1.1 - 0.045 * place),
                saving,
                _around(draws, 0.684, 0.002),
                _around(draws, -0.002 + 0.0007 * place, 0.001),
                float(abs(draws.normal(0.5, 0.2))),
                Measured(float(draws.uniform(4, 240))) if place < 12 else None,
            ]
        )
    return Table(
        "policies",
        "CO2, quality and latency of every policy",
        [
            Column("policy", kind="text"),
            Column("CO2", "g", 0),
            Column("relative", digits=3),
            Column("saved over faircarbon", "%", 1),
            Column("quality, predicted", digits=3),
            Column("quality minus faircarbon's", "", 4, signed=True),
            Column("P95 TTFT", "s"),
            Column("recomputed", "mWh/turn", 1),
        ],
        rows,
        "Relative: session-affinity emits 1. *Quality* is the mean of `q` over turns; "
        "recomputed energy counts turns after the first.",
        frozenset({9}),
    )


def savings() -> Table:
    """A few rows with their published values."""
    return Table(
        "savings",
        "The paper's headline beside ours",
        [
            Column("item", kind="text"),
            Column("published", "%", kind="number"),
            Column("sharegpt", "%", 1),
            Column("sharegpt-evict", "%", 1),
        ],
        [
            ["all sessions", "16.1", Measured(12.1, 11.5, 12.8), Measured(25.3, 24.4, 26.1)],
            ["sessions > 5 turns", "15.3", Measured(12.6, 11.8, 13.3), Measured(26.0, 25.1, 26.9)],
            ["sessions > 30 turns", "23.1", Measured(16.8, 9.1, 24.6), Measured(31.2, 27.7, 34.8)],
            ["the gate alone", "3.5", Measured(0.0, 0.0, 0.0), Measured(0.63, 0.33, 0.92)],
        ],
        "Savings of CO2 over `faircarbon`.",
        frozenset({0}),
    )


def grid() -> Table:
    """Zones by annual mean."""
    draws = _draws("grid")
    zones = [
        *REGIONS,
        "FR",
        "SE",
        "NO-NO1",
        "PL",
        "IN-NO",
        "ZA",
        "AU-NSW",
        "JP-TK",
        "BR-S",
        "CA-QC",
    ]
    rows = [
        [zone, float(draws.uniform(25, 700)), float(draws.uniform(1.4, 6)), int(draws.integers(60))]
        for zone in zones
    ]
    return Table(
        "zones",
        "Carbon intensity of zones",
        [
            Column("zone", kind="text"),
            Column("annual mean", "gCO2eq/kWh", 0),
            Column("highest over lowest", "×", 1),
            Column("cleanest of all", "% of hours", 1),
        ],
        rows,
    )


def settings() -> Table:
    """More rows than a screen."""
    draws = _draws("settings")
    rows = [
        [rule, scope, beta, share, _around(draws, 12 - 20 * (beta - 0.85), 0.8)]
        for rule in ("sessions", "turns")
        for scope in ("pool", "region")
        for beta in (0.80, 0.85, 0.90, 0.95)
        for share in (0.25, 0.5, 0.75)
    ]
    return Table(
        "settings",
        "Saving over faircarbon in every setting",
        [
            Column("capacity rule", kind="text"),
            Column("scope", kind="text"),
            Column("β_Q"),
            Column("capacity c"),
            Column("saved", "%", 1),
        ],
        rows,
        "c is the share of the fleet's sessions, or turns, that a pool takes.",
    )


def reasons() -> Table:
    """Long texts."""
    return Table(
        "reasons",
        "Where ours departs, and what explains it",
        [
            Column("item", kind="text"),
            Column("difference", "points", 1, signed=True),
            Column("explained by", kind="text"),
        ],
        [
            [
                "saving, all sessions",
                Measured(-4.0, -4.6, -3.3),
                "Caches are retained when a session leaves; with eviction the saving is 25.3 %, "
                "above the published one, and the paper does not say which of the two it assumes.",
            ],
            [
                "gate, all sessions",
                Measured(-3.5, -3.5, -3.5),
                "A hysteresis pays only where moving away destroys something.",
            ],
        ],
    )


def curves() -> Picture:
    """Lines with intervals in the policies' colours."""
    figure = new_figure(7.5, 4.2)
    axes = figure.subplots()
    lengths = ["all", ">5", ">10", ">20", ">30"]
    for place, name in enumerate(("ccar-no-pricing", "ccar", "ccar-budget", "clairvoyant")):
        y = np.linspace(4 + 7 * place, 9 + 9 * place, len(lengths))
        error = np.linspace(0.6, 3.0, len(lengths))
        axes.errorbar(
            lengths,
            y,
            yerr=error,
            marker="o",
            markersize=4,
            capsize=2,
            color=colour(name),
            label=name,
        )
    axes.set(xlabel="turns of the session", ylabel="CO2 saved over faircarbon, %")
    axes.legend(frameon=False, fontsize=9)
    plain(axes)
    return Picture(
        "saving-by-length",
        "Fig. 4: longer sessions save more",
        figure,
        "Lines of the saving by session length; all rise, ccar from 11 to 18 %.",
        "Bars are 95 % intervals; `ccar-budget` has the same *mean* quality.",
    )


def week() -> Picture:
    """Steps over a week, one line a region, and areas."""
    figure = new_figure(9.0, 3.4)
    left, right = figure.subplots(1, 2, width_ratios=[3, 1])
    hours = np.arange(168)
    for place, region in enumerate(REGIONS):
        level = 180 + 90 * place + 80 * np.cos(hours * 2 * np.pi / 24 + place)
        left.step(hours / 24, level, where="post", linewidth=1.2, label=region)
        right.fill_between(range(24), level[:24] - 30, level[:24] + 30, alpha=0.25, linewidth=0)
        right.plot(range(24), level[:24], linewidth=1.2)
    left.set(xlabel="day of the week of 8 May 2023", ylabel="gCO2eq/kWh")
    right.set(xlabel="hour, UTC")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    plain(left)
    plain(right)
    return Picture(
        "week",
        "A week of carbon intensity, and the mean day",
        figure,
        "Four regions swing daily, each around a level of its own.",
    )


def map_() -> Picture:
    """Cells whose colour is their value, with the value on them."""
    figure = new_figure(6.0, 3.4)
    axes = figure.subplots()
    betas: Sequence[str] = ("0.80", "0.85", "0.90", "0.95")
    shares: Sequence[str] = ("0.25", "0.5", "0.75", "none")
    values = 9 + 1.3 * np.arange(4)[:, None] + 0.7 * np.arange(4)[None, :]
    cells = axes.pcolormesh(values, cmap="Greens", vmin=5, vmax=16)
    for y in range(4):
        for x in range(4):
            axes.text(x + 0.5, y + 0.5, f"{values[y, x]:.1f}", ha="center", va="center", fontsize=9)
    axes.set_xticks(np.arange(4) + 0.5, shares)
    axes.set_yticks(np.arange(4) + 0.5, betas)
    axes.set(xlabel="capacity c", ylabel="β_Q")
    figure.colorbar(cells, ax=axes, label="CO2 saved, %")
    return Picture("map", "Saving by quality bound and capacity", figure, "Grows with both.")
