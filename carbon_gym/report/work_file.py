"""A JSON file that is whole at every moment and that a rerun takes up again."""

from __future__ import annotations

import json
import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from carbon_gym import __version__
from carbon_gym.errors import InputError
from carbon_gym.evaluation import Evaluation
from carbon_gym.files import make_writable_folder, remove_if_empty, replacing

_VERSIONED = ("gymnasium", "numpy", "numba", "pandas", "pydantic")


class WorkFile(ABC):
    """The file of a long command, in its ``--out``.

    As a context manager it takes a folder that it made away again if nothing was written.

    Args:
        folder: Made if missing. What its file holds stays, as long as it is still right.

    Attributes:
        folder: As given.
        path: The file.

    Raises:
        InputError: The folder cannot be made or written, or holds a file of that name of another
            kind or version.
    """

    file_name: ClassVar[str]
    schema: ClassVar[int]
    """Version of the layout."""
    kind: ClassVar[str]
    """What the file is, in words."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / self.file_name
        self._made = make_writable_folder(folder, "--out")
        self._content = self._read() or {
            "schema": self.schema,
            "scenario": {},
            "versions": versions(),
            "inputs": {},
            **self.empty(),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        remove_if_empty(self._made)

    @abstractmethod
    def empty(self) -> dict[str, Any]:
        """The rest of the content before anything is done."""

    @abstractmethod
    def check(self, content: Mapping[str, Any]) -> None:
        """Touch what the class relies on; a KeyError, TypeError or the like says it is missing."""

    def say_inputs(self, evaluation: Evaluation, **more: Any) -> None:
        """Say what the next entries are of."""
        name = evaluation.scenario.name
        self._content["scenario"][name] = evaluation.scenario.to_dict()
        self._content["inputs"][name] = {
            "digest": evaluation.scenario.digest(),
            "grid": evaluation.grid.source,
            "days": [day.isoformat() for day in evaluation.days],
            "notes": list(evaluation.notes),
            **more,
        }

    def write(self, content: dict[str, Any] | None = None) -> None:
        """Write the file whole; `content`, if given, takes the place of what there was."""
        content = self._content if content is None else content
        write_text(self.path, json.dumps(content, indent=1, allow_nan=False) + "\n")
        self._content = content

    def _read(self) -> dict[str, Any] | None:
        """What an earlier run has left; None where there is nothing."""
        if not self.path.exists():
            return None
        try:
            content = dict(json.loads(self.path.read_text(encoding="utf-8")))
            found = (content["schema"], content["versions"]["carbon-gym"])
            for key in ("scenario", "inputs"):
                content[key] = dict(content[key])
            self.check(content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"{self.path}: is there already and is not {self.kind} of carbon-gym; name another "
                "--out"
            ) from None
        if found != (self.schema, __version__):
            raise InputError(
                f"{self.path}: was made by carbon-gym {found[1]} (schema {found[0]}), this is "
                f"{__version__} (schema {self.schema}); name another --out"
            )
        return content


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def versions() -> dict[str, str]:
    """What the results were made with."""
    return {
        "carbon-gym": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in _VERSIONED},
    }
