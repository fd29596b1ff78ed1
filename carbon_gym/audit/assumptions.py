"""What the model assumes, each with a documented low and high value (docs/audit.md).

Only rules that leave the turns as they are: every setting serves the same trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from carbon_gym.resources import packaged
from carbon_gym.scenario import Scenario, load_scenario
from carbon_gym.scenario.load import read_yaml_mapping

_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of an assumption.

    Attributes:
        label: As the report shows it.
        scenario: The rules with it.
    """

    label: str
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something that the result may depend on.

    Attributes:
        name: With its unit.
        here: The scenario's own value.
        settings: One or two others, the low one first.
    """

    name: str
    here: str
    settings: tuple[Setting, ...]


def assumptions_of(scenario: Scenario) -> list[Assumption]:
    """The assumptions of a scenario, in a fixed order; its own value is no setting.

    The values are ASSUMED: ends of what `carbon-gym reproduce` varies, or of what is plausible.
    """
    made = _Maker(scenario)
    found = [
        made.number("cache TTL, min", "cache", "ttl_s", (2, 60), _MINUTE),
        made.word("cache of a session that left", "cache", "on_leave", ("retain", "evict")),
        made.number("capacity c", "capacity", "limit", (0.25, None)),
        made.word("capacity counts", "capacity", "rule", ("sessions", "turns")),
        made.number("replicas", "fleet", "replicas", (1, 4)),
        made.number("TTFT bound τ, s", "bounds", "ttft_s", (1, 4)),
        made.number("quality bound β_Q", "bounds", "beta_q", (0.8, 0.95)),
        made.number("cached input ρ_c", "energy", "cached_input_ratio", (0, 0.1)),
        made.number("output ρ_o", "energy", "output_ratio", (2, 8)),
        made.energy_profile("api-prices"),
        made.number("predictor error, sd", "quality", "predictor_sd", (0, 0.1)),
        made.number("age of the router's CI, min", "grid", "staleness_s", (0, 60), _MINUTE),
        made.pue((1.1, 1.58)),
    ]
    return [assumption for assumption in found if assumption.settings]


class _Maker:
    """Makes settings that differ from a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario

    def number(
        self,
        name: str,
        section: str,
        key: str,
        values: tuple[float | None, ...],
        scale: float = 1.0,
    ) -> Assumption:
        """One number; None stands for no limit, and `scale` is what a value is times in the key."""
        own = getattr(getattr(self._scenario, section), key)
        changes = {
            _shown(value): {section: {key: None if value is None else value * scale}}
            for value in values
        }
        return self._assumption(name, _shown(None if own is None else own / scale), changes)

    def word(self, name: str, section: str, key: str, words: tuple[str, str]) -> Assumption:
        """One of two words: the other one."""
        own = getattr(getattr(self._scenario, section), key)
        changes = {word: {section: {key: word}} for word in words}
        return self._assumption(name, own, changes)

    def energy_profile(self, profile: str) -> Assumption:
        """Both ratios of a packaged energy profile; energy per token stays what it is."""
        energy = self._scenario.energy
        own = f"{energy.cached_input_ratio:g}, {energy.output_ratio:g}"
        content = read_yaml_mapping(packaged(f"profiles/{profile}.yaml"))
        ratios = {key: content[key] for key in ("cached_input_ratio", "output_ratio")}
        return self._assumption("ρ_c, ρ_o together", own, {profile: {"energy": ratios}})

    def pue(self, values: tuple[float, ...]) -> Assumption:
        """The same PUE in all regions."""
        regions = self._scenario.fleet.regions
        found = {region.pue for region in regions}
        own = "–".join(map(_shown, dict.fromkeys((min(found), max(found)))))
        changes = {
            _shown(value): {
                "fleet": {"regions": [{**r.model_dump(mode="json"), "pue": value} for r in regions]}
            }
            for value in values
        }
        return self._assumption("PUE, all regions", own, changes)

    def _assumption(
        self, name: str, here: str, changes: Mapping[str, Mapping[str, Any]]
    ) -> Assumption:
        settings = (
            Setting(label, load_scenario(self._scenario, **change))
            for label, change in changes.items()
        )
        return Assumption(name, here, tuple(self._others(settings)))

    def _others(self, settings: Iterator[Setting]) -> Iterator[Setting]:
        """Those that are not the scenario as it is."""
        own = self._scenario.digest()
        for setting in settings:
            if setting.scenario.digest() != own:
                yield setting


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"
