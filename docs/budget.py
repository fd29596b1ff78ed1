"""Study of the budget: what it saves, what mends it, whom it costs, and where it stops working.

Writes `docs/budget.json` after every run of a policy (rerun to resume: what is there and still
holds is skipped), and `docs/budget.md` with its picture from it.

    python docs/budget.py                    # run what is missing, then write the page
    python docs/budget.py --only robustness  # one part: main, wrong-lambda, guard, ...
    python docs/budget.py --conversations TURNS.csv.gz --grid GRID.csv.gz   # part "real" too
    python docs/budget.py --page             # only write the page again
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import budget_measure
from budget_measure import Record
from budget_page import write_page
from budget_plan import PARTS, Study, Unit
from rich.console import Console
from rich.progress import track

from carbon_gym.files import replacing
from carbon_gym.parallel import in_processes

HERE = Path(__file__).resolve().parent
FILE = "budget.json"
STDERR = Console(stderr=True)


def read_results(path: Path) -> dict[str, Any]:
    """The file of results, an empty one where there is none."""
    if not path.exists():
        return {"units": {}}
    return dict(json.loads(path.read_text(encoding="utf-8")))


def write_results(path: Path, results: Mapping[str, Any]) -> None:
    """A line for each unit, in the order of their names, so that a change can be reviewed."""
    lines = [
        f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(record, allow_nan=False)}"
        for name, record in sorted(results["units"].items())
    ]
    with replacing(path) as partial:
        partial.write_text('{"units": {\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")


def run_units(study: Study, parts: Sequence[str], path: Path, jobs: int = 1) -> int:
    """Run what the file of results does not have, or has under other rules, knobs or code.

    Args:
        study: Scenarios, fleets and files.
        parts: Of `PARTS`; what the file has of others is kept.
        path: File of results, written after every unit.
        jobs: Processes.

    Returns:
        How many units were run.
    """
    results = read_results(path)
    units = study.units(tuple(parts))
    planned = {unit.id for unit in units}
    seen = {unit.part for unit in units}  # "real" without files is not planned: kept
    results["units"] = {
        name: record
        for name, record in results["units"].items()
        if name in planned or name.split(" | ")[0] not in seen
    }
    known = {unit.id: results["units"].get(unit.id, {}).get("key") for unit in units}
    measured = 0
    done = _each(units, known, jobs)
    for unit, record in track(done, "units", total=len(units), console=STDERR):
        if record is not None:
            measured += 1
            results["units"][unit.id] = record
            write_results(path, results)
    return measured


def _each(
    units: Sequence[Unit], known: Mapping[str, str | None], jobs: int
) -> Iterator[tuple[Unit, Record | None]]:
    """(unit, its record or None if the known one holds), in the order in which they are done."""
    if jobs <= 1:
        for unit in units:
            yield unit, _measure(known, unit)
        return
    yield from in_processes(_measure, dict(known), units, jobs)


def _measure(known: Mapping[str, str | None], unit: Unit) -> Record | None:
    return budget_measure.measure(unit, known[unit.id])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--only", action="append", choices=PARTS, help="part; may be repeated")
    parser.add_argument("--fleets", type=int, default=16, help="days of each scenario (16)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--conversations", help="turns for the part real, tokens CSV")
    parser.add_argument("--grid", help="carbon intensity for the part real, wide CSV")
    parser.add_argument(
        "--scenario", action="append", help="instead of the study's own; may be repeated"
    )
    parser.add_argument("--out", type=Path, default=HERE, help="folder of results and page")
    options = parser.parse_args()
    if (options.conversations is None) != (options.grid is None):
        parser.error("--conversations and --grid belong together; give both")
    if options.only == ["real"] and options.grid is None and not options.page:
        parser.error("the part real needs --conversations and --grid")
    if options.scenario and options.out == HERE:
        parser.error("--scenario would drop the study's own figures; give another --out")
    files = {"conversations": options.conversations, "grid": options.grid}
    study = Study(fleets=options.fleets, **files)
    if options.scenario:
        names = tuple(options.scenario)
        study = Study(main=names, swept=names, fleets=options.fleets, **files)
    path = options.out / FILE
    if not options.page:
        measured = run_units(study, options.only or PARTS, path, options.jobs)
        STDERR.print(f"{measured} units run")
    write_page(read_results(path), options.out)


if __name__ == "__main__":
    main()
