"""`carbon-gym evaluate`: routers over their training seeds, beside a reference, on test fleets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from carbon_gym.cli.choices import (
    ScenariosOption,
    at_least_one,
    complete_policy,
    day,
    one_of,
    processes_of,
)
from carbon_gym.cli.comparing import (
    SPLITS,
    ConversationsOption,
    FormatOption,
    GridOption,
    JobsOption,
    SessionsOption,
    SplitOption,
    StartOption,
    TokenizerOption,
    ZonesOption,
    check_before_the_work,
    compare_and_keep,
    files_of,
    with_files,
    with_notes,
)
from carbon_gym.cli.console import finish, out_folder, output_console, took
from carbon_gym.cli.tables import print_table
from carbon_gym.doors import our_package
from carbon_gym.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from carbon_gym.evaluation import Evaluation
    from carbon_gym.methods import Method
    from carbon_gym.report.evaluation_file import EvaluationFile
    from carbon_gym.scenario.schema import Split

DEFAULT_SCENARIOS = ["sharegpt"]
EXAMPLES = """\b
Examples:
  carbon-gym evaluate learned lookahead --scenario congested
  carbon-gym evaluate runs/congested__* --scenario congested --fleets 16
  carbon-gym evaluate wide=a.npz,b.npz narrow=c.npz,d.npz --reference ccar-ev
  carbon-gym evaluate learned --conversations turns.csv.gz --grid grid.csv \\
      --zones AU-NSW,US-NY-NYIS,CL-SEN,CA-ON
"""


def evaluate(
    policies: Annotated[
        list[str],
        typer.Argument(
            metavar="POLICY",
            help="Policies by name, module:Class, router.npz or the folder of a training run. "
            "Those that were trained alike but for the seed are one method; so is learned, all "
            "shipped routers, and whatever is written as METHOD=POLICY,POLICY.",
            autocompletion=complete_policy,
        ),
    ],
    scenario: ScenariosOption = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Policy or method to compare with. Default: ccar, under a quality budget "
            "ccar-budget.",
            autocompletion=complete_policy,
        ),
    ] = None,
    conversations: ConversationsOption = None,
    format: FormatOption = None,
    tokenizer: TokenizerOption = None,
    grid: GridOption = None,
    zones: ZonesOption = None,
    start: StartOption = None,
    sessions: SessionsOption = None,
    fleets: Annotated[
        int | None, typer.Option(metavar="K", help="Number of fleets; each is a day. Default: 16.")
    ] = None,
    split: SplitOption = None,
    jobs: JobsOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for evaluation.json; default runs/<time>-evaluation."
        ),
    ] = None,
) -> None:
    """Compare routers with a rule on whole fleets of the test split, over training seeds.

    The same --out again does only what is missing.
    """
    from carbon_gym.evaluation import evaluation_fleets
    from carbon_gym.methods import methods_of, with_reference
    from carbon_gym.report.evaluation_file import EvaluationFile
    from carbon_gym.scenario import load_scenario

    part = None if split is None else one_of("--split", split, SPLITS)
    size = {
        "split": part,
        "fleets": at_least_one("--fleets", fleets),
        "start": None if start is None else day("--start", start),
        "sessions": at_least_one("--sessions", sessions),
    }
    processes = processes_of(jobs)
    files = files_of(conversations, format, tokenizer, grid, zones)
    scenarios = [
        with_files(load_scenario(source), files)
        for source in dict.fromkeys(scenario or DEFAULT_SCENARIOS)
    ]
    check_before_the_work(scenarios)
    rule_of = our_package("baselines").reference_of
    compared = [
        with_reference(methods_of(policies, chosen), reference or rule_of(chosen), chosen)
        for chosen in scenarios
    ]
    console = output_console()
    found: dict[str, Any] = {}
    written: list[Path] = []
    with EvaluationFile(out_folder(out, "evaluation")) as file:
        for chosen, (methods, against) in zip(scenarios, compared, strict=True):
            evaluation = evaluation_fleets(chosen, **size)  # type: ignore[arg-type]
            evaluation = _said_of(evaluation, part)
            notes, made = _evaluate(console, evaluation, methods, against, processes, file)
            records = file.methods(chosen.name)
            found[chosen.name] = {"reference": against.name, "methods": records, "notes": notes}
            written += made
    finish(found, written, f"{file.path}  ({took()})")


def _evaluate(
    console: Console,
    evaluation: Evaluation,
    methods: list[Method],
    reference: Method,
    jobs: int,
    file: EvaluationFile,
) -> tuple[Sequence[str], list[Path]]:
    """Run what the folder does not have yet, and show the methods.

    Returns:
        Notes on the fleets and policies, and the files written.
    """
    from carbon_gym.report.evaluation import evaluation_tables

    name = evaluation.scenario.name
    if not any(trace.turns for trace in evaluation.traces):
        raise InputError(
            f"{name}: no fleet has a turn, so that there is nothing to compare; give more sessions"
        )
    policies = list(dict.fromkeys(m.policy for method in methods for m in method.members))
    evaluation = with_notes(evaluation, policies)
    compare_and_keep(evaluation, policies, jobs, file)
    written = file.finish(name, methods, reference)
    for table in evaluation_tables(
        _title(evaluation), file.methods(name), reference.name, console.width
    ):
        console.print()
        print_table(console, table)
    for note in evaluation.notes:
        console.print(f"- {note}", style="dim")
    return evaluation.notes, written


def _said_of(evaluation: Evaluation, split: Split | None) -> Evaluation:
    """The evaluation with a warning where its fleets are no test."""
    if split in (None, "test"):
        return evaluation
    use = "routers are trained" if split == "train" else "the best of a training is chosen"
    note = f"fleets of the {split} split, on which {use}: this is no test"
    return replace(evaluation, notes=(*evaluation.notes, note))


def _title(evaluation: Evaluation) -> str:
    turns = sum(trace.turns for trace in evaluation.traces)
    return (
        f"{evaluation.scenario.name}: {len(evaluation.traces)} fleets, {turns:,} turns, "
        f"{min(evaluation.days)} to {max(evaluation.days)}"
    )
