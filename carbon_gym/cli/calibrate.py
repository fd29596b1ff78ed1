"""`carbon-gym calibrate`: recompute the statistics that the generators run on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from carbon_gym.cli.choices import conversation_format, names_in, one_of
from carbon_gym.cli.console import finish, output_console
from carbon_gym.errors import InputError
from carbon_gym.files import check_writable_file
from carbon_gym.grid.annual import write_annual_means
from carbon_gym.grid.calibrate import NOTICES, write_grid_statistics
from carbon_gym.scenario.schema import Seeds, Splits, Workload
from carbon_gym.workload.calibrate import calibrate_workload
from carbon_gym.workload.gaps import ArrivalStatistics, measure_arrivals
from carbon_gym.workload.published import sharechat_statistics, sharegpt_statistics
from carbon_gym.workload.readers import read_conversations
from carbon_gym.workload.statistics import WorkloadStatistics, load_statistics, write_statistics

WORKLOAD_EXAMPLES = """\b
Examples:
  carbon-gym calibrate workload --conversations turns.csv.gz --out mine.json
  carbon-gym calibrate workload --packaged sharechat --out sharechat.json
"""
GRID_EXAMPLES = """\b
Examples:
  carbon-gym calibrate grid --hourly g.csv --years 2021,2022 --out grid.json
  carbon-gym calibrate grid --hourly DE.csv --hourly GB.csv --years 2023 \\
      --zones DE,GB --out grid.json
"""
ANNUAL_EXAMPLES = """\b
Examples:
  carbon-gym calibrate annual --means means.csv --cloud-regions regions.csv \\
      --out annual.json
"""

calibrate = typer.Typer(
    help="Recompute the statistics of the generators from files, ours or your own.",
    no_args_is_help=True,
)

Out = Annotated[Path, typer.Option(metavar="FILE", help="JSON file to write.")]


@calibrate.command(short_help="Measure conversations.", epilog=WORKLOAD_EXAMPLES)
def workload(
    out: Out,
    conversations: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Conversations to measure; the training split is used."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of --conversations: tokens, sharegpt or messages."),
    ] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A tokenizer.json.")
    ] = None,
    hours: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="CSV of sessions by hour of day; default: the file's arrivals, or ours.",
        ),
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the statistics.")] = "custom",
    packaged: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Remake a packaged file: sharegpt (needs --conversations and --hours) "
            "or sharechat (from the packaged sharegpt).",
        ),
    ] = None,
) -> None:
    """Measure conversations: turns, tokens, their correlation, categories, hours of arrival.

    Use the result with `workload: {statistics: FILE.json}` in a scenario.
    """
    check_writable_file(out, "--out")
    arrivals = None
    made = None if packaged is None else _packaged(packaged, conversations, hours)
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
            output_console().print(_for_the_scenario(arrivals), soft_wrap=True)
    write_statistics(made, out)
    counts = {"training_sessions": made.training_sessions, "turns": made.training_queries}
    said = f"{out}: {made.training_sessions} training sessions, {made.training_queries} turns"
    measured = None if arrivals is None else asdict(arrivals)
    finish({**counts, "arrivals": measured}, [out], said, out=out.parent)


@calibrate.command(short_help="Measure grids.", epilog=GRID_EXAMPLES)
def grid(
    out: Out,
    hourly: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE", help="Hourly carbon intensity; may be repeated (a zone a file)."
        ),
    ],
    years: Annotated[str, typer.Option(metavar="YEARS", help="To pool, separated by commas.")],
    subhourly: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A 5-minute series, for the movement inside the hour."),
    ] = None,
    zones: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Separated by commas; default: all of the files."),
    ] = None,
    notice: Annotated[
        str,
        typer.Option(
            metavar="NAME", help=f"Source and license lines to carry: {', '.join(NOTICES)}."
        ),
    ] = "own",
) -> None:
    """Measure grids: month x hour profiles, residuals, their correlation, movement in the hour.

    Use the result with `grid: {statistics: FILE.json}` in a scenario.
    """
    check_writable_file(out, "--out")
    chosen = one_of("--notice", notice, tuple(NOTICES))
    try:
        numbers = [int(year) for year in years.split(",")]
    except ValueError:
        raise InputError(
            f"--years {years!r} is not a list of years; write it as 2021,2022"
        ) from None
    named = None if zones is None else names_in("--zones", zones)
    content = write_grid_statistics(list(hourly), subhourly, numbers, out, chosen, named)
    said = f"{out}: {len(content['zones'])} zones, {years}"
    finish({"zones": list(content["zones"]), "years": numbers}, [out], said, out=out.parent)


@calibrate.command(short_help="Choose annual means of countries.", epilog=ANNUAL_EXAMPLES)
def annual(
    out: Out,
    means: Annotated[
        Path,
        typer.Option(metavar="FILE", help="CSV: zone, zone_name, year, ci_g_per_kwh."),
    ],
    cloud_regions: Annotated[
        Path, typer.Option(metavar="FILE", help="CSV: em_zone, the zones of a cloud's regions.")
    ],
    year: Annotated[int, typer.Option(metavar="YEAR", help="Calendar year.")] = 2024,
) -> None:
    """Choose annual means of whole countries, and those where a cloud has a data centre.

    `carbon-gym reproduce` shows how far they span.
    """
    check_writable_file(out, "--out")
    content = write_annual_means(means, cloud_regions, year, out)
    places = len(content["with_data_centre"])
    countries = len(content["zones"])
    said = f"{out}: {countries} countries of {year}, {places} with a data centre"
    found = {"year": year, "countries": countries, "with_data_centre": places}
    finish(found, [out], said, out=out.parent)


def _for_the_scenario(arrivals: ArrivalStatistics) -> str:
    found = {key: value for key, value in asdict(arrivals).items() if value is not None}
    if not found:
        return "too few arrivals to measure gaps and bursts; the scenario's defaults stay"
    shown = ", ".join(f"{key}: {value:.3f}" for key, value in found.items())
    return f"for the workload section of your scenario: {{{shown}}}"


def _packaged(packaged: str, conversations: Path | None, hours: Path | None) -> WorkloadStatistics:
    if one_of("--packaged", packaged, ("sharegpt", "sharechat")) == "sharechat":
        if conversations is not None or hours is not None:
            raise InputError("--packaged sharechat reads no file; leave --conversations out")
        return sharechat_statistics(load_statistics("sharegpt"))
    if conversations is None or hours is None:
        raise InputError("--packaged sharegpt needs --conversations and --hours; name both files")
    return sharegpt_statistics(conversations, hours)
