"""What the study of the budget runs: parts, worlds and units."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from carbon_gym import load_scenario
from carbon_gym.front import front_points
from carbon_gym.scenario import Scenario
from carbon_gym.scenario.schema import CATEGORIES
from carbon_gym.workload.statistics import load_statistics

MAIN = ("sharegpt-budget", "sharegpt-budget-evict", "sharechat-budget", "sharechat-budget-evict")
SWEPT = ("sharegpt-budget", "sharechat-budget")
REAL = ("sharegpt-budget", "sharegpt-budget-evict")
REAL_START = "2023-05-08"
"""First day of part "real", UTC."""
POLICIES = (
    "ccar",
    "faircarbon",
    "ccar-budget",
    "ccar-budget-fixed",
    "ccar-budget-follow",
    "ccar-budget-sessions",
    "faircarbon-budget",
    "gar-pd-budget",
    "smallest-model",
)
DISTURBED = ("ccar", "ccar-budget", "ccar-budget-fixed", "ccar-budget-follow", "faircarbon-budget")
WRONG = ("ccar-budget", "ccar-budget-follow", "ccar-budget-fixed")
"""Those that are started at a wrong λ; the last one cannot mend it."""
STARTS = (1 / 3, 1.0, 3.0)
"""λ at the start, as a multiple of the tuned one."""
SESSION_FLOORS = (0.85, 0.9, 0.95, 1.0)
CURVE = (0.25, 0.5, 2.0, 4.0)
"""Multiples of the tuned λ of `ccar-budget-fixed` that, with 1, make the curve at whose crossing
with CCAR's quality the CO2 is read."""
PREDICTOR_SDS = (0.0, 0.03, 0.06, 0.1)
BIAS = 0.05
UNDISTURBED = "as it is"

PARTS = ("main", "wrong-lambda", "guard", "robustness", "levels", "real")
Part = Literal["main", "wrong-lambda", "guard", "robustness", "levels", "real"]
Measure = Literal["figures", "guard", "running"]
Change = dict[str, Any]


@dataclass(frozen=True, slots=True)
class World:
    """Fleets under some rules.

    Attributes:
        scenario: Name of a packaged scenario.
        setting: What is changed, in words.
        changes: The changes, as JSON, so that a world is hashable.
        fleets: Days.
        start: First day, UTC, of which every session of a file is evaluated; None: the days and
            sessions of the test split.
    """

    scenario: str
    setting: str
    changes: str
    fleets: int
    start: str | None = None

    def rules(self) -> Scenario:
        """The scenario."""
        return load_scenario(self.scenario, **json.loads(self.changes))


@dataclass(frozen=True, slots=True)
class Unit:
    """One policy in one world: what is run, kept and skipped as a whole.

    Attributes:
        part: One of `PARTS`.
        world: Where.
        policy: Its name.
        family: What it is called in tables: the policy, or a family of settings of it.
        variant: What of the policy is changed, in words.
        value: The number of it.
        options: Options of the policy, JSON.
        price: λ to start with, as a multiple of the tuned one; None: the tuned one.
        measure: "figures" of each fleet, in "guard" the guard's figures beside CCAR too, in
            "running" the running mean of predicted quality against its target.
    """

    part: Part
    world: World
    policy: str
    family: str
    variant: str = ""
    value: float | None = None
    options: str = "{}"
    price: float | None = None
    measure: Measure = "figures"

    @property
    def id(self) -> str:
        """Unique; the page takes it apart."""
        where = (self.part, self.world.scenario, self.world.setting)
        return " | ".join((*where, self.family, self.variant))


@dataclass(frozen=True, slots=True)
class Study:
    """What is asked for.

    Attributes:
        main: Scenarios of the parts main, wrong-lambda and guard.
        swept: Those of robustness and levels.
        fleets: Fleets of each.
        conversations: File of turns for the part real, None: it is not run.
        grid: File of carbon intensity for it.
    """

    main: tuple[str, ...] = MAIN
    swept: tuple[str, ...] = SWEPT
    fleets: int = 16
    conversations: str | None = None
    grid: str | None = None

    def units(self, parts: tuple[str, ...] = PARTS) -> list[Unit]:
        """All units of some parts, those of one world one after the other."""
        makers = {
            "main": self._main,
            "wrong-lambda": self._wrong,
            "guard": self._guard,
            "robustness": self._robustness,
            "levels": self._levels,
            "real": self._real,
        }
        units = [unit for part in PARTS if part in parts for unit in makers[part]()]
        places = {world: n for n, world in enumerate(dict.fromkeys(unit.world for unit in units))}
        return sorted(units, key=lambda unit: places[unit.world])

    def _world(self, scenario: str, setting: str = UNDISTURBED, **changes: Any) -> World:
        budget = {"bounds": {"quality_constraint": "budget"}}
        text = json.dumps(_merge(budget, changes), sort_keys=True)
        return World(scenario, setting, text, self.fleets)

    def _main(self) -> Iterator[Unit]:
        for scenario in self.main:
            for policy in POLICIES:
                yield Unit("main", self._world(scenario), policy, policy, measure="guard")

    def _wrong(self) -> Iterator[Unit]:
        for scenario in self.main:
            for policy in WRONG:
                for start in STARTS:
                    unit = _priced("wrong-lambda", self._world(scenario), policy, start)
                    yield replace(unit, measure="running")

    def _guard(self) -> Iterator[Unit]:
        policy = "ccar-budget-sessions"
        for scenario in self.main:
            for floor in SESSION_FLOORS:
                options = {"session_floor": floor}
                yield Unit(
                    "guard",
                    self._world(scenario),
                    policy,
                    policy,
                    f"session_floor = {floor:g}",
                    floor,
                    json.dumps(options),
                    measure="guard",
                )

    def _robustness(self) -> Iterator[Unit]:
        for scenario in self.swept:
            for setting, change in disturbances(load_scenario(scenario)):
                world = self._world(scenario, setting, **change)
                for policy in DISTURBED:
                    yield Unit("robustness", world, policy, policy)
                yield from _curve("robustness", world)

    def _levels(self) -> Iterator[Unit]:
        for scenario in self.swept:
            rules = self._world(scenario).rules()
            for point in front_points(rules, ["ccar", "ccar-budget-fixed"]):
                assert point.knob is not None
                yield Unit(
                    "levels",
                    self._world(scenario, bounds=point.bounds),
                    point.policy,
                    point.family,
                    f"{point.knob} = {point.value:g}",
                    point.value,
                    json.dumps(point.options),
                )
            for setting, change in CAPACITIES.items():
                world = self._world(scenario, setting, **change)
                for policy in ("ccar", "ccar-budget-fixed"):
                    yield Unit("levels", world, policy, policy)
                yield from _curve("levels", world)

    def _real(self) -> Iterator[Unit]:
        if self.conversations is None or self.grid is None:
            return
        files = {
            "workload": {"source": "file", "path": self.conversations, "format": "tokens"},
            "grid": {"source": "file", "paths": [self.grid]},
        }
        for scenario in REAL:
            world = replace(self._world(scenario, "measured", **files), start=REAL_START)
            for policy in POLICIES:
                yield Unit("real", world, policy, policy, measure="guard")


CAPACITIES: dict[str, Change] = {
    "c = 0.25": {"capacity": {"limit": 0.25}},
    "no limit": {"capacity": {"limit": None}},
    "turns, c = 0.5": {"capacity": {"rule": "turns", "limit": 0.5}},
}


def _priced(part: Part, world: World, policy: str, factor: float) -> Unit:
    shown = {0.25: "λ / 4", 1 / 3: "λ / 3", 0.5: "λ / 2", 1.0: "λ"}.get(factor, f"{factor:g} λ")
    return Unit(part, world, policy, policy, shown, factor, price=factor)


def _curve(part: Part, world: World) -> Iterator[Unit]:
    for factor in CURVE:
        yield _priced(part, world, "ccar-budget-fixed", factor)


def disturbances(scenario: Scenario) -> Iterator[tuple[str, Change]]:
    """(setting, change) of the part robustness, the undisturbed world among them."""
    default = scenario.quality
    for sd in PREDICTOR_SDS:
        note = f" ({UNDISTURBED})" if sd == default.predictor_sd else ""
        yield f"predictor_sd = {sd:g}{note}", {"quality": {"predictor_sd": sd}}
    by_size = sorted(scenario.fleet.models, key=lambda model: model.params_billion)
    biased = [(model.name, BIAS) for model in by_size]
    biased += [(model.name, -BIAS) for model in (by_size[0], by_size[-1])]
    for name, bias in biased:
        entry = {"model": name, "bias": bias}
        yield f"{name} {bias:+g}", {"quality": {"predictor_bias": [entry]}}
    for knob in ("session_sd", "turn_sd"):
        for factor in (0.5, 2.0):
            sd = factor * getattr(default, knob)
            yield f"{knob} = {sd:g}", {"quality": {knob: sd}}
    usual = _usual_shares(scenario)
    for raised, share in ((("coding",), 0.6), (("creative",), 0.6), (("math", "reasoning"), 0.8)):
        shares = mixed(usual, raised, share)
        yield f"{' + '.join(raised)} {share:g}", {"workload": {"category_shares": shares}}


def _usual_shares(scenario: Scenario) -> dict[str, float]:
    asked = scenario.workload.category_shares
    shares = asked or load_statistics(scenario.workload.statistics).category_shares
    return dict(zip(CATEGORIES, shares.in_order(), strict=True))


def mixed(usual: Mapping[str, float], raised: tuple[str, ...], share: float) -> dict[str, float]:
    """Shares of categories: some have a given share together, all else stays in proportion."""
    inside = sum(usual[name] for name in raised)
    outside = sum(usual.values()) - inside
    return {
        name: round(
            old * (share / inside if name in raised else (1.0 - share) / outside),
            6,
        )
        for name, old in usual.items()
    }


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Change:
    """Sections of `changes` over those of `base`, key by key."""
    merged = {section: dict(keys) for section, keys in base.items()}
    for section, keys in changes.items():
        merged[section] = {**merged.get(section, {}), **keys}
    return merged
