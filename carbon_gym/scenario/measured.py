"""Measured profiles: an operator's own numbers of a model on a GPU type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from carbon_gym.errors import did_you_mean
from carbon_gym.scenario.section import NonNegative, Positive, Section


class Measured(Section):
    """What an operator measured of one model on one GPU type, instead of what SPEC §2 computes.

    What is left out is computed; the energies of cached and output tokens then stand to that of an
    input token as in `EnergyProfile`.
    """

    model: Annotated[str, Field(min_length=1)]
    """Name of a model of the fleet."""
    gpu: Annotated[str, Field(min_length=1)]
    """Name of a GPU type of the fleet."""
    kwh_per_input_token: Positive | None = None
    """kWh per uncached input token, of all GPUs of a replica together."""
    kwh_per_cached_token: NonNegative | None = None
    """kWh per input token that is cached."""
    kwh_per_output_token: NonNegative | None = None
    """kWh per output token, at the batch sizes of the service."""
    prefill_tokens_per_s: Positive | None = None
    """Prefill rate of a replica."""
    decode_tokens_per_s: Positive | None = None
    """Decode rate of one request; reported only."""
    gpus_per_replica: Annotated[int, Field(ge=1)] | None = None
    """GPUs that a replica runs on."""
    kv_room_gb: Positive | None = None
    """Room for KV caches of a replica, 1e9 bytes, as the server reports it on its start."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if all(getattr(self, name) is None for name in MEASURES):
            raise ValueError(
                f"the entry of {self.model!r} on {self.gpu!r} measures nothing; give at least one "
                f"of {', '.join(MEASURES)}"
            )
        return self


MEASURES = tuple(name for name in Measured.model_fields if name not in ("model", "gpu"))
"""What may be measured."""


def check_measured(entries: Sequence[Measured], models: Sequence[str], gpus: Sequence[str]) -> None:
    """Refuse an entry whose model or GPU type is not in the fleet, and a pair given twice.

    Args:
        entries: The measured profiles.
        models: Names of the fleet's models.
        gpus: Names of its GPU types.

    Raises:
        ValueError: Names the model or GPU type, and the nearest known one.
    """
    known = {"model": models, "gpu": gpus}
    pairs = [(entry.model, entry.gpu) for entry in entries]
    for pair in pairs:
        for (what, names), name in zip(known.items(), pair, strict=True):
            if name not in names:
                raise ValueError(
                    f"measured names the {what} {name!r}, which is not in the fleet; "
                    f"{did_you_mean(name, names)}name one of {', '.join(names)}"
                )
        if pairs.count(pair) > 1:
            raise ValueError(f"measured has {pair[0]!r} on {pair[1]!r} twice; keep one entry")
