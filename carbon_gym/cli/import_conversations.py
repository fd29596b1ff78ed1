"""`carbon-gym import conversations`: conversations in the formats of others, made ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from carbon_gym.cli.console import finish, out_folder, output_console, took
from carbon_gym.cli.tables import print_table
from carbon_gym.errors import InputError
from carbon_gym.files import make_writable_folder, remove_if_empty, replacing

CSV_NAME = "conversations.csv.gz"
PICTURE_NAME = "conversations.png"
EXAMPLES = """\b
Examples:
  carbon-gym import conversations ShareGPT_V3_unfiltered_cleaned_split.json \\
      --out mine
  carbon-gym import conversations vllm-usage.jsonl.gz
  carbon-gym import conversations requests.csv --keep served_by --out mine
  carbon-gym import conversations --from-hub wildchat
  carbon-gym benchmark --conversations mine/conversations.csv.gz
"""


def conversations(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Plain, gzip, or a zip archive of one file."),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto: told from the content; else tokens, sharegpt, messages, sharechat, "
            "wildchat, lmsys, burstgpt, azure, mooncake or usage.",
        ),
    ] = "auto",
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A tokenizer.json to count text with; default: characters / 4."
        ),
    ] = None,
    prompts: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What prompt tokens of burstgpt and azure hold: whole (with the history), new "
            "(without), or auto.",
        ),
    ] = "auto",
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Of tokens, burstgpt, azure and usage: the column that says where each turn was "
            "served; it is written under the same name, for `audit --rule COLUMN`.",
        ),
    ] = None,
    from_hub: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Fetch a data set with huggingface_hub instead of FILE: sharegpt, sharechat, "
            "wildchat, lmsys, burstgpt, owner/name or owner/name:file.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder to write to; default runs/<time>-import-conversations."
        ),
    ] = None,
) -> None:
    """Tell the format of a file, print what is in it, and write the canonical tokens file."""
    from carbon_gym.importing.detect import detect
    from carbon_gym.importing.formats import FORMATS, read_any
    from carbon_gym.importing.hub import fetch
    from carbon_gym.importing.requests import checked_prompts
    from carbon_gym.importing.summary import draw_summary, summary_rows
    from carbon_gym.importing.write import writable, write_tokens

    rule = checked_prompts(prompts)
    if (file is None) == (from_hub is None):
        raise InputError("import conversations: name one file, or a data set with --from-hub")
    folder = out_folder(out, "import-conversations", goes_on=False)
    made = make_writable_folder(folder, "--out")
    try:
        source = file if file is not None else fetch(str(from_hub))
        name, reason = detect(source) if format == "auto" else (format, "as named by --format")
        found = writable(read_any(source, name, tokenizer, rule, keep))
        with replacing(folder / CSV_NAME) as csv, replacing(folder / PICTURE_NAME) as picture:
            write_tokens(found, csv)
            draw_summary(found, picture)
    finally:
        remove_if_empty(made)
    console = output_console()
    console.print(f"{source}: {FORMATS[name].title} ({name}: {reason})", soft_wrap=True)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for label, text in summary_rows(found):
        table.add_row(label, text)
    print_table(console, table)
    for note in found.notes:
        console.print(f"- {note}", style="dim", soft_wrap=True)
    written = [folder / CSV_NAME, folder / PICTURE_NAME]
    summary = dict(summary_rows(found))
    finish({"format": name, "summary": summary, "notes": found.notes}, written, *written)
    console.print(took())
