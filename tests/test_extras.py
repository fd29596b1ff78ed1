"""Without an optional package: one sentence that says which command installs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from commandline import carbon_gym, program
from inputs import write_tokens

TRAIN = 'run `pip install "carbon-gym[train]"`'


def _run(folder: Path) -> Path:
    """What looks like a training run."""
    (folder / "run").mkdir()
    return folder / "run"


COMMANDS: dict[str, tuple[str, Any, str]] = {
    # case: (missing package, arguments from a folder, what is said)
    "train": ("torch", lambda _: ("train",), TRAIN),
    "train, sb3": ("stable_baselines3", lambda _: ("train",), TRAIN),
    "train, sb3-contrib": ("sb3_contrib", lambda _: ("train",), TRAIN),
    "train, tensorboard": ("tensorboard", lambda _: ("train",), TRAIN),
    "resume": ("torch", lambda folder: ("train", "--resume", _run(folder)), TRAIN),
    "export": (
        "torch",
        lambda folder: ("export", _run(folder), "--out", folder / "router.npz"),
        TRAIN,
    ),
    "fit-gate": ("sklearn", lambda _: ("fit-gate", "--scenario", "tiny"), TRAIN),
    "evaluate": ("torch", lambda folder: ("evaluate", _run(folder), "--scenario", "tiny"), TRAIN),
    "benchmark": (
        "torch",
        lambda folder: ("benchmark", "--policies", _run(folder), "--scenario", "tiny"),
        TRAIN,
    ),
    "record": (
        "minari",
        lambda folder: ("record", "ccar", "--format", "minari", "--out", folder / "o"),
        'run `pip install "carbon-gym[minari]"`',
    ),
    "tokenizer": (
        "tokenizers",
        lambda folder: (
            *("import", "conversations", _chat(folder), "--tokenizer", write_tokens(folder / "t")),
        ),
        'run `pip install "carbon-gym[data]"`',
    ),
    "parquet": (
        "pyarrow",
        lambda folder: ("import", "conversations", _parquet(folder), "--format", "wildchat"),
        'run `pip install "carbon-gym[data]"`',
    ),
    "hub": (
        "huggingface_hub",
        lambda _: ("import", "conversations", "--from-hub", "wildchat"),
        'run `pip install "carbon-gym[data]"`',
    ),
}


def _chat(folder: Path) -> Path:
    file = folder / "chat.jsonl"
    roles = '[{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]'
    file.write_text(f'{{"messages": {roles}}}\n', encoding="utf-8")
    return file


def _parquet(folder: Path) -> Path:
    file = folder / "chat.parquet"
    file.write_bytes(b"PAR1" + bytes(64) + b"PAR1")
    return file


@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_says_what_to_install(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing, arguments, said = COMMANDS[case]
    without(missing, monkeypatch)
    monkeypatch.chdir(tmp_path)
    done = carbon_gym(*arguments(tmp_path))
    assert (done.code, done.out) == (2, ""), done.err
    assert done.err.startswith("carbon-gym: ")
    assert done.err.count("\n") == 1
    assert said in done.err
    assert {"sklearn": "scikit-learn"}.get(missing, missing) in done.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("missing", ["torch", "stable_baselines3"])
def test_a_class_says_it_too(missing: str) -> None:
    said = program(
        f"import sys\nsys.modules[{missing!r}] = None\nimport agents\n"
        "try:\n    agents.CarbonVecEnv\nexcept ImportError as error:\n    print(error)\n"
    )
    assert said == f"agents.CarbonVecEnv needs {missing}; {TRAIN}\n"


def test_the_search_of_rules_needs_no_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without("torch", monkeypatch)
    done = carbon_gym("tune-lookahead", "--generations", 0, "--out", tmp_path / "o")
    assert "--generations 0 is not allowed" in done.err


def without(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a package were not installed, whatever was imported before."""
    gone = (f"{missing}.", "agents.")
    for name in [name for name in sys.modules if name.startswith(gone)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
