"""What a replica's step is called with, flattened into arrays and the rest."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from drumline.distribute.values import MissingValueError, PerReplica

_ARRAYS = (jax.Array, np.ndarray, np.generic)
_NO_NUMBERS = ("O", "S", "U", "T")  # dtypes of JAX's own, as those of random keys, have no kind


class Identity:
    """An object as part of a key: equal to itself alone. As a leaf it stands for the object."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True)
class ArgumentSpec:
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

    @property
    def numbers(self) -> tuple[tuple[type, object], ...]:
        """The Python numbers among the leaves, with their types."""
        kinds = (bool, int, float, complex)
        return tuple(
            kept for kept in self.fixed if isinstance(kept, tuple) and issubclass(kept[0], kinds)
        )

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


class StringArgument(TypeError):
    """A call to compile has an array of strings or of objects among its arguments."""


def flatten_arguments(
    args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[ArgumentSpec, list[Any]]:
    """The form of a call's arguments, and their arrays in order.

    Python numbers, strings and other objects are part of the form, as in ``tf.function``: a call
    with another number is traced again. None is structure.

    Raises:
        StringArgument: if an argument is an array of strings or objects.
        TypeError: if an argument is a dataset.
    """
    leaves, treedef = jax.tree.flatten((tuple(args), dict(kwargs)))
    fixed: list[Hashable] = []
    arrays: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, _ARRAYS):
            if getattr(leaf.dtype, "kind", None) in _NO_NUMBERS:
                raise StringArgument(
                    "A replica's step got an array of strings or objects, which no device can "
                    "hold. Drop it from the batch, or turn it into numbers in the input pipeline."
                )
            arrays.append(leaf)
            fixed.append(_ARRAY)
        else:
            fixed.append(_as_key(leaf))
    return ArgumentSpec(treedef, tuple(fixed)), arrays


def _as_key(leaf: Any) -> Hashable:
    if isinstance(leaf, Identity):
        return leaf
    if isinstance(leaf, (bool, int, float, complex, str, bytes)):
        return type(leaf), leaf
    if hasattr(leaf, "element_spec") or hasattr(leaf, "__next__"):
        kind = "an iterator" if hasattr(leaf, "__next__") else "a dataset"
        raise TypeError(
            f"A compiled function or step got {kind} ({type(leaf).__name__}) as an argument, "
            "which would be read when it is compiled, and not at each call. Pass the batch, as "
            "`next(iterator)`; for steps of `run` loop over "
            "`strategy.experimental_distribute_dataset(dataset)`."
        )
    return Identity(leaf)


@functools.lru_cache(maxsize=256)
def per_replica_leaves(treedef: Any) -> tuple[bool, ...]:
    """For each leaf of a call's arguments, whether it holds the values of all replicas stacked."""
    tree = jax.tree.unflatten(treedef, range(treedef.num_leaves))
    nodes = leaves_per_replica(tree)
    flags: list[bool] = []
    for node in nodes:
        flags += [True] if _is_per_replica(node) else [False]
    return tuple(flags)


def _is_per_replica(node: Any) -> bool:
    return isinstance(node, PerReplica)


def is_apart(node: Any) -> bool:
    """Whether `node` is a `PerReplica` whose values are not stacked."""
    return isinstance(node, PerReplica) and not node.is_stacked


def for_replica(tree: Any, index: int) -> Any:
    """`tree` as the replica `index` sees it: each `PerReplica` is its value there."""
    return jax.tree.map(
        lambda node: node.at(index) if isinstance(node, PerReplica) else node,
        tree,
        is_leaf=_is_per_replica,
    )


@functools.lru_cache(maxsize=256)
def is_regular(treedef: Any) -> bool:
    """Whether each `PerReplica` of a call's arguments has the values of all replicas stacked."""
    tree = jax.tree.unflatten(treedef, range(treedef.num_leaves))
    nodes = leaves_per_replica(tree)
    return not any(_is_irregular(node) for node in nodes)


def _is_irregular(node: Any) -> bool:
    return _is_per_replica(node) and (not node.is_stacked or node.replicas is not None)


def normalized(tree: Any, stack: Callable[[Sequence[Any]], Any], replicas: int) -> Any:
    """A call's arguments ``(args, kwargs)`` with each `PerReplica` stacked where it can be.

    Where all replicas take part, those that had no rows when a value was made are no different
    from the others any more.

    Raises:
        MissingValueError: if a replica that has rows lacks a value.
        ValueError: if no replica has rows.
    """
    tree = stack_if_alike(tree, stack, replicas)
    if len(taking_part(tree, replicas)) < replicas:
        return tree
    return jax.tree.map(
        lambda node: node.of_all() if _is_per_replica(node) else node, tree, is_leaf=_is_per_replica
    )


def stack_if_alike(tree: Any, stack: Callable[[Sequence[Any]], Any], replicas: int) -> Any:
    """`tree` with each `PerReplica` whose values are arrays of one shape and dtype stacked."""

    def stacked(node: Any) -> Any:
        if not is_apart(node) or not all(map(node.knows, range(replicas))):
            return node
        if node.replicas is None and len(node.values) != replicas:
            return node
        values = [node.at(index) for index in range(replicas)]
        kinds = {(np.shape(value), _dtype(value)) for value in values}
        if len(kinds) > 1 or not all(isinstance(value, _ARRAYS) for value in values):
            return node
        return PerReplica.of_stacked(stack(values), node.replicas)

    return jax.tree.map(stacked, tree, is_leaf=_is_per_replica)


def _dtype(value: Any) -> Any:
    return getattr(value, "dtype", type(value))


def taking_part(tree: Any, replicas: int) -> tuple[int, ...]:
    """The numbers of the replicas that take part in a call: those that have rows of its batch.

    A replica has none where an argument holds no rows for it and no other that is held apart holds
    any, or where no argument has a value of it but `PerReplica.carried` ones.

    Args:
        tree: the call's arguments ``(args, kwargs)``, see `stack_if_alike`.
        replicas: how many replicas there are.

    Raises:
        MissingValueError: if one that takes part lacks a value; the message names the argument.
        ValueError: if none takes part.
    """
    named = jax.tree_util.tree_flatten_with_path(tree, is_leaf=_is_per_replica)[0]
    nodes = [(path, node) for path, node in named if _is_per_replica(node)]
    found = tuple(index for index in range(replicas) if _takes_part(nodes, index))
    if not found:
        raise ValueError("The batch given to `run` is empty: no replica has a row of it.")
    for path, node in nodes:
        for index in found:
            if not node.knows(index):
                _refuse_missing(path, node, index)
    return found


def _takes_part(nodes: Sequence[tuple[Any, PerReplica]], index: int) -> bool:
    if not nodes:
        return True
    kinds = [(node.is_stacked, _rows_at(node, index)) for _, node in nodes]
    if any(rows == 0 for _, rows in kinds):
        return any(rows for stacked, rows in kinds if not stacked)
    return any(rows for _, rows in kinds)


def _rows_at(node: PerReplica, index: int) -> int | None:
    """How many rows a replica has of `node`, 1 of a scalar; None if it has no value of its own."""
    own = node.replicas is None or index in node.replicas
    if node.is_stacked:
        return 1 if own else None
    if not node.knows(index) or (node.replicas is None and index >= len(node.values)):
        return None
    shape = np.shape(node.at(index))
    if shape and shape[0] == 0:
        return 0
    return (shape[0] if shape else 1) if own else None


def followers(tree: Any, present: Sequence[int], replicas: int) -> tuple[list[int], str]:
    """The replicas that take no part but can compute along, and why the others cannot.

    Args:
        tree: a call's arguments ``(args, kwargs)``.
        present: the numbers of those that take part.
        replicas: how many there are.
    """
    nodes = leaves_per_replica(tree)
    following, unknown = [], ""
    for index in range(replicas):
        if index in present:
            continue
        if not all(node.knows(index) for node in nodes if _is_per_replica(node)):
            unknown = "an argument of the step had no value for it"
        elif all(
            _rows_at(node, index) == 0 if _is_per_replica(node) else not isinstance(node, _ARRAYS)
            for node in nodes
        ):
            unknown = "the step had nothing but the batch to compute it from"
        else:
            following.append(index)
    return following, unknown


def called(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What `fn` returns, called with arguments that were made for this call.

    Raises:
        RuntimeError: if it changed an object of flax.nnx that it was given and does not return:
            the caller's object would stay as it was.
    """
    nnx = sys.modules.get("flax.nnx")
    if nnx is None:
        return fn(*args, **kwargs)

    def is_object(node: Any) -> bool:
        return isinstance(node, nnx.Pytree)

    given = [node for node in jax.tree.leaves((args, kwargs), is_leaf=is_object) if is_object(node)]
    before = [jax.tree.leaves(node) for node in given]
    result = fn(*args, **kwargs)
    returned = {id(node) for node in jax.tree.leaves(result, is_leaf=is_object)} if given else ()
    for node, leaves in zip(given, before, strict=True):
        after = jax.tree.leaves(node)
        same = len(leaves) == len(after) and all(map(operator.is_, leaves, after))
        if not same and id(node) not in returned:
            raise RuntimeError(
                f"The step changed an argument, an nnx.{type(node).__name__}, which a compiled "
                "step has a copy of: the caller's would stay as it is. Return it from the step and "
                "continue with what `run` returns, or split it with `graph, state = "
                "nnx.split(...)`, pass `state`, and in the step merge, update and return "
                "`nnx.state(...)`."
            )
    return result


def leaves_per_replica(tree: Any) -> list[Any]:
    """The leaves of `tree`, of which each `PerReplica` is one."""
    return jax.tree.leaves(tree, is_leaf=_is_per_replica)


def _refuse_missing(path: Any, node: PerReplica, index: int) -> None:
    try:
        node.at(index)
    except MissingValueError as error:
        argument = f"args{jax.tree_util.keystr(path[1:])}"
        if path[0] == jax.tree_util.SequenceKey(1):
            argument = f"kwargs{jax.tree_util.keystr(path[1:])}"
        raise MissingValueError(
            f"Replica {index} has rows of this batch, but {argument} of `run` is a PerReplica that "
            f"has no value for it: {error}. It is the result of a step in which replica {index} "
            "had no rows. If the value is the same on all replicas, pass "
            "`strategy.experimental_local_results(value)[0]`; else let the batches have a row for "
            "every replica, `.batch(n, drop_remainder=True)`."
        ) from None
