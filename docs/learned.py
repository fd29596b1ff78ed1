"""Study of the learned routers: what they save, what was tried, and what they do differently.

Collects what `carbon-gym evaluate` and `carbon-gym train` wrote, and measures how policies behave,
into `docs/learned.json`; writes `docs/learned-routers.md` with its picture from that.

    python docs/learned.py --evaluations runs/study --trainings runs/learned
    python docs/learned.py --behaviour --equal-quality   # runs of the policies: minutes
    python docs/learned.py --page        # only write the page again

Every option replaces its own section of the file, the others stay.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from learned_behaviour import FLEETS, WATCHED, measure_behaviour
from learned_collect import Entries, collect_evaluations, collect_trainings
from learned_equal import measure_equal_quality
from learned_page import write_page
from rich.console import Console

from carbon_gym.errors import InputError
from carbon_gym.files import replacing

HERE = Path(__file__).resolve().parent
FILE = "learned.json"
SECTIONS = ("evaluations", "trainings", "equal_quality", "behaviour")
STUDY_TRAININGS = HERE.parent / "runs" / "study-trainings"
STDERR = Console(stderr=True)

Results = dict[str, Entries]


def read_results(path: Path) -> Results:
    """The file, its sections empty where there is none."""
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {section: dict(content.get(section, {})) for section in SECTIONS}


def write_results(path: Path, results: Mapping[str, Entries]) -> None:
    """A line for each entry, so that a change can be reviewed; entries keep their order."""
    sections = []
    for section in SECTIONS:
        lines = [
            f"{json.dumps(name, ensure_ascii=False)}: "
            f"{json.dumps(entry, ensure_ascii=False, allow_nan=False)}"
            for name, entry in results[section].items()
        ]
        sections.append(f'"{section}": {{\n' + ",\n".join(lines) + "\n}")
    with replacing(path) as partial:
        partial.write_text("{" + ",\n".join(sections) + "}\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--evaluations", type=Path, help="folder of evaluations, a part each")
    parser.add_argument("--trainings", type=Path, help="folder of the shipped routers' trainings")
    parser.add_argument(
        "--study-trainings",
        type=Path,
        default=STUDY_TRAININGS,
        help="of all others, collected with --trainings (runs/study-trainings)",
    )
    parser.add_argument("--behaviour", action="store_true", help="run the policies and watch them")
    parser.add_argument("--fleets", type=int, default=FLEETS, help=f"for --behaviour ({FLEETS})")
    parser.add_argument(
        "--equal-quality", action="store_true", help="under a budget: run routers at other targets"
    )
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of results and page")
    options = parser.parse_args(arguments)
    runs = options.behaviour or options.equal_quality
    asked = options.evaluations, options.trainings, runs or None
    if options.page == any(part is not None for part in asked):
        parser.error("say what to collect, or --page")
    path = options.out / FILE
    results = read_results(path)
    if options.evaluations is not None:
        results["evaluations"] = collect_evaluations(options.evaluations)
    if options.trainings is not None:
        results["trainings"] = collect_trainings(options.trainings, options.study_trainings)
    if not options.page:
        write_results(path, results)
    if options.equal_quality:
        _measure(results, path)
    if options.behaviour:
        _watch(results, path, options.fleets)
    write_page(results, options.out)


def _watch(results: Results, path: Path, fleets: int) -> None:
    """Run the policies; the file is written after each. What is no longer watched is dropped."""
    known = results["behaviour"]
    wanted = [f"{scenario} | {policy}" for scenario, of in WATCHED.items() for policy in of]
    results["behaviour"] = {name: known[name] for name in wanted if name in known}
    try:
        for name, entry in measure_behaviour(known, fleets):
            STDERR.print(name)
            found = {**results["behaviour"], name: entry}
            results["behaviour"] = {name: found[name] for name in wanted if name in found}
            write_results(path, results)
    except InputError as error:  # such as no shipped router
        raise SystemExit(f"{error}") from None


def _measure(results: Results, path: Path) -> None:
    """Run routers at several targets; the file is written after each."""
    for name, entry in measure_equal_quality(results["equal_quality"]):
        STDERR.print(name)
        results["equal_quality"][name] = entry
        write_results(path, results)


if __name__ == "__main__":
    main()
