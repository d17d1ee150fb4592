"""Reductions, cumulative functions, sorting and segments: ``tf.reduce_sum``, ``tf.argmax``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from drumline.compat.ops.arrays import xp_of
from drumline.compat.ops.elementwise import keras_ops
from drumline.compat.values import derivatives, dtypes
from drumline.compat.values.computing import compute, compute_as_one
from drumline.compat.values.convert import convert, is_jax, is_traced, static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor


def _axes(axis: Any) -> Any:
    found = static(axis)
    return tuple(found) if isinstance(found, list) else found


def _reduction(
    name: str, of_numpy: Callable[..., Any], of_jax: Callable[..., Any], dtype: bool = True
) -> Callable[..., Any]:
    """A reduction over axes; all of them by default.

    Args:
        name: of the function in `keras.ops`.
        of_numpy: of ``(array, axis, keepdims)``.
        of_jax: the same.
        dtype: whether the result is of the argument's dtype.
    """

    def reduce(
        input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None
    ) -> Any:
        if keras_ops(input_tensor) is not None:
            found = getattr(keras_ops(input_tensor), label)
            return found(input_tensor, axis=_axes(axis), keepdims=bool(keepdims))
        value = convert(input_tensor)
        options = {"axis": _axes(axis), "keepdims": bool(keepdims)}
        if is_jax(value):
            made = compute_as_one(of_jax, value, **options)
        else:
            xp_of(value)
            with np.errstate(all="ignore"):
                made = of_numpy(value, **options)
        return Tensor(made.astype(value.dtype) if dtype and made.dtype != value.dtype else made)

    label = name
    reduce.__name__ = reduce.__qualname__ = f"reduce_{name}"
    reduce.__doc__ = f"The ``{name}`` over axes; over all by default."
    return reduce


def _mean(xp: Any) -> Callable[..., Any]:
    def mean(value: Any, axis: Any, keepdims: bool) -> Any:
        if value.dtype.kind in "iu":  # fractions are cut off, as in TensorFlow
            total = xp.sum(value, axis=axis, keepdims=keepdims, dtype=value.dtype)
            count = value.size // max(1, total.size)
            return (xp.sign(total) * (xp.abs(total) // count)).astype(value.dtype)
        return xp.mean(value, axis=axis, keepdims=keepdims)

    return mean


def _max_of_empty(function: Callable[..., Any], low: bool) -> Callable[..., Any]:
    """numpy's maximum or minimum, which of nothing is the least or greatest number."""

    def call(value: Any, axis: Any, keepdims: bool) -> Any:
        if value.dtype.kind == "f":
            return function(value, axis=axis, keepdims=keepdims, initial=-np.inf if low else np.inf)
        if value.dtype.kind in "iu":
            info = np.iinfo(value.dtype)
            start = info.min if low else info.max
            return function(value, axis=axis, keepdims=keepdims, initial=start)
        return function(value, axis=axis, keepdims=keepdims)

    return call


def _sum_numpy(value: Any, axis: Any, keepdims: bool) -> Any:
    return np.sum(value, axis=axis, keepdims=keepdims, dtype=value.dtype)


reduce_sum = _reduction("sum", _sum_numpy, jnp.sum)
reduce_mean = _reduction("mean", _mean(np), _mean(jnp))
reduce_prod = _reduction("prod", np.prod, jnp.prod)
reduce_max = _reduction("max", _max_of_empty(np.max, True), _max_of_empty(jnp.max, True))
reduce_min = _reduction("min", _max_of_empty(np.min, False), _max_of_empty(jnp.min, False))
reduce_all = _reduction("all", np.all, jnp.all)
reduce_any = _reduction("any", np.any, jnp.any)
reduce_variance = _reduction("var", np.var, jnp.var)
reduce_std = _reduction("std", np.std, jnp.std)


def _logsumexp(value: Any, axis: Any, keepdims: bool) -> Any:
    return jax.scipy.special.logsumexp(value, axis=axis, keepdims=keepdims)


reduce_logsumexp = _reduction(
    "logsumexp", lambda v, **k: np.asarray(compute_as_one(_logsumexp, v, **k)), _logsumexp
)


def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None
) -> Any:
    """The square root of the sum of squares over axes."""
    value = convert(input_tensor)
    options = {"axis": _axes(axis), "keepdims": bool(keepdims)}
    if xp_of(value) is np:
        return Tensor(_norm(value, xp=np, **options))
    return Tensor(compute_as_one(_norm, value, xp=jnp, **options))


def _norm(value: Any, xp: Any, axis: Any, keepdims: bool) -> Any:
    return xp.sqrt(xp.sum(xp.square(value), axis=axis, keepdims=keepdims)).astype(value.dtype)


def count_nonzero(
    input: Any, axis: Any = None, keepdims: Any = None, dtype: Any = dtypes.int64, name: Any = None
) -> Tensor:
    """How many elements are not zero."""
    value = convert(input)
    found = xp_of(value).count_nonzero(value, axis=_axes(axis), keepdims=bool(keepdims))
    return Tensor(np.asarray(found).astype(dtypes.as_dtype(dtype).dtype)
                  if not is_jax(found) else found.astype(dtypes.as_dtype(dtype).dtype))  # fmt: skip


def zero_fraction(value: Any, name: Any = None) -> Tensor:
    """The share of zeros."""
    given = convert(value)
    return Tensor((given == 0).mean().astype(np.float32))


def _arg(of_numpy: Callable[..., Any], of_jax: Callable[..., Any]) -> Callable[..., Any]:
    def arg(input: Any, axis: Any = None, output_type: Any = dtypes.int64, name: Any = None) -> Any:
        """Where the extreme element along an axis is; along the first by default."""
        along = 0 if axis is None else static(axis)
        if keras_ops(input) is not None:
            return getattr(keras_ops(input), of_numpy.__name__)(input, along)
        value = convert(input)
        kind = dtypes.as_dtype(output_type).dtype
        if is_jax(value):
            if is_traced(value):
                found = compute(of_jax, value, axis=along)
                return Tensor(found.astype(jax.dtypes.canonicalize_dtype(kind)))
            with jax.enable_x64(True):
                return Tensor(compute_as_one(_numbered, value, of=of_jax, axis=along, kind=kind))
        return Tensor(of_numpy(value, axis=along).astype(kind))

    return arg


def _numbered(value: Any, of: Callable[..., Any], axis: int, kind: Any) -> Any:
    return of(value, axis=axis).astype(kind)


argmax = _arg(np.argmax, jnp.argmax)
argmin = _arg(np.argmin, jnp.argmin)


def _cumulative(name: str) -> Callable[..., Any]:
    def function(
        x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: Any = None
    ) -> Tensor:
        value, options = convert(x), {"exclusive": bool(exclusive), "reverse": bool(reverse)}
        if xp_of(value) is np:
            return Tensor(cumulated(value, np, static(axis), **options))
        return Tensor(compute_as_one(cumulated, value, xp=jnp, along=static(axis), **options))

    def cumulated(value: Any, xp: Any, along: int, exclusive: bool, reverse: bool) -> Any:
        value = xp.flip(value, along) if reverse else value
        made = getattr(xp, label)(value, axis=along, dtype=value.dtype)
        if exclusive:
            start = xp.full_like(xp.take(made, xp.arange(1), axis=along), label == "cumprod")
            rest = xp.take(made, xp.arange(made.shape[along] - 1), axis=along)
            made = xp.concatenate([start, rest], along)
        return xp.flip(made, along) if reverse else made

    label = name
    function.__doc__ = f"``{name}`` along an axis."
    return function


cumsum = _cumulative("cumsum")
cumprod = _cumulative("cumprod")


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: Any = None) -> Tensor:
    """The values in order."""
    value = convert(values)
    xp = xp_of(value)
    made = xp.sort(value, axis=axis)
    return Tensor(xp.flip(made, axis) if _descends(direction) else made)


def argsort(
    values: Any,
    axis: int = -1,
    direction: str = "ASCENDING",
    stable: bool = False,
    name: Any = None,
) -> Tensor:
    """The positions of the values in order, int32."""
    value = convert(values)
    xp = xp_of(value)
    if _descends(direction):
        flipped = xp.argsort(xp.flip(value, axis), axis=axis, stable=True)
        made = xp.flip(value.shape[axis] - 1 - flipped, axis)
    else:
        made = xp.argsort(value, axis=axis, stable=True)
    return Tensor(made.astype(np.int32))


def _descends(direction: str) -> bool:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"direction must be ASCENDING or DESCENDING, got {direction!r}")
    return direction == "DESCENDING"


class TopK(NamedTuple):
    """The greatest values, and where they are."""

    values: Tensor
    indices: Tensor


TopK.__name__ = TopK.__qualname__ = "TopKV2"


def top_k(
    input: Any, k: Any = 1, sorted: bool = True, index_type: Any = dtypes.int32, name: Any = None
) -> TopK:
    """The greatest values in the last dimension, and where they are."""
    value, count = convert(input), int(static(k))
    found: Any
    where: Any
    if is_jax(value):
        found, where = jax.lax.top_k(value, count)
    else:
        where = argsort(Tensor(value), direction="DESCENDING")._value[..., :count]
        found = np.take_along_axis(value, where, -1)
    return TopK(Tensor(found), Tensor(where.astype(dtypes.as_dtype(index_type).dtype)))


def in_top_k(targets: Any, predictions: Any, k: Any, name: Any = None) -> Tensor:
    """Whether the target's prediction is among the ``k`` greatest."""
    rows, scores = convert(targets), convert(predictions)
    xp = xp_of(rows, scores)
    own = xp.take_along_axis(scores, rows[:, None], 1)
    return Tensor((scores > own).sum(1) < static(k))


def bincount(
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = dtypes.int32,
    name: Any = None,
    axis: Any = None,
    binary_output: bool = False,
) -> Tensor:
    """How often each number occurs.

    Args:
        arr: integers from 0.
        weights: what each counts; 1 by default.
        minlength: how many numbers are counted at least.
        maxlength: and at most; others are passed over.
        dtype: of the counts without weights.
        name: accepted.
        axis: -1 to count in each row ``(rows, n)``; 0 or None for all numbers.
        binary_output: whether 1 stands for what occurs, however often.

    Raises:
        InvalidArgumentError: a number is negative, or weights are given for a `binary_output`.
        ValueError: the axis is another one, or the weights have another shape.
    """
    if axis not in (None, 0, -1):
        raise ValueError(f"Unsupported value for argument axis={axis}: 0 and -1 are there.")
    if weights is not None and binary_output:
        raise InvalidArgumentError(None, None, "binary_output and weights exclude another")
    known = np.asarray(convert(arr))
    numbers = known.reshape(-1, known.shape[-1]) if axis == -1 and known.ndim > 1 else known.ravel()
    if numbers.size and numbers.min() < 0:
        raise InvalidArgumentError(None, None, "Input arr must be non-negative!")
    shares = None if weights is None else np.asarray(convert(weights))
    if shares is not None and shares.shape != known.shape:
        raise ValueError(f"weights of shape {shares.shape} do not fit arr of {known.shape}")
    size = int(numbers.max()) + 1 if numbers.size else 0
    size = max(size, int(static(minlength) or 0))
    size = size if maxlength is None else min(size, int(static(maxlength)))
    kind = dtypes.as_dtype(dtype).dtype if shares is None else shares.dtype
    rows = numbers.reshape(-1, numbers.shape[-1])
    made = np.zeros((len(rows), size), kind)
    places, inside = np.indices(rows.shape)[0], rows < size
    counted = np.ones(rows.shape, kind) if shares is None else shares.reshape(rows.shape)
    np.add.at(made, (places[inside], rows[inside]), counted[inside])
    made = np.minimum(made, 1) if binary_output else made
    return Tensor(made.reshape((*numbers.shape[:-1], size)))


def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    weights: Any = None,
    dtype: Any = dtypes.int32,
    name: Any = None,
) -> Tensor:
    """How often, or with which weights, each class was predicted for each label.

    Args:
        labels: integers from 0 on (n,); or (n, 1), if ``predictions`` has one axis.
        predictions: likewise.
        num_classes: one more than the largest of both by default.
        weights: numbers (n,); 1 by default.
        dtype: of the result.
        name: has no effect.

    Returns:
        ``(num_classes, num_classes)``, a row for each label.

    Raises:
        InvalidArgumentError: a class is negative, or not below ``num_classes``.
        ValueError: labels and predictions are not alike in shape, or weights and predictions.
    """
    of_labels, of_predictions = convert(labels), convert(predictions)
    if of_labels.ndim == of_predictions.ndim + 1 and of_labels.shape[-1] == 1:
        of_labels = of_labels[..., 0]
    elif of_predictions.ndim == of_labels.ndim + 1 and of_predictions.shape[-1] == 1:
        of_predictions = of_predictions[..., 0]
    if of_labels.shape != of_predictions.shape:
        raise ValueError(
            f"labels {of_labels.shape} and predictions {of_predictions.shape} differ in shape"
        )
    kind = dtypes.as_dtype(dtype).dtype
    shares = np.ones(of_labels.shape, kind) if weights is None else convert(weights)
    if shares.shape != of_predictions.shape:
        raise ValueError(f"weights {shares.shape} do not match {of_predictions.shape}")
    known = not any(map(is_traced, (of_labels, of_predictions)))
    if known:
        pair = [np.asarray(of_labels), np.asarray(of_predictions)]
        largest = max((int(each.max()) for each in pair if each.size), default=-1)
        if any(each.size and int(each.min()) < 0 for each in pair):
            raise InvalidArgumentError(None, None, "labels and predictions must not be negative")
        count = largest + 1 if num_classes is None else int(static(num_classes))
        if largest >= count:
            raise InvalidArgumentError(None, None, f"class {largest} is not below {count}")
    elif num_classes is None:
        raise ValueError("tf.math.confusion_matrix: give num_classes where a function is traced")
    else:
        count = int(static(num_classes))
    if known and isinstance(shares, np.ndarray):
        made = np.zeros((count, count), kind)
        np.add.at(made, tuple(pair), shares.astype(kind))
        return Tensor(made)

    def added(rows: Any, columns: Any, values: Any) -> Any:
        zeros = jnp.zeros((count, count), kind)
        return zeros.at[rows, columns].add(values.astype(kind), mode="drop")

    return Tensor(compute(added, of_labels, of_predictions, shares))


def global_norm(t_list: Any, name: Any = None) -> Tensor:
    """The norm of all elements of several tensors; None among them is left out."""
    arrays = [convert(each) for each in t_list if each is not None]
    xp = xp_of(*arrays)
    return Tensor(xp.sqrt(sum(xp.sum(xp.square(each)) for each in arrays)))


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: Any = None) -> Tensor:
    """The tensor, scaled down so that its norm is at most ``clip_norm``."""
    value = convert(t)
    xp = xp_of(value)
    squares = xp.sum(xp.square(value), axis=_axes(axes), keepdims=True)
    # The root has no slope at 0.
    norm = xp.where(squares > 0, xp.sqrt(xp.where(squares > 0, squares, 1)), squares)
    most = convert(clip_norm, value.dtype)
    greater = np.maximum if xp is np else derivatives.maximum
    return Tensor(value * most / greater(norm, most))


def clip_by_global_norm(
    t_list: Any, clip_norm: Any, use_norm: Any = None, name: Any = None
) -> tuple[list[Any], Tensor]:
    """Tensors scaled down so that the norm of all is at most ``clip_norm``; and that norm."""
    norm = global_norm(t_list) if use_norm is None else Tensor(convert(use_norm))
    most = convert(clip_norm, norm.dtype)
    xp = xp_of(norm._value)
    scale = most / xp.maximum(norm._value, most)
    clipped = [None if each is None else Tensor(convert(each) * scale) for each in t_list]
    return clipped, norm
