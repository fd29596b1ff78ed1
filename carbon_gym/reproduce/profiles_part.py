"""What each model costs and how fast it is on each GPU (paper Table 6, appendix A, SPEC §1, §2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from carbon_gym.fleet import Deployments
from carbon_gym.report.document import Cell, Column, Section, Table
from carbon_gym.reproduce.inputs import scenario_of
from carbon_gym.reproduce.plan import Found, Plan, World
from carbon_gym.reproduce.published import (
    DECODE_RATE,
    GPU_COUNT,
    KV_ROOM_BY_GPU,
    PROFILED_MODEL,
    RELATIVE_ENERGY,
    Published,
)
from carbon_gym.scenario import Scenario, load_scenario

REFERENCE_GPU = "A100-40GB"
"""Where one token of `PROFILED_MODEL` has the relative energy 1."""
KWH_TO_J = 3.6e6


@dataclass(frozen=True, slots=True)
class Profile:
    """One model on one GPU type.

    Attributes:
        model: Name.
        gpu: Name.
        relative_energy: Of an uncached input token; the 70B model on the A100 is 1.
        energy_j: J per uncached input token.
        prefill: Tokens/s of one replica.
        decode: Tokens/s of one replica at batch one.
        gpus: GPUs of one replica.
        kv_room_gb: KV room of one replica, 1e9 bytes.
    """

    model: str
    gpu: str
    relative_energy: float
    energy_j: float
    prefill: float
    decode: float
    gpus: int
    kv_room_gb: float


def profiles_of(scenario: Scenario) -> list[Profile]:
    """The profiles of a scenario's fleet, models outermost.

    Raises:
        InputError: A model fits on no allowed number of some GPU type.
    """
    fleet = Deployments.of(scenario)
    reference_kwh = _reference_kwh(scenario)
    found = []
    for d in np.flatnonzero(fleet.region == 0).tolist():
        model, gpu, _ = fleet.triple(d)
        energy_kwh = float(fleet.energy_kwh_per_token[d])
        found.append(
            Profile(
                model=model,
                gpu=gpu,
                relative_energy=energy_kwh / reference_kwh,
                energy_j=energy_kwh * KWH_TO_J,
                prefill=float(fleet.prefill_tokens_per_s[d]),
                decode=float(fleet.decode_tokens_per_s[d]),
                gpus=int(fleet.gpus_per_replica[d]),
                kv_room_gb=float(fleet.kv_room_bytes[d]) / scenario.fleet.replicas / 1e9,
            )
        )
    return found


def _reference_kwh(scenario: Scenario) -> float:
    """Energy per uncached input token of the reference under the scenario's profile, kWh."""
    alone = {"models": [PROFILED_MODEL], "gpus": [REFERENCE_GPU]}
    catalogue = load_scenario("sharegpt", fleet=alone, energy=scenario.energy.model_dump())
    return float(Deployments.of(catalogue).energy_kwh_per_token[0])


class ProfilesPart:
    """The profiles of the fleet, and the numbers that the paper gives beside ours."""

    name = "profiles"
    title = "Energy and latency profiles (Table 6)"

    def worlds(self, plan: Plan) -> Sequence[World]:
        """None: closed forms."""
        return ()

    def section(self, plan: Plan, found: Found) -> Section:
        """All profiles, and those of the model that the paper names against its numbers."""
        profiles = profiles_of(scenario_of(plan, plan.datasets[0]))
        text = (
            "Energy, rates and memory follow from parameters, peak, power, bandwidth and memory "
            "alone (SPEC §1, §2). The summary of the paper gives no cell of its Table 6, only what "
            "stands in the second table here; decode rates and the KV room of each GPU are DERIVED "
            "from it. That the utilisations make the relative energies, and that 0.9 and 2 bytes "
            "make the KV rooms, is how they were chosen."
        )
        return Section(self.name, self.title, [text, _all(profiles), _against(profiles)])


def _all(profiles: Sequence[Profile]) -> Table:
    return Table(
        "profiles",
        "Every model on every GPU",
        [
            Column("model", kind="text"),
            Column("GPU", kind="text"),
            Column("relative energy", digits=4),
            Column("energy", "J/token", digits=4),
            Column("prefill", "tokens/s", digits=0),
            Column("decode", "tokens/s", digits=0),
            Column("GPUs"),
            Column("KV room", "GB", digits=1),
        ],
        [
            [
                *(profile.model, profile.gpu, profile.relative_energy, profile.energy_j),
                *(profile.prefill, profile.decode, profile.gpus, profile.kv_room_gb),
            ]
            for profile in profiles
        ],
        f"Energy of an uncached input token, {PROFILED_MODEL} on {REFERENCE_GPU} = 1; rates and "
        "KV room of one replica; decoding at batch one.",
    )


def _against(profiles: Sequence[Profile]) -> Table:
    """The published numbers of one model; empty if the fleet has it on none of those GPUs."""
    rows: list[list[Cell]] = []
    of_gpu = {p.gpu: p for p in profiles if p.model == PROFILED_MODEL}
    for gpu, profile in of_gpu.items():
        if gpu not in RELATIVE_ENERGY:
            continue
        energy, count = RELATIVE_ENERGY[gpu], GPU_COUNT[gpu]
        rows.append(_row(gpu, "relative energy", profile.relative_energy, energy))
        counts = (profile.gpus, int(count.value), profile.gpus - int(count.value))
        rows.append([gpu, "GPUs of a replica", *counts, count.label])
        rows.append(_row(gpu, "KV room, GB", profile.kv_room_gb, KV_ROOM_BY_GPU[gpu]))
        rows.append(_row(gpu, "decode, tokens/s", profile.decode, DECODE_RATE[gpu]))
    return Table(
        "profiles-published",
        f"{PROFILED_MODEL} beside the paper",
        [
            Column("GPU", kind="text"),
            Column("item", kind="text"),
            Column("ours", digits=3),
            Column("paper", digits=3),
            Column("difference", digits=3, signed=True),
            Column("label of the paper's", kind="text"),
        ],
        rows,
        "The paper gives the KV room as 32–147 GB over the three; 34, 88 and 95 tokens/s are its "
        "formula's, rounded.",
    )


def _row(gpu: str, item: str, ours: float, published: Published) -> list[Cell]:
    return [gpu, item, ours, published.value, published.difference(ours), published.label]
