"""Loading a scenario from a packaged name, a YAML file, a mapping or keyword arguments."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.resources import packaged, packaged_names
from carbon_gym.scenario.scenario import Scenario

_MAX_EXTENDS = 8


def load_scenario(
    source: str | Path | Mapping[str, Any] | Scenario = "sharegpt", /, **overrides: Any
) -> Scenario:
    """Load and validate a scenario.

    Args:
        source: A packaged name (`scenario_names`), the path of a YAML file, a mapping such as
            `Scenario.to_dict` gives, or a `Scenario`.
        **overrides: Sections to change, merged deeply, e.g. ``capacity={"limit": 0.25}``.

    Returns:
        The frozen scenario; its fleet and profile are resolved, so that it depends on no file
        but the statistics or data that it names.

    Raises:
        InputError: Unknown name, file or key (with the nearest known one), or a value that is
            not allowed.

    Example:
        >>> load_scenario("tiny", cache={"on_leave": "evict"}).cache.on_leave
        'evict'
    """
    if isinstance(source, Scenario):
        where, name, content = "scenario", source.name, source.to_dict()
    elif isinstance(source, Mapping):
        where, name, content = "scenario", "custom", dict(source)
    else:
        where, name, content = _read(str(source))
    named_origin = "origin" in content  # a packaged one may use the gate and knobs of another
    content = _resolve_extends(_merge(content, overrides), where, Path(where).parent)
    content.setdefault("name", name)
    if where in scenario_names() and not named_origin:
        content["origin"] = where
    try:
        return Scenario.model_validate(_resolve_catalogues(content, where))
    except ValidationError as error:
        raise InputError(validation_sentence(error, where)) from None


class _Loader(yaml.SafeLoader):
    """YAML that refuses a key given twice, of which the last would silently win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping whose keys differ."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"key {key!r} is given twice", problem_mark=key_node.start_mark
                )
            if isinstance(key, str):
                seen.add(key)
        return dict(super().construct_mapping(node, deep))


def scenario_names() -> list[str]:
    """Names of the packaged scenarios."""
    return packaged_names("scenarios", ".yaml")


def _read(source: str) -> tuple[str, str, dict[str, Any]]:
    """(what to call it in errors, scenario name, content) of a packaged name or a YAML file."""
    path = Path(source)
    if source in scenario_names():
        path = packaged(f"scenarios/{source}.yaml")
    elif path.suffix not in (".yaml", ".yml"):
        hint = did_you_mean(source, scenario_names())
        raise InputError(
            f"scenario {source!r} is not known; {hint}use one of {', '.join(scenario_names())}, "
            "or a file that ends in .yaml"
        )
    return str(source), path.stem, read_yaml_mapping(path, shown_as=str(source))


def read_yaml_mapping(
    path: Path, shown_as: str | None = None, example: str = "extends: sharegpt"
) -> dict[str, Any]:
    """Read a YAML file that holds a mapping; `InputError` names the file and line otherwise.

    Args:
        path: The file.
        shown_as: What to call it in errors; None: its path.
        example: A line that such a file may hold.
    """
    shown = shown_as or str(path)
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except FileNotFoundError:
        raise InputError(f"{shown}: there is no such file; check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{shown}: cannot be read as UTF-8 text ({error}); give a YAML file"
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "syntax error"
        raise InputError(f"{shown}{line}: is not valid YAML ({problem}); mend that line") from None
    except ValueError as error:  # a date that does not exist, a number out of range
        raise InputError(f"{shown}: holds a value that cannot be ({error}); mend it") from None
    if content is None:
        raise InputError(f"{shown}: the file is empty; give at least `{example}`")
    if not isinstance(content, dict):
        raise InputError(
            f"{shown}: holds a {type(content).__name__}; a mapping of sections is needed, "
            f"such as `{example}`"
        )
    return content


def _resolve_extends(content: dict[str, Any], where: str, folder: Path) -> dict[str, Any]:
    """Lay a scenario over those that it extends; files are found beside the one that names them."""
    for _ in range(_MAX_EXTENDS):
        base = content.pop("extends", None)
        if base is None:
            return content
        if not isinstance(base, str):
            raise InputError(f"{where}: extends must be one scenario name or file, found {base!r}")
        packaged_base = base in scenario_names()
        if not packaged_base and base.endswith((".yaml", ".yml")):
            base = str(folder / base)
            folder = Path(base).parent
        parent = _read(base)[2]
        parent.pop("name", None)  # what derives from it is something else
        if packaged_base:
            content.setdefault("origin", parent.get("origin", base))
        content = _merge(parent, content)
    raise InputError(f"{where}: extends goes deeper than {_MAX_EXTENDS} scenarios; is it a circle?")


def _merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in change.items():
        old = merged.get(key)
        if isinstance(value, BaseModel):
            value = value.model_dump(mode="json")
        if key == "energy" and isinstance(value, Mapping):
            if "profile" in value:
                old = None  # a profile is whole: what was resolved before does not show through
            elif isinstance(old, str):
                old = {"profile": old}
        merged[key] = (
            _merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
        )
    return merged


def _resolve_catalogues(content: dict[str, Any], where: str) -> dict[str, Any]:
    """Replace names of models, GPUs, zones and profiles by what they stand for."""
    content = dict(content)
    fleet = content.get("fleet")
    if isinstance(fleet, Mapping):
        fleet = dict(fleet)
        for key, catalogue in (("models", "models"), ("gpus", "gpus")):
            if isinstance(fleet.get(key), list | tuple):
                fleet[key] = [_from_catalogue(item, catalogue, where) for item in fleet[key]]
        if isinstance(fleet.get("regions"), list | tuple):
            fleet["regions"] = [
                {"zone": item} if isinstance(item, str) else item for item in fleet["regions"]
            ]
        content["fleet"] = fleet
    energy = content.get("energy")
    if isinstance(energy, str):
        energy = {"profile": energy}
    if isinstance(energy, Mapping) and "profile" in energy:
        energy = dict(energy)
        content["energy"] = _merge(_profile(energy.pop("profile"), where), energy)
    return content


def _from_catalogue(item: Any, catalogue: str, where: str) -> Any:
    if not isinstance(item, str):
        return item
    entries = yaml.safe_load(packaged(f"catalogue/{catalogue}.yaml").read_text(encoding="utf-8"))
    known = {entry["name"]: entry for entry in entries}
    if item in known:
        return known[item]
    raise InputError(
        f"{where}: fleet.{catalogue} names {item!r}, which is not in the catalogue"
        f"{_did_you_mean(item, known)}; use one of {', '.join(known)}, or spell it out as a mapping"
    )


def _profile(name: Any, where: str) -> dict[str, Any]:
    known = packaged_names("profiles", ".yaml")
    if isinstance(name, str) and name in known:
        return read_yaml_mapping(packaged(f"profiles/{name}.yaml"))
    if isinstance(name, str) and name.endswith((".yaml", ".yml")):
        return read_yaml_mapping(Path(name))
    raise InputError(
        f"{where}: energy profile {name!r} is not known{_did_you_mean(str(name), known)}; "
        f"use one of {', '.join(known)}, or a file that ends in .yaml"
    )


def _did_you_mean(found: str, known: typing.Iterable[str]) -> str:
    near = difflib.get_close_matches(found, list(known), n=1, cutoff=0.4)
    return f" (nearest: {near[0]!r})" if near else ""


def validation_sentence(
    error: ValidationError, where: str, root: type[BaseModel] = Scenario
) -> str:
    """The first problem of a validation as one sentence; the number of others at its end.

    Args:
        error: What pydantic found.
        where: The file, or what else was read.
        root: The model that was validated.
    """
    problems = error.errors()
    mistyped = [problem for problem in problems if problem["type"] == "extra_forbidden"]
    first = (mistyped or problems)[0]
    key = ".".join(str(part) for part in first["loc"]) or root.__name__.lower()
    others = error.error_count() - 1
    more = f" ({others} more problem{'s' if others > 1 else ''})" if others else ""
    if first["type"] == "extra_forbidden":
        known = sorted(_fields_at(first["loc"][:-1], root))
        near = _did_you_mean(str(first["loc"][-1]), known)
        return f"{where}: key {key!r} is not known{near}; known here: {', '.join(known)}{more}"
    if first["type"] == "missing":
        fix = "give `extends: sharegpt` or a fleet" if key == "fleet" else "give it a value"
        return f"{where}: key {key!r} is missing; {fix}{more}"
    message = first["msg"].removeprefix("Value error, ")
    found = first["input"]
    shown = (
        repr(found) if isinstance(found, str | int | float | bool | None) else type(found).__name__
    )
    if isinstance(found, Mapping):
        return f"{where}: {key}: {message}{more}"
    return f"{where}: {key} = {shown} is not allowed: {message}{more}"


def _fields_at(location: tuple[int | str, ...], root: type[BaseModel]) -> set[str]:
    """Names of the fields of the section at a location."""
    model: Any = root
    for part in location:
        if isinstance(part, int):
            continue
        model = _section_of(model.model_fields[part].annotation)
    fields = set(model.model_fields)
    return fields | {"extends"} if model is Scenario else fields


def _section_of(annotation: Any) -> Any:
    """The model inside an annotation such as ``tuple[Model, ...]``."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation
    for argument in typing.get_args(annotation):
        found = _section_of(argument)
        if isinstance(found, type) and issubclass(found, BaseModel):
            return found
    return annotation
