"""`carbon-gym fit-gate`: train CCAR's gate on the training split, tune it on validation."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from carbon_gym.cli.console import output_console
from carbon_gym.doors import our_package
from carbon_gym.errors import from_extra
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.files import make_writable_folder, replacing
from carbon_gym.report.style import new_figure, save
from carbon_gym.scenario import load_scenario


def fit_gate(
    scenario: Annotated[
        list[str] | None, typer.Option(help="Packaged scenario or YAML file; may be repeated.")
    ] = None,
    fleets: Annotated[
        int, typer.Option(min=1, help="Fleets of each split, training and validation.")
    ] = 8,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: the cores.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for <scenario>.json and .png; default runs/<time>-fit-gate."),
    ] = None,
) -> None:
    """Fit the gate by hindsight; write its coefficients, provenance and calibration picture.

    Examples:
      carbon-gym fit-gate --scenario congested --out gates
    """
    with from_extra("fit-gate"):
        import sklearn  # noqa: F401
    our_package("baselines")
    from baselines.fit_gate import fit_gate as fit

    folder = out or Path("runs") / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-fit-gate"
    make_writable_folder(folder, "--out")
    console, status = output_console(), Console(stderr=True)
    for source in scenario or ["sharegpt"]:
        chosen = load_scenario(source)
        with status.status(chosen.name) as line:
            content = fit(
                evaluation_fleets(chosen, split="train", fleets=fleets),
                evaluation_fleets(chosen, split="validation", fleets=fleets),
                jobs=jobs or os.cpu_count() or 1,
                on_progress=lambda text, name=chosen.name: line.update(f"{name}: {text}"),  # type: ignore[misc]
            )
        content["command"] = f"carbon-gym fit-gate --scenario {source} --fleets {fleets}"
        path = folder / f"{chosen.name}.json"
        with replacing(path) as partial:
            partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        _picture(content, path.with_suffix(".png"))
        console.print(_summary(path, content), highlight=False, soft_wrap=True)


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
