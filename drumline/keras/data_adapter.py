"""A `drumline.data.Dataset` as input of Keras's `fit`, `evaluate` and `predict`.

Class weights become sample weights here, and a missing ``batch()`` is named in errors.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import keras
import numpy as np

from drumline.data import INFINITE_CARDINALITY, Dataset, TensorSpec
from drumline.distribute import DistributedDataset, get_strategy, has_strategy
from drumline.distribute.input.distributed_dataset_from_function import (
    DistributedDatasetFromFunction,
)
from drumline.distribute.input.process_input import global_batches, has_own_steps
from drumline.keras import internals


def require_targets_alone(element: Any) -> None:
    """Check that elements have the form that class weights apply to.

    Raises:
        ValueError: if an element has sample weights, no targets, or several target arrays.
    """
    _, y, sample_weight = keras.utils.unpack_x_y_sample_weight(element)
    if sample_weight is not None:
        raise ValueError("`class_weight` and a dataset with sample weights exclude each other.")
    if y is None or len(jax.tree.leaves(y)) != 1:
        raise ValueError("`class_weight` needs one array of targets in each element.")


def class_sample_weights(
    batch: Any, class_weight: Mapping[int, float]
) -> tuple[Any, Any, np.ndarray]:
    """Return ``(x, y, sample_weight)`` with each row's weight that of its class, 1 by default.

    Args:
        batch: ``(x, y)``; `y` one array of class ids, of shape (n,) or (n, 1), or of one-hot
            rows, of shape (n, classes).
        class_weight: weights by class id.
    """
    x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
    classes = _class_ids(np.asarray(jax.tree.leaves(y)[0]))
    found, rows = np.unique(classes, return_inverse=True)
    weights = np.array([class_weight.get(int(c), 1.0) for c in found], keras.backend.floatx())
    return x, y, weights[rows.reshape(-1)]


def _class_ids(y: np.ndarray) -> np.ndarray:
    if y.ndim > 1:
        y = np.argmax(y, axis=-1) if y.shape[-1] != 1 else np.squeeze(y, axis=-1)
    return np.round(y).astype(np.int64)


_KIND = "drumline.data.Dataset"


class DatasetAdapter(internals.DataAdapter):
    """Gives Keras's trainer a dataset's batches as they are: no copy, no conversion.

    Args:
        dataset: a batched dataset of ``x``, ``(x, y)`` or ``(x, y, sample_weight)``.
        class_weight: weights by class, turned into a sample weight for each row.
        distributed: what a strategy made of it, of which the batches are taken instead.
    """

    builtin_prefetch = True

    def __init__(
        self,
        dataset: Dataset,
        class_weight: dict[int, float] | None = None,
        distributed: DistributedDatasetFromFunction | None = None,
    ) -> None:
        _require_batched(dataset)
        if class_weight:
            require_targets_alone(dataset.element_spec)
        self._dataset = dataset
        self._class_weight = class_weight
        self._distributed = distributed

    @property
    def dataset(self) -> Dataset:
        """The dataset whose batches are given."""
        return self._dataset

    @property
    def datasets(self) -> list[Dataset]:
        """Those that are iterated: several if a strategy made one for each replica."""
        return [self._dataset] if self._distributed is None else self._distributed.datasets

    def get_numpy_iterator(self) -> DatasetBatches:
        """The batches of one new iteration of the dataset, which begins with the first of them."""
        return DatasetBatches(self._begin, f"{self._dataset!r}")

    def _begin(self) -> tuple[Any, Iterator[Any]]:
        if self._distributed is not None:
            return self._distributed.global_batches(self._weighed)
        if has_strategy() and get_strategy().spans_processes:
            return global_batches(self._dataset, get_strategy(), self._weighed)
        source = iter(self._dataset)
        return source, map(self._weighed, source) if self._class_weight else source

    def _weighed(self, batch: Any) -> Any:
        return class_sample_weights(batch, self._class_weight) if self._class_weight else batch

    get_jax_iterator = get_numpy_iterator

    @property
    def num_batches(self) -> int | None:
        """The number of batches, None if it is unknown or infinite."""
        if self.has_own_steps:
            return None
        cardinality = int(self._dataset.cardinality())
        return cardinality if cardinality >= 0 else None

    @property
    def batch_size(self) -> int | None:
        """The rows of a batch, None if they vary."""
        shape = jax.tree.leaves(self._dataset.element_spec)[0].shape
        return shape[0] if shape and not self.has_own_steps else None

    @property
    def has_own_steps(self) -> bool:
        """Whether a step is not a batch of the dataset: processes may have batches of their own."""
        if self._distributed is not None:
            return True
        if not has_strategy() or not get_strategy().spans_processes:
            return False
        return has_own_steps(self._dataset, get_strategy().num_processes)

    @property
    def has_partial_batch(self) -> bool | None:
        """Unknown: only the dataset's end shows it."""
        return None

    @property
    def partial_batch_size(self) -> int | None:
        """Unknown: only the dataset's end shows it."""
        return None


class DatasetBatches:
    """The batches of one iteration of a dataset, with a position.

    Args:
        begin: starts the iteration: what has the position, and the batches.
        name: of the dataset, for messages.
    """

    def __init__(self, begin: Callable[[], tuple[Any, Iterator[Any]]], name: str) -> None:
        self._begin = begin
        self._name = name
        self._source: Any = None
        self._batches: Iterator[Any] = iter(())
        self._given = False

    def __iter__(self) -> DatasetBatches:
        return self

    def __next__(self) -> Any:
        """Return the next batch.

        Raises:
            ValueError: if there is not even one.
        """
        if self._source is None:
            self._source, self._batches = self._begin()
        try:
            batch = next(self._batches)
        except StopIteration:
            if self._given:
                raise
            raise ValueError(
                "The dataset has no elements, so there is nothing to fit, evaluate or predict. "
                f"Dataset: {self._name}. A filter that drops everything, or "
                "`batch(drop_remainder=True)` with fewer elements than a batch, leaves none."
            ) from None
        self._given = True
        return batch

    def state(self) -> Any:
        """The position of the next batch; None before the first."""
        return None if self._source is None else self._source.state()

    def restore(self, state: Any) -> None:
        """Continue where `state` was taken."""
        if state is not None:
            self._source, self._batches = self._begin()
            self._source.restore(state)
            self._given = True


def adapt_datasets(get_data_adapter: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Keras's choice of a data adapter: datasets get a `DatasetAdapter`."""

    def get_adapter(x: Any, y: Any = None, sample_weight: Any = None, **options: Any) -> Any:
        if not isinstance(x, (Dataset, DistributedDataset, DistributedDatasetFromFunction)):
            adapter = get_data_adapter(x, y=y, sample_weight=sample_weight, **options)
            _require_batches(adapter)
            return adapter
        if y is not None:
            internals.raise_unsupported_arg("y", "the targets", _KIND)
        if sample_weight is not None:
            internals.raise_unsupported_arg("sample_weights", "the sample weights", _KIND)
        dataset = _undistributed(x)
        _require_an_end(dataset, options.get("steps_per_epoch"))
        distributed = x if isinstance(x, DistributedDatasetFromFunction) else None
        return DatasetAdapter(dataset, options.get("class_weight"), distributed)

    return get_adapter


def _require_batched(dataset: Dataset) -> None:
    if any(leaf.shape == () for leaf in jax.tree.leaves(dataset.element_spec)):
        raise ValueError(
            "The dataset's elements are single examples, not batches: call `.batch(n)` on it. "
            f"Element specification: {dataset.element_spec}"
        )


def _require_batches(adapter: Any) -> None:
    if adapter.num_batches == 0:
        raise ValueError("The input has no elements: there is nothing to fit, evaluate or predict.")


def _undistributed(x: Dataset | DistributedDataset | DistributedDatasetFromFunction) -> Any:
    if isinstance(x, Dataset):
        return x
    if x.strategy is not get_strategy():
        raise ValueError(
            f"The dataset was distributed by {x.strategy!r}, but the model runs under "
            f"{get_strategy()!r}. Distribute it by the model's strategy, or give `fit` the "
            "dataset itself."
        )
    return x.dataset


def _require_an_end(dataset: Dataset, steps: int | None) -> None:
    if steps is None and dataset.cardinality() == INFINITE_CARDINALITY:
        raise ValueError(
            "The dataset never ends: say how many batches make an epoch, by `steps_per_epoch` for "
            "fit, `validation_steps` for validation data or `steps` for evaluate and predict."
        )


def silence_end_of_input(warn: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the epoch iterator's warning that input ran out.

    Where no number of steps was given, the end of a dataset of unknown size is the end of
    the epoch, and nothing to warn of.
    """

    def warn_of_missing_steps(self: Any) -> None:
        if self.steps_per_epoch or not isinstance(self.data_adapter, DatasetAdapter):
            warn(self)

    return warn_of_missing_steps


def build_from_spec(build: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the trainer's symbolic build: a dataset's specification tells the shapes.

    Keras would take the first batch, throw the iteration away and start another: the epoch's
    order would depend on whether the model was built before.
    """

    def build_without_reading(
        self: keras.Model, iterator: Any = None, data_batch: Any = None
    ) -> Any:
        adapter = getattr(iterator, "data_adapter", None)
        if data_batch is None and isinstance(adapter, DatasetAdapter):
            data_batch = example_batch(adapter)
        with warnings.catch_warnings():
            # Of int64 arrays, whose dtype Keras asks jax 0.12 for; only shapes matter here.
            warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)
            return build(self, iterator=iterator, data_batch=data_batch)

    return build_without_reading


def shape_of(leaf: TensorSpec, rows: int) -> jax.ShapeDtypeStruct:
    """The shape and dtype that a batch of `rows` has as a JAX array.

    With the dtype that JAX gives it: from jax 0.12 on Keras, which asks for that of the
    specification as it is, would warn at every ``fit`` with int64 labels.
    """
    dtype = jax.dtypes.canonicalize_dtype(leaf.dtype)
    return jax.ShapeDtypeStruct((rows, *leaf.shape[1:]), dtype)


def example_batch(adapter: DatasetAdapter) -> Any:
    """Shapes and dtypes of a batch; None where the specification leaves more than rows open."""
    leaves, treedef = jax.tree.flatten(adapter.dataset.element_spec)
    if any(leaf.shape is None or not leaf.shape or None in leaf.shape[1:] for leaf in leaves):
        return None
    rows = adapter.batch_size or 2
    batch = jax.tree.unflatten(treedef, [shape_of(leaf, rows) for leaf in leaves])
    if not adapter._class_weight:
        return batch
    x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
    return x, y, jax.ShapeDtypeStruct((rows,), np.dtype(keras.backend.floatx()))


def add_batch_hint(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``fit``, ``evaluate`` or ``predict``: an error names a missing ``batch``.

    It cannot be refused: elements of `from_generator` or `from_tensors` may be batches.
    """

    @functools.wraps(method)
    def hinting(self: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, x, *args, **kwargs)
        except Exception as error:
            if isinstance(x, Dataset) and not x.has_batches:
                error.add_note(
                    "The dataset has no batch() in it, so each element was taken as a batch. If "
                    f"its elements are single examples, call `.batch(n)`: {x.element_spec}"
                )
            raise

    return hinting
