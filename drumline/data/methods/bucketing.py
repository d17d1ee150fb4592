"""``bucket_by_sequence_length``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from drumline.data.functions.dataset_function import WindowSize
from drumline.data.methods.arguments import count_of
from drumline.data.methods.nesting import Nesting
from drumline.data.methods.padding import per_leaf, shape_of


class Bucketing(Nesting):
    """Batches of elements of similar length."""

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Gathers elements whose lengths lie between the same boundaries into padded batches.

        Args:
            element_length_func: takes an element, returns its length, an integer.
            bucket_boundaries: ascending; a bucket's elements are shorter than its boundary.
            bucket_batch_sizes: how many elements make a batch, for each bucket; one more than there
                are boundaries, the last for elements of the last boundary's length and longer.
            padded_shapes: as of ``padded_batch``.
            padding_values: as of ``padded_batch``.
            pad_to_bucket_boundary: pads dimensions that vary to the bucket's boundary less one,
                rather than to the longest of the batch. Elements that fall into the last bucket,
                which has no boundary, then raise.
            no_padding: stacks elements as they are, which must be of one shape.
            drop_remainder: whether batches at the end that are not full are left out.
            name: shown by ``explain()``.

        Raises:
            ValueError: there is not one batch size more than boundaries, or these do not ascend.
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

        def batch(bucket: Any, elements: Any) -> Any:
            size = sizes[int(bucket)]
            if no_padding:
                return elements.batch(size, drop_remainder=drop_remainder)
            shapes = padded_shapes
            if pad_to_bucket_boundary:
                shapes = self._up_to_boundary(padded_shapes, boundaries, int(bucket))
            return elements.padded_batch(size, shapes, padding_values, drop_remainder)

        return self._grouped(
            _Bucket(element_length_func, boundaries),
            _Titled(batch, f"batches below {boundaries}"),
            WindowSize(_Titled(lambda bucket: sizes[int(bucket)], str(sizes))),
            range(len(sizes)),
            name,
        )

    def _up_to_boundary(self, shapes: Any, boundaries: Sequence[int], bucket: int) -> Any:
        """The shapes of a bucket's batches, in the structure of the elements."""
        if bucket == len(boundaries):
            raise ValueError(
                "bucket_by_sequence_length: with pad_to_bucket_boundary, elements must be shorter "
                f"than the last boundary ({boundaries[-1] if boundaries else 'there is none'})"
            )
        spec = self._plan.spec
        given = [leaf.shape for leaf in spec.leaves]
        if shapes is not None:
            given = per_leaf(spec.structure, shapes, shape_of, "padded_shapes")
        longest = boundaries[bucket] - 1
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
