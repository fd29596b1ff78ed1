"""`carbon-gym calibrate`: recompute the statistics that the generators run on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from carbon_gym.cli.choices import conversation_format, one_of
from carbon_gym.errors import InputError
from carbon_gym.grid.calibrate import NOTICES, write_grid_statistics
from carbon_gym.scenario.schema import Seeds, Splits, Workload
from carbon_gym.workload.calibrate import calibrate_workload
from carbon_gym.workload.gaps import measure_arrivals
from carbon_gym.workload.published import sharechat_statistics, sharegpt_statistics
from carbon_gym.workload.readers import read_conversations
from carbon_gym.workload.statistics import WorkloadStatistics, load_statistics, write_statistics

calibrate = typer.Typer(
    help="Recompute the statistics of the generators from files, ours or your own.",
    no_args_is_help=True,
)

Out = Annotated[Path, typer.Option(help="JSON file to write.")]


@calibrate.command()
def workload(
    out: Out,
    conversations: Annotated[
        Path | None, typer.Option(help="Conversations to measure; the training split is used.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="Of --conversations: tokens, sharegpt or messages.")
    ] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="A tokenizer.json.")] = None,
    hours: Annotated[
        Path | None,
        typer.Option(help="CSV of sessions by hour of day; default: the file's arrivals, or ours."),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the statistics.")] = "custom",
    packaged: Annotated[
        str | None,
        typer.Option(
            help="Remake a packaged file: sharegpt (needs --conversations and --hours) "
            "or sharechat (from the packaged sharegpt)."
        ),
    ] = None,
) -> None:
    """Measure conversations: turns, tokens, their correlation, categories, hours of arrival.

    Use the result with `workload: {statistics: FILE.json}` in a scenario.
    """
    made = _packaged(packaged, conversations, hours) if packaged else None
    if made is None:
        if conversations is None:
            raise InputError("calibrate workload: --conversations is missing; name a file")
        read = read_conversations(
            conversations,
            conversation_format(conversations, format),
            None if tokenizer is None else str(tokenizer),
        )
        made = calibrate_workload(
            read, Splits(), Seeds().split, Workload().context_limit_tokens, hours, name=name
        )
        arrivals = measure_arrivals(read, Splits(), Seeds().split)
        if arrivals is not None:
            found = {key: value for key, value in asdict(arrivals).items() if value is not None}
            shown = ", ".join(f"{key}: {value:.3f}" for key, value in found.items())
            typer.echo(
                f"for the workload section of your scenario: {{{shown or 'too few arrivals'}}}"
            )
    write_statistics(made, out)
    typer.echo(f"{out}: {made.training_sessions} training sessions, {made.training_queries} turns")


@calibrate.command()
def grid(
    out: Out,
    hourly: Annotated[
        list[Path], typer.Option(help="Hourly carbon intensity; may be repeated (a zone a file).")
    ],
    years: Annotated[str, typer.Option(help="Years to pool, separated by commas.")],
    subhourly: Annotated[
        Path | None, typer.Option(help="A 5-minute series, for the movement inside the hour.")
    ] = None,
    zones: Annotated[
        str | None, typer.Option(help="Zones, separated by commas; default: all of the files.")
    ] = None,
    notice: Annotated[
        str, typer.Option(help=f"Source and license lines to carry: {', '.join(NOTICES)}.")
    ] = "own",
) -> None:
    """Measure grids: month x hour profiles, residuals, their correlation, movement in the hour.

    Use the result with `grid: {statistics: FILE.json}` in a scenario.
    """
    chosen = one_of("--notice", notice, tuple(NOTICES))
    try:
        numbers = [int(year) for year in years.split(",")]
    except ValueError:
        raise InputError(
            f"--years {years!r} is not a list of years; write it as 2021,2022"
        ) from None
    named = None if zones is None else [zone.strip() for zone in zones.split(",")]
    content = write_grid_statistics(list(hourly), subhourly, numbers, out, chosen, named)
    typer.echo(f"{out}: {len(content['zones'])} zones, {years}")


def _packaged(packaged: str, conversations: Path | None, hours: Path | None) -> WorkloadStatistics:
    if one_of("--packaged", packaged, ("sharegpt", "sharechat")) == "sharechat":
        return sharechat_statistics(load_statistics("sharegpt"))
    if conversations is None or hours is None:
        raise InputError("--packaged sharegpt needs --conversations and --hours; name both files")
    return sharegpt_statistics(conversations, hours)
