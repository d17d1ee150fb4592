"""Loading by name: structure, splits, digits and mnist."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from drumline import datasets
from drumline.data import TensorSpec
from drumline.datasets import DatasetBuilder, DatasetInfo, IdxError, Splits, registry
from tests.datasets.idx_files import write_mnist

REAL = Path(os.environ.get("DRUMLINE_SHARED", Path(__file__).parents[3] / "shared"))
REAL_MNIST = REAL / "data" / "mnist"


def columns(dataset: object) -> tuple[np.ndarray, ...]:
    return tuple(np.stack(column) for column in zip(*dataset, strict=True))  # type: ignore[call-overload]


def test_digits_are_scikit_learns() -> None:
    from sklearn.datasets import load_digits

    parts, info = datasets.load("digits", as_supervised=True, with_info=True)
    (train, labels), (test, test_labels) = columns(parts["train"]), columns(parts["test"])
    assert train.dtype == np.uint8
    assert train.shape[1:] == (8, 8, 1)
    assert labels.dtype == np.int64
    assert {name: split.num_examples for name, split in info.splits.items()} == {
        "train": len(train),
        "test": len(test),
    }
    whole = load_digits()
    ours = Counter((x.tobytes(), int(y)) for x, y in zip(train, labels, strict=True))
    ours += Counter((x.tobytes(), int(y)) for x, y in zip(test, test_labels, strict=True))
    pixels = whole.images.astype(np.uint8)
    theirs = Counter((x.tobytes(), int(y)) for x, y in zip(pixels, whole.target, strict=True))
    assert ours == theirs
    assert set(np.bincount(test_labels)) <= {34, 35, 36}


def test_the_split_structure_is_returned() -> None:
    found = datasets.load("digits", split={"fit": "train[:10]", "rest": ("test[:3]", ["all"])})
    assert len(found["fit"]) == 10
    assert [len(found["rest"][0]), len(found["rest"][1][0])] == [3, 1797]
    assert isinstance(found["rest"], tuple)


def test_batches_and_all_at_once() -> None:
    rows = list(datasets.load("digits", split="test"))
    batches = [len(each["label"]) for each in datasets.load("digits", split="test", batch_size=100)]
    assert batches == [100, 100, 100, len(rows) - 300]
    images, labels = datasets.load("digits", split="test", batch_size=-1, as_supervised=True)
    np.testing.assert_array_equal(images, [each["image"] for each in rows])
    np.testing.assert_array_equal(labels, [each["label"] for each in rows])


def test_without_as_supervised_examples_are_dicts() -> None:
    dataset = datasets.load("digits", split="train[:10%]+test[-5:]")
    assert dataset.element_spec == {
        "image": TensorSpec((8, 8, 1), np.uint8),
        "label": TensorSpec((), np.int64),
    }
    assert len(dataset) == 144 + 5


def test_mnist_reads_both_pairs_in_any_spelling(tmp_path: Path) -> None:
    images = write_mnist(tmp_path, "train", 30, dotted=True)
    write_mnist(tmp_path, "t10k", 20)
    parts = datasets.load("mnist", data_dir=tmp_path, as_supervised=True)
    assert [len(parts["train"]), len(parts["test"])] == [30, 20]
    found, labels = columns(parts["train"])
    np.testing.assert_array_equal(found[..., 0], images)
    np.testing.assert_array_equal(labels, np.arange(30) % 10)


def test_mnist_divides_lonely_t10k_files(tmp_path: Path) -> None:
    images = write_mnist(tmp_path / "mnist", "t10k", 40)
    parts = datasets.load("mnist", data_dir=tmp_path)
    assert [len(parts["train"]), len(parts["test"])] == [36, 4]
    test = np.stack([example["image"] for example in parts["test"]])
    np.testing.assert_array_equal(test[..., 0], images[9::10])


@pytest.mark.skipif(not REAL_MNIST.is_dir(), reason=f"the MNIST files are not in {REAL_MNIST}")
def test_real_mnist() -> None:
    parts, info = datasets.load("mnist", data_dir=REAL_MNIST, as_supervised=True, with_info=True)
    assert info.splits.sizes == {"train": 9000, "test": 1000}
    _, labels = columns(parts["train"])
    assert np.bincount(labels, minlength=10).min() > 700


def test_missing_files_are_named_with_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRUMLINE_DATA_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="t10k-images-idx3-ubyte") as caught:
        datasets.load("mnist", download=False)
    assert str(tmp_path / "mnist") in str(caught.value)
    assert "download=True" in str(caught.value)


def test_half_a_pair_is_an_error_not_another_split(tmp_path: Path) -> None:
    write_mnist(tmp_path, "train", 30)
    write_mnist(tmp_path, "t10k", 20)
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match=r"files train-labels-idx1-ubyte are not in"):
        datasets.load("mnist", data_dir=tmp_path)


def test_images_and_labels_must_belong_together(tmp_path: Path) -> None:
    write_mnist(tmp_path, "t10k", 20)
    longer = tmp_path / "longer"
    write_mnist(longer, "t10k", 30)
    (longer / "t10k-labels-idx1-ubyte").replace(tmp_path / "t10k-labels-idx1-ubyte")
    with pytest.raises(IdxError, match=r"labels-idx1-ubyte: holds uint8 of shape \(30,\)"):
        datasets.load("mnist", data_dir=tmp_path)


def test_unknown_names_list_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"'minst'. Did you mean 'mnist'\? There are: .*digits"):
        datasets.load("minst")


def test_a_name_and_an_argument_that_say_different_things(tmp_path: Path) -> None:
    for given in ({"config": "digits"}, {"version": "3.0.0"}):
        with pytest.raises(ValueError, match=r"'emnist/letters:3\.1\.0' says the .* another"):
            datasets.builder("emnist/letters:3.1.0", data_dir=tmp_path, **given)  # type: ignore[arg-type]
    made = datasets.builder("emnist/letters", data_dir=tmp_path, config="letters", version="3.1.0")
    assert made.info.full_name == "emnist/letters/3.1.0"


def test_a_registered_builder_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))

    @datasets.register
    class Squares(DatasetBuilder):
        name = "squares"

        def make_info(self) -> DatasetInfo:
            spec = TensorSpec((), np.int64)
            return DatasetInfo("squares", Splits({"train": 4}), {"value": spec}, None, "", "")

        def read(self, split: str) -> Mapping[str, np.ndarray]:
            return {"value": np.arange(4) ** 2}

    assert "squares" in datasets.list_builders()
    values = [int(x["value"]) for x in datasets.load("squares", split="train[1:]")]
    assert values == [1, 4, 9]
    with pytest.raises(ValueError, match="no supervised form"):
        datasets.load("squares", split="train", as_supervised=True)
    with pytest.raises(ValueError, match="'mnist' is taken"):
        datasets.register(type("Mnist2", (Squares,), {"name": "mnist"}))
