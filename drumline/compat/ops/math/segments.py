"""Reductions of the rows of segments: ``tf.math.segment_sum``, ``tf.math.unsorted_segment_sum``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.compat.values.computing import compute
from drumline.compat.values.convert import convert, is_jax, is_traced, static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor


def _refuse(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


def _of_nothing(kind: str, dtype: Any) -> Any:
    """What TensorFlow gives for a segment without rows."""
    if kind not in ("max", "min"):
        return 1 if kind == "prod" else 0
    limits = np.iinfo(dtype) if dtype.kind in "iu" else jnp.finfo(dtype)
    return limits.min if kind == "max" else limits.max


def _reduce_numpy(kind: str, values: Any, ids: Any, count: int, nothing: Any) -> Any:
    made = np.full((count, *values.shape[1:]), _of_nothing(kind, values.dtype), values.dtype)
    taken = ids >= 0
    by = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
    by.at(made, ids[taken], values[taken])
    empty = np.ones(count, bool)
    empty[ids[taken]] = False
    made[empty] = nothing
    return made


def _reduce_jax(kind: str, values: Any, ids: Any, count: int, nothing: Any) -> Any:
    made = getattr(jax.ops, f"segment_{kind}")(values, ids, count)
    if kind in ("sum", "prod"):
        return made
    # As TensorFlow, whose reductions begin with this number: of -inf alone they give it, too.
    made = (jnp.maximum if kind == "max" else jnp.minimum)(made, _of_nothing(kind, made.dtype))
    rows = jax.ops.segment_sum(jnp.ones(ids.shape, jnp.int32), ids, count)
    empty = (rows == 0).reshape(-1, *(1,) * (made.ndim - 1))
    return jnp.where(empty, jnp.asarray(nothing, made.dtype), made)


def _reduce(kind: str, values: Any, ids: Any, count: int, nothing: Any) -> Any:
    """The reduction of `values`' rows by their `ids`; rows of negative ids are dropped."""
    if is_jax(values) or is_jax(ids):
        return compute(lambda v, i: _reduce_jax(kind, v, i, count, nothing), values, ids)
    return _reduce_numpy(kind, values, ids, count, nothing)


def _sizes(ids: Any, count: int, dtype: Any, rank: int) -> Any:
    """The number of rows of each segment, at least 1, that divides a reduction of a rank."""
    xp: Any = jnp if is_jax(ids) else np
    ones = xp.ones(ids.shape, dtype)
    made = xp.maximum(_reduce("sum", ones, ids, count, 0), xp.ones((), dtype))
    return made.reshape(-1, *(1,) * (rank - 1))


def _ids_of(segment_ids: Any) -> Any:
    ids = convert(segment_ids)
    if ids.dtype.kind not in "iu":
        raise TypeError(f"segment_ids are integers, not {ids.dtype}")
    return ids


def _sorted(kind: str) -> Callable[..., Any]:
    def function(data: Any, segment_ids: Any, name: Any = None) -> Tensor:
        values, ids = convert(data), _ids_of(segment_ids)
        if ids.ndim != 1 or not values.ndim or len(ids) != len(values):
            raise _refuse(
                "segment_ids should be the same size as dimension 0 of input: "
                f"{ids.shape} and {values.shape}"
            )
        known = np.asarray(static(Tensor(ids)), np.int64)
        if (np.diff(known) < 0).any():
            raise _refuse("segment ids are not increasing; use tf.math.unsorted_segment_" + kind)
        if (known < 0).any():
            raise _refuse("segment ids must be >= 0")
        count = int(known[-1]) + 1 if len(known) else 0
        if kind != "mean":
            return Tensor(_reduce(kind, values, ids, count, 1 if kind == "prod" else 0))
        total = _reduce("sum", values, ids, count, 0)
        sizes = _sizes(known, count, total.dtype, total.ndim)
        if total.dtype.kind not in "iu":
            return Tensor(total / sizes)
        xp: Any = jnp if is_jax(total) else np
        return Tensor(xp.sign(total) * (xp.abs(total) // sizes))  # towards zero

    function.__name__ = function.__qualname__ = f"segment_{kind}"
    function.__doc__ = f"""The ``{kind}`` of the rows of each segment.

    Args:
        data: ``(rows, ...)``.
        segment_ids: ``(rows,)``, integers that do not decrease, from 0.
        name: not used.

    Returns:
        ``(segment_ids[-1] + 1, ...)``; {1 if kind == "prod" else 0} where a segment has no rows.

    Raises:
        InvalidArgumentError: the ids decrease, are negative, or not one for each row.
    """
    return function


def _unsorted(kind: str) -> Callable[..., Any]:
    def function(data: Any, segment_ids: Any, num_segments: Any, name: Any = None) -> Tensor:
        values, ids = convert(data), _ids_of(segment_ids)
        count = int(static(num_segments))
        if count < 0:
            raise _refuse(f"num_segments is {count}, which is negative")
        if values.shape[: ids.ndim] != ids.shape:
            raise _refuse(
                f"data.shape = {list(values.shape)} does not start with segment_ids.shape = "
                f"{list(ids.shape)}"
            )
        values = values.reshape(ids.size, *values.shape[ids.ndim :])
        ids = ids.reshape(-1)
        if not is_traced(ids):
            known = np.asarray(ids)
            outside = np.flatnonzero(known >= count)
            if len(outside):
                place = int(outside[0])
                raise _refuse(f"segment_ids[{place}] = {known[place]} is out of range [0, {count})")
        if kind == "sqrt_n" and values.dtype.kind in "iu":
            raise _refuse(f"unsorted_segment_sqrt_n takes floats, not {values.dtype}")
        if kind == "mean" and values.dtype.kind in "iu":
            values = np.asarray(static(Tensor(values)), np.float64).reshape(values.shape)
        if kind not in ("mean", "sqrt_n"):
            return Tensor(_reduce(kind, values, ids, count, _of_nothing(kind, values.dtype)))
        total = _reduce("sum", values, ids, count, 0)
        sizes = _sizes(ids, count, total.dtype, total.ndim)
        return Tensor(total / (sizes if kind == "mean" else sizes**0.5).astype(total.dtype))

    function.__name__ = function.__qualname__ = f"unsorted_segment_{kind}"
    function.__doc__ = f"""The ``{kind}`` of the rows of each segment, whose ids have any order.

    Args:
        data: ``segment_ids.shape + ...``.
        segment_ids: integers; rows of negative ones are dropped.
        num_segments: the number of segments.
        name: not used.

    Returns:
        ``(num_segments, ...)``; of segments without rows 0, of "prod" 1, of "max" the least and of
        "min" the greatest finite number of the dtype.

    Raises:
        InvalidArgumentError: an id is not less than `num_segments` (compiled functions drop it),
            or the shapes do not fit.
    """
    return function


segment_sum = _sorted("sum")
segment_mean = _sorted("mean")
segment_max = _sorted("max")
segment_min = _sorted("min")
segment_prod = _sorted("prod")
unsorted_segment_sum = _unsorted("sum")
unsorted_segment_mean = _unsorted("mean")
unsorted_segment_max = _unsorted("max")
unsorted_segment_min = _unsorted("min")
unsorted_segment_prod = _unsorted("prod")
unsorted_segment_sqrt_n = _unsorted("sqrt_n")
