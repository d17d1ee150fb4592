"""``tf.distribute.coordinator``: functions of tensors, scheduled on workers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drumline.compat.distribute.strategies import step_of
from drumline.compat.training.function import TensorFunction
from drumline.compat.values.boundary import map_structure, register, unwrap, wrap
from drumline.distribute.parameter_server.coordinator import ClusterCoordinator, RemoteValue
from drumline.distribute.parameter_server.coordinator.values import (
    PerWorkerDataset,
    PerWorkerIterator,
    PerWorkerValues,
    TracedIterator,
)


class RemoteTensors:
    """What a scheduled function will return, as ``tf.distribute.coordinator.RemoteValue``.

    Args:
        value: drumline's.
    """

    def __init__(self, value: RemoteValue):
        self._value = value

    def fetch(self) -> Any:
        """Wait for it, and return it as numpy's arrays and Python's values, as TensorFlow does."""
        return map_structure(_fetched, wrap(self._value.fetch()))

    def get(self) -> Any:
        """Wait for it, and return it as tensors."""
        return wrap(self._value.fetch())


class IteratorOnWorker:
    """What a scheduled function finds in the place of a per-worker iterator.

    Args:
        iterator: drumline's, of symbols.
    """

    def __init__(self, iterator: TracedIterator):
        self._iterator = iterator

    def __iter__(self) -> IteratorOnWorker:
        return self

    def __next__(self) -> Any:
        return wrap(next(self._iterator))

    def get_next(self) -> Any:
        """The next element; the same as ``next``."""
        return next(self)


class PerWorkerDatasetView(PerWorkerValues):
    """A dataset on every worker, as ``tf.distribute.coordinator.PerWorkerValues``.

    Args:
        dataset: drumline's.
    """

    def __init__(self, dataset: PerWorkerDataset):
        self._dataset = dataset

    @property
    def element_spec(self) -> Any:
        """What the elements are."""
        return wrap(self._dataset.element_spec)

    def __iter__(self) -> PerWorkerIterator:
        return iter(self._dataset)


class CoordinatorOfTensors:
    """As ``tf.distribute.coordinator.ClusterCoordinator``.

    Args:
        strategy: a ``tf.distribute.ParameterServerStrategy``.

    Raises:
        ValueError: it is another one.
    """

    def __init__(self, strategy: Any):
        try:
            self._coordinator = ClusterCoordinator(strategy)
        except TypeError as error:
            raise ValueError(
                "Only `tf.distribute.experimental.ParameterServerStrategy` is supported to work "
                f"with `tf.distribute.experimental.coordinator.ClusterCoordinator`: {error}"
            ) from None

    @property
    def strategy(self) -> Any:
        """The strategy whose workers run the functions."""
        return self._coordinator.strategy

    def schedule(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> RemoteTensors:
        """Let a worker run a function; see drumline's `ClusterCoordinator.schedule`.

        Args:
            fn: a function of tensors and per-worker iterators, or a ``tf.function``.
            args: its arguments.
            kwargs: more of them, by name.
        """
        given, named = unwrap(tuple(args or ())), unwrap(dict(kwargs or {}))
        return RemoteTensors(self._coordinator.schedule(step_of(fn), given, named))

    def join(self) -> None:
        """Wait until all scheduled functions have run, and raise what one of them failed with."""
        self._coordinator.join()

    def done(self) -> bool:
        """Whether all scheduled functions have run."""
        return self._coordinator.done()

    def fetch(self, val: Any) -> Any:
        """A structure with what scheduled functions returned in the place of remote values."""
        return map_structure(
            lambda leaf: leaf.fetch() if isinstance(leaf, RemoteTensors) else leaf, val
        )

    def create_per_worker_dataset(self, dataset_fn: Any) -> PerWorkerDatasetView:
        """Make a dataset on every worker.

        Args:
            dataset_fn: a function that returns a dataset, also a ``tf.function``, with an input
                context as its argument or none; or a dataset.
        """
        made = _dataset_function(dataset_fn) if callable(dataset_fn) else unwrap(dataset_fn)
        return PerWorkerDatasetView(self._coordinator.create_per_worker_dataset(made))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._coordinator, name)


def _dataset_function(dataset_fn: Any) -> Callable[..., Any]:
    function = dataset_fn.python_function if isinstance(dataset_fn, TensorFunction) else dataset_fn

    @functools.wraps(function)
    def made(*args: Any) -> Any:
        return unwrap(function(*args))

    made.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return made


def _fetched(leaf: Any) -> Any:
    return leaf.numpy() if hasattr(leaf, "numpy") else leaf


for _cls, _name in (
    (RemoteTensors, "RemoteValue"),
    (CoordinatorOfTensors, "ClusterCoordinator"),
    (PerWorkerDatasetView, "PerWorkerDataset"),
):
    _cls.__name__ = _cls.__qualname__ = _name


def _remote_of(view: Any) -> Any:
    return view._value


register(TracedIterator, IteratorOnWorker, None, None)
register(None, None, RemoteTensors, _remote_of)
