"""Commands whose modules are imported when they are asked for: help and completion stay quick."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from carbon_gym.cli.habits import with_habits

QUIET_APP: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}
"""Of every `Typer`: plain help, and tracebacks as Python prints them."""


class LaterCommand(TyperCommand):
    """A command in the list of all, which becomes itself when it is used.

    Args:
        name: In the list.
        module: Has a function, or a `Typer` of several commands, of the module's own name; a
            function's examples are its ``EXAMPLES``.
        short_help: In the list.
    """

    def __init__(self, name: str, module: str, short_help: str) -> None:
        self._module = module
        super().__init__(name, short_help=short_help)

    @cached_property
    def real(self) -> Any:
        """The command itself."""
        module = importlib.import_module(self._module)
        found = getattr(module, self._module.rpartition(".")[2])
        assert self.name is not None
        if isinstance(found, typer.Typer):
            return _group(found, self.name)
        return _command(found, self.name, self.name, module.EXAMPLES)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """The context of the command itself."""
        return self.real.make_context(*arguments, **options)

    @property
    def commands(self) -> Mapping[str, Any]:
        """Of a group."""
        return dict(getattr(self.real, "commands", {}))

    @property
    def params(self) -> list[Any]:
        """Of the command itself."""
        return list(self.real.params)

    @params.setter
    def params(self, _: Any) -> None:
        """The base class gives every command its own, which this one has not got."""

    @property
    def epilog(self) -> str | None:
        """Of the command itself."""
        text: str | None = self.real.epilog
        return text

    @epilog.setter
    def epilog(self, _: Any) -> None:
        """See `params`."""


def later_group(commands: Mapping[str, tuple[str, str]]) -> type[TyperGroup]:
    """A group of commands by name: (module, what it does, for the list)."""

    class Group(TyperGroup):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.commands = {
                **{name: LaterCommand(name, *place) for name, place in commands.items()},
                **self.commands,
            }

    return Group


def _group(app: typer.Typer, name: str) -> Any:
    """The commands of a `Typer`, each with the habits of all."""
    alone = typer.Typer(name=name, help=app.info.help, no_args_is_help=True, **QUIET_APP)
    alone.callback()(lambda: None)
    group = get_command(alone)
    assert isinstance(group, TyperGroup)
    for info in app.registered_commands:
        assert info.callback is not None
        own = info.name or info.callback.__name__.replace("_", "-")
        made = _command(info.callback, own, f"{name} {own}", info.epilog, info.short_help)
        group.commands[own] = made
    return group


def _command(
    function: Callable[..., None],
    name: str,
    whole_name: str,
    examples: str | None,
    short_help: str | None = None,
) -> Any:
    alone = typer.Typer(**QUIET_APP)
    alone.command(name=name, epilog=examples, short_help=short_help)(
        with_habits(function, whole_name)
    )
    command = get_command(alone)
    for parameter in command.params:
        if parameter.param_type_name == "argument":  # else Python's type stands behind its name
            parameter.display_type_rich = lambda ctx: None  # type: ignore[attr-defined]
    return command
