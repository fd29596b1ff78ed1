"""The examples of docs/examples run, each as a program, in a folder of its own.

RLlib's runs in an environment of its own, from `.ci/run` (`nox -s rllib`): it pins its Gymnasium.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "docs" / "examples"
TRAININGS = {
    "sb3_ppo": "--steps 512 --lanes 4 --episodes 8",
    "maskable_ppo": "--steps 512 --lanes 4 --episodes 8",
    "cleanrl_style": "--steps 512 --lanes 4 --rollout 64 --minibatch 128",
    "torchrl_loop": "--steps 512 --rollout 256",
}
QUICK = {
    **{name: f"--scenario tiny {options}" for name, options in TRAININGS.items()},
    "loop": "",
    "own_policy": "--scenario tiny",
    "train_and_compare": "--scenario tiny --sessions 40 --steps 50000 --days 5",
    "own_fleet": "--days 1 --sessions 60",
    "offline_dataset": "--scenario tiny --days 2 --sessions 40 --epochs 40",
}
SAYS = {
    **dict.fromkeys(TRAININGS, "mean return"),
    "loop": r"moved\n(.*\n)*return of the conversation: -\d",
    "own_policy": r"ccar .*\n.*own_policy:CleanestGrid .*\d",
    "train_and_compare": r"saves -?\d+\.\d \[-?\d+\.\d, -?\d+\.\d\] % over ccar on 5 test days",
    "own_fleet": r"ccar +\d+\.\d g, .* tokens: DE \d+ %, GB \d+ %, US-MIDA-PJM \d+ %, CA-ON \d+ %",
    "offline_dataset": r"the clone decides as ccar in \d+\.\d %",
}
"""What of its output shows that it did what it says."""
APART = "rllib_masked"
NOTEBOOK = "tour.ipynb"
LARGEST_NOTEBOOK_BYTES = 300_000


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*QUICK, APART}
    assert f'"{APART}"' in (ROOT / "noxfile.py").read_text(encoding="utf-8")
    assert "nox -s rllib" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", QUICK)
def test_it_runs(name: str, tmp_path: Path) -> None:
    warnings = "default" if name == "torchrl_loop" else "error"  # TorchRL warns of itself
    example = str(EXAMPLES / f"{name}.py")
    said = subprocess.run(
        [sys.executable, "-W", warnings, example, *QUICK[name].split()],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": _path_of_packages()},
        cwd=tmp_path,
    )
    assert said.returncode == 0, said.stderr
    assert re.search(SAYS[name], said.stdout), said.stdout


def _path_of_packages() -> str:
    """The import path of this process: the examples lie in another folder than the packages."""
    return os.pathsep.join(path or str(Path.cwd()) for path in sys.path)


@pytest.mark.filterwarnings("default")  # those of Jupyter's are not ours
def test_the_notebook_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="the dev extra is not installed")
    nbclient = pytest.importorskip("nbclient", reason="the dev extra is not installed")
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PYTHONPATH", _path_of_packages())
    path = EXAMPLES / NOTEBOOK
    assert path.stat().st_size < LARGEST_NOTEBOOK_BYTES
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    shown = _outputs(notebook)
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()
    assert _outputs(notebook) == shown
    assert sum(kind == "image/png" for kind, _ in shown) == 3


def _outputs(notebook: Any) -> list[tuple[str, str]]:
    """What each cell gave: printed text, and the kinds of what it showed."""
    found = []
    for output in (one for cell in notebook.cells for one in cell.get("outputs", ())):
        assert output.output_type != "error", output
        if output.output_type == "stream":
            found.append((output.name, output.text))
        else:
            found += [(kind, "") for kind in output.data if kind == "image/png"]
    return found


def test_the_list_names_every_example() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| \[([^]]*)\]\(\1\)", text, re.MULTILINE))
    assert listed == {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
