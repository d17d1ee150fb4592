"""CIFAR-10's batches: read without running them, and made into batches for a model."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline.cnn.inputs import CifarBatchError, ImageInputOptions, cifar10
from drumline.cnn.inputs.cifar_batches import read_batch

OPTIONS = ImageInputOptions(batch_size=10, image_size=(32, 32), num_epochs=1)
ROWS = 20


def pixels(seed: int, rows: int = ROWS) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (rows, 3072), np.uint8)


def text(value: bytes) -> bytes:
    return b"U" + bytes([len(value)]) + value


def python_2_batch(data: np.ndarray, labels: list[int]) -> bytes:
    """Protocol 2 as Python 2 and its numpy wrote CIFAR-10: texts are ``str``, of bytes."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03K\x00\x85q\x04"
        + text(b"b")
        + b"\x87Rq\x05(K\x01"
        + b"M"
        + struct.pack("<H", data.shape[0])
        + b"M"
        + struct.pack("<H", data.shape[1])
        + b"\x86cnumpy\ndtype\nq\x06"
        + text(b"u1")
        + b"K\x00K\x01\x87Rq\x07(K\x03"
        + text(b"|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
        + struct.pack("<i", data.size)
        + data.tobytes()
        + b"tb"
    )
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return (
        b"\x80\x02}q\x01("
        + text(b"batch_label")
        + text(b"training batch 1 of 5")
        + text(b"labels")
        + numbers
        + text(b"data")
        + array
        + b"u."
    )


def labels(seed: int, rows: int = ROWS) -> list[int]:
    return np.random.default_rng(seed).integers(0, 10, rows).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cifar")
    inside = root / "cifar-10-batches-py"
    inside.mkdir()
    names = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]
    for seed, name in enumerate(names):
        (inside / name).write_bytes(python_2_batch(pixels(seed), labels(seed)))
    return root


def test_a_batch_of_python_2_is_what_plain_pickle_reads(tmp_path: Path) -> None:
    contents = python_2_batch(pixels(3), labels(3))
    plain = pickle.loads(contents, encoding="bytes")
    np.testing.assert_array_equal(plain[b"data"], pixels(3))
    (tmp_path / "batch").write_bytes(contents)
    images, found = read_batch(tmp_path / "batch")
    np.testing.assert_array_equal(images, pixels(3).reshape(-1, 3, 32, 32))
    np.testing.assert_array_equal(found, labels(3))


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("names", [bytes, str])
def test_a_batch_that_python_3_wrote(tmp_path: Path, protocol: int, names: type) -> None:
    def name(key: str) -> Any:
        return key.encode() if names is bytes else key

    batch = {name("data"): pixels(1), name("labels"): labels(1), name("filenames"): [b"a.png"]}
    (tmp_path / "batch").write_bytes(pickle.dumps(batch, protocol))
    if protocol == 5:  # Of buffers, which CIFAR-10 has not.
        with pytest.raises(CifarBatchError, match="which no batch of CIFAR-10 does"):
            read_batch(tmp_path / "batch")
        return
    images, found = read_batch(tmp_path / "batch")
    np.testing.assert_array_equal(images, pixels(1).reshape(-1, 3, 32, 32))
    np.testing.assert_array_equal(found, labels(1))


class Runs:
    def __reduce__(self) -> Any:
        return os.system, ("touch ran",)


BAD = {
    "refers to posix.system": pickle.dumps({"data": Runs(), "labels": []}, 2),
    "refers to builtins.eval": b"\x80\x02cbuiltins\neval\nU\x011\x85R.",
    "holds a list, not a dict": pickle.dumps([1], 2),
    "has no 'labels'": pickle.dumps({"data": pixels(0)}, 2),
    "not an array": pickle.dumps({"data": [1], "labels": [1]}, 2),
    "not a list": pickle.dumps({"data": pixels(0), "labels": 3}, 2),
    "not of bytes": pickle.dumps({"data": pixels(0).astype(float), "labels": []}, 2),
    r"shape \(20, 3071\)": pickle.dumps({"data": pixels(0)[:, 1:].copy(), "labels": []}, 2),
    "20 images and 1 labels": pickle.dumps({"data": pixels(0), "labels": [1]}, 2),
    "image 1 has the label 10": pickle.dumps({"data": pixels(0)[:2], "labels": [1, 10]}, 2),
    "at 1073741824 of the memo": b"\x80\x02}r\x00\x00\x00\x40.",
    "no pickle that can be read": b"not a pickle",
    "not pickled as numpy's": b"\x80\x02cnumpy\nndarray\n)RK\x01b.",
    "with 3 bytes": python_2_batch(pixels(0), labels(0)).replace(
        b"T" + struct.pack("<i", 20 * 3072) + pixels(0).tobytes(), b"U\x03abc"
    ),
    "operation EXT1": b"\x80\x02\x82\x01.",
}


@pytest.mark.parametrize("said", BAD)
def test_what_is_no_batch_is_refused_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(BAD[said])
    with pytest.raises(CifarBatchError, match=said) as raised:
        read_batch(tmp_path / "data_batch_1")
    assert "data_batch_1: " in str(raised.value)
    assert not (tmp_path / "ran").exists()


@settings(max_examples=60)
@given(st.integers(0, 2**31), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255))))
def test_a_damaged_batch_is_read_or_refused(
    folder: Path, cut: int, changes: list[tuple[int, int]]
) -> None:
    contents = bytearray(python_2_batch(pixels(2, 2), labels(2, 2)))
    for place, value in changes:
        contents[place * (len(contents) - 1) // 400] = value
    file = folder / "damaged"
    file.write_bytes(contents[: cut % (2 * len(contents))])
    try:
        images, found = read_batch(file)
    except CifarBatchError:
        return
    assert len(images) == len(found)


def test_batches_for_a_model(folder: Path) -> None:
    everything = np.concatenate([pixels(seed) for seed in range(5)])
    images, found = zip(*cifar10(folder, "train", OPTIONS), strict=True)
    made, given = np.concatenate(images), np.concatenate(found)
    assert made.shape == (100, 32, 32, 3) and made.dtype == np.float32 and given.dtype == np.int32
    back = np.rint((made + 1) * 127.5).astype(np.uint8).transpose(0, 3, 1, 2).reshape(100, -1)
    places = [int(np.flatnonzero((everything == row).all(1))[0]) for row in back]
    assert sorted(places) == list(range(100)) and places != sorted(places)
    labelled = np.concatenate([labels(seed) for seed in range(5)])
    np.testing.assert_array_equal(given, labelled[places])


def test_evaluation_is_in_the_files_order(folder: Path) -> None:
    options = dataclasses.replace(OPTIONS, data_format="NCHW", distortions=True)
    images, found = zip(*cifar10(folder, "validation", options), strict=True)
    wanted = pixels(5).reshape(-1, 3, 32, 32).astype(np.float64) / 127.5 - 1
    np.testing.assert_allclose(np.concatenate(images), wanted, atol=1e-6)
    np.testing.assert_array_equal(np.concatenate(found), labels(5))


def test_distorted_images_are_windows_of_padded_ones(folder: Path) -> None:
    options = dataclasses.replace(OPTIONS, distortions=True, batch_size=100)
    ((images, _),) = cifar10(folder, "train", options)
    plain = np.concatenate([pixels(seed) for seed in range(5)]).reshape(-1, 3, 32, 32)
    padded = np.pad(plain.transpose(0, 2, 3, 1), ((0, 0), (4, 4), (4, 4), (0, 0)))
    back = np.rint((images + 1) * 127.5).astype(np.uint8)
    windows: dict[bytes, list[tuple[int, int, int]]] = {}
    for k, image in enumerate(padded):
        for top, left in itertools.product(range(9), range(9)):
            window = image[top : top + 32, left : left + 32].tobytes()
            windows.setdefault(window, []).append((k, top, left))
    found = [
        (*place, flip)
        for image in back
        for flip in (False, True)
        for place in windows.get((image[:, ::-1] if flip else image).tobytes(), [])
    ]
    rows, tops, lefts, flips = zip(*found, strict=True)
    assert sorted(rows) == list(range(100))
    assert len(set(tops)) == len(set(lefts)) == 9 and 30 < sum(flips) < 70


def test_shards_and_repeated_samples(folder: Path) -> None:
    shards = [
        dataclasses.replace(OPTIONS, shard_count=2, shard_index=k, batch_size=1) for k in (0, 1)
    ]
    first, second = (
        {image.tobytes() for image, _ in cifar10(folder, "train", options)} for options in shards
    )
    assert len(first) == len(second) == 50 and not first & second
    repeated = dataclasses.replace(OPTIONS, datasets_repeat_cached_sample=True)
    images, _ = next(iter(cifar10(folder, "train", repeated)))
    assert (images == images[0]).all()


def test_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").write_bytes(python_2_batch(pixels(0), labels(0)))
    with pytest.raises(FileNotFoundError, match=r"has no data_batch_2, .*, data_batch_5: unpack"):
        cifar10(tmp_path, "train", OPTIONS)
    with pytest.raises(ValueError, match="num_classes is 5"):
        cifar10(tmp_path, "train", dataclasses.replace(OPTIONS, num_classes=5))


def test_imagenets_means_are_not_subtracted(folder: Path) -> None:
    """As the original's ``Cifar10ImagePreprocessor``, which knows nothing of ``--ml_perf``."""
    plain, means = (
        next(iter(cifar10(folder, "validation", dataclasses.replace(OPTIONS, match_mlperf=given))))[
            0
        ]
        for given in (False, True)
    )
    np.testing.assert_array_equal(np.asarray(plain), np.asarray(means))
