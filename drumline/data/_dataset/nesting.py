"""Functions that return datasets, and what gives them windows of elements of equal keys."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline._lazy import jax, jnp
from drumline.data._dataset.functions import without_key
from drumline.data._dataset.padding import per_leaf, shape_of
from drumline.data.elements.spec import ElementSpec, has_datasets
from drumline.data.engine.iterator import first_block, first_element, first_elements
from drumline.data.functions.build import BuiltFunction, build, by_shape_alone
from drumline.data.functions.trace import UserFunction
from drumline.data.operations.nested.dataset_function import (
    DatasetFunction,
    WindowSize,
    dataset_function,
)
from drumline.data.operations.nested.groups import GroupByWindow
from drumline.data.operations.nested.windows import held_rows
from drumline.data.operations.reading.sources import Generator, SlicesWithDatasets
from drumline.data.options import as_dataset, check_on_host
from drumline.data.plan.node import Node, count_of

_INT64 = range(-(2**63), 2**63)


def build_dataset_function(
    plan: Node, function: Callable[..., Any], operation: str
) -> DatasetFunction:
    """Try a function that returns a dataset with the first elements of a plan.

    Raises:
        TypeError: if it does not return a dataset.
        Exception: what it raises for the first element.
    """
    check_on_host(plan, operation)
    first = first_element(plan)
    made = dataset_function(
        function, operation, first, lambda: first_elements(plan, 2)[1:], plan.spec
    )
    return dataclasses.replace(
        made, allows_readahead=made.allows_readahead and not _has_generators(plan)
    )


def group(
    plan: Node,
    key_func: Callable[..., Any],
    reduce_func: Callable[[Any, Any], Any],
    size: WindowSize,
    other_keys: Sequence[int] | None = None,
    promised: ElementSpec | None = None,
) -> Node:
    """Return the plan of `Dataset.group_by_window`.

    Args:
        plan: of the elements.
        key_func: takes an element, returns one integer.
        reduce_func: takes a key and a dataset, returns a dataset.
        size: of the windows.
        other_keys: keys whose datasets may differ in shape, which are tried as well; by default 0,
            1 and the neighbours of the first element's.
        promised: the spec of the elements of all datasets, if the user gave one.
    """
    check_on_host(plan, "group_by_window")
    key = _integer_function(plan, key_func, "group_by_window")
    if key.draws:
        # Keys are drawn in a map; windows are of the elements without them.
        spread = plan.spec.structure.kind == "tuple"
        paired = as_dataset(plan).map(_with_key(key_func, spread))
        reduce = UserFunction(reduce_func, "group_by_window")
        return group(
            paired._plan,
            _key_of,
            lambda k, w: reduce((k, w.map(without_key))),
            size,
            other_keys,
            promised,
        )
    first, window = _first_window(plan, key)
    if other_keys is None:
        own = int(first)
        other_keys = [n for n in (own + 1, own - 1, 0, 1) if n != own and n in _INT64]
    function = dataset_function(
        reduce_func,
        "group_by_window",
        (first, window),
        lambda: [(np.int64(other), window) for other in other_keys],
        promised=promised,
        grouped=plan.spec,
    )
    return GroupByWindow((plan,), function, key, size)


def window_size_of(size: int | None, function: Callable[[Any], Any] | None) -> WindowSize:
    """Return what gives the size of each window.

    Raises:
        ValueError: if not exactly one of the two is given.
    """
    if size is not None and function is None:
        return WindowSize(count_of(size, "group_by_window", "window_size", least=1))
    if size is None and function is not None:
        return WindowSize(function)
    raise ValueError("group_by_window needs either window_size or window_size_func")


def bucket(
    plan: Node,
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    batch: Callable[[Any, int, Any], Any],
    padded_shapes: Any,
    pad_to_bucket_boundary: bool,
) -> Node:
    """Return the plan of `Dataset.bucket_by_sequence_length`.

    Args:
        plan: of the elements.
        element_length_func: takes an element, returns its length.
        bucket_boundaries: ascending.
        bucket_batch_sizes: one more than boundaries.
        batch: takes a dataset, the size and the shapes of its batches, and batches it.
        padded_shapes: as the user gave them.
        pad_to_bucket_boundary: whether dimensions that vary are padded to the boundary less one.

    Raises:
        ValueError: if there is not one batch size more than boundaries, or these do not ascend.
    """
    boundaries = [int(boundary) for boundary in bucket_boundaries]
    sizes = [
        count_of(size, "bucket_by_sequence_length", "bucket_batch_sizes", least=1)
        for size in bucket_batch_sizes
    ]
    if len(sizes) != len(boundaries) + 1:
        raise ValueError(
            f"bucket_by_sequence_length: {len(boundaries)} boundaries make "
            f"{len(boundaries) + 1} buckets, but there are {len(sizes)} batch sizes"
        )
    if sorted(set(boundaries)) != boundaries:
        raise ValueError(
            f"bucket_by_sequence_length: bucket_boundaries must ascend, they are {boundaries}"
        )

    def batched(number: Any, elements: Any) -> Any:
        shapes = padded_shapes
        if pad_to_bucket_boundary:
            shapes = _up_to_boundary(plan.spec, padded_shapes, boundaries, int(number))
        return batch(elements, sizes[int(number)], shapes)

    return group(
        plan,
        _Bucket(element_length_func, boundaries),
        _Titled(batched, f"batches below {boundaries}"),
        WindowSize(_Titled(lambda number: sizes[int(number)], str(sizes))),
        range(len(sizes)),
    )


def _integer_function(plan: Node, function: Callable[..., Any], operation: str) -> BuiltFunction:
    """Build a function from an element to one integer."""
    user = UserFunction(function, operation)
    found = None if has_datasets(plan.spec) else by_shape_alone(user, plan.spec)
    built = found or build(
        function, operation, plan.spec, lambda: first_element(plan), may_draw=True
    )
    leaves = built.spec.leaves
    if len(leaves) != 1 or leaves[0].shape or leaves[0].dtype.kind not in "iu":
        raise TypeError(f"{user.where} must return one integer, not {built.spec.tree()}")
    return built


def _first_window(plan: Node, key: BuiltFunction) -> tuple[np.int64, Any]:
    """Return a key, and a dataset of one element, to try the function with."""
    block = first_block(plan)
    keys = key.run(block, int)
    if keys.error is not None:
        raise keys.error
    return np.int64(keys.columns[0][0]), as_dataset(held_rows([block], plan.spec))


def _has_generators(plan: Node) -> bool:
    """Whether a dataset among the elements runs a generator, whatever the first of them does."""
    datasets = (node for node in plan.walk() if isinstance(node, SlicesWithDatasets))
    return any(isinstance(node, Generator) for made in datasets for node in made.walk())


def _with_key(key_func: Callable[..., Any], spread: bool) -> Callable[..., Any]:
    def with_key(*arguments: Any) -> tuple[Any, Any]:
        return arguments if spread else arguments[0], key_func(*arguments)

    return with_key


def _key_of(element: Any, key: Any) -> Any:
    return key


def _up_to_boundary(spec: ElementSpec, shapes: Any, boundaries: Sequence[int], number: int) -> Any:
    """Return the shapes of a bucket's batches, in the structure of the elements."""
    if number == len(boundaries):
        raise ValueError(
            "bucket_by_sequence_length: with pad_to_bucket_boundary, elements must be shorter "
            f"than the last boundary ({boundaries[-1] if boundaries else 'there is none'})"
        )
    given = [leaf.shape for leaf in spec.leaves]
    if shapes is not None:
        given = per_leaf(spec.structure, shapes, shape_of, "padded_shapes")
    longest = boundaries[number] - 1
    return spec.structure.unflatten(
        [tuple(longest if dim is None else dim for dim in shape) for shape in given]
    )


class _Bucket:
    """The number of an element's bucket; the same code serves tracing and single elements."""

    def __init__(self, length: Callable[..., Any], boundaries: Sequence[int]):
        functools.update_wrapper(self, length, updated=())
        self._length = length
        self._boundaries = np.array(boundaries, np.int64)

    def __call__(self, *element: Any) -> Any:
        length = self._length(*element)
        if isinstance(length, jax.core.Tracer):
            return jnp.sum(length >= self._boundaries, dtype=jnp.int32)
        return np.searchsorted(self._boundaries, length, side="right").astype(np.int32)


class _Titled:
    """A function under a name that says what it does, for ``explain()`` and the fingerprint."""

    def __init__(self, function: Callable[..., Any], title: str):
        self.__qualname__ = title
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)
