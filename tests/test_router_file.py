"""A router's file: whatever is wrong with it is said in one sentence, and nothing is executed."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scoring import layout_of, random_observations, scorer_policy

from carbon_gym.errors import InputError
from carbon_gym.router import load_router

pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("sb3_contrib", reason="the train extra is not installed")

from agents.export import export_scorer


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("router") / "router.npz"
    export_scorer(scorer_policy(layout_of()), layout_of(), path, {"seed": 3})
    return path


def changed_copy(exported: Path, path: Path, **changes: Any) -> Path:
    """The router's file with other arrays; None: left out."""
    with np.load(exported) as content:
        arrays = {**content, **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def changed_header(exported: Path, path: Path, **changes: Any) -> Path:
    with np.load(exported) as content:
        header = {**json.loads(content["header"].tobytes()), **changes}
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    return changed_copy(exported, path, header=text)


def refused(path: Path) -> str:
    """The one sentence that a file is refused with."""
    with pytest.raises(InputError) as caught:
        load_router(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert not message.endswith(".")
    return message


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.99])
def test_a_truncated_file_is_refused(exported: Path, tmp_path: Path, share: float) -> None:
    content = exported.read_bytes()
    path = tmp_path / "cut.npz"
    path.write_bytes(content[: int(len(content) * share)])
    assert "damaged" in refused(path)


def test_a_flipped_bit_anywhere_is_refused_or_harmless(exported: Path, tmp_path: Path) -> None:
    """The archive's checksums cover the arrays; what they do not cover does not matter."""
    content, rng = exported.read_bytes(), np.random.default_rng(0)
    layout, path = layout_of(), tmp_path / "flipped.npz"
    observations = random_observations(layout, 3)
    wanted = load_router(exported).logits(observations, layout)
    caught = 0
    for at in rng.integers(0, len(content), 300):
        damaged = bytearray(content)
        damaged[at] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(bytes(damaged))
        try:
            router = load_router(path, compiled=False)
        except InputError:
            caught += 1
        else:
            found = router.logits(observations, layout)
            np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert caught > 250


class Loud:
    def __reduce__(self) -> Any:
        return print, ("a pickle was opened",)


def test_no_pickle_is_opened(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pickled.npz"
    objects = np.array([Loud()], dtype=object)
    refused(changed_copy(exported, path, turn=objects))
    refused(changed_copy(exported, path, header=objects))
    path.write_bytes(pickle.dumps(Loud()))
    refused(path)
    assert "pickle was opened" not in capsys.readouterr().out


def test_files_of_another_kind_are_refused(exported: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    np.savez(path, weights=np.zeros(3))
    assert "has no header, so it is not a router's file" in refused(path)
    np.savez(path, header=np.zeros(3, np.uint8))
    assert "header is not JSON" in refused(path)
    np.savez(path, header=np.frombuffer(b"[1]", np.uint8))
    assert "header is not that of a router" in refused(path)
    np.save(tmp_path / "other.npy", np.zeros(3))
    assert "damaged" in refused(tmp_path / "other.npy")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "text")
    assert "damaged" in refused(path)
    assert "is a folder" in refused(tmp_path)
    assert "there is no such file" in refused(tmp_path / "none.npz")
    path.write_bytes(b"x" * 2_000_001)
    assert "2,000,001 bytes" in refused(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", b"\0" * 50_000_000)
    assert "unpacks to more" in refused(path)


def test_a_wrong_header_is_refused(exported: Path, tmp_path: Path) -> None:
    path = tmp_path / "router.npz"
    said = refused(changed_header(exported, path, version=2))
    assert "has version 2 of the format, and this carbon_gym reads 1" in said
    assert "not that of a router" in refused(changed_header(exported, path, format="else"))
    assert "lacks layout or recipe" in refused(changed_header(exported, path, recipe=[1]))
    router = load_router(changed_header(exported, path, layout={"features": [], "constants": []}))
    with pytest.raises(InputError, match="trained on observations of another kind"):
        router.logits(random_observations(layout_of(), 1), layout_of())


def test_wrong_arrays_are_refused(exported: Path, tmp_path: Path) -> None:
    path = tmp_path / "router.npz"
    with np.load(exported) as content:
        turn, prior = content["turn"], content["prior"]
    said = refused(changed_copy(exported, path, turn=turn[1:]))
    assert f"array 'turn' has shape {turn[1:].shape} where {turn.shape} belongs" in said
    assert "array 'own' is missing" in refused(changed_copy(exported, path, own=None))
    for wrong in (np.nan, np.inf):
        said = refused(changed_copy(exported, path, prior=np.full_like(prior, wrong)))
        assert "array 'prior' holds numbers that are not finite" in said
    said = refused(changed_copy(exported, path, prior=prior.astype(np.float64)))
    assert "array 'prior' is float64, not float32" in said
    said = refused(changed_copy(exported, path, turn_bias=np.float32(0.0)))
    assert "belongs" in said
    nothing = {
        name: np.zeros((n, 0) if n else 0, np.float32)
        for name, n in {"added": 32, "output": 32, "own": 7, "group": 12, "constants": 20}.items()
    }
    nothing |= {name: np.zeros(0, np.float32) for name in ("added_bias", "output_bias")}
    assert "has shape" in refused(changed_copy(exported, path, **nothing))
