"""`carbon-gym export`: a trained router in a file that runs on NumPy alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from carbon_gym.cli.console import output_console
from carbon_gym.doors import our_package
from carbon_gym.errors import from_extra
from carbon_gym.files import check_writable_file


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a training run.")],
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("router.npz"),
) -> None:
    """Write the best policy of a run to a file that needs no torch.

    Examples:
      carbon-gym export runs/congested__maskable-ppo__0__20261130-060000 --out router.npz
    """
    check_writable_file(out, "--out")
    our_package("agents")
    with from_extra("export"):
        from agents.export import export_run
    recipe = export_run(run, out)
    output_console().print(
        f"{out}: {out.stat().st_size:,} bytes, {recipe['scenario']}, seed {recipe['seed']}",
        highlight=False,
        soft_wrap=True,
    )
