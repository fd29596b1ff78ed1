"""`carbon-gym export`: a trained router in a file that runs on NumPy alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from carbon_gym.cli.console import finish
from carbon_gym.doors import our_package
from carbon_gym.errors import from_extra
from carbon_gym.files import check_writable_file

EXAMPLES = """\b
Examples:
  carbon-gym export runs/mine
  carbon-gym export runs/mine --out router.npz
  carbon-gym evaluate router.npz --scenario congested
"""


def export(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a training run.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write.")] = Path("router.npz"),
) -> None:
    """Write the best policy of a run to a file that needs no torch."""
    check_writable_file(out, "--out")
    our_package("agents")
    with from_extra("export"):
        from agents.export import export_run
    recipe = export_run(run, out)
    size = out.stat().st_size
    said = f"{out}: {size:,} bytes, {recipe['scenario']}, seed {recipe['seed']}"
    finish({"bytes": size, "recipe": recipe}, [out], said, out=out.parent)
