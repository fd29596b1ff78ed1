"""The paper's claims about CCAR with ours beside them, and why they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from carbon_gym.report.document import Block, Cell, Column, Measured, Section, Table
from carbon_gym.reproduce.figures import (
    Rows,
    added_on_average,
    mean_of_all,
    saved_on_average,
)
from carbon_gym.reproduce.plan import Found, Plan, World
from carbon_gym.reproduce.published import (
    BLOCKS,
    BLOCKS_LONG,
    NO_GATE_CO2,
    NO_GATE_CO2_LONG,
    NO_GATE_TTFT,
    NO_PRICING_CO2,
    RECOMPUTE_CCAR,
    RECOMPUTE_FAIRCARBON,
    SAVING,
    SAVING_LONGER_THAN,
    Published,
)
from carbon_gym.reproduce.worlds import CACHES, LONG, ON_LEAVE, dataset_world, dataset_worlds

WHOLE, REFERENCE = "ccar", "faircarbon"
POLICIES = (WHOLE, REFERENCE, "ccar-no-gate", "ccar-no-pricing")
_NEAR = 0.5  # %; closer to the paper's saving than this is no difference to explain

Pairs = Sequence[tuple[Rows, Rows]]
"""Rows of two policies, by data set."""
Value = Callable[[Pairs], Measured | float | None]


@dataclass(frozen=True, slots=True)
class _Claim:
    """One published figure.

    Attributes:
        words: What it is.
        mine: The policy that it is about.
        reference: What that is compared with.
        published: Its value in the paper.
        ours: The same from our rows.
        signed: Whether it has a sign that may be the other one.
    """

    words: str
    mine: str
    reference: str
    published: Published
    ours: Value
    signed: bool = True


def _mean(figure: str, longer_than: int | None = None) -> Value:
    """The mean over data sets of a figure of the first policy over all its turns."""
    return lambda pairs: mean_of_all([mine for mine, _ in pairs], figure, longer_than)


_RECOMPUTED, _BLOCKED = "recompute_mwh_per_turn", "gate_blocks_per_session"
SAVED = _Claim("CO2 saved over faircarbon", WHOLE, REFERENCE, SAVING, saved_on_average)
GATE = _Claim("CO2 added without the gate", "ccar-no-gate", WHOLE, NO_GATE_CO2, added_on_average)
RECOMPUTED = {
    policy: _Claim(
        f"recomputed by {policy}, > {LONG} turns",
        *(policy, policy, published, _mean(_RECOMPUTED, LONG)),
        signed=False,
    )
    for policy, published in ((REFERENCE, RECOMPUTE_FAIRCARBON), (WHOLE, RECOMPUTE_CCAR))
}
CLAIMS = (
    SAVED,
    *(
        _Claim(
            f"{SAVED.words}, > {bound} turns",
            *(WHOLE, REFERENCE, published, partial(saved_on_average, longer_than=bound)),
        )
        for bound, published in SAVING_LONGER_THAN.items()
    ),
    *RECOMPUTED.values(),
    _Claim("CO2 added without pricing", "ccar-no-pricing", WHOLE, NO_PRICING_CO2, added_on_average),
    GATE,
    _Claim(
        f"{GATE.words}, > {LONG} turns",
        *(GATE.mine, WHOLE, NO_GATE_CO2_LONG, partial(added_on_average, longer_than=LONG)),
    ),
    _Claim(
        "P95 TTFT added without the gate",
        *(GATE.mine, WHOLE, NO_GATE_TTFT, partial(added_on_average, figure="ttft_p95_s")),
    ),
    _Claim("switches blocked", WHOLE, WHOLE, BLOCKS, _mean(_BLOCKED), signed=False),
    _Claim(
        f"switches blocked, > {LONG} turns",
        *(WHOLE, WHOLE, BLOCKS_LONG, _mean(_BLOCKED, LONG)),
        signed=False,
    ),
)
"""In the order of the paper."""

Values = Mapping[_Claim, Measured | float | None]
"""What comes out here."""


class ClaimsPart:
    """The published figures about CCAR, ours under both readings of caches, and the differences."""

    name = "claims"
    title = "The paper's claims, and ours beside them"

    def worlds(self, plan: Plan) -> Sequence[World]:
        """CCAR, faircarbon and the ablations on every data set."""
        return dataset_worlds(plan, POLICIES)

    def section(self, plan: Plan, found: Found) -> Section:
        """The table, then a paragraph for each difference."""
        by_leave = {leave: _values(plan, found, leave) for leave in ON_LEAVE}
        text = (
            "What the paper says of CCAR, mean of its data sets, and what comes out here, mean of "
            f"ours ({', '.join(plan.datasets)}). A *sign* is the same where ours lies on the "
            "paper's side of 0 with its whole interval, and *not seen* where the interval holds 0."
        )
        blocks: list[Block] = [text, _table(by_leave), _differences(by_leave)]
        return Section(self.name, self.title, blocks)


def _values(plan: Plan, found: Found, leave: str) -> Values:
    rows = {
        policy: [
            found.rows(dataset_world(plan, dataset, leave, ()), policy) for dataset in plan.datasets
        ]
        for policy in POLICIES
    }
    return {
        claim: claim.ours(list(zip(rows[claim.mine], rows[claim.reference], strict=True)))
        for claim in CLAIMS
    }


def _sign(claim: _Claim, ours: Measured | float | None) -> str:
    """Same, opposite or not seen; all published ones are positive."""
    if not claim.signed or not isinstance(ours, Measured):
        return ""
    low, high = (ours.value if end is None else end for end in (ours.low, ours.high))
    if low > 0:
        return "same"
    return "opposite" if high < 0 else "not seen"


def _table(by_leave: Mapping[str, Values]) -> Table:
    rows: list[list[Cell]] = []
    columns = [
        Column("figure", kind="text"),
        Column("unit", kind="text"),
        Column("paper", digits=1),
    ]
    for leave in by_leave:
        columns.append(Column(f"ours, {CACHES[leave]}", digits=1))
        columns.append(Column(f"sign, {CACHES[leave]}", kind="text"))
    for claim in CLAIMS:
        row: list[Cell] = [claim.words, claim.published.unit, claim.published.value]
        for values in by_leave.values():
            row += [values[claim], _sign(claim, values[claim])]
        rows.append([*row, claim.published.where])
    return Table(
        "claims",
        "Published figures of CCAR and ours",
        [*columns, Column("where in the paper", kind="text")],
        rows,
        "mWh are a query's, over all turns of these sessions. What the paper says of grids, "
        "misses, break-even and profiles, which no policy enters, stands in the sections about "
        "them.",
        frozenset({0}),
    )


def _differences(by_leave: Mapping[str, Values]) -> str:
    """A paragraph for each kind of difference, where there is one."""
    retained, evicted = (by_leave[leave] for leave in ON_LEAVE)
    said = [_size(retained, evicted), _recomputation(retained, evicted), _gate(retained, evicted)]
    return "\n".join(f"- {text}" for text in said if text) or "No size or sign departs."


def _size(*readings: Values) -> str:
    ours = [_number(values[SAVED]) for values in readings]
    if any(value is None or abs(value - SAVING.value) < _NEAR for value in ours):
        return ""
    retained, evicted = (value for value in ours if value is not None)
    lies = min(retained, evicted) < SAVING.value < max(retained, evicted)
    return (
        f"**The size of the saving.** The paper's {SAVING.text} lies "
        f"{'between' if lies else 'outside'} ours with caches retained and evicted "
        f"({retained:.1f} and {evicted:.1f} %). What a backend does with a cache that its session "
        "has left is the largest of what the summary leaves open; then come ρ_o, how long a cache "
        "lives, and what capacity counts. The section on where the savings hold serves each "
        "reading and shows which of them reach the published size; docs/semantics.md gives each "
        "a gate of its own."
    )


def _recomputation(*readings: Values) -> str:
    shares = []
    for values in readings:
        mine, reference = (_number(values[RECOMPUTED[name]]) for name in (WHOLE, REFERENCE))
        if mine is None or not reference:
            return ""
        shares.append(mine / reference)
    published = RECOMPUTE_CCAR.value / RECOMPUTE_FAIRCARBON.value
    return (
        f"**Recomputation.** In long sessions CCAR recomputes {published:.2f} times faircarbon's "
        f"energy in the paper, {shares[0]:.2f} times here with caches retained and "
        f"{shares[1]:.2f} times evicted. The level in mWh scales with the energy of a token, for "
        "which the summary has two values that contradict each other (SPEC §2), and with the "
        "models that serve; the ratio does not."
    )


def _gate(*readings: Values) -> str:
    if all(_sign(GATE, values[GATE]) == "same" for values in readings):
        return ""
    return (
        "**The gate.** Its published gain of CO2 is not seen. That is not because ours is too "
        "timid: the section on why the gate gains less makes it stay more and more often, under "
        "several readings of what makes sessions move. As many blocks as the paper's and most of "
        "its gain of P95 TTFT come out where caches are evicted and it stays readily; its CO2 "
        "never does, since the price already holds the cost of moving. Our own rule of expected "
        "values is compared in the ablation."
    )


def _number(ours: Measured | float | None) -> float | None:
    return ours.value if isinstance(ours, Measured) else ours
