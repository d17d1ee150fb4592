"""What a replica's step is called with, taken apart into arrays and the rest."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from drumline.distribute.per_replica import PerReplica

_ARRAYS = (jax.Array, np.ndarray, np.generic)


class Identity:
    """An object as part of a key: equal to itself alone. As a leaf it stands for the object."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True)
class Form:
    """Everything about a call's arguments but its arrays; calls of one form share a program.

    Attributes:
        treedef: the structure of ``(args, kwargs)``.
        fixed: for each leaf what it is, if it is no array; a mark in the place of arrays.
    """

    treedef: Any
    fixed: tuple[Hashable, ...]

    @property
    def arrays(self) -> tuple[bool, ...]:
        """For each leaf, whether it is an array."""
        return tuple(kept is _ARRAY for kept in self.fixed)

    def arguments(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """``(args, kwargs)`` again, with these arrays."""
        given = iter(arrays)
        leaves = [next(given) if kept is _ARRAY else _opened(kept) for kept in self.fixed]
        args, kwargs = jax.tree.unflatten(self.treedef, leaves)
        return args, kwargs


class _Mark:
    pass


_ARRAY = _Mark()


def _opened(kept: Any) -> Any:
    if isinstance(kept, Identity):
        return kept.value
    return kept[1]


def take_apart(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Form, list[Any]]:
    """The form of a call's arguments, and their arrays in order.

    Python numbers, strings and other objects are part of the form, as in ``tf.function``: a call
    with another number is traced anew. None is structure.

    Raises:
        TypeError: if an argument is a dataset, or an array of strings.
    """
    leaves, treedef = jax.tree.flatten((tuple(args), dict(kwargs)))
    fixed: list[Hashable] = []
    arrays: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, _ARRAYS):
            if leaf.dtype.kind in "OSUT":
                raise TypeError(
                    "A replica's step got an array of strings or objects, which no device can "
                    "hold. Drop it from the batch, or turn it into numbers in the input pipeline."
                )
            arrays.append(leaf)
            fixed.append(_ARRAY)
        else:
            fixed.append(_as_key(leaf))
    return Form(treedef, tuple(fixed)), arrays


def _as_key(leaf: Any) -> Hashable:
    if isinstance(leaf, Identity):
        return leaf
    if isinstance(leaf, (bool, int, float, complex, str, bytes)):
        return type(leaf), leaf
    if hasattr(leaf, "element_spec") or hasattr(leaf, "__next__"):
        kind = "an iterator" if hasattr(leaf, "__next__") else "a dataset"
        raise TypeError(
            f"A replica's step got {kind} ({type(leaf).__name__}) as an argument; it takes "
            "batches. Loop over `strategy.experimental_distribute_dataset(dataset)` and pass each "
            "batch to `run`."
        )
    return Identity(leaf)


@functools.lru_cache(maxsize=256)
def per_replica_leaves(treedef: Any) -> tuple[bool, ...]:
    """For each leaf of a call's arguments, whether it holds the values of all replicas stacked."""
    tree = jax.tree.unflatten(treedef, range(treedef.num_leaves))
    nodes = jax.tree.leaves(tree, is_leaf=_is_per_replica)
    flags: list[bool] = []
    for node in nodes:
        flags += [True] if _is_per_replica(node) else [False]
    return tuple(flags)


def _is_per_replica(node: Any) -> bool:
    return isinstance(node, PerReplica)


def is_apart(node: Any) -> bool:
    """Whether `node` is a `PerReplica` whose values are not stacked."""
    return isinstance(node, PerReplica) and node.stacked is None


def for_replica(tree: Any, index: int) -> Any:
    """`tree` as the replica `index` sees it: each `PerReplica` is its value there."""
    return jax.tree.map(
        lambda node: node.values[index] if isinstance(node, PerReplica) else node,
        tree,
        is_leaf=_is_per_replica,
    )


def any_apart(tree: Any) -> bool:
    """Whether some `PerReplica` of `tree` is kept apart."""
    found = jax.tree.leaves(tree, is_leaf=_is_per_replica)
    return any(is_apart(node) for node in found)


def stack_if_alike(tree: Any, stack: Callable[[Sequence[Any]], Any], replicas: int) -> Any:
    """`tree` with each `PerReplica` whose values are arrays of one shape and dtype stacked."""

    def stacked(node: Any) -> Any:
        if not is_apart(node) or len(node.values) != replicas:
            return node
        kinds = {(np.shape(value), _dtype(value)) for value in node.values}
        if len(kinds) > 1 or not all(isinstance(value, _ARRAYS) for value in node.values):
            return node
        return PerReplica.of_stacked(stack(node.values))

    return jax.tree.map(stacked, tree, is_leaf=_is_per_replica)


def _dtype(value: Any) -> Any:
    return getattr(value, "dtype", type(value))
