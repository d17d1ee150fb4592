"""``drumline.compat.tfds`` as scripts use TensorFlow Datasets."""

import numpy as np
import pytest

import drumline.compat.tf as tf
import drumline.compat.tfds as tfds
from drumline import datasets


@pytest.fixture(scope="module")
def digits():
    pytest.importorskip("sklearn")
    return datasets.builder("digits")


def test_load_with_info(digits):
    (train, test), info = tfds.load(
        "digits",
        split=["train[:80%]", "test"],
        shuffle_files=True,
        as_supervised=True,
        with_info=True,
    )
    assert isinstance(train, tf.data.Dataset)
    image, label = next(iter(train))
    assert image.shape == (8, 8, 1) and image.dtype == tf.uint8 and label.dtype == tf.int64
    np.testing.assert_array_equal(image, digits.read("train")["image"][0])
    sizes = {name: len(digits.read(name)["label"]) for name in ("train", "test")}
    assert len(train) == round(0.8 * sizes["train"]) and len(test) == sizes["test"]
    assert info.splits["train"].num_examples == sizes["train"]
    assert info.splits["train[:80%]"].num_examples == len(train)
    label = info.features["label"]
    assert label.num_classes == 10 and label.int2str(3) == "3" and label.str2int("9") == 9
    assert info.supervised_keys == ("image", "label") and info.features.shape["image"] == (8, 8, 1)
    assert "num_classes=10" in repr(info) and f"'test': {sizes['test']}" in repr(info)
    with pytest.raises(ValueError, match="classes 0 to 9"):
        label.int2str(10)


def test_all_splits_in_batches(digits):
    found = tfds.load("digits", batch_size=100)
    assert sorted(found) == ["test", "train"]
    batch = next(iter(found["train"]))
    assert batch["image"].shape == (100, 8, 8, 1)


def test_a_split_as_tensors(digits):
    images, labels = tfds.as_numpy(
        tfds.load("digits", split=tfds.Split.TEST, batch_size=-1, as_supervised=True)
    )
    np.testing.assert_array_equal(images, digits.read("test")["image"])
    np.testing.assert_array_equal(labels, digits.read("test")["label"])


def test_a_builder_and_numpy(digits):
    made = tfds.builder("digits")
    made.download_and_prepare()
    rows = tfds.as_numpy(made.as_dataset(split="test"))
    assert len(rows) == made.info.splits["test"].num_examples
    for _ in range(2):
        first = next(iter(rows))
        assert isinstance(first["image"], np.ndarray)
        np.testing.assert_array_equal(first["image"], digits.read("test")["image"][0])


def test_a_table_of_pandas(digits):
    pytest.importorskip("pandas")
    pairs, info = tfds.load("digits", split="test[:5]", as_supervised=True, with_info=True)
    table = tfds.as_dataframe(pairs, info)
    assert list(table.columns) == ["image", "label"]
    np.testing.assert_array_equal(table["label"], digits.read("test")["label"][:5])
    nested = tf.data.Dataset.from_tensor_slices({"a": {"b": [1, 2]}, "c": [3, 4]})
    assert tfds.as_dataframe(nested).to_dict("list") == {"a/b": [1, 2], "c": [3, 4]}


def test_pictures_are_drawn(digits):
    pytest.importorskip("matplotlib").use("agg")
    test, info = tfds.load("digits", split="test", with_info=True)
    figure = tfds.show_examples(test, info, rows=1, cols=2)
    titles = [axes.get_title() for axes in figure.axes]
    labels = digits.read("test")["label"]
    assert titles == [str(label) for label in labels[:2]]


def test_missing_files_say_where_to_put_them(tmp_path):
    with pytest.raises(FileNotFoundError, match="images-idx3-ubyte"):
        tfds.load("mnist", split="train", data_dir=tmp_path, download=False)


@pytest.mark.parametrize(
    ("kind", "text", "given"),
    [
        (ValueError, "There are: .*digits.*ImageFolder.*register", {"name": "no_such_dataset"}),
        (ValueError, "no configuration 'b'", {"name": "digits/b"}),
        (NotImplementedError, "try_gcs=True", {"name": "digits", "try_gcs": True}),
        (NotImplementedError, "leave decoders out", {"name": "digits", "decoders": {"image": 1}}),
        (NotImplementedError, "other=1", {"name": "digits", "builder_kwargs": {"other": 1}}),
    ],
)
def test_what_is_refused_says_what_to_do(kind, text, given):
    with pytest.raises(kind, match=text):
        tfds.load(**given)


def test_absent_names_say_what_to_use():
    with pytest.raises(AttributeError, match="drumline.datasets.register"):
        _ = tfds.core
    with pytest.raises(AttributeError, match="which has .*load"):
        _ = tfds.something


def test_folders_of_images(tmp_path):
    drawn = {}
    for split, label, number, size in [
        ("train", "cat", 0, (4, 5)),
        ("train", "cat", 1, (6, 3)),
        ("train", "dog", 2, (4, 4)),
        ("test", "dog", 3, (2, 2)),
    ]:
        folder = tmp_path / split / label
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.full((*size, 3), 10 * number, np.uint8)
        path = folder / f"{number}.png"
        tf.io.write_file(str(path), tf.io.encode_png(pixels))
        drawn[str(path).encode()] = pixels
    (tmp_path / "train" / "cat" / "notes.txt").write_text("no picture")
    made = tfds.ImageFolder(tmp_path)
    assert made.info.features["label"].names == ["cat", "dog"]
    assert made.info.splits["train"].num_examples == 3
    rows = list(tfds.as_numpy(made.as_dataset(split="train")))
    assert [row["label"] for row in rows] == [0, 0, 1]
    for row in rows:
        np.testing.assert_array_equal(row["image"], drawn[row["image/filename"]])
    (image, label) = next(iter(made.as_dataset(split="test", as_supervised=True)))
    assert image.shape == (2, 2, 3) and label == 1
    whole = made.as_dataset()
    assert {name: len(each) for name, each in whole.items()} == {"test": 1, "train": 3}
    with pytest.raises(FileNotFoundError, match="split/class"):
        tfds.folder_dataset.ImageFolder(tmp_path / "train" / "cat")
