"""All parts of the report, in its order."""

from __future__ import annotations

from collections.abc import Sequence

from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.reproduce.ablation_part import AblationPart
from carbon_gym.reproduce.beyond_part import BeyondPart
from carbon_gym.reproduce.bounds_part import BoundsPart
from carbon_gym.reproduce.break_even_part import BreakEvenPart
from carbon_gym.reproduce.claims_part import ClaimsPart
from carbon_gym.reproduce.gate_part import GatePart
from carbon_gym.reproduce.grid_part import GridPart
from carbon_gym.reproduce.length_part import LengthPart
from carbon_gym.reproduce.miss_part import MissPart
from carbon_gym.reproduce.overall_part import OverallPart
from carbon_gym.reproduce.plan import Part
from carbon_gym.reproduce.profiles_part import ProfilesPart
from carbon_gym.reproduce.sensitivity_part import SensitivityPart

PARTS: tuple[Part, ...] = (
    ClaimsPart(),
    GridPart(),
    MissPart(),
    BreakEvenPart(),
    ProfilesPart(),
    OverallPart(),
    LengthPart(),
    AblationPart(),
    GatePart(),
    SensitivityPart(),
    SensitivityPart(1),
    BoundsPart(),
    BeyondPart(),
)


def parts_named(names: Sequence[str]) -> list[Part]:
    """Some parts, in the order of the report; all where none is named.

    Raises:
        InputError: There is no part of a name.
    """
    known = {part.name: part for part in PARTS}
    for name in names:
        if name not in known:
            raise InputError(
                f"--only {name!r} is not known; {did_you_mean(name, known)}use one of "
                f"{', '.join(known)}"
            )
    return [part for part in PARTS if not names or part.name in names]
