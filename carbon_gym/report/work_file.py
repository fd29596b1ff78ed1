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

_NOT_OURS = (ValueError, KeyError, TypeError, AttributeError)
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

    @classmethod
    @abstractmethod
    def check(cls, content: Mapping[str, Any]) -> None:
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
            self._check_all(content)
        except (OSError, *_NOT_OURS):
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

    @classmethod
    def content_of(cls, path: Path) -> dict[str, Any]:
        """The content of a file of any version whose layout is the same, to be read only.

        Raises:
            InputError: It cannot be read, is broken, of another kind or of another schema.
        """
        content = json_mapping(path)
        found = content.get("schema")
        made_by = dict_of(content.get("versions")).get("carbon-gym")
        if type(found) is int and found != cls.schema and made_by is not None:
            fix = (
                "run the command again with this version"
                if found < cls.schema
                else f"use carbon-gym {made_by} or later"
            )
            raise InputError(
                f"{path}: has schema {found} and was made by carbon-gym {made_by}; this is "
                f"{__version__}, which reads schema {cls.schema} of {cls.kind}; {fix}"
            )
        try:
            if made_by is None or found != cls.schema:
                raise KeyError("schema" if made_by is not None else "versions")
            cls._check_all(content)
        except _NOT_OURS as error:
            raise InputError(
                f"{path}: is not {cls.kind} of carbon-gym ({what_is_wrong(error)}); name the "
                "folder or file that a command wrote"
            ) from None
        return content

    @classmethod
    def _check_all(cls, content: dict[str, Any]) -> None:
        for key in ("scenario", "inputs"):
            content[key] = dict(content[key])
        cls.check(content)


def json_mapping(path: Path) -> dict[str, Any]:
    """What a JSON file holds, for commands that read it.

    Raises:
        InputError: It cannot be read, is not whole, or holds no mapping.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error}); name a file that exists and "
            "that you may read"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: is not whole JSON ({error}); remove it and run the command that made it again"
        ) from None
    if not isinstance(content, dict):
        raise InputError(
            f"{path}: holds a JSON {type(content).__name__}, not an object, so that it is no "
            "result of carbon-gym; name the folder or file that a command wrote"
        )
    return content


def what_is_wrong(error: Exception) -> str:
    """Why a file's content is not what a command writes, in a few words."""
    return f"no {error}" if isinstance(error, KeyError) else str(error)


def dict_of(value: object) -> dict[str, Any]:
    """The mapping itself, or an empty one where it is something else."""
    return value if isinstance(value, dict) else {}


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
