"""``sklearn/...`` and ``keras/...`` are what these packages load."""

from __future__ import annotations

import gzip
import importlib
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drumline import datasets
from drumline.data import RaggedArray
from drumline.datasets.registry import builder_class
from tests.datasets.builders.fabricated import pixels

KERAS = [config.name for config in builder_class("keras").BUILDER_CONFIGS]  # type: ignore[union-attr]
SKLEARN = [config.name for config in builder_class("sklearn").BUILDER_CONFIGS]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", SKLEARN)
def test_scikit_learns(name: str) -> None:
    source = pytest.importorskip("sklearn.datasets")
    values, labels = getattr(source, f"load_{name}")(return_X_y=True)
    found, info = datasets.load(
        f"sklearn/{name}", split="train[10:]", as_supervised=True, with_info=True, download=False
    )
    pairs = list(found)
    assert np.array_equal(np.stack([pair[0] for pair in pairs]), values[10:])
    assert np.array_equal(np.stack([pair[1] for pair in pairs]), labels[10:])
    assert info.splits["train"].num_examples == len(values) and info.full_name == f"sklearn/{name}"
    bunch = getattr(source, f"load_{name}")()
    if name in ("iris", "breast_cancer"):
        assert info.features["label"].names == [*bunch.target_names]


def _words(seed: int) -> np.ndarray:
    rng = np.random.RandomState(seed)
    rows = np.empty(7, object)
    for i in range(7):
        rows[i] = rng.randint(1, 50, i + 1).tolist()
    return rows


def _fabricate(name: str, home: Path) -> None:
    """Write what Keras has in its cache for a dataset, small."""
    home.mkdir(parents=True)
    labels = np.arange(7) % 2
    if name == "mnist":
        split = {"x_train": pixels(1, 7, 28, 28), "y_train": labels.astype(np.uint8)}
        split |= {"x_test": pixels(2, 3, 28, 28), "y_test": labels[:3].astype(np.uint8)}
        np.savez(home / "mnist.npz", **split)
    elif name == "fashion_mnist":
        (home / "fashion-mnist").mkdir()
        for part, count in (("train", 7), ("t10k", 3)):
            images = bytes(16) + pixels(count, count, 28, 28).tobytes()
            for kind, content in (("images-idx3", images), ("labels-idx1", bytes(8 + count))):
                path = home / "fashion-mnist" / f"{part}-{kind}-ubyte.gz"
                path.write_bytes(gzip.compress(content))
    elif name == "cifar100":
        folder = home / "cifar-100-python-target" / "cifar-100-python"
        folder.mkdir(parents=True)
        for part, count in (("train", 7), ("test", 3)):
            data = {b"data": pixels(count, count, 3072), b"fine_labels": [*range(count)]}
            (folder / part).write_bytes(pickle.dumps(data))
    elif name == "cifar10":
        (home / "cifar-10-batches-py-target").mkdir()
    elif name == "imdb":
        parts = {"x_train": _words(1), "y_train": labels, "x_test": _words(2), "y_test": labels}
        np.savez(home / "imdb.npz", **parts)
    elif name == "reuters":
        np.savez(home / "reuters.npz", x=_words(3), y=labels)
    else:
        rng = np.random.RandomState(4)
        columns = 13 if name == "boston_housing" else 8
        np.savez(home / f"{name}.npz", x=rng.uniform(size=(10, columns)), y=rng.uniform(size=10))


@pytest.mark.parametrize("name", KERAS)
def test_kerass(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = importlib.import_module(f"keras.src.datasets.{name}")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))

    def get_file(fname: str, *, cache_subdir: str = "datasets", **options: Any) -> str:
        return os.path.join(tmp_path, cache_subdir, fname)

    monkeypatch.setattr(module, "get_file", get_file)
    if name == "cifar10":  # Keras wants five files of 10,000

        def load_batch(path: str) -> Any:
            seed = sum(map(ord, os.path.basename(path)))
            data = np.broadcast_to(np.uint8(seed % 256), (10_000, 3, 32, 32))
            return data, [(seed + i) % 10 for i in range(10_000)]

        monkeypatch.setattr(module, "load_batch", load_batch)
    with pytest.raises(FileNotFoundError, match=rf"keras/{name}: .*download=True"):
        datasets.load(f"keras/{name}", split="train", download=False)
    assert datasets.builder(f"keras/{name}").info.splits["train"].num_examples > 400
    _fabricate(name, tmp_path / "datasets")
    theirs = module.load_data()
    values = [value for part, _ in theirs for value in part]
    labels = [np.ravel(label)[0] for _, part in theirs for label in part]
    found, info = datasets.load(
        f"keras/{name}", split="train+test[50%:]", as_supervised=True, with_info=True
    )
    count = len(theirs[0][0])
    half = len(theirs[1][0]) - len(found) + count
    assert info.splits.sizes == {"train": count, "test": len(theirs[1][0])}
    assert half == round(len(theirs[1][0]) / 2)
    chosen = [i for i in range(len(values)) if not count <= i < count + half]
    for number, (value, label) in zip(chosen, found, strict=True):
        assert np.array_equal(np.asarray(value).reshape(-1), np.ravel(values[number]))
        assert label == labels[number]
        if name == "cifar10" and number > count:
            break


def test_batches_of_words_are_ragged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = importlib.import_module("keras.src.datasets.imdb")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    _fabricate("imdb", tmp_path / "datasets")
    path = str(tmp_path / "datasets" / "imdb.npz")
    monkeypatch.setattr(module, "get_file", lambda *args, **options: path)
    read = datasets.load("keras/imdb", split="all")
    found = read.ragged_batch(14).get_single_element()
    assert isinstance(found["tokens"], RaggedArray) and len(found["tokens"]) == 14
    assert found["label"].tolist() == [*module.load_data()[0][1], *module.load_data()[1][1]]


def test_wrong_names_are_named() -> None:
    with pytest.raises(ValueError, match=r"sklearn has no configuration 'cifar'. There are: iris"):
        datasets.builder("sklearn/cifar")
    with pytest.raises(ValueError, match=r"keras has no versions: leave 1.0.0 out"):
        datasets.builder("keras/imdb:1.0.0")
