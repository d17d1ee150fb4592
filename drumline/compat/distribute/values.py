"""What replicas are given and give, as users see it: distributed datasets and `PerReplica`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax

from drumline.compat.data.dataset import ElementIterator
from drumline.compat.values.boundary import register, wrap
from drumline.distribute.input.distributed_dataset import DistributedDataset
from drumline.distribute.input.distributed_dataset_from_function import (
    DistributedDatasetFromFunction,
)
from drumline.distribute.input.distributed_iterator import DistributedIterator
from drumline.distribute.values import DistributedValues, PerReplica


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


class DistributedIteratorView(ElementIterator):
    """Iterates over a distributed dataset, as ``tf.distribute.DistributedIterator``."""


class PerReplicaView(DistributedValues):
    """A tensor for each replica, as ``tf.distribute.DistributedValues``.

    A node of JAX's pytrees around drumline's `PerReplica`.

    Args:
        value: drumline's.
    """

    __slots__ = ("_value",)

    def __init__(self, value: PerReplica):
        self._value = value

    @property
    def values(self) -> tuple[Any, ...]:
        """The tensors, by replica."""
        return tuple(map(wrap, self._value.values))

    def __repr__(self) -> str:
        rows = ",\n".join(f"  {number}: {each!s}" for number, each in enumerate(self.values))
        return f"PerReplica:{{\n{rows}\n}}"


def _per_replica(_: None, children: Iterable[Any]) -> PerReplicaView:
    (value,) = children
    return PerReplicaView(value)


jax.tree_util.register_pytree_node(
    PerReplicaView, lambda view: ((view._value,), None), _per_replica
)

for _view, _name in (
    (DistributedView, "DistributedDataset"),
    (DistributedIteratorView, "DistributedIterator"),
    (PerReplicaView, "PerReplica"),
):
    _view.__name__ = _view.__qualname__ = _name


def _dataset_of(view: Any) -> Any:
    return view._dataset


def _iterator_of(view: Any) -> Any:
    return view._iterator


def _value_of(view: Any) -> Any:
    return view._value


register(DistributedDataset, DistributedView, DistributedView, _dataset_of)
register(DistributedDatasetFromFunction, DistributedView, None, None)
register(DistributedIterator, DistributedIteratorView, DistributedIteratorView, _iterator_of)
register(PerReplica, PerReplicaView, PerReplicaView, _value_of)
