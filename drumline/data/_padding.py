"""Methods that batch elements of different shapes, and batches anew."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from drumline.data.dataset_spec import DatasetSpec
from drumline.data.leaves import as_array
from drumline.data.methods.arguments import count_of
from drumline.data.methods.batches import Batches
from drumline.data.plan import padding
from drumline.data.ragged import fill_value
from drumline.data.ragged_spec import RaggedTensorSpec
from drumline.data.spec import STRING, ElementSpec, TensorSpec
from drumline.data.structure import LEAF, Structure

Shape = tuple[int | None, ...]


class Padding(Batches):
    """``padded_batch``, ``ragged_batch`` and ``rebatch``."""

    def padded_batch(
        self,
        batch_size: int,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Fills elements up at the ends of their dimensions and stacks ``batch_size`` of them.

        Args:
            batch_size: how many elements make one.
            padded_shapes: a shape for each leaf, in the structure of the elements; ``None`` or -1
                in it is as long as the longest of the batch. By default the shapes of the spec.
            padding_values: what to fill up with: a number or string for all leaves, or one for each
                in their structure, where ``None`` is 0, false or ``b""`` for a leaf, or for all
                leaves of a part of the structure.
            drop_remainder: whether a last, shorter batch is left out.
            name: shown by ``explain()``.

        Raises:
            ValueError: a shape has another number of dimensions than its leaf, or a known dimension
                is longer. A longer element raises when its batch is asked for.
            TypeError: a padding value is not of its leaf's type, or a leaf cannot be filled up.
        """
        size = count_of(batch_size, "padded_batch", "batch_size", least=1)
        spec = self._plan.spec
        check_arrays(spec.leaves, "padded_batch")
        shapes = [leaf.shape for leaf in spec.leaves]
        if padded_shapes is not None:
            shapes = per_leaf(spec.structure, padded_shapes, shape_of, "padded_shapes")
        for i, (leaf, shape) in enumerate(zip(spec.leaves, shapes, strict=True)):
            _check_shape(leaf, shape, i)
        values = fillers(spec, padding_values, "padded_batch")
        plan = self._plan
        made = padding.PaddedBatch(
            (plan,), size, bool(drop_remainder), tuple(shapes), tuple(values)
        )
        return self._with(made, name)

    def ragged_batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        row_splits_dtype: Any = np.int64,
        name: str | None = None,
    ) -> Self:
        """Stacks ``batch_size`` elements; leaves that vary in shape become `RaggedArray`.

        Args:
            batch_size: how many elements make one.
            drop_remainder: whether a last, shorter batch is left out.
            row_splits_dtype: int64; splits have no other type.
            name: shown by ``explain()``.
        """
        size = count_of(batch_size, "ragged_batch", "batch_size", least=1)
        check_arrays(self._plan.spec.leaves, "ragged_batch")
        if np.dtype(row_splits_dtype) != np.int64:
            raise ValueError(f"ragged_batch: row splits are int64, not {row_splits_dtype!r}")
        return self._with(padding.RaggedBatch((self._plan,), size, bool(drop_remainder)), name)

    def rebatch(
        self, batch_size: Any, drop_remainder: bool = False, name: str | None = None
    ) -> Self:
        """Takes batches apart and makes batches of other sizes of their rows.

        Args:
            batch_size: how many rows make one; several numbers take turns, and 0 among them makes
                a batch without rows.
            drop_remainder: whether a last, shorter batch is left out.
            name: shown by ``explain()``.

        Raises:
            ValueError: a size is negative, none is positive, or elements cannot be taken apart (see
                ``unbatch``).
        """
        sizes = [batch_size] if np.ndim(batch_size) == 0 else list(batch_size)
        if not sizes:
            raise ValueError("rebatch: batch_size must be a number, or at least one in a list")
        least = 0 if len(sizes) > 1 else 1
        counts = tuple(count_of(size, "rebatch", "batch_size", least) for size in sizes)
        if not any(counts):
            raise ValueError(
                f"rebatch: batches of {list(counts)} rows never end; one must have some"
            )
        rows = self._rows("rebatch")
        known = {leaf.shape[0] for leaf in self._plan.spec.leaves} - {None}
        each = known.pop() if known else None
        plan = padding.Rebatch((rows._plan,), counts, bool(drop_remainder), each)
        return rows._with(plan, name)


def check_arrays(leaves: Sequence[TensorSpec], operation: str) -> None:
    """Rejects leaves that are no arrays of one shape.

    Raises:
        TypeError: one is a dataset or a ragged array.
    """
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, DatasetSpec | RaggedTensorSpec):
            raise TypeError(f"{operation} takes arrays; leaf {i} is {leaf!r}")


def fillers(spec: ElementSpec, padding_values: Any, operation: str) -> list[Any]:
    """What each leaf is filled up with.

    Args:
        spec: of the elements.
        padding_values: one for all leaves, or one for each in their structure, or ``None``.
        operation: for messages.

    Raises:
        TypeError: one is not of its leaf's type.
        ValueError: they have another structure.
    """
    given = [padding_values] * len(spec.leaves)
    if padding_values is not None and not _is_scalar(padding_values):
        given = per_leaf(spec.structure, padding_values, lambda value: value, "padding_values")
    pairs = enumerate(zip(spec.leaves, given, strict=True))
    return [_filler(leaf, value, i, operation) for i, (leaf, value) in pairs]


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, dict | tuple | list)


def per_leaf(structure: Structure, value: Any, leaf: Callable[[Any], Any], what: str) -> list[Any]:
    """A value for each leaf of ``structure``, out of the same structure of values."""
    if value is None and what == "padding_values":
        return [None] * structure.num_leaves
    if structure.kind == LEAF:
        return [leaf(value)]
    keyed = structure.kind == "dict"
    keys: Any = structure.keys if keyed else range(len(structure.children))
    fits = (
        isinstance(value, dict) and set(value) == set(keys)
        if keyed
        else (isinstance(value, tuple | list) and len(value) == len(keys))
    )
    if not fits:
        raise ValueError(f"padded_batch: {what} {value!r:.80} has not the structure {structure}")
    pairs = zip(keys, structure.children, strict=True)
    return [item for key, child in pairs for item in per_leaf(child, value[key], leaf, what)]


def shape_of(value: Any) -> Shape:
    """A shape that a user wrote, -1 as ``None``.

    Raises:
        ValueError: it is no tuple or list.
    """
    if not isinstance(value, tuple | list | np.ndarray):
        raise ValueError(f"padded_batch: a shape is a tuple or a list, not {value!r:.60}")
    try:
        dims = [None if dim is None else operator.index(dim) for dim in value]
    except TypeError:
        raise ValueError(
            f"padded_batch: a shape has an integer or None for each dimension, not {value!r:.60}"
        ) from None
    return tuple(None if dim == -1 else dim for dim in dims)


def _check_shape(leaf: TensorSpec, shape: Shape, i: int) -> None:
    if len(shape) != len(leaf.shape):
        raise ValueError(f"padded_batch: leaf {i} is {leaf}; {shape} has not as many dimensions")
    for mine, wanted in zip(leaf.shape, shape, strict=True):
        if wanted is not None and (wanted < 0 or (mine is not None and mine > wanted)):
            raise ValueError(f"padded_batch: leaf {i} is {leaf}, which does not fit into {shape}")


def _filler(leaf: TensorSpec, value: Any, i: int, operation: str) -> Any:
    if value is None:
        return fill_value(leaf.dtype)
    given = as_array(value)
    same = (
        leaf.dtype == given.dtype
        if STRING in (leaf.dtype, given.dtype)
        else (isinstance(value, bool) == (leaf.dtype == np.bool_) or isinstance(value, np.generic))
    )
    if (
        not same
        or given.ndim
        or not (given.dtype == leaf.dtype or np.can_cast(given.dtype, leaf.dtype, "same_kind"))
    ):
        raise TypeError(f"{operation}: {value!r} cannot fill up leaf {i}, which is {leaf}")
    if leaf.dtype == STRING:
        return given[()]
    filler = given.astype(leaf.dtype)
    if leaf.dtype.kind in "iu" and filler != given:
        raise TypeError(f"{operation}: {value!r} does not fit {leaf.dtype} of leaf {i}")
    return filler[()]
