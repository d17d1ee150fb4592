"""Every kind of input that `fit`, `evaluate` and `predict` take, for one small classifier."""

from __future__ import annotations

import functools
import io
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import h5py
import jax
import keras
import numpy as np
import pandas
import scipy.sparse
from keras import layers

import drumline as dl
from tests.models.running import BATCH, Case, Facts, Setting, facts_of, predictions_of, weights_of

ROWS, WIDTH, CLASSES = 21, 6, 3
EPOCHS = 2
STEPS = 3
CLASS_WEIGHT = {0: 2.0, 1: 0.25, 2: 1.0}

Feed = Callable[[Setting, np.ndarray, np.ndarray], dict[str, Any]]
"""Makes the arguments of `fit` from rows and their classes."""


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Rows of numbers and their classes."""
    rng = np.random.default_rng(12)
    return rng.random((ROWS, WIDTH), dtype=np.float32), rng.integers(0, CLASSES, ROWS)


def weights() -> np.ndarray:
    """A weight for each row, some of them zero."""
    return np.maximum(np.linspace(-0.3, 1.5, ROWS), 0).astype(np.float32)


def cut(*arrays: Any) -> Iterator[tuple[Any, ...]]:
    """Batches of arrays that are cut together."""
    for at in range(0, ROWS, BATCH):
        yield jax.tree.map(lambda leaf, at=at: leaf[at : at + BATCH], arrays)


def halves(x: Any) -> dict[str, Any]:
    """The two inputs of the classifier that takes a dict."""
    return {"left": x[:, :2], "right": x[:, 2:]}


def classifier(setting: Setting, x: Any) -> keras.Model:
    """One layer of logits, of an array or of two by name."""
    if isinstance(x, dict):
        widths = {"left": 2, "right": WIDTH - 2}
        inputs: Any = {name: keras.Input((width,), name=name) for name, width in widths.items()}
        joined = layers.Concatenate()([inputs["left"], inputs["right"]])
    else:
        inputs = joined = keras.Input((WIDTH,))
    model = keras.Model(inputs, layers.Dense(CLASSES)(joined))
    model.compile(
        keras.optimizers.SGD(0.5, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        weighted_metrics=[keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="ce")],
        **setting.compile,
    )
    return model


ASKED_OF_FIT = (
    "class_weight",
    "epochs",
    "initial_epoch",
    "shuffle",
    "validation_data",
    "validation_freq",
    "validation_split",
    "validation_steps",
)


def fed(feed: Feed, *, named: bool = False) -> Case:
    """The case of a feed: it is fitted, evaluated and predicted from."""

    def program(setting: Setting, data: Any) -> Facts:
        x, y = data
        with setting.scope():
            model = classifier(setting, halves(x) if named else x)
        make = functools.partial(feed, setting, x, y)
        options = {"epochs": EPOCHS, "verbose": 0, "shuffle": False, **make()}
        asked = {name: value for name, value in make().items() if name not in ASKED_OF_FIT}
        steps = asked.pop("steps_per_epoch", None)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Your input ran out of data")  # said of generators
            facts = facts_of(model.fit(**options))
            facts["evaluated"] = np.array(model.evaluate(**asked, steps=steps, verbose=0))
            batch_size = asked.get("batch_size")
            facts |= predictions_of(model, make()["x"], steps=steps, batch_size=batch_size)
        return facts | weights_of(model)

    return Case(program, rows, quick=("2 replicas",) if feed in QUICK else ())


class Batches(keras.utils.PyDataset):
    """The data as a PyDataset; shuffled by itself at the end of every epoch if asked."""

    def __init__(self, *arrays: Any, ends: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self._batches = list(cut(*arrays))
        self._ends = ends

    @property
    def num_batches(self) -> int | None:
        return len(self._batches) if self._ends else None

    def __getitem__(self, index: int) -> Any:
        return self._batches[index % len(self._batches)]

    def on_epoch_end(self) -> None:
        self._batches[:-1] = self._batches[-2::-1]  # the last one stays the short one


def dataset(x: Any, y: Any, *more: Any) -> dl.data.Dataset:
    """The data as a dataset of batches."""
    return dl.data.Dataset.from_tensor_slices((x, y, *more)).batch(BATCH)


def endless(*arrays: Any) -> Iterator[Any]:
    """The batches, again and again."""
    while True:
        yield from cut(*arrays)


def arrays(x: Any, y: Any, **more: Any) -> dict[str, Any]:
    """Arguments of `fit` for arrays."""
    return {"x": x, "y": y, "batch_size": BATCH, **more}


def mapped(array: np.ndarray) -> np.ndarray:
    """The array in a file, mapped into memory."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file, array)
        file.flush()
        return np.load(file.name, mmap_mode="r")


def in_hdf5(array: np.ndarray) -> Any:
    """The array in a file of HDF5, which lives in memory."""
    return h5py.File(io.BytesIO(), "w").create_dataset("array", data=array)


def numpy_arrays(s: Setting, x: Any, y: Any) -> dict[str, Any]:
    return arrays(x, y)


def jax_arrays(s: Setting, x: Any, y: Any) -> dict[str, Any]:
    return arrays(jax.numpy.asarray(x), jax.numpy.asarray(y))


def data_frames(s: Setting, x: Any, y: Any) -> dict[str, Any]:
    return arrays(pandas.DataFrame(x), pandas.Series(y))


def generators(s: Setting, x: Any, y: Any) -> dict[str, Any]:
    return {"x": endless(x, y), "steps_per_epoch": STEPS}


def py_datasets(s: Setting, x: Any, y: Any) -> dict[str, Any]:
    return {"x": Batches(x, y)}


def datasets(s: Setting, x: Any, y: Any) -> dict[str, Any]:
    return {"x": dataset(x, y)}


QUICK = (jax_arrays, data_frames, generators, py_datasets, datasets)


def distributed(s: Setting, x: Any, y: Any) -> dict[str, Any]:
    """A dataset that the strategy has distributed; on one device the dataset itself."""
    data = dataset(x, y)
    return {"x": data if s.strategy is None else s.strategy.experimental_distribute_dataset(data)}


INPUTS: dict[str, Case] = {
    "numpy": fed(numpy_arrays),
    "jax": fed(jax_arrays),
    "jax, on a device": fed(
        lambda s, x, y: arrays(*(jax.device_put(part, jax.local_devices()[-1]) for part in (x, y)))
    ),
    "float64 and int64": fed(lambda s, x, y: arrays(x.astype("f8"), y.astype("i8"))),
    "float16 and uint8": fed(lambda s, x, y: arrays(x.astype("f2"), y.astype("u1"))),
    "integers": fed(lambda s, x, y: arrays((x * 3).astype("i4"), y.astype("i2"))),
    "bools": fed(lambda s, x, y: arrays(x > 0.5, y > 1)),
    "targets with a column": fed(lambda s, x, y: arrays(x, y[:, None])),
    "a file mapped into memory": fed(lambda s, x, y: arrays(mapped(x), mapped(y))),
    "HDF5": fed(lambda s, x, y: arrays(in_hdf5(x), in_hdf5(y))),
    "pandas": fed(data_frames),
    "scipy, sparse": fed(lambda s, x, y: arrays(scipy.sparse.csr_matrix(x * (x > 0.5)), y)),
    "a dict": fed(lambda s, x, y: arrays(halves(x), y), named=True),
    "generator": fed(generators),
    "generator that ends": fed(lambda s, x, y: {"x": cut(x, y), "epochs": 1}),
    "generator of jax arrays": fed(
        lambda s, x, y: {
            "x": endless(jax.numpy.asarray(x), jax.numpy.asarray(y)),
            "steps_per_epoch": STEPS,
        }
    ),
    "generator of dicts and weights": fed(
        lambda s, x, y: {"x": endless(halves(x), y, weights()), "steps_per_epoch": STEPS},
        named=True,
    ),
    "PyDataset": fed(py_datasets),
    "PyDataset of dicts and weights": fed(
        lambda s, x, y: {"x": Batches(halves(x), y, weights())}, named=True
    ),
    "PyDataset with threads": fed(
        lambda s, x, y: {"x": Batches(x, y, workers=2, max_queue_size=4)}
    ),
    "PyDataset without an end": fed(
        lambda s, x, y: {"x": Batches(x, y, ends=False), "steps_per_epoch": STEPS}
    ),
    "Dataset": fed(datasets),
    "Dataset of dicts and weights": fed(
        lambda s, x, y: {"x": dataset(halves(x), y, weights())}, named=True
    ),
    "Dataset that repeats": fed(
        lambda s, x, y: {"x": dataset(x, y).repeat(), "steps_per_epoch": STEPS}
    ),
    "Dataset, distributed": fed(distributed),
    "class weights": fed(lambda s, x, y: arrays(x, y, class_weight=CLASS_WEIGHT)),
    "class weights of a Dataset": fed(
        lambda s, x, y: {"x": dataset(x, y), "class_weight": CLASS_WEIGHT}
    ),
    "class weights of a PyDataset": fed(
        lambda s, x, y: {"x": Batches(x, y), "class_weight": CLASS_WEIGHT}
    ),
    "sample weights": fed(lambda s, x, y: arrays(x, y, sample_weight=weights())),
    "validation split": fed(
        lambda s, x, y: arrays(x, y, sample_weight=weights(), validation_split=0.4)
    ),
    "validation arrays": fed(
        lambda s, x, y: arrays(x, y, validation_data=(x[::-1], y, weights()), validation_freq=2)
    ),
    "validation generator": fed(
        lambda s, x, y: arrays(x, y, validation_data=endless(x[::-1], y), validation_steps=2)
    ),
    "validation PyDataset": fed(lambda s, x, y: arrays(x, y, validation_data=Batches(x[::-1], y))),
    "validation Dataset": fed(
        lambda s, x, y: {"x": dataset(x, y), "validation_data": dataset(x[::-1].copy(), y)}
    ),
    "arrays shuffled": fed(lambda s, x, y: arrays(x, y, shuffle=True)),
    "arrays shuffled by batches": fed(lambda s, x, y: arrays(x[:16], y[:16], shuffle="batch")),
    "some steps of arrays": fed(
        lambda s, x, y: arrays(x[:16], y[:16], steps_per_epoch=1, epochs=3, initial_epoch=1)
    ),
}
