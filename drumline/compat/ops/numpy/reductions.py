"""``tf.experimental.numpy``: sums and other functions of all elements along axes, and sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.compat.ops.numpy.base import (
    apply,
    array_of,
    axes_of,
    call,
    cast,
    default_float,
    kind_of,
    numpy_type,
    result,
    weakness,
    xp_of,
)
from drumline.compat.ops.numpy.math import subtract
from drumline.compat.values.convert import static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.promotion import rules
from drumline.compat.values.tensor import Tensor


def _wide(array: Any) -> Any:
    """Integers and bools in the width in which numpy adds them; 32 bits by ``all`` and ``safe``."""
    if array.dtype.kind not in "biu":
        return array
    bits = 32 if rules.auto else 64
    signed = array.dtype.kind != "u"
    if array.dtype.kind != "b" and array.dtype.itemsize * 8 >= bits:
        return array
    return cast(array, np.dtype(f"{'' if signed else 'u'}int{bits}"))


def _reduced(name: str, array: Any, axis: Any, keepdims: Any, **options: Any) -> Any:
    found = axes_of(axis)
    for each in found if isinstance(found, tuple) else (found,):
        if each is not None and not -array.ndim <= each < array.ndim:
            raise InvalidArgumentError(
                None,
                None,
                f"Invalid reduction dimension ({each} for input with {array.ndim} dimension(s)",
            )
    return apply(name, array, axis=found, keepdims=bool(keepdims), **options)


def _total(name: str, of_bools: str) -> Any:
    def function(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = None) -> Tensor:
        kind = numpy_type(dtype)
        array = array_of(a, kind)
        if kind == np.bool_:
            return result(_reduced(of_bools, array, axis, keepdims))
        array = _wide(array) if kind is None else array
        return result(
            _reduced(name, array, axis, keepdims, dtype=array.dtype),
            weakness(a) and dtype is None,
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As ``numpy.{name}``; integers are added up in 64 bits."
    return function


sum, prod = _total("sum", "any"), _total("prod", "all")


def _no_out(out: Any) -> None:
    if out is not None:
        raise ValueError("Setting out is not supported.")


def _floats(a: Any, dtype: Any = None) -> Any:
    array = array_of(a, dtype)
    whole = dtype is None and array.dtype.kind in "biu"
    return cast(array, default_float()) if whole else array


def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = None
) -> Tensor:
    """The mean; of integers a float.

    Raises:
        ValueError: ``out`` is given.
    """
    _no_out(out)
    kind = numpy_type(dtype)
    array = _floats(a, kind)
    if array.dtype.kind in "biu":  # asked for: the mean is cut off, as TensorFlow's
        total = _reduced("sum", array, axis, keepdims, dtype=array.dtype)
        count = np.asarray(array.size // (total.size or 1) or 1, array.dtype)
        return result(apply("sign", total) * (apply("abs", total) // count))
    return result(_reduced("mean", array, axis, keepdims), weakness(a) and dtype is None)


def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = None,
) -> Tensor:
    """The variance.

    Args:
        a: the numbers.
        axis: along which; None for all.
        dtype: of the result.
        out: None.
        ddof: what is subtracted from the count by which the sum is divided.
        keepdims: whether reduced dimensions stay, of size 1.

    Raises:
        ValueError: ``out`` is given.
    """
    _no_out(out)
    working = None if dtype is None else kind_of(a, dtype)[0].dtype
    array = _floats(a, working)
    array = cast(array, default_float()) if array.dtype.kind in "biu" else array
    made = _reduced("var", array, axis, keepdims, ddof=static(ddof))
    return result(made if dtype is None else cast(made, numpy_type(dtype)), weakness(a))


def std(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """The standard deviation."""
    return result(_reduced("std", _floats(a), axis, keepdims), weakness(a))


def _extreme(name: str) -> Any:
    def function(a: Any, axis: Any = None, out: Any = None, keepdims: Any = None) -> Tensor:
        _no_out(out)
        return result(_reduced(name, array_of(a), axis, keepdims), weakness(a))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As ``numpy.{name}``."
    return function


amax, amin = _extreme("amax"), _extreme("amin")


def max(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """The largest element."""
    return amax(a, axis, keepdims=keepdims)


def min(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """The smallest element."""
    return amin(a, axis, keepdims=keepdims)


def ptp(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """The largest element less the smallest."""
    return subtract(amax(a, axis, keepdims=keepdims), amin(a, axis, keepdims=keepdims))


def _condition(name: str) -> Any:
    def function(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
        return result(_reduced(name, cast(array_of(a), np.bool_), axis, keepdims))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As ``numpy.{name}``; what is not zero is true."
    return function


all, any = _condition("all"), _condition("any")


def _without_nans(a: Any, neutral: int) -> Tensor:
    array = array_of(a)
    if array.dtype.kind in "biu":
        return Tensor(array)
    xp = xp_of(array)
    made = xp.where(xp.isnan(array), xp.asarray(neutral, array.dtype), array)
    return result(made, weakness(a))


def nansum(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Tensor:
    """The sum of all but NaNs."""
    return sum(_without_nans(a, 0), axis, dtype, keepdims)


def nanprod(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Tensor:
    """The product of all but NaNs."""
    return prod(_without_nans(a, 1), axis, dtype, keepdims)


def nanmean(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = None) -> Tensor:
    """The mean of all but NaNs."""
    array = array_of(a)
    if array.dtype.kind in "biu":
        return mean(a, axis, dtype, keepdims=keepdims)
    kind = array.dtype if dtype is None else numpy_type(dtype)
    count = sum(Tensor(~apply("isnan", array)), axis, kind, keepdims)._value
    total = nansum(Tensor(array), axis, kind, keepdims)._value
    return result(apply("true_divide", total, count), weakness(a))


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False) -> Any:
    """The mean with weights.

    Args:
        a: the numbers.
        axis: along which; None for all.
        weights: as many as numbers, or as many as ``a`` has along the axis.
        returned: whether the sum of the weights is given, too.

    Raises:
        ValueError: ``axis`` is no int.
        InvalidArgumentError: the weights have another shape.
    """
    if axis is not None and not isinstance(axis, int):
        raise ValueError(
            f"Argument `axis` must be an integer. Received axis={axis} (of type {type(axis)})"
        )
    given = array_of(a)
    if weights is None:
        array = _floats(a)
        mean_of = _reduced("mean", array, axis, False)
        if not returned:
            return result(mean_of, weakness(a))
        count = array.size if axis is None else array.shape[axis]
        ones = xp_of(array).full(mean_of.shape, count, array.dtype)
        return result(mean_of), result(ones)
    whole = given.dtype.kind in "biu"
    kind = kind_of(a, weights, *([default_float()] if whole else []))[0].dtype
    array, by = array_of(a, kind), array_of(weights, kind)
    if array.shape != by.shape and (
        axis is None or by.ndim != 1 or by.shape[0] != array.shape[axis]
    ):
        raise InvalidArgumentError(
            None,
            None,
            f"average: weights of shape {by.shape} do not fit an array of shape {array.shape}",
        )
    if array.shape != by.shape:
        assert axis is not None
        shape = [1] * array.ndim
        shape[axis] = -1
        by = apply("broadcast_to", by.reshape(shape), shape=array.shape)
    total = _reduced("sum", by, axis, False)
    made = result(apply("true_divide", _reduced("sum", array * by, axis, False), total))
    return (made, result(total)) if returned else made


def _running(name: str) -> Any:
    def function(a: Any, axis: Any = None, dtype: Any = None) -> Tensor:
        array = array_of(a, numpy_type(dtype))
        if dtype is None and array.dtype.kind in "iu":
            array = cast(array, np.promote_types(array.dtype, int))
        if axis is None:
            array, axis = array.reshape(-1), 0
        made = apply(name, array, axis=static(axis))
        kept = weakness(a) and dtype is None
        return result(cast(made, array.dtype) if array.dtype != bool else made, kept)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As ``numpy.{name}``."
    return function


cumsum, cumprod = _running("cumsum"), _running("cumprod")


def count_nonzero(a: Any, axis: Any = None) -> Tensor:
    """How many elements are not zero, as int64."""
    chosen = cast(array_of(a), np.bool_)
    return result(_reduced("sum", chosen, axis, False, dtype=np.int64))


def _position(name: str) -> Any:
    def function(a: Any, axis: Any = None) -> Tensor:
        array = array_of(a)
        array = array.reshape(-1) if axis is None or not array.ndim else array
        return result(cast(apply(name, array, axis=0 if axis is None else axis), np.int64))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As ``numpy.{name}``, as int64."
    return function


argmax, argmin = _position("argmax"), _position("argmin")


def argsort(a: Any, axis: Any = -1, kind: str = "quicksort", order: Any = None) -> Tensor:
    """The positions of the elements in ascending order; of equal ones in the order given.

    Raises:
        ValueError: ``kind`` is neither ``"quicksort"`` nor ``"stable"``, or ``order`` is given.
        TypeError: the numbers are complex.
    """
    if kind not in ("quicksort", "stable"):
        raise ValueError(
            'Invalid value for argument `kind`. Only kind="quicksort" and kind="stable" are '
            f"supported. Received: kind={kind}"
        )
    _no_order(order)
    array = array_of(a)
    if array.dtype.kind == "c":
        raise TypeError(
            f"argsort does not support complex64/complex128 dtypes. Received dtype: {array.dtype}"
        )
    array = array.reshape(-1) if axis is None or not array.ndim else array
    positions = call(
        lambda x: np.argsort(x, axis=-1 if axis is None else axis, kind="stable"),
        lambda x: xp_of(x).argsort(x, axis=-1 if axis is None else axis, stable=True),
        array,
    )
    return result(cast(positions, np.int32 if rules.auto else np.int64))


def _no_order(order: Any) -> None:
    if order is not None:
        raise ValueError("The `order` argument is not supported. Pass order=None")


def sort(a: Any, axis: Any = -1, kind: str = "quicksort", order: Any = None) -> Tensor:
    """The elements in ascending order.

    Raises:
        ValueError: ``kind`` is not ``"quicksort"``, or ``order`` is given.
    """
    if kind != "quicksort":
        raise ValueError(
            'Invalid value for argument `kind`. Only kind="quicksort" is supported. '
            f"Received: kind={kind}"
        )
    _no_order(order)
    array = array_of(a)
    return result(
        apply(
            "sort", array.reshape(-1) if axis is None else array, axis=0 if axis is None else axis
        )
    )


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    """The sum of a diagonal."""
    array = array_of(a, numpy_type(dtype))
    rank = array.ndim
    last = offset == 0 and axis1 in (-2, rank - 2) and axis2 in (-1, rank - 1)
    found = Tensor(apply("diagonal", array, offset=offset, axis1=axis1, axis2=axis2))
    kind = found.dtype if last else dtype  # TensorFlow adds up the last axes in their own dtype
    return sum(found, -1, kind)
