"""Classes of the user's own, named as ``module:Class``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from carbon_gym.errors import InputError


def own_class(spec: str, kind: str) -> Callable[..., Any]:
    """The class (or function) that ``module:Class`` names.

    The module is looked for in the working folder, then among the installed packages.

    Args:
        spec: As the user wrote it.
        kind: What it should make, for messages: "policy".

    Raises:
        InputError: No such module, or no such class in it.
    """
    module_name, _, class_name = spec.partition(":")
    _look_here()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise  # something that their module imports is missing: their traceback says it best
        raise InputError(
            f"{kind} {spec!r}: there is no module {module_name!r} in {Path.cwd()} or among the "
            "installed packages; write it as module:Class"
        ) from None
    made: Callable[..., Any] | None = getattr(module, class_name, None)
    if not callable(made):
        raise InputError(
            f"{kind} {spec!r}: the module has no class {class_name!r}; write it as module:Class"
        )
    return made


def source_of(spec: str) -> list[Path]:
    """The file of the module that ``module:Class`` names; empty where it has none."""
    _look_here()
    try:
        found = importlib.util.find_spec(spec.partition(":")[0])
    except ModuleNotFoundError:  # of the package that it names; `own_class` says it
        return []
    if found is None or not found.has_location or found.origin is None:  # Python's own, or a folder
        return []
    return [Path(found.origin)]


def _look_here() -> None:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
