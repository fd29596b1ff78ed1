"""The files of recorded datasets: arrays come back as they were, and damage is one sentence."""

from __future__ import annotations

import json
import zipfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from test_datasets import laid, recorded

from carbon_gym.datasets import FleetData, load_dataset
from carbon_gym.datasets.mapped import map_arrays, write_arrays
from carbon_gym.datasets.reader import Stacked
from carbon_gym.errors import InputError


@settings(max_examples=40)
@given(st.data())
def test_arrays_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("arrays") / "a.npz"
    kinds = st.sampled_from(["f4", "f8", "i8", "?"])
    given_arrays = {
        name: data.draw(arrays(data.draw(kinds), array_shapes(min_dims=1, min_side=0, max_side=9)))
        for name in data.draw(st.sets(st.text("abcü", min_size=1, max_size=9), max_size=4))
    }
    write_arrays(path, given_arrays)
    mapped = map_arrays(path)
    with np.load(path) as loaded:
        for name, array in given_arrays.items():
            for found in (mapped[name], loaded[name]):
                assert (found.dtype, found.shape) == (array.dtype, array.shape)
                assert found.tobytes() == array.tobytes()
            if array.size:
                assert isinstance(mapped[name], np.memmap)
                assert mapped[name].offset % 64 == 0
    assert mapped.keys() == given_arrays.keys()


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(sum),
    st.data(),
)
def test_rows_of_stacked_arrays(lengths: list[int], data: st.DataObject) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.random((length, 3)) for length in lengths]
    whole, stacked = np.concatenate(parts), Stacked(parts)
    rows = data.draw(st.lists(st.integers(-len(whole), len(whole) - 1), max_size=9))
    assert np.array_equal(stacked[np.array(rows, dtype=int)], whole[np.array(rows, dtype=int)])
    assert np.array_equal(stacked[rows[0]], whole[rows[0]]) if rows else True
    assert np.array_equal(stacked[1:-1], whole[1:-1])
    assert np.array_equal(np.asarray(stacked), whole)
    assert (len(stacked), stacked.shape) == (len(whole), whole.shape)
    with pytest.raises(IndexError):
        stacked[[len(whole)]]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "data"
    recorded(folder, "ccar", laid("tiny", 1))
    return folder


@pytest.fixture
def copy(small: Path, tmp_path: Path) -> Path:
    for path in small.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def damaged(folder: Path, how: str) -> str:
    """Do some damage; what must be said of it."""
    fleet, about = folder / "fleet-0000.npz", folder / "dataset.json"
    content = json.loads(about.read_text())
    if how == "nothing there":
        about.unlink()
        return "holds no dataset.json"
    if how in ("not JSON", "a list", "another version"):
        text = {"not JSON": "{", "a list": "[]"}.get(how, json.dumps({**content, "version": 9}))
        about.write_text(text)
        return {"not JSON": "cannot be read", "a list": "does not describe"}.get(how, "version 9")
    if how == "other turns":
        content["fleets"][0]["turns"] += 1
        about.write_text(json.dumps(content))
        return "dataset.json says"
    if how == "cut":
        fleet.write_bytes(fleet.read_bytes()[:-400])
        return "fleet-0000.npz: is not a recorded fleet, or is damaged"
    if how == "text":
        fleet.write_text("text")
        return "fleet-0000.npz: is not a recorded fleet, or is damaged"
    arrays = {name: np.array(array) for name, array in map_arrays(fleet).items()}
    if how == "compressed":
        np.savez_compressed(fleet, **arrays)
        return "compressed"
    if how == "a pickle":
        np.savez(fleet, **{**arrays, "actions": np.array([None, {}], dtype=object)})
        return "is damaged"
    if how == "an array missing":
        del arrays["rewards"]
    else:
        arrays["rewards"] = arrays["rewards"][:-1]
    write_arrays(fleet, arrays)
    return "'rewards' is missing or too short"


@pytest.mark.parametrize(
    "how",
    [
        "nothing there",
        "not JSON",
        "a list",
        "another version",
        "other turns",
        "cut",
        "text",
        "compressed",
        "a pickle",
        "an array missing",
        "an array too short",
    ],
)
def test_damage_is_one_sentence(copy: Path, how: str) -> None:
    said = damaged(copy, how)
    with pytest.raises(InputError) as caught:
        load_dataset(copy)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_arrays_are_read_only_and_on_disk(small: Path) -> None:
    data = load_dataset(small)
    for column in fields(FleetData):
        assert isinstance(getattr(data.fleets[0], column.name), np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        data.fleets[0].observations[0] = 0.0
    with zipfile.ZipFile(small / "fleet-0000.npz") as archive:
        assert archive.testzip() is None
