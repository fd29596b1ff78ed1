"""`carbon-gym import`: files of others, told apart by their content, made ours."""

from __future__ import annotations

import typer

from carbon_gym.cli.import_conversations import EXAMPLES, conversations
from carbon_gym.cli.import_grid import GRID_EXAMPLES, grid

import_files = typer.Typer(
    help="Read conversations and grids in the formats of others and write canonical files.",
    no_args_is_help=True,
)

import_files.command(short_help="Conversations, from logs and public data sets.", epilog=EXAMPLES)(
    conversations
)
import_files.command(short_help="Carbon intensity, from its publishers.", epilog=GRID_EXAMPLES)(
    grid
)
