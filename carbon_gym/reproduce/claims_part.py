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
    NO_GATE_TTFT_LONG,
    NO_PRICING_CO2,
    RECOMPUTE_CCAR,
    RECOMPUTE_FAIRCARBON,
    SAVING,
    SAVING_LONGER_THAN,
    SAVING_OVER_BASELINES,
    Published,
)
from carbon_gym.reproduce.worlds import (
    BASELINES,
    CACHES,
    LONG,
    ON_LEAVE,
    dataset_world,
    dataset_worlds,
)

WHOLE, REFERENCE = "ccar", "faircarbon"
POLICIES = (WHOLE, "ccar-no-gate", "ccar-no-pricing", *BASELINES)
_NEAR = 0.5
"""Nearer to the paper's saving than this is no difference to explain, % (ASSUMED)."""

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


_RECOMPUTED, _BLOCKED, _P95 = (
    "recompute_mwh_per_turn",
    "gate_blocks_per_session",
    "ttft_p95_s",
)
SAVED = _Claim("CO2 saved over faircarbon", WHOLE, REFERENCE, SAVING, saved_on_average)
OVER_OTHERS = tuple(
    _Claim(f"CO2 saved over {name}", WHOLE, name, SAVING_OVER_BASELINES, saved_on_average)
    for name in BASELINES
    if name != REFERENCE
)
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
    *OVER_OTHERS,
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
        *(GATE.mine, WHOLE, NO_GATE_TTFT, partial(added_on_average, figure=_P95)),
    ),
    _Claim(
        f"P95 TTFT without the gate, > {LONG} turns",
        *(GATE.mine, WHOLE, NO_GATE_TTFT_LONG, _mean(_P95, LONG)),
        signed=False,
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
        some = "mean of ours" if len(plan.datasets) > 1 else "ours"
        text = (
            f"What the paper says of CCAR, mean of its data sets, and what comes out here, {some} "
            f"({', '.join(plan.labels)}). A *sign* is the same where ours lies on the paper's side "
            "of 0 with its whole interval, and not seen where the interval holds 0; it says "
            "nothing of the size, which the difference does."
        )
        blocks: list[Block] = [text, _table(by_leave), differences(by_leave)]
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
        *(Column("figure", kind="text"), Column("unit", kind="text"), Column("paper", kind="text")),
        *(
            column
            for leave in by_leave
            for column in (
                Column(f"ours, {CACHES[leave]}"),
                Column(f"difference, {CACHES[leave]}", signed=True),
                Column(f"sign, {CACHES[leave]}", kind="text"),
            )
        ),
        Column("where in the paper", kind="text"),
    ]
    for claim in CLAIMS:
        row: list[Cell] = [claim.words, claim.published.unit, claim.published.number]
        for values in by_leave.values():
            ours = _number(values[claim])
            difference = None if ours is None else claim.published.difference(ours)
            row += [values[claim], difference, _sign(claim, values[claim])]
        rows.append([*row, claim.published.where])
    return Table(
        "claims",
        "Published figures of CCAR and ours",
        columns,
        rows,
        "mWh are a query's, over all turns of these sessions. What the paper says of grids, "
        "misses, break-even and profiles, and of single settings, stands in the sections about "
        "them. The four baselines are not named in the summary, and its range is over all four.",
        frozenset({0}),
    )


def differences(by_leave: Mapping[str, Values]) -> str:
    """A paragraph for each kind of difference, where there is one."""
    if all(_number(values[SAVED]) is None for values in by_leave.values()):
        return "Nothing was served."
    readings = [by_leave[leave] for leave in ON_LEAVE]
    said = [explain(readings) for explain in (_size, _others, _recomputation, _gate)]
    return "\n".join(f"- {text}" for text in said if text) or "No size or sign departs."


def _size(readings: Sequence[Values]) -> str:
    ours = [_number(values[SAVED]) for values in readings]
    known = [value for value in ours if value is not None]
    if all(abs(value - SAVING.value) < _NEAR for value in known):
        return ""
    lies = min(known) < SAVING.value < max(known)
    return (
        f"**The size of the saving.** The paper's {SAVING.text} lies "
        f"{'between' if lies else 'outside'} ours, {_by_reading([_percent(v) for v in ours])}. "
        "What a backend does with a cache that its session has left is not in the summary; nor "
        "are other things that move the saving as much: ρ_o, how long a cache lives, the error of "
        "the predictor, what capacity counts. `--only sensitivity` varies each of them; "
        "docs/semantics.md gives each reading a gate of its own."
    )


def _others(readings: Sequence[Values]) -> str:
    said = []
    for claim in OVER_OTHERS:
        ours = [_number(values[claim]) for values in readings]
        if any(value is not None and claim.published.difference(value) < 0 for value in ours):
            said.append(f"{claim.reference} {_by_reading([_percent(value) for value in ours])}")
    if not said:
        return ""
    return (
        f"**Other baselines.** Below the paper's {SAVING_OVER_BASELINES.text}, the range over its "
        f"four baselines, is the saving over {'; '.join(said)}. Which four these are is not in the "
        "summary, and ours are tuned on validation fleets like CCAR: a stronger baseline leaves "
        "less to save, and faircarbon is not the strongest here."
    )


def _recomputation(readings: Sequence[Values]) -> str:
    shares = []
    for values in readings:
        mine, reference = (_number(values[RECOMPUTED[name]]) for name in (WHOLE, REFERENCE))
        shares.append(f"{mine / reference:.2f}" if mine is not None and reference else "–")
    published = RECOMPUTE_CCAR.value / RECOMPUTE_FAIRCARBON.value
    return (
        f"**Recomputation.** In long sessions CCAR recomputes {published:.2f} times faircarbon's "
        f"energy in the paper, here {_by_reading(shares)}. The level in mWh scales with the energy "
        "of a token, for which the summary has two values that contradict each other (SPEC §2); "
        "the ratio does not, but both depend on which models serve, and on what happens to "
        "caches."
    )


def _gate(readings: Sequence[Values]) -> str:
    signs = [_sign(GATE, values[GATE]) for values in readings]
    if all(sign == "same" for sign in signs):
        return ""
    words = {"same": "seen", "opposite": "a loss", "not seen": "not seen", "": "not measured"}
    return (
        f"**The gate.** Its published gain of CO2, {NO_GATE_CO2.text}, is "
        f"{_by_reading([words[sign] for sign in signs])}. Is ours too timid? `--only gate` makes "
        "it stay more and more often, under several readings of what makes sessions move, and "
        "says what that gains. Our own rule of expected values is compared by `--only ablation`."
    )


def _by_reading(words: Sequence[str]) -> str:
    """A word for each reading: ``9.9 % with caches retained and 18.3 % evicted``."""
    first, *others = (
        f"{word} {CACHES[leave]}" for word, leave in zip(words, ON_LEAVE, strict=True)
    )
    word, caches = first.rsplit(" ", 1)
    return " and ".join([f"{word} with caches {caches}", *others])


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} %".replace("-", "−")


def _number(ours: Measured | float | None) -> float | None:
    return ours.value if isinstance(ours, Measured) else ours
