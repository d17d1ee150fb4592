"""Strategies, replica contexts and distributed datasets of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from drumline import distribute
from drumline.compat.data.dataset import OptionalValue
from drumline.compat.keras import boundaries
from drumline.compat.training.function import TensorFunction
from drumline.compat.values.boundary import from_core, register, unwrap, wrap
from drumline.compat.values.errors import EndOfSequenceError
from drumline.distribute.input.distributed_dataset import DistributedDataset
from drumline.distribute.input.distributed_dataset_from_function import (
    DistributedDatasetFromFunction,
)
from drumline.distribute.input.distributed_iterator import DistributedIterator

boundaries.install()


class DistributedView:
    """A distributed dataset whose iterator gives tensors, as ``tf.distribute.DistributedDataset``.

    Args:
        dataset: drumline's.
    """

    def __init__(self, dataset: Any):
        self._dataset = dataset

    def __iter__(self) -> DistributedIteratorView:
        return DistributedIteratorView(iter(self._dataset))

    def __len__(self) -> int:
        return len(self._dataset)

    @property
    def element_spec(self) -> Any:
        """What the elements are."""
        return wrap(self._dataset.element_spec)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._dataset, name)

    def __drumline_batches__(self) -> tuple[Any, Callable[[Any], Any]]:
        return self._dataset, wrap


class DistributedIteratorView:
    """An iterator of a distributed dataset, as ``tf.distribute.DistributedIterator``.

    Args:
        iterator: drumline's.
    """

    def __init__(self, iterator: Any):
        self._iterator = iterator

    def __iter__(self) -> DistributedIteratorView:
        return self

    def __next__(self) -> Any:
        return wrap(next(self._iterator))

    def get_next(self) -> Any:
        """The next batch.

        Raises:
            EndOfSequenceError: there is none.
        """
        try:
            return next(self)
        except StopIteration:
            raise EndOfSequenceError(None, None, "End of sequence") from None

    def get_next_as_optional(self) -> OptionalValue:
        """The next batch, or an empty value."""
        try:
            return OptionalValue(next(self))
        except StopIteration:
            return OptionalValue()

    @property
    def element_spec(self) -> Any:
        """What the elements are."""
        return wrap(self._iterator.element_spec)

    def __drumline_batches__(self) -> tuple[Any, Callable[[Any], Any]]:
        return self._iterator, wrap


for _view, _name in (
    (DistributedView, "DistributedDataset"),
    (DistributedIteratorView, "DistributedIterator"),
):
    _view.__name__ = _view.__qualname__ = _name


class OfTensors:
    """What the look-alike changes in a strategy: what goes in and comes out are tensors."""

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        options: Any = None,
    ) -> Any:
        """Run a step on each replica; see `drumline.distribute.Strategy.run`."""
        step = from_core(fn.python_function if isinstance(fn, TensorFunction) else fn)
        above: Any = super()
        return wrap(above.run(step, unwrap(tuple(args)), unwrap(dict(kwargs or {}))))

    def reduce(self, reduce_op: Any, value: Any, axis: int | None = None) -> Any:
        """One value of those of the replicas."""
        above: Any = super()
        return wrap(above.reduce(reduce_op, unwrap(value), axis=axis))

    def gather(self, value: Any, axis: int) -> Any:
        """The replicas' values, concatenated."""
        above: Any = super()
        return wrap(above.gather(unwrap(value), axis))

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> DistributedView:
        """The dataset, a share of each batch for each replica."""
        above: Any = super()
        more = () if options is None else (options,)
        return DistributedView(above.experimental_distribute_dataset(unwrap(dataset), *more))

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[..., Any], options: Any = None
    ) -> DistributedView:
        """A dataset that a function of the input context makes."""
        above: Any = super()
        more = () if options is None else (options,)

        def made(context: Any) -> Any:
            return unwrap(dataset_fn(context))

        return DistributedView(above.distribute_datasets_from_function(made, *more))

    def experimental_distribute_values_from_function(self, value_fn: Callable[..., Any]) -> Any:
        """A value for each replica, which a function gives."""
        above: Any = super()
        made = above.experimental_distribute_values_from_function(lambda c: unwrap(value_fn(c)))
        return wrap(made)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """The values of this process's replicas."""
        above: Any = super()
        return tuple(map(wrap, above.experimental_local_results(unwrap(value))))


class OneDeviceOfTensors(OfTensors, distribute.OneDeviceStrategy):  # type: ignore[misc]
    """As ``tf.distribute.OneDeviceStrategy``."""

    def __init__(self, device: str = "CPU:0"):
        super().__init__(_device(device))


class MirroredOfTensors(OfTensors, distribute.MirroredStrategy):  # type: ignore[misc]
    """As ``tf.distribute.MirroredStrategy``."""

    def __init__(self, devices: Any = None, cross_device_ops: Any = None):
        chosen = None if devices is None else [_device(each) for each in devices]
        super().__init__(chosen, cross_device_ops)


class MultiWorkerOfTensors(OfTensors, distribute.MultiWorkerMirroredStrategy):  # type: ignore[misc]
    """As ``tf.distribute.MultiWorkerMirroredStrategy``."""


class ParameterServersOfTensors(OfTensors, distribute.ParameterServerStrategy):  # type: ignore[misc]
    """As ``tf.distribute.ParameterServerStrategy``."""


for _strategy in (
    OneDeviceOfTensors,
    MirroredOfTensors,
    MultiWorkerOfTensors,
    ParameterServersOfTensors,
):
    _strategy.__name__ = _strategy.__qualname__ = _strategy.__mro__[2].__name__


def _device(name: Any) -> str:
    """A device's name as drumline has it, ``"cpu:0"``, of TensorFlow's."""
    short = str(name).rpartition("device:")[2].strip("/").lower()
    return short if ":" in short else f"{short}:0"


class DefaultOfTensors(OfTensors, distribute.Strategy):  # type: ignore[misc]
    """The strategy outside of all scopes, in the look-alike."""

    def __init__(self) -> None:
        self.__dict__.update(vars(distribute.get_strategy()))


def get_strategy() -> Any:
    """The strategy in whose scope or step this is called; the default one outside of all."""
    found = distribute.get_strategy()
    return found if isinstance(found, OfTensors) else DefaultOfTensors()


class ReplicaContextView:
    """The replica that runs a step, as ``tf.distribute.ReplicaContext``.

    Args:
        context: drumline's.
    """

    def __init__(self, context: Any):
        self._context = context

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """One value of those of all replicas."""
        return wrap(self._context.all_reduce(reduce_op, unwrap(value)))

    def all_gather(self, value: Any, axis: int, options: Any = None) -> Any:
        """The values of all replicas, concatenated."""
        return wrap(self._context.all_gather(unwrap(value), axis))

    def merge_call(
        self, merge_fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Call a function once for all replicas."""

        def merged(strategy: Any, *inner: Any, **named: Any) -> Any:
            return unwrap(merge_fn(strategy, *wrap(inner), **wrap(named)))

        return wrap(self._context.merge_call(merged, unwrap(tuple(args)), unwrap(kwargs or {})))

    @property
    def replica_id_in_sync_group(self) -> Any:
        """The replica's number."""
        found = self._context.replica_id_in_sync_group
        return wrap(found) if isinstance(found, jax.Array) else found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def get_replica_context() -> ReplicaContextView | None:
    """The replica that runs; None outside of replicas' code."""
    context = distribute.get_replica_context()
    return None if context is None else ReplicaContextView(context)


def _dataset_of(view: Any) -> Any:
    return view._dataset


def _iterator_of(view: Any) -> Any:
    return view._iterator


register(DistributedDataset, DistributedView, DistributedView, _dataset_of)
register(DistributedDatasetFromFunction, DistributedView, None, None)
register(DistributedIterator, DistributedIteratorView, DistributedIteratorView, _iterator_of)
