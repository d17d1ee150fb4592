"""``tf.experimental.numpy``: making arrays, and asking what they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.compat.ops.numpy.base import (
    apply,
    array_of,
    cast,
    default_float,
    kind_of,
    numpy_type,
    promoted,
    result,
    weakness,
    xp_of,
)
from drumline.compat.ops.numpy.base import result_type as result_type
from drumline.compat.values import dtypes
from drumline.compat.values.convert import raw, static, static_shape
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.tensor import Tensor


def array(val: Any, dtype: Any = None, copy: bool = True, ndmin: int = 0) -> Tensor:
    """A tensor of numbers, nested lists, or arrays.

    Args:
        val: Python's ints become int64, floats float64 (see `experimental_enable_numpy_behavior`).
        dtype: another one; numbers are cast to it.
        copy: False to take the memory of numpy's arrays, whose changes are then seen.
        ndmin: dimensions of size 1 are put in front until there are so many.

    Raises:
        ValueError: more than 32 dimensions are asked for.

    Example:
        >>> tnp.array([1, 2]).dtype
        tf.int64
    """
    if ndmin > 32:
        raise ValueError("ndmin bigger than allowable number of dimensions: 32.")
    made = array_of(val, numpy_type(dtype))
    if copy and isinstance(made, np.ndarray) and made is raw(val) and type(val) is not Tensor:
        made = made.copy()
    if ndmin > len(made.shape):
        made = made.reshape((1,) * (ndmin - len(made.shape)) + tuple(made.shape))
    return result(made, weakness(val) and dtype is None)


def asarray(a: Any, dtype: Any = None) -> Tensor:
    """A tensor as it is, if it has the dtype; else as `array`."""
    wanted = numpy_type(dtype)
    if type(a) is Tensor and (wanted is None or a.dtype == wanted):
        return a
    return array(a, dtype, copy=False)


def asanyarray(a: Any, dtype: Any = None) -> Tensor:
    """As `asarray`."""
    return asarray(a, dtype)


def ascontiguousarray(a: Any, dtype: Any = None) -> Tensor:
    """As `array`, with at least one dimension."""
    return array(a, dtype, ndmin=1)


def copy(a: Any) -> Tensor:
    """A tensor of the same elements."""
    return array(a, copy=True)


def _filled(name: str) -> Any:
    def function(shape: Any, dtype: Any = float) -> Tensor:
        kind = default_float() if dtype is None else numpy_type(dtype)
        if kind is not None and kind.kind == "O":
            return result(_of_texts(static_shape(shape)))
        return result(getattr(np, name)(static_shape(shape), kind))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As ``numpy.{name}``: a tensor of a shape."
    return function


def _of_texts(shape: tuple[int, ...]) -> np.ndarray:
    made = np.empty(shape, object)
    made.fill(b"")
    return made


zeros, ones = _filled("zeros"), _filled("ones")


def empty(shape: Any, dtype: Any = float) -> Tensor:
    """As `zeros`."""
    return zeros(shape, dtype)


def _filled_like(name: str) -> Any:
    def function(a: Any, dtype: Any = None) -> Tensor:
        like = array_of(a)
        kind = like.dtype if dtype is None else numpy_type(dtype)
        if kind is not None and kind.kind == "O":
            return result(_of_texts(like.shape))
        return result(getattr(np, name)(like.shape, kind), weakness(a) and dtype is None)

    function.__name__ = function.__qualname__ = f"{name}_like"
    function.__doc__ = f"As ``numpy.{name}_like``: of the shape and dtype of another array."
    return function


zeros_like, ones_like = _filled_like("zeros"), _filled_like("ones")


def empty_like(a: Any, dtype: Any = None) -> Tensor:
    """As `zeros_like`."""
    return zeros_like(a, dtype)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """A value, or an array that is broadcast, in a shape."""
    value = array_of(fill_value, numpy_type(dtype))
    made = apply("broadcast_to", value, shape=static_shape(shape))
    return result(made, weakness(fill_value) and dtype is None)


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
) -> Tensor:
    """A value in the shape and dtype of another array.

    Raises:
        ValueError: ``order``, ``subok`` or ``shape`` are given.
    """
    if order != "K":
        raise ValueError("Non-standard orders are not supported.")
    if not subok:
        raise ValueError("subok being False is not supported.")
    if shape:
        raise ValueError("Overriding the shape is not supported.")
    like = array_of(a)
    value = array_of(fill_value, like.dtype if dtype is None else numpy_type(dtype))
    return result(apply("broadcast_to", value, shape=like.shape))


def broadcast_to(array: Any, shape: Any) -> Tensor:
    """An array in a larger shape."""
    return full(shape, array)


def broadcast_arrays(*args: Any, **kwargs: Any) -> list[Tensor]:
    """Arrays in the shape that they have in common.

    Raises:
        ValueError: ``subok=True``, or another option.
    """
    if kwargs.pop("subok", False):
        raise ValueError("subok=True is not supported.")
    if kwargs:
        raise ValueError(f"Received unsupported arguments {kwargs.keys()}")
    arrays = [array_of(each) for each in args]
    if len(arrays) < 2:
        return [result(each) for each in arrays]
    shape = apply("broadcast_arrays", *arrays)[0].shape
    return [result(apply("broadcast_to", each, shape=shape)) for each in arrays]


def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Tensor:
    """Ones on the ``k``-th diagonal of a matrix of zeros."""
    rows = int(static(N))
    kind = default_float() if dtype is None else numpy_type(dtype)
    return result(np.eye(rows, int(static(M) or rows), int(static(k)), kind))


def identity(n: Any, dtype: Any = float) -> Tensor:
    """A square matrix with ones on the diagonal."""
    return eye(n, n, dtype=dtype)


def tri(N: Any, M: Any = None, k: int = 0, dtype: Any = None) -> Tensor:
    """Ones on and below the ``k``-th diagonal of a matrix of zeros."""
    kind = default_float() if dtype is None else numpy_type(dtype)
    return result(np.tri(int(static(N)), None if M is None else int(static(M)), k, kind))


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    """The numbers from ``start`` up to ``stop``, without it; of one argument from zero up to it.

    Raises:
        ValueError: ``step`` is zero.
    """
    if not static(step):
        raise ValueError("step must be non-zero.")
    given = (start, step) if stop is None else (start, step, stop)
    kind, weak = kind_of(*given) if dtype is None else (result_type(dtype), False)
    first, last = (0, start) if stop is None else (start, stop)
    made = np.arange(static(first), static(last), static(step))
    return result(cast(made, kind.dtype), weak)


def _spaced_kind(start: Any, stop: Any, dtype: Any) -> np.dtype:
    """The dtype of numbers between two: that which is asked for, or a float."""
    if dtype is not None and dtype is not float:
        found = numpy_type(dtype)
        assert found is not None
        return found
    found = promoted(start, stop)[0][0].dtype
    return default_float() if found.kind in "biu" else found


def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = float,
    axis: int = 0,
) -> Any:
    """Numbers at equal distances.

    Args:
        start: the first one.
        stop: the last one; with ``endpoint=False`` that after the last.
        num: how many.
        endpoint: see ``stop``.
        retstep: whether the distance is given, too.
        dtype: of the result; the floats of ``start`` and ``stop`` keep theirs if it is ``float``.
        axis: along which they lie, if ``start`` and ``stop`` are arrays.

    Raises:
        ValueError: ``num`` is below zero.
    """
    count, kind = int(static(num)), _spaced_kind(start, stop, dtype)
    if count < 0:
        raise ValueError(
            f"Argument `num` (number of samples) must be a non-negative integer. Received: {num}"
        )
    (a, b), _ = promoted(start, stop)
    if a.dtype.kind in "biu":
        a, b = cast(a, default_float()), cast(b, default_float())
    made, step = apply("linspace", a, b, num=count, endpoint=endpoint, retstep=True, axis=axis)
    if kind.kind in "iu":
        made = apply("floor", made)
    numbers = result(cast(made, kind))
    return (numbers, result(xp_of(a, b).asarray(step))) if retstep else numbers


def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """Powers of ``base`` whose exponents have equal distances; see `linspace`."""
    exponents = linspace(start, stop, num, endpoint, axis=axis)._value
    made = apply("power", array_of(base, exponents.dtype), exponents)
    return result(cast(made, _spaced_kind(start, stop, dtype)))


def geomspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """Numbers of which each is the one before it times the same factor.

    Raises:
        InvalidArgumentError: one of the ends is zero.
    """
    kind = _spaced_kind(start, stop, dtype)
    (a, b), _ = promoted(start, stop)
    if a.dtype.kind in "biu":
        a, b = cast(a, default_float()), cast(b, default_float())
    made = apply("geomspace", a, b, num=int(static(num)), endpoint=endpoint, axis=axis)
    return result(cast(made, kind))


def meshgrid(*xi: Any, **kwargs: Any) -> list[Tensor]:
    """Matrices of coordinates of vectors of them.

    Raises:
        ValueError: ``sparse=True`` or ``copy=False``.
    """
    if kwargs.get("sparse", False):
        raise ValueError(
            "Function `meshgrid` does not support returning sparse arrays yet. Received: "
            f"sparse={kwargs['sparse']}"
        )
    if not kwargs.get("copy", True):
        raise ValueError(
            f"Function `meshgrid` only supports copy=True. Received: copy={kwargs['copy']}"
        )
    arrays = [array_of(each) for each in xi]
    made = apply("meshgrid", *arrays, indexing=kwargs.get("indexing", "xy"))
    return [result(each) for each in made]


def promote_types(type1: Any, type2: Any) -> np.dtype:
    """The dtype to which two promote by numpy's rules, as numpy's."""
    return np.promote_types(_plain(type1), _plain(type2))


def _plain(dtype: Any) -> np.dtype:
    return dtype.dtype if isinstance(dtype, dtypes.DType) else np.dtype(dtype)


def finfo(dtype: Any) -> Any:
    """The limits of a dtype of floats, as ``numpy.finfo``."""
    return np.finfo(_plain(dtype))


def shape(a: Any) -> TensorShape:
    """The dimensions."""
    return TensorShape(array_of(a).shape)


def ndim(a: Any) -> int:
    """The number of dimensions."""
    return len(array_of(a).shape)


def size(x: Any, axis: Any = None) -> Any:
    """The number of elements.

    Raises:
        NotImplementedError: an axis is given.
    """
    if axis is not None:
        raise NotImplementedError(
            "axis argument is not supported in the current `np.size` implementation"
        )
    return 1 if isinstance(x, (int, float, np.generic)) else np.prod(array_of(x).shape, dtype=int)


def isscalar(num: Any) -> bool:
    """Whether it has no dimensions."""
    return ndim(num) == 0
