"""Stands for TensorFlow Datasets in the tutorials: made-up examples of the original shapes."""

from __future__ import annotations

import importlib
import os
import re
from types import SimpleNamespace

import numpy as np

TF = importlib.import_module(os.environ["TUTORIAL_TF"])
DATA = os.environ["TUTORIAL_DATA"]


def _images(file, train, test, shape, classes):
    def made(split):
        count = train if split == "train" else test
        if file is not None:
            arrays = np.load(os.path.join(DATA, file))
            x, y = arrays[f"x_{split}"], arrays[f"y_{split}"]
            return {"image": x.reshape(-1, *shape), "label": y.reshape(-1).astype(np.int64)}
        labels = np.arange(count, dtype=np.int64) % classes
        ramp = np.linspace(0, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        pictures = [
            ((label + 1) / classes * ramp * 255).astype(np.uint8) for label in range(classes)
        ]
        return {"image": Rows(pictures, labels), "label": labels}

    return SimpleNamespace(splits={"train": train, "test": test}, make=made, classes=classes)


class Rows:
    """Pictures (classes, ...) by their labels; thousands of them in the memory of a few."""

    def __init__(self, pictures, labels):
        self.pictures, self.labels = pictures, labels

    def __getitem__(self, rows):
        return Rows(self.pictures, self.labels[rows])

    def dataset(self):
        """A dataset of the pictures."""
        held = TF.constant(np.stack(self.pictures))
        return TF.data.Dataset.from_tensor_slices(self.labels).map(lambda label: held[label])


def _reviews():
    def made(split):
        words = ["the film was", "a story of", "acting", "plot", "music", "scenes"]
        draws = np.random.default_rng(len(split))
        labels = draws.integers(0, 2, 25_000).astype(np.int64)
        moods = (["bad", "boring", "awful"], ["good", "great", "moving"])
        texts = [
            " ".join([*draws.choice(words, 20), *draws.choice(moods[label], 5)]).encode()
            for label in labels
        ]
        return {"text": np.array(texts, object), "label": labels}

    splits = {"train": 25_000, "test": 25_000}
    return SimpleNamespace(splits=splits, make=made, classes=2)


def _penguins(kind):
    names = ["body_mass_g", "culmen_depth_mm", "culmen_length_mm", "flipper_length_mm"]

    def made(_split):
        draws = np.random.default_rng(7)
        species = np.arange(334, dtype=np.int64) % 3
        draws.shuffle(species)
        sizes = draws.normal(species[:, None], 0.3, (334, 4)).astype(np.float32)
        if kind == "processed":
            return {"features": sizes, "species": species}
        columns = {name: sizes[:, place] for place, name in enumerate(names)}
        islands, sexes = draws.integers(0, 3, 334), draws.integers(0, 3, 334)
        return {**columns, "island": islands, "sex": sexes, "species": species}

    return SimpleNamespace(splits={"train": 334}, make=made, classes=3)


def _iris():
    def made(_split):
        draws = np.random.default_rng(6)
        labels = np.arange(150, dtype=np.int64) % 3
        sizes = draws.normal(labels[:, None], 0.4, (150, 4)).astype(np.float32)
        return {"features": sizes, "label": labels}

    return SimpleNamespace(splits={"train": 150}, make=made, classes=3)


__version__ = "made up"
Split = SimpleNamespace(TRAIN="train", TEST="test")
SETS = {
    "penguins/simple": lambda: _penguins("simple"),
    "penguins/processed": lambda: _penguins("processed"),
    "mnist": lambda: _images("mnist.npz", 60_000, 10_000, (28, 28, 1), 10),
    "fashion_mnist": lambda: _images("mnist.npz", 60_000, 10_000, (28, 28, 1), 10),
    "tf_flowers": lambda: _images(None, 3_670, 0, (240, 320, 3), 5),
    "imdb_reviews": _reviews,
    "iris": _iris,
    "cats_vs_dogs": lambda: _images(None, 2_000, 0, (200, 240, 3), 2),
}


def disable_progress_bar():
    """Do nothing: none is shown."""


def _part(name, sizes, made):
    found = re.fullmatch(r"(\w+)(?:\[(.*):(.*)\])?", name)
    split, first, last = found.groups()
    size = sizes[split]

    def place(text, otherwise):
        if not text:
            return otherwise
        return size * int(text[:-1]) // 100 if text.endswith("%") else int(text)

    rows = slice(place(first, 0), place(last, size))
    return {key: value[rows] for key, value in made(split).items()}


def load(
    name,
    split=None,
    *,
    batch_size=None,
    shuffle_files=False,
    data_dir=None,
    with_info=False,
    as_supervised=False,
    download=True,
    **_kwargs,
):
    """As ``tfds.load``, of the sets that the tutorials use."""
    name = name.partition(":")[0]
    made = SETS[name if name in SETS else name.partition("/")[0]]()

    def dataset(part):
        columns = _part(part, made.splits, made.make)
        whole = {
            name: column.dataset()
            if isinstance(column, Rows)
            else TF.data.Dataset.from_tensor_slices(column)
            for name, column in columns.items()
        }
        found = TF.data.Dataset.zip(tuple(whole.values()) if as_supervised else whole)
        return found if batch_size is None else found.batch(batch_size)

    if split is None:
        result = {name: dataset(name) for name, size in made.splits.items() if size}
    elif isinstance(split, str):
        result = dataset(split)
    else:
        result = [dataset(part) for part in split]
    names = [str(i) for i in range(made.classes)]
    label = SimpleNamespace(num_classes=made.classes, names=names, int2str=lambda i: names[int(i)])
    splits = {name: SimpleNamespace(num_examples=size) for name, size in made.splits.items()}
    info = SimpleNamespace(splits=splits, features={"label": label}, name=name)
    return (result, info) if with_info else result


def as_numpy(dataset):
    """As ``tfds.as_numpy``, of a dataset."""
    return dataset.as_numpy_iterator()


def as_dataframe(dataset, _info=None):
    """As ``tfds.as_dataframe``: a row for each example; supervised ones have two columns."""
    import pandas as pd

    rows = []
    for row in dataset.as_numpy_iterator():
        row = row if isinstance(row, dict) else {"features": row[0], "label": row[1]}
        rows.append({name: np.asarray(value).tolist() for name, value in row.items()})
    return pd.DataFrame(rows)
