"""The gate's part of `carbon-gym reproduce`, and the data set after the first in another part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from carbon_gym.report.document import Measured, Table
from carbon_gym.reproduce.gate_part import GatePart
from carbon_gym.reproduce.plan import Plan
from carbon_gym.reproduce.rows_file import ReproduceFile
from carbon_gym.reproduce.run import Rows, run_units, units_of
from carbon_gym.reproduce.sensitivity_part import SensitivityPart

SMALL = Plan(datasets=("sharegpt",), fleets=2, sensitivity_fleets=2, sessions=60, quick=True)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[Table, Path]:
    folder = tmp_path_factory.mktemp("gate")
    part = GatePart()
    with ReproduceFile(folder) as file:
        units, ids = units_of(SMALL, [part])
        run_units(SMALL, units, file)
        section = part.section(SMALL, Rows(file, ids))
    (found,) = [block for block in section.blocks if isinstance(block, Table)]
    assert "stays from" in str(section.blocks[-1])
    return found, folder


def test_a_lower_threshold_blocks_more(table: tuple[Table, Path]) -> None:
    rows = [row for row in table[0].rows if row[0] == "as it is" and row[1] == "evicted"]
    assert [row[2] for row in rows] == ["tuned", "0.3", "0.2", "0.1", "0"]
    blocked = [float(str(row[3])) for row in rows[1:]]
    assert blocked == sorted(blocked)
    assert blocked[-1] > 0.3
    assert all(isinstance(cell, Measured) for row in rows for cell in row[4:])
    assert table[0].rows[-1][0] == "paper"


def test_no_path_of_a_machine_is_kept(table: tuple[Table, Path]) -> None:
    text = (table[1] / "reproduce.json").read_text(encoding="utf-8")
    assert "gate.json" not in text
    worlds = json.loads(text)["worlds"].values()
    assert any("stays from 0" in str(world["facts"]["rules"]["gate"]) for world in worlds)


def test_the_second_data_set_is_in_the_full_plan_alone() -> None:
    first, second = SensitivityPart(), SensitivityPart(1)
    assert not second.worlds(SMALL)
    assert not second.worlds(Plan(quick=True))
    worlds = second.worlds(Plan())
    assert len(worlds) == len(first.worlds(Plan()))
    assert {world.scenario.split("-")[0] for world in worlds} == {"sharechat"}
    assert (first.name, second.name) == ("sensitivity", "sensitivity-2")
