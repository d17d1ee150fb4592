"""What programs with ``tf.data.experimental`` yield, for any module that is as TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Program = Callable[[Any, Path], Any]


def _rows(dataset: Any) -> list[Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(plain, value))
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        array = np.asarray(value.numpy())
        return array.dtype.kind, array.itemsize * (array.dtype.kind != "S"), array.tolist()

    return [plain(element) for element in dataset]


def _csv(folder: Path) -> str:
    path = folder / "own.csv"
    path.write_text("a,b,c\n1,2.5,x\n3,4.5,y\n5,,z\n")
    return str(path)


def _records(tf: Any, folder: Path) -> Any:
    path = str(folder / "own.tfrecord")
    strings = tf.data.Dataset.from_tensor_slices([b"a", b"b"])
    tf.data.experimental.TFRecordWriter(path).write(strings)
    return tf.data.TFRecordDataset(path)


def _applied(make: Callable[[Any, Any], Any], count: int = 6) -> Program:
    return lambda tf, folder: _rows(
        tf.data.Dataset.range(count).apply(make(tf, tf.data.experimental))
    )


def _structures(tf: Any, folder: Path) -> list[Any]:
    """What is said about elements: of datasets among them, and of iterators."""
    data = tf.data.Dataset.from_tensors({"a": np.zeros((2, 3), np.float32), "b": b"x"})
    (window,) = data.window(1)
    spec = data.window(1).element_spec["a"]
    shape = spec.element_spec.shape.as_list()
    of_iterator = tf.data.experimental.get_structure(iter(data))
    return [
        type(spec).__name__,
        isinstance(spec, tf.data.DatasetSpec),
        shape,
        spec == tf.data.DatasetSpec(tf.TensorSpec((2, 3), tf.float32)),
        spec == tf.data.DatasetSpec(tf.TensorSpec((2, 3), tf.int32)),
        spec.is_compatible_with(window["a"]),
        {name: (each.dtype.name, each.shape.as_list()) for name, each in of_iterator.items()},
    ]


PROGRAMS: dict[str, Program] = {
    "structures": _structures,
    "CsvDataset with text that must be there": lambda tf, folder: _rows(
        tf.data.experimental.CsvDataset(
            _csv(folder), [tf.constant([], tf.string)], header=True, select_cols=[2]
        )
    ),
    "CsvDataset": lambda tf, folder: _rows(
        tf.data.experimental.CsvDataset(
            _csv(folder), [tf.int32, tf.constant([7.0]), tf.string], header=True
        )
    ),
    "CsvDataset of columns": lambda tf, folder: _rows(
        tf.data.experimental.CsvDataset(
            _csv(folder), [0, tf.constant(1.0, tf.float64)], header=True, select_cols=[0, 1]
        )
    ),
    "make_csv_dataset": lambda tf, folder: _rows(
        tf.data.experimental.make_csv_dataset(_csv(folder), 2, num_epochs=1, shuffle=False)
    ),
    "make_csv_dataset with labels": lambda tf, folder: _rows(
        tf.data.experimental.make_csv_dataset(
            *(_csv(folder), 2),
            num_epochs=1,
            shuffle=False,
            label_name="c",
            column_defaults=[tf.int64, 0.0, ""],
        )
    ),
    "Counter": lambda tf, folder: _rows(tf.data.experimental.Counter(2, 3).take(3)),
    "cardinality": lambda tf, folder: int(
        tf.data.experimental.cardinality(tf.data.Dataset.range(3))
    ),
    "map_and_batch": _applied(
        lambda tf, e: e.map_and_batch(lambda x: x + 1, 4, drop_remainder=True)
    ),
    "take_while": _applied(lambda tf, e: e.take_while(lambda x: x < 2)),
    "unique": lambda tf, folder: _rows(
        tf.data.Dataset.from_tensor_slices([1, 1, 2]).apply(tf.data.experimental.unique())
    ),
    "enumerate_dataset": _applied(lambda tf, e: e.enumerate_dataset(5)),
    "scan": _applied(lambda tf, e: e.scan(tf.constant(0, tf.int64), lambda s, x: (s + x, s))),
    "parallel_interleave": _applied(
        lambda tf, e: e.parallel_interleave(
            lambda x: tf.data.Dataset.from_tensors(x).repeat(2), cycle_length=2
        )
    ),
    "group_by_window": _applied(
        lambda tf, e: e.group_by_window(lambda x: x % 2, lambda k, d: d.batch(2), window_size=2)
    ),
    "assert_cardinality": _applied(lambda tf, e: e.assert_cardinality(6)),
    "get_single_element": lambda tf, folder: int(
        tf.data.experimental.get_single_element(tf.data.Dataset.range(1))
    ),
    "get_next_as_optional": lambda tf, folder: int(
        tf.data.experimental.get_next_as_optional(iter(tf.data.Dataset.range(1))).get_value()
    ),
    "from_list": lambda tf, folder: _rows(tf.data.experimental.from_list([(1, b"a"), (2, b"b")])),
    "TFRecordWriter": lambda tf, folder: _rows(_records(tf, folder)),
}
