"""`verify_checkpoint` names what is damaged, with file and offset, and survives what it reads."""

from __future__ import annotations

import json
import math
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drumline as dl
from drumline import _safetensors
from drumline.checkpoints import keras_files
from drumline.checkpoints.reader import Defect
from drumline.training.checkpoint import file_format
from drumline.training.checkpoint.external_storage import ExternalValues
from drumline.training.checkpoint.snapshot import CheckpointContents
from drumline.training.cut_values import row_length
from tests.checkpoints.examples import TENSORS, plain, tree_of, with_header, write_set

PAIR = {"a": np.arange(4.0), "b": np.ones((2, 3), np.int16)}
GOOD = plain(PAIR)
START = 8 + struct.unpack("<Q", GOOD[:8])[0]


def found(path: Path, **options: Any) -> list[Defect]:
    defects = list(dl.train.verify_checkpoint(path, **options))
    for defect in defects:
        assert isinstance(defect.file, Path) and defect.reason
        assert "\n" not in str(defect) and str(defect).startswith(str(defect.file))
        assert defect.offset is None or defect.offset >= 0
    return defects


def _entry(name: str, dtype: Any, shape: Any, start: Any, stop: Any) -> dict[str, Any]:
    return {name: {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}}


@pytest.mark.parametrize(
    ("content", "offset", "reason"),
    [
        (b"", 0, "0 bytes, less than a header's length"),
        (GOOD[:20], 0, "it has 20 bytes"),
        (GOOD[:-1], 8, "43 bytes, and 'b' ends at 44"),
        (GOOD + b"more", START + 44, "its arrays end at"),
        (GOOD[:8] + b"x" + GOOD[9:], 8, "Expecting value"),
        (with_header(GOOD, a=3), 8, "'a' is described as 3"),
        (with_header(GOOD, **_entry("a", "F4", [4], 0, 32)), 8, "'a' is described as"),
        (with_header(GOOD, **_entry("a", "F64", [2**40, 2**40, 0], 0, 0)), 8, "not possible"),
        (with_header(GOOD, **_entry("b", "I16", [2, 3], 30, 42)), None, "'b' overlaps"),
        (with_header(GOOD, **_entry("a", "F64", [3], 0, 24)), None, "'b' has a gap before"),
        (with_header(GOOD, __metadata__={"a": 1}), 8, "no texts by name"),
    ],
)
def test_what_is_wrong_with_a_header(
    tmp_path: Path, content: bytes, offset: int | None, reason: str
) -> None:
    file = tmp_path / "file.safetensors"
    file.write_bytes(content)
    (defect,) = found(file)
    assert defect.file == file and reason in defect.reason
    if offset is None:
        offset = 8 + struct.unpack("<Q", content[:8])[0] + (30 if "overlaps" in reason else 32)
    assert defect.offset == offset


def test_what_is_whole_has_no_defects(tmp_path: Path) -> None:
    file = tmp_path / "file.safetensors"
    file.write_bytes(plain(TENSORS))
    assert found(file, finite=True) == []
    assert found(write_set(tmp_path / "set", PAIR, {"c": np.zeros(0)}), finite=True) == []


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, "c8"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_not_finite_are_named_with_their_offsets(
    tmp_path: Path, dtype: Any, value: float
) -> None:
    array = np.ones((3, 4), np.dtype(dtype))
    array[1, 2] = value
    array[2, 0] = value
    content = plain({"a": np.ones(3), "bad": array, "n": np.arange(3)})
    file = tmp_path / "file.safetensors"
    file.write_bytes(content)
    assert found(file) == []
    (defect,) = found(file, finite=True)
    start = 8 + struct.unpack("<Q", content[:8])[0] + 24
    assert defect.offset == start + 6 * array.itemsize
    assert defect.reason.startswith("'bad' has ") and defect.reason.endswith(" at [1, 2]")


def _changed_index(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def damage(directory: Path) -> None:
        file = directory / "model.safetensors.index.json"
        index = json.loads(file.read_bytes())
        change(index)
        file.write_text(json.dumps(index))

    return damage


def _swapped(directory: Path) -> None:
    (directory / "model-00001-of-00002.safetensors").unlink()
    shutil.copy(
        directory / "model-00002-of-00002.safetensors",
        directory / "model-00001-of-00002.safetensors",
    )


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda d: (d / "model-00002-of-00002.safetensors").unlink(), "it is missing"),
        (_swapped, "'c' is in model-00001-of-00002.safetensors, too"),
        (_changed_index(lambda i: i["weight_map"].update(x="../up.safetensors")), "no file of its"),
        (_changed_index(lambda i: i["weight_map"].pop("a")), "the index does not have 'a'"),
        (
            _changed_index(lambda i: i["weight_map"].update(d=i["weight_map"]["a"])),
            "it has no 'd', which",
        ),
        (_changed_index(lambda i: i["metadata"].update(total_size=9)), "the tensors have 9 bytes"),
        (_changed_index(lambda i: i.pop("weight_map")), "no weight_map"),
        (lambda d: (d / "model.safetensors.index.json").write_text("{"), "no JSON"),
        (lambda d: (d / "model.safetensors.index.json").write_text("[" * 99_999), "no JSON"),
    ],
)
def test_what_is_wrong_with_several_files(
    tmp_path: Path, damage: Callable[[Path], None], reason: str
) -> None:
    directory = write_set(tmp_path / "set", PAIR, {"c": np.zeros(3)})
    damage(directory)
    (defect,) = found(directory)
    assert reason in defect.reason


def _small_checkpoint(folder: Path) -> Path:
    contents = CheckpointContents({"a/1": np.arange(3.0), "b": np.array([1, 2], np.int8)})
    file_format.write(folder / "ckpt", contents)
    return folder / "ckpt.safetensors"


def test_each_flipped_byte_of_a_checkpoint_is_found(tmp_path: Path) -> None:
    file = _small_checkpoint(tmp_path)
    assert found(file) == [] and found(tmp_path / "ckpt") == []
    good = file.read_bytes()
    for place in range(len(good)):
        content = bytearray(good)
        content[place] ^= 1 << place % 8
        file.write_bytes(content)
        assert found(file), place
    at = len(good) - 1  # in the last array
    (defect,) = found(file)
    assert defect.offset == at - 1 and "the checksum of 'b' differs" in defect.reason


def cut_checkpoint(folder: Path) -> tuple[Path, np.ndarray]:
    """A checkpoint of which two processes have written their rows."""
    value = np.arange(210, dtype=np.float32).reshape(21, 10)
    length = row_length(value.size, 2)
    rows = np.pad(value.reshape(-1), (0, 2 * length - value.size)).reshape(2, 1, length)
    kept = ExternalValues(
        "rows of processes",
        "ckpt.servers/1",
        {"table": {"shape": [21, 10], "dtype": "float32"}},
        {"files": 2, "rows": 1},
    )
    for number, own in enumerate(rows):
        layout = _safetensors.ArrayLayout({"table": (own.shape, own.dtype)})
        checksums = {_safetensors.CHECKSUMS: {"table": _safetensors.checksum(own)}}
        file = folder / f"ckpt.servers/1/process-{number}.safetensors"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(layout.header(checksums) + own.tobytes())
    file_format.write(folder / "ckpt", CheckpointContents({"b": np.ones(2)}, kept=kept))
    return folder / "ckpt", value


def test_what_processes_wrote_is_read_and_checked(tmp_path: Path) -> None:
    path, value = cut_checkpoint(tmp_path)
    reader = dl.train.open_checkpoint(path)
    assert reader.writers == 2 and len(reader.files) == 3
    assert reader.tensors["table"].shape == (21, 10)
    assert reader.read("table").tobytes() == value.tobytes()
    assert found(path) == []
    part = tmp_path / "ckpt.servers/1/process-1.safetensors"
    content = bytearray(part.read_bytes())
    content[-400] ^= 1
    part.write_bytes(content)
    (defect,) = found(path)
    assert "process-1.safetensors" in defect.reason and "checksum" in defect.reason
    part.unlink()
    (defect,) = found(path)
    assert "process-1.safetensors" in defect.reason


def test_values_outside_of_the_directory_are_not_read(tmp_path: Path) -> None:
    kept = ExternalValues("rows of processes", "../away", {}, {"files": 1, "rows": 1})
    file_format.write(tmp_path / "in" / "ckpt", CheckpointContents(kept=kept))
    (defect,) = found(tmp_path / "in" / "ckpt")
    assert "leads out of" in defect.reason


@pytest.fixture(scope="module")
def orbax_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ocp = pytest.importorskip("orbax.checkpoint", reason="needs Orbax, of the extra orbax")
    place = tmp_path_factory.mktemp("orbax") / "folders"
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=False)
    ocp.Checkpointer(handler).save(place, args=ocp.args.PyTreeSave(tree_of(TENSORS)))
    ocp.PyTreeCheckpointer().save(place.with_name("database"), tree_of(TENSORS))
    return place.parent


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda d: (d / "half/0.0").unlink(), "'half' has 0 of 1 chunks"),
        (lambda d: (d / "half/0.0").write_bytes(b"none"), "'half' cannot be read"),
        (lambda d: (d / "half/.zarray").unlink(), "no array for the leaf 'half'"),
        (lambda d: (d / "half/.zarray").write_text("{}"), "'half' is not described"),
        (lambda d: (d / "_METADATA").write_text("{}"), "describes no tree"),
        (lambda d: (d / "_METADATA").write_text("["), "no JSON"),
    ],
)
def test_what_is_wrong_with_a_directory_of_orbax(
    tmp_path: Path, orbax_directory: Path, damage: Callable[[Path], None], reason: str
) -> None:
    place = shutil.copytree(orbax_directory / "folders", tmp_path / "copy")
    assert found(place) == []
    damage(place)
    (defect,) = found(place)
    assert reason in defect.reason


def test_a_save_of_orbax_that_did_not_end(tmp_path: Path, orbax_directory: Path) -> None:
    name = "1.orbax-checkpoint-tmp-3"
    place = shutil.copytree(orbax_directory / "database", tmp_path / name)
    (defect,) = found(place)
    assert "did not end" in defect.reason


@pytest.mark.parametrize("suffix", [".weights.h5", ".keras"])
def test_what_is_wrong_with_a_file_of_keras(tmp_path: Path, suffix: str) -> None:
    model = keras.Sequential([keras.layers.Dense(4)])
    model.build((None, 3))
    model.layers[0].bias.assign([0, math.nan, 0, 0])
    file = tmp_path / f"model{suffix}"
    model.save(file) if suffix == ".keras" else model.save_weights(file)
    good = file.read_bytes()
    assert found(file) == []
    (defect,) = found(file, finite=True)
    assert defect.offset == good.index(np.float32([0, math.nan, 0, 0]).tobytes()) + 4
    file.write_bytes(good[: len(good) // 2])
    assert found(file)
    kernel = np.asarray(model.layers[0].kernel).tobytes()
    content = bytearray(good)
    content[content.index(kernel)] ^= 1
    file.write_bytes(content)
    assert [d.reason for d in found(file)] == (
        [] if suffix == ".weights.h5" else ["Bad CRC-32 for file 'model.weights.h5'"]
    )


def test_a_process_that_reads_without_an_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "model.weights.h5"
    file.write_bytes(b"")
    looping = tmp_path / "looping"
    looping.mkdir()
    (looping / "h5py.py").write_text("while True:\n    pass\n")
    monkeypatch.setenv("PYTHONPATH", f"{looping}:{Path(dl.__file__).parents[1]}")
    monkeypatch.setattr(keras_files, "CPU_SECONDS", 1)
    (defect,) = found(file)
    assert "came to no end within 1 s" in defect.reason
    (looping / "h5py.py").write_text("import os\nos.abort()\n")
    (defect,) = found(file)
    assert "ended with status -6" in defect.reason


@pytest.mark.parametrize("name", ["text.txt", "empty.safetensors", "a.keras", "dir", "none"])
def test_what_is_no_checkpoint_is_a_defect(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    if name == "dir":
        place.mkdir()
    elif name != "none":
        place.write_bytes(b"" if name.startswith("empty") else b"some words, and some more\n")
    (defect,) = found(place)
    assert defect.file == place


_FLIPS = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 7)), max_size=4)


@given(st.integers(0, len(GOOD) + 20), _FLIPS, st.binary(max_size=6))
def test_whatever_happens_to_a_file_is_survived(
    tmp_path_factory: pytest.TempPathFactory,
    length: int,
    flips: list[tuple[int, int]],
    noise: bytes,
) -> None:
    file = tmp_path_factory.mktemp("fuzz") / "file.safetensors"
    content = bytearray(GOOD[:length])
    for place, bit in flips:
        if content:
            content[place % len(content)] ^= 1 << bit
    file.write_bytes(bytes(content) + noise)
    defects = found(file, finite=True)
    if length < len(GOOD) and not noise:
        assert defects


@given(st.data())
def test_whatever_happens_to_a_directory_is_survived(
    tmp_path_factory: pytest.TempPathFactory, orbax_directory: Path, data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from(["folders", "database"]))
    place = tmp_path_factory.mktemp("fuzz") / "copy"
    shutil.copytree(orbax_directory / kind, place)
    file = data.draw(st.sampled_from(sorted(each for each in place.rglob("*") if each.is_file())))
    content = bytearray(file.read_bytes())
    content = content[: data.draw(st.integers(0, len(content)))]
    for at, bit in data.draw(_FLIPS):
        if content:
            content[at % len(content)] ^= 1 << bit
    file.write_bytes(content)
    found(place, finite=True)
