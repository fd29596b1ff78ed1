"""Beyond the paper: quality as a budget (SPEC §8), and routers that were learned."""

from __future__ import annotations

from collections.abc import Sequence

from carbon_gym.doors import our_package
from carbon_gym.report.document import Block, Cell, Column, Picture, Section, Table
from carbon_gym.report.style import colour, new_figure, plain
from carbon_gym.reproduce.figures import Rows, measured, of_all, of_fleets, relative, saved
from carbon_gym.reproduce.inputs import scenario_of
from carbon_gym.reproduce.plan import Found, Plan, World
from carbon_gym.reproduce.worlds import (
    CACHES,
    LEARNED,
    ON_LEAVE,
    budget_world,
    changed_world,
    dataset_world,
    dataset_worlds,
)

REFERENCE = "ccar"
BUDGET = (
    *("ccar-budget", "ccar-budget-fixed", "ccar-budget-follow", "ccar-budget-sessions"),
    *("faircarbon-budget", "gar-pd-budget"),
)
RULED = (REFERENCE, "ccar-ev", *LEARNED)
"""Where quality is filtered per query."""
CONGESTED = "congested"
BETAS = (0.75, 0.8, 0.85, 0.9, 0.95)
"""β_Q of `ccar` along the front (ASSUMED but for the paper's)."""
PAPER_BETA = 0.85
ABOVE = (-0.05, -0.03, -0.015, 0.0, 0.015, 0.025)
"""Targets of `ccar-budget` along the front, mean quality above the scenario's (ASSUMED)."""
_FRONT = {REFERENCE: "ccar, β_Q", "ccar-budget": "ccar-budget, quality_target"}


class BeyondPart:
    """What a budget of quality saves, its front, and what learned routers save."""

    name = "beyond"
    title = "Beyond the paper: a budget of quality, and learned routers"

    def worlds(self, plan: Plan) -> Sequence[World]:
        """The data sets with a filter and with a budget, along the front, and `congested`."""
        found = [*dataset_worlds(plan, RULED), _congested(plan)]
        found += [_budget(plan, dataset) for dataset in plan.datasets]
        for dataset in plan.datasets:
            found += [world for _, _, world in _front(plan, dataset)]
        return found

    def section(self, plan: Plan, found: Found) -> Section:
        """Two tables and the front."""
        text = (
            "The paper's filter asks for a share of the best quality at every query. A *budget* "
            "asks for the same mean over all queries, with a floor per query (SPEC §8): it saves "
            "where quality is cheap to give up and spends where it is not. The *learned* routers "
            "were found on training fleets (`docs/training.md`); under a budget they aim at the "
            "same mean quality. All are compared with `ccar` on the same turns."
        )
        blocks: list[Block] = [
            text,
            _budgets(plan, found),
            _picture(plan, found),
            _routers(plan, found),
        ]
        more = (
            "More on both: `docs/budget.md` (what a budget costs whom, and where it stops "
            "working), `docs/front.md` (every family of policies along its knob), "
            "`docs/learned-routers.md` (over training seeds)."
        )
        return Section(self.name, self.title, [*blocks, more])


def _budget(plan: Plan, dataset: str) -> World:
    return budget_world(dataset, (REFERENCE, *BUDGET, *LEARNED), plan.fleets)


def _congested(plan: Plan) -> World:
    return World.of(CONGESTED, RULED, plan.fleets)


def _front(plan: Plan, dataset: str) -> list[tuple[str, str, World]]:
    """(policy, value of its knob, world) along both curves."""
    fleets = plan.sensitivity_fleets
    curve = []
    for beta in BETAS:
        changes = {"bounds": {"beta_q": beta}}
        world = changed_world(dataset, ON_LEAVE[0], (REFERENCE,), fleets, changes)
        curve.append((REFERENCE, f"{beta:g}", world))
    budget = budget_world(dataset, (), fleets)
    target = our_package("baselines").quality_target(scenario_of(plan, budget.scenario))
    for above in ABOVE:
        aim = round(target + above, 4)
        changes = {"bounds": {"quality_target": aim}}
        world = budget_world(dataset, ("ccar-budget",), fleets, changes)
        curve.append(("ccar-budget", f"{aim:g}", world))
    return curve


def _beside(mine: Rows, reference: Rows) -> list[Cell]:
    quality = of_fleets(mine, "quality_realised") - of_fleets(reference, "quality_realised")
    p95 = of_fleets(mine, "ttft_p95_s") - of_fleets(reference, "ttft_p95_s")
    return [
        saved(mine, reference),
        measured(quality, 1000.0),
        of_all(mine, "quality_realised"),
        of_all(mine, "ttft_p95_s"),
        measured(p95),
    ]


_COLUMNS = (
    Column("CO2 saved over ccar", "%", digits=1),
    Column("realised quality against ccar's", "0.001", digits=1, signed=True),
    Column("quality realised", digits=4),
    Column("P95 TTFT", "s"),
    Column("P95 TTFT against ccar's", "s", digits=3, signed=True),
)


def _budgets(plan: Plan, found: Found) -> Table:
    rows: list[list[Cell]] = []
    for dataset in plan.datasets:
        world = _budget(plan, dataset)
        reference = found.rows(world, REFERENCE)
        for policy in (*BUDGET, *LEARNED):
            rows.append(
                [plan.label(dataset), policy, *_beside(found.rows(world, policy), reference)]
            )
    return Table(
        "beyond-budget",
        "Quality as a budget",
        [Column("data set", kind="text"), Column("policy", kind="text"), *_COLUMNS],
        rows,
        "Caches retained; ccar keeps to its filter. Budget policies aim at ccar's mean quality.",
    )


def _routers(plan: Plan, found: Found) -> Table:
    rows: list[list[Cell]] = []
    worlds = [
        (plan.label(dataset), CACHES[leave], dataset_world(plan, dataset, leave, RULED))
        for leave in ON_LEAVE
        for dataset in plan.datasets
    ]
    for name, caches, world in [*worlds, (CONGESTED, CACHES[ON_LEAVE[0]], _congested(plan))]:
        reference = found.rows(world, REFERENCE)
        for policy in RULED[1:]:
            rows.append([name, caches, policy, *_beside(found.rows(world, policy), reference)])
    return Table(
        "beyond-routers",
        "Learned routers where quality is filtered per query",
        [
            Column("scenario", kind="text"),
            Column("caches", kind="text"),
            Column("policy", kind="text"),
            *_COLUMNS,
        ],
        rows,
        f"{CONGESTED}: the packaged scenario, in which capacity counts turns and few places are "
        "left in clean regions. ccar-ev, the other rule of the gate, stands beside them.",
    )


def _picture(plan: Plan, found: Found) -> Picture:
    columns = len(plan.datasets)
    figure = new_figure(4.6 * columns, 3.8)
    panels = figure.subplots(1, columns, squeeze=False)[0]
    for axes, dataset in zip(panels, plan.datasets, strict=True):
        curve = _front(plan, dataset)
        paper = next(world for _, value, world in curve if value == f"{PAPER_BETA:g}")
        unit = found.rows(paper, REFERENCE)
        for policy, label in _FRONT.items():
            points = [
                (
                    of_all(found.rows(world, name), "quality_realised"),
                    measured(relative(found.rows(world, name), unit)),
                    value,
                )
                for name, value, world in curve
                if name == policy
            ]
            shown = [(q, co2.value, value) for q, co2, value in points if q and co2]
            axes.plot(
                [q for q, _, _ in shown],
                [co2 for _, co2, _ in shown],
                marker="o",
                color=colour(policy),
                label=label,
            )
            offset = (-4, 6) if policy == REFERENCE else (4, -9)  # the lower curve's are below
            for quality, co2, value in (*shown[:1], *shown[-1:]):
                axes.annotate(
                    value, (quality, co2), xytext=offset, textcoords="offset points", fontsize=7
                )
        axes.set(xlabel="mean realised quality", title=plan.label(dataset))
        plain(axes)
    panels[0].set_ylabel(f"CO2, ccar at β_Q = {PAPER_BETA:g} is 1")
    panels[0].legend(fontsize=8, frameon=False)
    return Picture(
        "beyond-front",
        "CO2 against mean realised quality: a filter per query and a budget",
        figure,
        "Two curves of CO2 against mean realised quality for each data set: a filter per "
        "query, and a budget.",
        f"Caches retained, {plan.sensitivity_fleets} fleets a point; the knob beside the ends.",
    )
