"""What conversion changes, what it refuses before it writes, and what a failing one leaves."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import keras
import ml_dtypes
import numpy as np
import pytest

import drumline as dl
from drumline.checkpoints import safetensors_files
from drumline.checkpoints.reader import blocks
from tests.checkpoints.examples import TENSORS, plain, same
from tests.checkpoints.test_defects import cut_checkpoint


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "source.safetensors"
    file.write_bytes(plain(TENSORS))
    return file


def names_of(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.parametrize("to", ["safetensors", "drumline", "orbax"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float64", "float8_e5m2"])
def test_floating_point_tensors_have_the_dtype_that_is_asked_for(
    tmp_path: Path, source: Path, to: str, dtype: str
) -> None:
    if to == "orbax":
        pytest.importorskip("tensorstore", reason="needs TensorStore, which comes with Orbax")
    place = dl.train.convert_checkpoint(source, tmp_path / "out", to, dtype=dtype)
    reader = dl.train.open_checkpoint(place)
    for name, array in TENSORS.items():
        is_kept = array.dtype.kind in "biuc"
        with np.errstate(over="ignore"):
            expected = array if is_kept else array.astype(np.dtype(dtype))
        assert same(reader.read(name), expected), name


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"scale": "factor"}, {"scale": "factor"}),
        (
            {"block/*/*": "layers.*.*", "block/0/bias": "never"},
            {"block/0/kernel": "layers.0.kernel", "block/0/bias": "layers.0.bias"},
        ),
        (
            {"block/0/bias": "b", "block/*": "*"},
            {"block/0/kernel": "0/kernel", "block/0/bias": "b"},
        ),
        ({"scale": "half", "half": "scale"}, {"scale": "half", "half": "scale"}),
        ({"*": "model/*"}, {name: f"model/{name}" for name in TENSORS}),
    ],
)
def test_tensors_are_renamed(
    tmp_path: Path, source: Path, rules: dict[str, str], expected: dict[str, str]
) -> None:
    if "never" in rules.values():
        with pytest.raises(dl.train.ConversionError, match="No tensor is called 'block/0/bias'"):
            dl.train.convert_checkpoint(source, tmp_path / "out", rename=rules)
        rules = {old: new for old, new in rules.items() if new != "never"}
    place = dl.train.convert_checkpoint(source, tmp_path / "out", rename=rules)
    reader = dl.train.open_checkpoint(place)
    assert set(reader.names()) == {expected.get(name, name) for name in TENSORS}
    for name, array in TENSORS.items():
        assert same(reader.read(expected.get(name, name)), array)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"to": "keras"}, "written as 'drumline', 'safetensors', 'orbax', got 'keras'"),
        ({"dtype": "int8"}, "'int8' is no dtype of floating-point numbers"),
        ({"dtype": "float33"}, "'float33' is no dtype of numbers"),
        ({"dtype": "float8_e3m4"}, "safetensors cannot have: .*'scale' has the dtype float8_e3m4"),
        ({"rename": {"none": "x"}}, "No tensor is called 'none'"),
        ({"rename": {"scale": "half"}}, "'scale' and 'half' would both be called 'half'"),
        ({"rename": {"scale": "*"}}, "more '\\*' on its right"),
        ({"rename": {"scale": "__metadata__"}}, "'__metadata__' is what the header is called"),
        ({"rename": {"scale": "\ud800"}}, "is no text in UTF-8"),
        ({"to": "drumline", "shard_size": 9}, "shard_size is"),
        ({"shard_size": 0}, "shard_size is"),
        ({"dtype": "float8_e4m3fn", "rename": {"eighth": "e"}}, "'other/eighth' has -1024, which"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".safetensors"])
def test_what_cannot_be_written_is_named_and_nothing_is(
    tmp_path: Path, source: Path, options: dict[str, Any], why: str, suffix: str
) -> None:
    before = names_of(tmp_path)
    with pytest.raises(dl.train.ConversionError, match=why):
        dl.train.convert_checkpoint(source, tmp_path / f"out{suffix}", **options)
    assert names_of(tmp_path) == before


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"scale": "block"}, "'block' is a tensor, and part of 'block/0/"),
        ({"scale": "a//b"}, "'a//b' has an empty part"),
        ({"scale": "a.b", "half": "a/b"}, "'a.b' and 'a/b' would be one file"),
        ({}, "'nothing' has no values"),
    ],
)
def test_names_that_no_tree_has_are_named(tmp_path: Path, rules: dict[str, str], why: str) -> None:
    pytest.importorskip("tensorstore", reason="needs TensorStore, which comes with Orbax")
    source = tmp_path / "source.safetensors"
    nothing = {} if rules else {"nothing": np.zeros((0, 2))}
    source.write_bytes(plain({**TENSORS, **nothing}))
    with pytest.raises(dl.train.ConversionError, match=why):
        dl.train.convert_checkpoint(source, tmp_path / "out", "orbax", rename=rules)
    assert names_of(tmp_path) == ["source.safetensors"]


def test_nothing_is_replaced_without_force(tmp_path: Path, source: Path) -> None:
    destinations = {
        "set": {},
        "file.safetensors": {},
        "own": {"to": "drumline"},
        "link.safetensors": {},
    }
    os.symlink(tmp_path / "nowhere", tmp_path / "link.safetensors")
    for name, options in destinations.items():
        if "link" not in name:
            dl.train.convert_checkpoint(source, tmp_path / name, **options)
        with pytest.raises(FileExistsError, match="there already"):
            dl.train.convert_checkpoint(source, tmp_path / name, **options)
        other = {"rename": {"scale": "factor"}, "force": True}
        place = dl.train.convert_checkpoint(source, tmp_path / name, **options, **other)
        assert "factor" in dl.train.open_checkpoint(place).names()
    assert not (tmp_path / "nowhere").exists()
    assert names_of(tmp_path) == sorted(
        ["file.safetensors", "link.safetensors", "own.safetensors", "set", "source.safetensors"]
    )
    with pytest.raises(IsADirectoryError):
        dl.train.convert_checkpoint(
            source, (tmp_path / "set").rename(tmp_path / "x.safetensors"), force=True
        )


@pytest.mark.parametrize("to", ["safetensors", "drumline", "orbax"])
def test_a_failing_conversion_leaves_what_was_there(
    tmp_path: Path, source: Path, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if to == "orbax":
        pytest.importorskip("tensorstore", reason="needs TensorStore, which comes with Orbax")
    first = dl.train.convert_checkpoint(source, tmp_path / "out", to)
    before = names_of(tmp_path)
    read = safetensors_files.file_pieces

    def failing(entry: Any) -> Any:
        if entry.name == "half":
            raise OSError(5, "the disk is broken", str(entry.file))
        return read(entry)

    monkeypatch.setattr(safetensors_files, "file_pieces", failing)
    for destination in ("out", "new"):
        with pytest.raises(OSError, match="the disk is broken"):
            dl.train.convert_checkpoint(source, tmp_path / destination, to, force=True)
    monkeypatch.undo()
    assert names_of(tmp_path) == before
    assert list(dl.train.verify_checkpoint(first)) == []


def test_a_damaged_source_is_not_converted(tmp_path: Path) -> None:
    path = dl.train.Checkpoint(v=dl.Variable([1.0, 2.0])).write(tmp_path / "ckpt")
    file = Path(f"{path}.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(dl.train.CheckpointFileError, match="the checksum of .* differs"):
        dl.train.convert_checkpoint(path, tmp_path / "out")
    assert names_of(tmp_path) == ["ckpt.safetensors"]


def test_a_checkpoint_stays_one_that_is_restored(tmp_path: Path) -> None:
    def objects(value: float) -> dict[str, Any]:
        batches = iter(dl.data.Dataset.range(10).batch(2))
        return {"v": dl.Variable([value, value]), "layer": keras.layers.Dense(2), "in": batches}

    first = objects(3.0)
    first["layer"].build((None, 2))
    next(first["in"])
    path = dl.train.Checkpoint(**first).save(tmp_path / "ckpt")
    copy = dl.train.convert_checkpoint(path, tmp_path / "copy", "drumline")
    assert dl.train.open_checkpoint(copy).step == 1
    second = objects(0.0)
    second["layer"].build((None, 2))
    restored = dl.train.Checkpoint(**second)
    restored.restore(str(copy).removesuffix(".safetensors")).assert_consumed()
    assert restored.save_counter == 1
    assert np.asarray(second["v"].value).tolist() == [3, 3]
    assert same(second["layer"].kernel, np.asarray(first["layer"].kernel))
    assert np.asarray(next(second["in"])).tolist() == [2, 3]


def test_parts_of_processes_become_one_tensor(tmp_path: Path) -> None:
    path, value = cut_checkpoint(tmp_path)
    for to in ("drumline", "safetensors"):
        place = dl.train.convert_checkpoint(path, tmp_path / to, to)
        reader = dl.train.open_checkpoint(place)
        assert reader.writers == 1 and same(reader.read("table"), value)


def test_little_of_a_large_tensor_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safetensors_files, "PIECE_BYTES", 1 << 18)
    large = np.zeros((1 << 14, 1 << 8), np.float32)
    source = tmp_path / "source.safetensors"
    source.write_bytes(plain({"a": large, "b": large}))
    steps: list[tuple[str, int, int]] = []
    dl.train.convert_checkpoint(_small(tmp_path), tmp_path / "warm", "drumline")
    for to in ("safetensors", "drumline"):
        tracemalloc.start()
        place = dl.train.convert_checkpoint(
            source,
            tmp_path / to,
            to,
            dtype="bfloat16",
            progress=lambda *step: steps.append(step),
        )
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < large.nbytes / 4
        assert steps[-1] == ("b", large.nbytes, large.nbytes) and len(steps) == 128
        steps.clear()
        assert dl.train.open_checkpoint(place).tensors["a"].dtype == ml_dtypes.bfloat16


def _small(folder: Path) -> Path:
    file = folder / "small.safetensors"
    file.write_bytes(plain({"a": np.ones(1)}))
    return file


@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (4, 3), (2, 3, 5), (1, 1, 9, 2)])
@pytest.mark.parametrize("most", [1, 2, 5, 6, 100])
def test_blocks_are_all_of_an_array_in_order(shape: tuple[int, ...], most: int) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape)
    parts = [array[block].reshape(-1) for block in blocks(shape, most)]
    assert all(0 < part.size <= most for part in parts)
    assert np.concatenate([array[:0].reshape(-1) if shape else [], *parts]).tolist() == (
        array.reshape(-1).tolist()
    )
