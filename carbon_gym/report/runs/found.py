"""The results that a folder or file holds, checked before anything is made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from carbon_gym.audit.rows_file import AuditFile
from carbon_gym.errors import InputError
from carbon_gym.report.evaluation_file import EvaluationFile
from carbon_gym.report.front_file import FrontFile
from carbon_gym.report.results import Results
from carbon_gym.report.rows_file import slug
from carbon_gym.report.runs.training_run import PROGRESS, training_content
from carbon_gym.report.work_file import WorkFile, dict_of, json_mapping
from carbon_gym.reproduce.rows_file import ReproduceFile

_LONGEST_NAME = 40
"""Characters of a scenario's name in the name of a file."""
_FILES_NAMED = 5
"""Of what a folder holds instead of a result, in an error."""

Content = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a command writes.

    Attributes:
        command: Its name.
        file_name: What it writes its result to.
        read: Its checked content; `InputError` where it is none.
        keys: By which a file of another name is known.
        has_report: Whether its folder holds a report of its own.
    """

    command: str
    file_name: str
    read: Callable[[Path], Content]
    keys: frozenset[str]
    has_report: bool = False


def _of(command: str, file: type[WorkFile], *keys: str, has_report: bool = False) -> Kind:
    return Kind(command, file.file_name, file.content_of, frozenset(keys), has_report)


BENCHMARK = _of("benchmark", Results, "rows", "versus")
EVALUATE = _of("evaluate", EvaluationFile, "rows", "methods")
FRONT = _of("benchmark --front", FrontFile, "points", "families")
REPRODUCE = _of("reproduce", ReproduceFile, "worlds", has_report=True)
AUDIT = _of("audit", AuditFile, "worlds", has_report=True)
TRAIN = Kind("train", PROGRESS, training_content, frozenset({"validations", "reference"}))
KINDS = (BENCHMARK, EVALUATE, FRONT, REPRODUCE, AUDIT, TRAIN)


@dataclass(frozen=True, slots=True)
class Run:
    """A result as the page takes it.

    Attributes:
        number: On the page, from 1.
        name: Of its folder, with as many of the folders above as tell it from the others.
        path: Its file.
        kind: Which command wrote it.
        content: Of the file.
        written: When the file was last changed, UTC.
    """

    number: int
    name: str
    path: Path
    kind: Kind
    content: Content
    written: datetime

    @property
    def label(self) -> str:
        """Short, and different for every run of the page."""
        return f"{self.number}: {self.name}"

    @property
    def version(self) -> str:
        """Of the carbon-gym that made it; "" where the file does not say."""
        return str(dict_of(self.content.get("versions")).get("carbon-gym", ""))

    @property
    def title(self) -> str:
        """Of its section."""
        made = f", version {self.version}" if self.version else ""
        return f"{self.label}: {self.kind.command}, {self.written:%Y-%m-%d}{made}"

    @property
    def scenarios(self) -> list[str]:
        """Names, in the order in which they were begun."""
        return list(self.content["inputs"])

    def names(self, scenario: str) -> Callable[[str], str]:
        """Makes names of tables and pictures of a scenario from what they show."""
        part = slugs(self.scenarios)[scenario]
        return lambda what: f"run-{self.number}-{part}-{what}"

    def name_of(self, what: str) -> str:
        """Name of a table or picture that is of no scenario."""
        return f"run-{self.number}-{what}"


def runs_of(paths: Sequence[Path]) -> list[Run]:
    """The results at some places, each once.

    Args:
        paths: Folders that commands wrote, or their files. A folder may hold several results.

    Raises:
        InputError: A place holds no result, or one that is broken or of another schema.
    """
    files: dict[Path, tuple[Path, Kind]] = {}
    for path in paths:
        for file, kind in _results_in(path):
            files.setdefault(file.resolve(), (file, kind))
    folders = _names([place.parent for place in files])
    return [
        Run(
            number,
            name,
            file,
            kind,
            kind.read(file),
            datetime.fromtimestamp(file.stat().st_mtime, UTC),
        )
        for number, (name, (file, kind)) in enumerate(
            zip(folders, files.values(), strict=True), start=1
        )
    ]


def slugs(names: Sequence[str]) -> dict[str, str]:
    """Each name as part of a file's name, unlike the others also without regard to capitals."""
    found: dict[str, str] = {}
    for name in names:
        base = slug(name)[:_LONGEST_NAME].strip("-") or "scenario"
        taken = {part.lower() for part in found.values()}
        part, number = base, 1
        while part.lower() in taken:
            number += 1
            part = f"{base}-{number}"
        found[name] = part
    return found


def _results_in(path: Path) -> list[tuple[Path, Kind]]:
    """Files and what they are; at least one."""
    try:
        if not path.is_dir():
            return [(path, _kind_of(path))]
        there = sorted(entry.name for entry in path.iterdir())
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error}); name a folder that you may read"
        ) from None
    found = [(path / kind.file_name, kind) for kind in KINDS if kind.file_name in there]
    if not found:
        raise InputError(
            f"{path}: has no result of carbon-gym: looked for {_wanted()}; found {_some(there)}"
            f"{_hint(path, there)}"
        )
    return found


def _kind_of(path: Path) -> Kind:
    """What a file is, by its name, else by its keys."""
    if not path.exists():
        raise InputError(
            f"{path}: there is no such file or folder; name the folder that a command wrote (its "
            "--out)"
        )
    for kind in KINDS:
        if path.name == kind.file_name:
            return kind
    if path.suffix == ".json":
        content = json_mapping(path)
        for kind in KINDS:
            # reproduce's and audit's files look alike; who renames one of them must not be misled.
            if kind.keys <= set(content) and not kind.has_report:
                return kind
    raise InputError(
        f"{path}: is no result of carbon-gym; name a folder that a command wrote, or in it "
        f"{_wanted()}"
    )


def _wanted() -> str:
    return ", ".join(f"{kind.file_name} ({kind.command})" for kind in KINDS)


def _some(names: Sequence[str]) -> str:
    if not names:
        return "nothing"
    more = len(names) - _FILES_NAMED
    return ", ".join(names[:_FILES_NAMED]) + (f" and {more} more" if more > 0 else "")


def _hint(path: Path, names: Sequence[str]) -> str:
    """Where the results may be that were meant."""
    for name in names:
        if any((path / name / kind.file_name).is_file() for kind in KINDS):
            return f"; {path / name} has one: name such folders"
    return "; name the folder that a command wrote (its --out)"


def _names(folders: Sequence[Path]) -> list[str]:
    """Names of folders, each with as many folders above it as tell it from the others."""
    different = set(folders)
    depths = dict.fromkeys(different, 1)
    while True:
        shown = {folder: "/".join(folder.parts[-depth:]) for folder, depth in depths.items()}
        counts = Counter(shown.values())
        again = [f for f in different if counts[shown[f]] > 1 and depths[f] < len(f.parts)]
        if not again:
            return [shown[folder] or str(folder) for folder in folders]
        for folder in again:
            depths[folder] += 1
