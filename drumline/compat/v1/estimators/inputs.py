"""``tf.compat.v1.estimator.inputs``: input functions of arrays and data frames, in batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from drumline.compat.data.dataset import TensorDataset
from drumline.compat.values.boundary import map_structure


def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], TensorDataset]:
    """An input function of rows of arrays, as ``tf.compat.v1.estimator.inputs.numpy_input_fn``.

    Batches go over the end of an epoch; the last one of all may be smaller.

    Args:
        x: features: an array of (rows, ...), or a dictionary of such arrays.
        y: labels: likewise, or None.
        batch_size: how many rows.
        num_epochs: how often all rows are given; None for ever.
        shuffle: whether they are in a new random order in each epoch.
        queue_capacity: without effect: rows are shuffled among all.
        num_threads: without effect.

    Raises:
        ValueError: ``shuffle`` is not given, numbers of rows differ, or a dictionary is empty.
        TypeError: ``x`` is something else.

    Example:
        >>> input_fn = numpy_input_fn({"x": np.arange(3)}, batch_size=2, shuffle=False)
        >>> [batch["x"].numpy().tolist() for batch in input_fn()]
        [[0, 1], [2]]
    """
    _check_shuffle(shuffle)

    def input_fn() -> TensorDataset:
        if not isinstance(x, (Mapping, np.ndarray)):
            raise TypeError(f"x must be a dict or array; got {type(x).__name__}")
        for name, value in (("x", x), ("y", y)):
            if isinstance(value, Mapping) and not value:
                raise ValueError(f"{name} cannot be empty dict, use None instead.")
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            both = x.keys() & y.keys()
            if both:
                raise ValueError(f"{len(both)} duplicate keys are found in both x and y: {both}")
        return _batches(x, y, batch_size, num_epochs, shuffle)

    return input_fn


def pandas_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
    target_column: str = "target",
) -> Callable[[], TensorDataset]:
    """As `numpy_input_fn`, of the columns of a data frame.

    Args:
        x: a ``pandas.DataFrame``.
        y: a ``pandas.Series``, or a data frame, whose columns the labels are; None for none.
        batch_size: how many rows.
        num_epochs: how often all rows are given; None for ever.
        shuffle: whether they are in a new random order in each epoch.
        queue_capacity: without effect: rows are shuffled among all.
        num_threads: without effect.
        target_column: no column of ``x`` may have this name.

    Raises:
        ValueError: ``shuffle`` is not given, the indices differ, or ``x`` has the target's column.
        TypeError: ``target_column`` is no text.
    """
    _check_shuffle(shuffle)
    if not isinstance(target_column, str):
        raise TypeError("target_column must be a string type")
    features, labels = _columns(x), None
    if y is not None:
        if target_column in features:
            raise ValueError(
                f"Cannot use name {target_column} for target column: DataFrame already has a "
                f"column with that name: {list(features)}"
            )
        if not np.array_equal(x.index, y.index):
            raise ValueError(
                f"Index for x and y are mismatched.\nIndex for x: {x.index}\nIndex for y: {y.index}"
            )
        labels = _columns(y) if hasattr(y, "columns") else y.to_numpy()

    def input_fn() -> TensorDataset:
        return _batches(features, labels, batch_size, num_epochs, shuffle)

    return input_fn


def _check_shuffle(shuffle: Any) -> None:
    if not isinstance(shuffle, bool):
        raise ValueError(
            "shuffle must be provided and explicitly set as boolean (it is recommended to set it "
            f"as True for training); got {shuffle}"
        )


def _columns(frame: Any) -> dict[Any, np.ndarray]:
    return {name: frame[name].to_numpy() for name in frame.columns}


def _batches(
    features: Any, labels: Any, batch_size: int, epochs: int | None, shuffle: bool | None
) -> TensorDataset:
    rows: set[int] = set()
    map_structure(lambda each: rows.add(len(each)), (features, {} if labels is None else labels))
    if len(rows) != 1:
        raise ValueError(
            "Length of tensors in x and y is mismatched. All elements in x and y must have the "
            f"same length, not {sorted(rows)}."
        )
    data: Any = TensorDataset.from_tensor_slices(features if labels is None else (features, labels))
    if shuffle:
        data = data.shuffle(rows.pop())
    found: TensorDataset = data.repeat(epochs).batch(batch_size)
    return found
