"""Why the gate gains less here than in the paper: an experiment with its eagerness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from carbon_gym.report.document import Block, Cell, Column, Measured, Picture, Section, Table
from carbon_gym.report.document_cells import shown
from carbon_gym.report.style import new_figure, plain
from carbon_gym.reproduce.figures import added, of_all
from carbon_gym.reproduce.plan import Found, Plan, World
from carbon_gym.reproduce.published import BLOCKS, NO_GATE_CO2, NO_GATE_TTFT
from carbon_gym.reproduce.worlds import CACHES, ON_LEAVE, Changes, changed_world

READINGS: dict[str, Changes] = {
    "as it is": {},
    "difficulty drawn anew at every turn": {"quality": {"session_sd": 0.0, "turn_sd": 0.72}},
    "the same, twice as wide": {"quality": {"session_sd": 0.0, "turn_sd": 1.44}},
    "caches live 5 minutes": {"cache": {"ttl_s": 300.0}},
    "capacity by turns and region": {"capacity": {"rule": "turns", "scope": "region"}},
}
"""What the summary leaves open and what may make sessions move, and move back, more often. The
first of difficulty has the variance of session and turn effect together (0.6² + 0.4²). ASSUMED."""
THRESHOLDS: tuple[float | None, ...] = (None, 0.3, 0.2, 0.1, 0.0)
"""Probabilities of moving back at which the gate stays; None: as tuned (ASSUMED)."""
GATED, FREE = "ccar", "ccar-no-gate"
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")


class GatePart:
    """CO2 and P95 TTFT without the gate, beside gates that stay more and more often."""

    name = "gate"
    title = "Why the gate gains less here than in the paper"

    def worlds(self, plan: Plan) -> Sequence[World]:
        """Each reading, caches retained and evicted, with each threshold."""
        return [
            _world(plan, reading, leave, threshold)
            for reading, leave, threshold in product(_readings(plan), ON_LEAVE, THRESHOLDS)
        ]

    def section(self, plan: Plan, found: Found) -> Section:
        """A table, a picture, and what follows."""
        rows = _rows(plan, found)
        blocks: list[Block] = [_text(), _table(plan, rows), _picture(rows), _finding(rows)]
        return Section(self.name, self.title, blocks)


@dataclass(frozen=True, slots=True)
class _Row:
    """One gate in one reading.

    Attributes:
        reading: Key of `READINGS`.
        leave: Of `ON_LEAVE`.
        threshold: Of `THRESHOLDS`.
        blocks: Switches that it blocks, per session.
        co2: What leaving the gate out adds, %.
        ttft: The same of P95 TTFT.
    """

    reading: str
    leave: str
    threshold: float | None
    blocks: float
    co2: Measured
    ttft: Measured

    @property
    def stays(self) -> str:
        """From which probability of moving back, in words."""
        return "tuned" if self.threshold is None else f"{self.threshold:g}"


def _readings(plan: Plan) -> list[str]:
    return list(READINGS)[:2] if plan.quick else list(READINGS)


def _world(plan: Plan, reading: str, leave: str, threshold: float | None) -> World:
    policies = (GATED, FREE) if threshold is None else (GATED,)
    world = changed_world(
        plan.datasets[0], leave, policies, plan.sensitivity_fleets, READINGS[reading]
    )
    return World(world.scenario, world.changes, world.policies, world.fleets, threshold)


def _rows(plan: Plan, found: Found) -> list[_Row]:
    """One for each setting; without those where nothing is emitted or served."""
    rows = []
    for reading, leave, threshold in product(_readings(plan), ON_LEAVE, THRESHOLDS):
        gated = found.rows(_world(plan, reading, leave, threshold), GATED)
        free = found.rows(_world(plan, reading, leave, None), FREE)
        blocks = of_all(gated, "gate_blocks_per_session")
        co2, ttft = added(free, gated), added(free, gated, "ttft_p95_s")
        if blocks is not None and co2 is not None and ttft is not None:
            rows.append(_Row(reading, leave, threshold, blocks, co2, ttft))
    return rows


def _text() -> str:
    return (
        f"The paper's gate is worth {NO_GATE_CO2.text} of CO2 and {NO_GATE_TTFT.text} of P95 "
        f"TTFT and blocks {BLOCKS.value:g} switches a session. Ours is fitted on training fleets "
        "and tuned on validation. Is it too timid, or is there nothing to gain? Here the same "
        "gate stays at lower and lower probabilities of moving back, down to 0, where it stays "
        "whenever it is asked; under other readings of what makes sessions move. What the gate "
        "gains when it is fitted anew for each reading is in docs/semantics.md."
    )


def _table(plan: Plan, rows: Sequence[_Row]) -> Table:
    cells: list[list[Cell]] = [
        [row.reading, CACHES[row.leave], row.stays, row.blocks, row.co2, row.ttft] for row in rows
    ]
    paper: list[Cell] = ["paper", "", "", BLOCKS.value, NO_GATE_CO2.value, NO_GATE_TTFT.value]
    return Table(
        "gate",
        "What leaving out the gate adds, by how readily it stays",
        [
            Column("reading", kind="text"),
            Column("caches", kind="text"),
            Column("stays from", kind="text"),
            Column("blocked", "a session", digits=2),
            Column("CO2 added without it", "%", digits=2, signed=True),
            Column("P95 TTFT added without it", "%", digits=1, signed=True),
        ],
        [*cells, paper],
        f"Data set {plan.labels[0]}. Positive: the gate helps. *stays from*: the probability of "
        "moving back from which it stays. Its coefficients are those of the packaged scenario.",
        frozenset({len(cells)}),
    )


def _picture(rows: Sequence[_Row]) -> Picture:
    figure = new_figure(8.0, 4.8)
    panels = figure.subplots(1, 2)
    readings = list(dict.fromkeys(row.reading for row in rows))
    sides = (
        ("co2", NO_GATE_CO2, "CO2 added without the gate, %"),
        ("ttft", NO_GATE_TTFT, "P95 TTFT added without it, %"),
    )
    for axes, (key, published, label) in zip(panels, sides, strict=True):
        for reading, tone in zip(readings, _COLOURS, strict=False):
            for leave, style in zip(ON_LEAVE, ("-", "--"), strict=True):
                line = sorted(
                    (row.blocks, getattr(row, key).value)
                    for row in rows
                    if (row.reading, row.leave) == (reading, leave)
                )
                axes.plot(
                    *([point[at] for point in line] for at in (0, 1)),
                    linestyle=style,
                    marker="o",
                    markersize=3,
                    color=tone,
                    label=f"{reading}, {CACHES[leave]}",
                )
        axes.plot([BLOCKS.value], [published.value], "kD", markersize=5, label="paper")
        axes.axhline(0, color="0.3", linewidth=0.8)
        axes.set(xlabel="switches blocked, a session", ylabel=label)
        plain(axes)
    handles, labels = panels[1].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=2,
        fontsize=7,
        frameon=False,
        handlelength=3.5,
    )
    return Picture(
        "gate",
        "The gate's worth against how often it blocks",
        figure,
        "Lines of CO2 and latency added without the gate against switches blocked a session, with "
        "the published point.",
        "Each line joins the thresholds, by what they block. Solid: retained; dashed: evicted. "
        "Diamond: paper.",
    )


def _finding(rows: Sequence[_Row]) -> str:
    """What the best gate gains, and the ones nearest to the paper's blocks and latency."""
    if not rows:
        return "Nothing was served."
    best = max(rows, key=lambda row: row.co2.value)
    often = min(rows, key=lambda row: abs(row.blocks - BLOCKS.value))
    slow = min(rows, key=lambda row: abs(row.ttft.value - NO_GATE_TTFT.value))
    lines = [
        f"- The gate that is worth most CO2: {_said(best)}.",
        f"- The one that blocks most nearly as often as the paper's: {_said(often)}.",
        f"- The one whose P95 TTFT is nearest to the paper's: {_said(slow)}.",
    ]
    if best.co2.value < NO_GATE_CO2.value:
        lines += [
            "",
            "No gate here is worth the published CO2: CCAR's price already holds the cost of "
            "moving there, so that a gate that stays readily also blocks moves that pay. What "
            "staying readily buys, where it buys anything, is latency. How many moves are reversed "
            "at the next turn: docs/semantics.md.",
        ]
    return "\n".join(lines)


def _said(row: _Row) -> str:
    co2, ttft = (
        shown(cell, Column("", digits=digits, signed=True))
        for cell, digits in ((row.co2, 1), (row.ttft, 0))
    )
    return (
        f"leaving it out adds {co2} % of CO2 and {ttft} % of P95 TTFT, it blocks {row.blocks:.2f} "
        f"switches a session ({row.reading}, {CACHES[row.leave]}, stays from: {row.stays})"
    )
