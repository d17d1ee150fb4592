"""The datasets of a worker: how their functions arrive, and iterating over them.

The chief sends a function that makes a dataset (`SentFunction`): pickled, over a connection on
which both sides have shown the cluster's token, or as it is within one process. The worker calls it
with its own `InputContext`; in it, `strategy.distribute_datasets_from_function` gives the worker's
dataset. `Datasets` has datasets and iterators by the chief's numbers; the pipeline's thread draws
from them.
"""

from __future__ import annotations

import contextvars
import inspect
import itertools
import pickle
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from drumline import _function_pickles
from drumline._forks import ForkSafeLock
from drumline._resumable import close_iterator
from drumline.distribute.input.options import InputContext
from drumline.distribute.parameter_server.errors import OutOfRangeError, RequestError
from drumline.distribute.parameter_server.wire.messages import CreateDataset

_making: contextvars.ContextVar[InputContext | None] = contextvars.ContextVar(
    "drumline_making_dataset", default=None
)
_numbers = itertools.count()
_lock = ForkSafeLock()


class _Kept:
    """A function that workers of this process get as it is."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


_local: weakref.WeakValueDictionary[int, _Kept] = weakref.WeakValueDictionary()


class SentFunction:
    """A function, or a dataset, in the forms in which workers take it.

    A worker in this process is given the function itself. Others get it pickled, over a channel
    on which both sides have shown the cluster's token.

    Args:
        function: takes an `InputContext` or nothing, and returns a dataset; or a dataset.
    """

    def __init__(self, function: Any) -> None:
        self._kept = _Kept(function)
        with _lock:
            self._number = next(_numbers)
            _local[self._number] = self._kept
        self._pickled: bytes | None = None

    def content(self, in_process: bool) -> tuple[int | None, tuple[np.ndarray, ...]]:
        """The fields `local` and `pickled` of a `CreateDataset` with it.

        Raises:
            TypeError: if it has to be pickled and cannot be.
        """
        if in_process:
            return self._number, ()
        if self._pickled is None:
            try:
                self._pickled = _function_pickles.dumps(self._kept.function)
            except Exception as error:
                raise TypeError(
                    f"The dataset function {self._kept.function!r} cannot be sent to a worker: "
                    f"{error}. Let it open files and make layers itself, instead of using objects "
                    "from outside of it."
                ) from error
        return None, (np.frombuffer(self._pickled, np.uint8),)


def received(request: CreateDataset, context: InputContext) -> Callable[[], Any]:
    """What makes the dataset of a worker, from what `SentFunction.content` gave.

    Raises:
        RequestError: if the request brings no function, or one that is gone.
    """
    if request.local is not None:
        sent = _local.get(request.local)
        if sent is None:
            raise RequestError(f"There is no dataset function {request.local} in this process.")
        function = sent.function
    elif len(request.pickled) == 1:
        function = pickle.loads(request.pickled[0].tobytes())
    else:
        raise RequestError(
            f"The request {request.operation!r} brings {len(request.pickled)} arrays; a function "
            "is one."
        )
    return lambda: made(function, context)


def made(function: Any, context: InputContext) -> Any:
    """The dataset that `function` makes, or is."""
    if not callable(function):
        return function
    takes_context = bool(inspect.signature(function).parameters)
    token = _making.set(context)
    try:
        return function(context) if takes_context else function()
    finally:
        _making.reset(token)


def own_dataset(dataset_fn: Callable[[InputContext], Any]) -> Any:
    """The dataset of the worker for which one is being made now.

    Raises:
        RuntimeError: if none is.
    """
    context = _making.get()
    if context is None:
        raise RuntimeError(
            "Every worker makes its own dataset: call this in a function, and give that function "
            "to `ClusterCoordinator.create_per_worker_dataset`."
        )
    return dataset_fn(context)


class StrategyOnWorker:
    """What a function that makes datasets finds on a worker in the place of the strategy."""

    num_replicas_in_sync = 1

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Any], options: Any = None
    ) -> Any:
        """The worker's own dataset, as on the strategy."""
        return own_dataset(dataset_fn)

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        """The dataset, as on the strategy."""
        return own_dataset(lambda context: dataset)


class Datasets:
    """Datasets and their iterators, by the chief's numbers."""

    def __init__(self) -> None:
        self._datasets: dict[int, Any] = {}
        self._iterators: dict[int, Iterator[Any]] = {}

    def make(self, number: int, make: Callable[[], Any]) -> None:
        """Make a dataset, or make it again."""
        self._datasets[number] = make()

    def iterate(self, number: int, dataset: int) -> None:
        """Start going through a dataset."""
        self._iterators[number] = iter(self._datasets[dataset])

    def forget(self, datasets: Iterable[int], iterators: Iterable[int]) -> None:
        """Let go of datasets and iterators."""
        for number in datasets:
            self._datasets.pop(number, None)
        for number in iterators:
            close_iterator(self._iterators.pop(number, None))

    def close(self) -> None:
        """End all iterators, and the threads behind them."""
        for iterator in self._iterators.values():
            close_iterator(iterator)

    def draw(self, number: int) -> list[Any]:
        """The leaves of an iterator's next element.

        Raises:
            OutOfRangeError: at its end.
        """
        try:
            return jax.tree.leaves(next(self._iterators[number]))
        except StopIteration:
            raise OutOfRangeError(
                "The dataset of this worker has ended. Repeat it (`dataset.repeat()`), or "
                "schedule fewer steps."
            ) from None
