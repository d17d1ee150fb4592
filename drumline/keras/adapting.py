"""Keras's layers that learn from data before training, of datasets."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from drumline.data import INFINITE_CARDINALITY, Dataset

_UNBATCHED = 128


def of_moments(adapt: Callable[..., None]) -> Callable[..., None]:
    """``Normalization.adapt``, which without TensorFlow takes arrays alone, of datasets too.

    The layer is given two rows that have the mean and the variance of the dataset's.
    """

    @functools.wraps(adapt)
    def adapted(layer: Any, data: Any) -> None:
        adapt(layer, _two_rows(layer, data) if isinstance(data, Dataset) else data)

    return adapted


def of_quantiles(adapt: Callable[..., None]) -> Callable[..., None]:
    """``Discretization.adapt``, which needs TensorFlow whatever it is given, of datasets too."""

    @functools.wraps(adapt)
    def adapted(layer: Any, data: Any, steps: int | None = None) -> None:
        if not isinstance(data, Dataset):
            return adapt(layer, data, steps=steps)
        if layer.num_bins is None:
            raise ValueError("Discretization.adapt: the layer has bin_boundaries; give num_bins")
        layer.reset_state()
        for batch in _batches(layer, data if steps is None else data.take(steps)):
            layer.update_state(batch)
        layer.finalize_state()

    return adapted


def _two_rows(layer: Any, dataset: Dataset) -> np.ndarray:
    count, mean, squares = 0, np.zeros(()), np.zeros(())
    reduced: tuple[int, ...] = ()
    for batch in _batches(layer, dataset):
        rows = batch.astype(np.float64)
        if not count:
            if not layer.built:
                layer.build((None, *rows.shape[1:]))
            kept = {axis % rows.ndim for axis in layer.axis}
            reduced = tuple(axis for axis in range(rows.ndim) if axis not in kept)
        here = rows.mean(reduced, keepdims=True)
        size = rows.size // here.size
        # Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
        # variances", 1979: no large numbers are subtracted from one another.
        squares = squares + ((rows - here) ** 2).sum(reduced, keepdims=True)
        squares = squares + (here - mean) ** 2 * (count * size / (count + size))
        mean = mean + (here - mean) * (size / (count + size))
        count += size
    if not count:
        raise ValueError("Normalization.adapt: the dataset has no element")
    deviation = np.sqrt(squares / count)
    return np.concatenate([mean - deviation, mean + deviation])


def _batches(layer: Any, dataset: Dataset) -> Iterator[np.ndarray]:
    """What a layer sees of each batch: all, or the first of a tuple."""
    name = type(layer).__name__
    if dataset.cardinality() == INFINITE_CARDINALITY:
        raise ValueError(f"{name}.adapt: the dataset never ends; take a part of it")
    spec = dataset.element_spec
    first = spec[0] if isinstance(spec, tuple) else spec
    shape = getattr(first, "shape", None)
    if shape is None or not shape:
        raise ValueError(
            f"{name}.adapt: batches must be arrays, or tuples that begin with one; got {spec}. "
            "Take the array out in a map, and batch"
        )
    if len(shape) == 1 and name == "Normalization":
        dataset = dataset.batch(_UNBATCHED)
    for element in dataset:
        yield np.asarray(element[0] if isinstance(spec, tuple) else element)
