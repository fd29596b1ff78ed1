"""`carbon-gym fit-gate`: train CCAR's gate on the training split, tune it on validation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from carbon_gym.cli.choices import ScenariosOption, at_least_one, processes_of
from carbon_gym.cli.comparing import JobsOption
from carbon_gym.cli.console import finish, out_folder, output_console, status_line
from carbon_gym.doors import our_package
from carbon_gym.errors import from_extra
from carbon_gym.files import make_writable_folder, remove_if_empty, replacing

EXAMPLES = """\b
Examples:
  carbon-gym fit-gate --scenario congested --out gates
  carbon-gym fit-gate --scenario my.yaml --fleets 16
"""


def fit_gate(
    scenario: ScenariosOption = None,
    fleets: Annotated[
        int, typer.Option(metavar="K", help="Fleets of each split, training and validation.")
    ] = 8,
    jobs: JobsOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for SCENARIO.json and .png; default runs/<time>-fit-gate."
        ),
    ] = None,
) -> None:
    """Fit the gate by hindsight; write its coefficients, provenance and calibration picture."""
    at_least_one("--fleets", fleets)
    processes = processes_of(jobs)
    with from_extra("fit-gate"):
        import sklearn  # noqa: F401
    our_package("baselines")
    from baselines.fit_gate import fit_gate as fit
    from carbon_gym.evaluation import evaluation_fleets
    from carbon_gym.scenario import load_scenario

    scenarios = {source: load_scenario(source) for source in scenario or ["sharegpt"]}
    folder = out_folder(out, "fit-gate", goes_on=False)
    made = make_writable_folder(folder, "--out")
    console = output_console()
    found: dict[str, Any] = {}
    written: list[Path] = []
    try:
        for source, chosen in scenarios.items():
            with status_line(chosen.name) as on_progress:
                content = fit(
                    evaluation_fleets(chosen, split="train", fleets=fleets),
                    evaluation_fleets(chosen, split="validation", fleets=fleets),
                    jobs=processes,
                    on_progress=on_progress,
                )
            content["command"] = f"carbon-gym fit-gate --scenario {source} --fleets {fleets}"
            path = folder / f"{chosen.name}.json"
            with replacing(path) as partial:
                partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            _picture(content, path.with_suffix(".png"))
            console.print(_summary(path, content), soft_wrap=True)
            found[chosen.name] = content
            written += [path, path.with_suffix(".png")]
    finally:
        remove_if_empty(made)
    finish(found, written, folder)


def _summary(path: Path, content: dict[str, Any]) -> str:
    training, validation, tuning = content["training"], content["validation"], content["tuning"]
    never = tuning["co2_g_by_weight"]["0"]

    def gain(best: float) -> str:
        return f"{100 * (1 - best / never):.2f} %" if never else "0 %"

    return (
        f"{path}: {training['switches']} switches, {training['base_rate']} move back, AUC "
        f"{training['auc']} (validation {validation['auc']}); on validation the threshold "
        f"{content['threshold']:g} saves {gain(min(tuning['co2_g_by_threshold'].values()))}, "
        f"the weight {content['weight']:g} saves {gain(min(tuning['co2_g_by_weight'].values()))}"
    )


def _picture(content: dict[str, Any], path: Path) -> None:
    """Calibration on validation, and CO2 against threshold and weight."""
    from carbon_gym.report.style import new_figure, save

    figure = new_figure(10.0, 3.4)
    left, middle, right = figure.subplots(1, 3)
    bins = content["calibration"]
    predicted = [item["predicted"] for item in bins]
    left.plot(predicted, [item["observed"] for item in bins], "o-", label="validation")
    edge = max([*predicted, *(item["observed"] for item in bins), 0.01]) * 1.05
    left.plot([0, edge], [0, edge], color="0.6", linewidth=1, label="perfect")
    left.set(xlabel="predicted P(back)", ylabel="observed share", title=content["scenario"])
    left.legend()
    for axes, key, label in (
        (middle, "co2_g_by_threshold", "threshold (2: never)"),
        (right, "co2_g_by_weight", "λ (0: never)"),
    ):
        curve = content["tuning"][key]
        never = content["tuning"]["co2_g_by_weight"]["0"]
        places = range(len(curve))
        axes.plot(places, [100 * (g / never - 1) if never else 0.0 for g in curve.values()], "o-")
        axes.axhline(0, color="0.6", linewidth=1)
        axes.set_xticks(list(places), list(curve), rotation=60, fontsize=7)
        axes.set(xlabel=label, ylabel="CO2 against no gate, %")
    save(figure, path)
