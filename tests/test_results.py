"""The main tables that are committed say what the code gives: served again, all sixteen days."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from carbon_gym.benchmark import compare
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.report.document import Document, Section
from carbon_gym.report.document_files import write_document
from carbon_gym.reproduce.break_even_part import BreakEvenPart
from carbon_gym.reproduce.plan import Plan
from carbon_gym.reproduce.profiles_part import ProfilesPart
from carbon_gym.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
POLICIES = ("session-affinity", "faircarbon", "ccar")
RESULTS = DOCS / "results"


@pytest.fixture(scope="module")
def served() -> Mapping[str, Mapping[str, Any]]:
    """Pooled rows of the main comparison by policy."""
    rows = compare(evaluation_fleets(load_scenario("sharegpt")), POLICIES)
    return {row["policy"]: row for row in rows if row["fleet"] == "all"}


def test_readme_has_the_rows_of_the_main_comparison(
    served: Mapping[str, Mapping[str, Any]],
) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("*", "")
    for policy, row in served.items():
        found = re.search(rf"^\| {policy} \| ([^\n]*) \|$", text, re.MULTILINE)
        assert found, policy
        saving = row["saving_vs_faircarbon"]
        shown = "0"
        if policy != "faircarbon":
            numbers = [f"{100 * saving[key]:.1f}" for key in ("mean", "low", "high")]
            shown = "{} [{}, {}]".format(*numbers).replace("-", "\N{MINUS SIGN}")
        expected = [
            f"{row['co2_g']:,.0f}",
            f"{row['co2_relative']:.3f}",
            shown,
            f"{row['quality_predicted']:.3f}",
            f"{row['ttft_p95_s']:.2f}",
            f"{row['recompute_mwh_per_turn']:.1f}",
            f"{row['switches_per_session']:.2f}",
        ]
        assert found[1].split(" | ") == expected, policy


def test_results_page_has_them_too(served: Mapping[str, Mapping[str, Any]]) -> None:
    table = pd.read_csv(RESULTS / "overall-sharegpt-retain.csv").set_index("policy")
    for policy, row in served.items():
        mine = table.loc[policy]
        assert mine["quality predicted"] == pytest.approx(row["quality_predicted"], abs=1e-9)
        assert mine["P95 TTFT (s)"] == pytest.approx(row["ttft_p95_s"], abs=1e-9)
        if policy != "faircarbon":
            saving = row["saving_vs_faircarbon"]["mean"]
            assert mine["saved over faircarbon (%)"] == pytest.approx(100 * saving, abs=1e-6)


@pytest.mark.parametrize("part", [BreakEvenPart(), ProfilesPart()], ids=lambda part: part.name)
def test_closed_formulas_give_the_committed_tables(part: Any, tmp_path: Path) -> None:
    found: Any = None  # these parts run nothing
    section: Section = part.section(Plan(), found)
    write_document(Document("x", [], [section]), tmp_path)
    for file in sorted((tmp_path / "tables").glob("*.csv")):
        assert file.read_bytes() == (RESULTS / file.name).read_bytes(), file.name


def test_page_of_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    results = importlib.import_module("results")
    found: Any = None
    section = BreakEvenPart().section(Plan(), found)
    write_document(Document("A report", ["Text."], [section]), tmp_path / "run")
    (tmp_path / "out").mkdir()
    results.main([str(tmp_path / "run"), "--out", str(tmp_path / "out")])
    text = (tmp_path / "out" / "results.md").read_text(encoding="utf-8")
    assert text.startswith("# A report\n\nThis page is made by")
    for place in re.findall(r"\]\(([^)#]+)\)", text):
        assert (tmp_path / "out" / place).is_file(), place
    assert ".svg" not in text
    assert "<a id=" not in text
    assert re.findall(r"^- .*\]\(#(.*)\)$", text, re.MULTILINE) == ["when-a-switch-pays-23"]
