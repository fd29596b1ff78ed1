"""A fleet as a table for its operator, and as a file."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from carbon_gym.files import replacing
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.fleet.profile import measured_of
from carbon_gym.scenario.measured import MEASURES
from carbon_gym.scenario.scenario import Scenario


def deployment_rows(scenario: Scenario) -> list[dict[str, Any]]:
    """One row for each deployment, in the order of `Deployments`; units stand in the keys.

    The KV room is that of all replicas; `measured` names what was measured, separated by spaces.

    Raises:
        InputError: A model fits on no allowed number of some GPU type.
    """
    fleet = Deployments.of(scenario)
    rows = []
    for d in range(len(fleet)):
        model, gpu, region = fleet.triple(d)
        e_in = float(fleet.energy_kwh_per_token[d])
        found = measured_of(model, gpu, scenario.fleet)
        measured = [name for name in MEASURES if getattr(found, name, None) is not None]
        rows.append(
            {
                "model": model,
                "gpu": gpu,
                "region": region,
                "gpus_per_replica": int(fleet.gpus_per_replica[d]),
                "replicas": scenario.fleet.replicas,
                "kwh_per_input_token": e_in,
                "kwh_per_cached_token": e_in * float(fleet.cached_input_ratio[d]),
                "kwh_per_output_token": e_in * float(fleet.output_ratio[d]),
                "prefill_tokens_per_s": float(fleet.prefill_tokens_per_s[d]),
                "decode_tokens_per_s": float(fleet.decode_tokens_per_s[d]),
                "kv_room_gb": float(fleet.kv_room_bytes[d]) / 1e9,
                "kv_room_tokens": int(fleet.kv_room_bytes[d] / fleet.kv_bytes_per_token[d]),
                "pue": float(fleet.pue[fleet.region[d]]),
                "round_trip_s": float(fleet.round_trip_s[d]),
                "measured": " ".join(measured),
            }
        )
    return rows


def write_deployments(rows: list[dict[str, Any]], path: Path) -> None:
    """Write `deployment_rows` as CSV, whole or not at all.

    Raises:
        InputError: The place cannot be written to.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with replacing(path) as partial:
        partial.write_text(text.getvalue(), encoding="utf-8")
