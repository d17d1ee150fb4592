"""``tf.experimental.numpy``: shapes, joining and splitting, positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.compat.ops.numpy.base import (
    apply,
    array_of,
    axes_of,
    cast,
    promoted,
    result,
    weakness,
)
from drumline.compat.values.convert import is_traced, static, static_shape
from drumline.compat.values.tensor import Tensor
from drumline.data.functions.native.symbol import ValueNeedsPython


def _kept(name: str, a: Any, **options: Any) -> Tensor:
    """numpy's function of one array, weak if this is."""
    return result(apply(name, array_of(a), **options), weakness(a))


def _concrete(array: Any) -> np.ndarray:
    """An array whose values are known, as numpy's."""
    if is_traced(array):
        raise ValueNeedsPython("the function makes an array whose shape depends on values")
    return np.asarray(array)


def reshape(a: Any, newshape: Any, order: str = "C") -> Tensor:
    """The same elements in another shape.

    Raises:
        ValueError: ``order`` is neither ``"C"`` nor ``"F"``.
        InvalidArgumentError: the shape has another number of elements.
    """
    if order not in ("C", "F"):
        raise ValueError(f"Unsupported order argument {order}")
    shape = static_shape(newshape)
    return _kept("reshape", a, shape=shape, order=order)


def reshaped(a: Tensor, *newshape: Any, **kwargs: Any) -> Tensor:
    """The method ``reshape`` of tensors: a shape, or its dimensions."""
    order = kwargs.pop("order", "C")
    if kwargs:
        raise ValueError(f"Unsupported arguments: {kwargs.keys()}")
    one = len(newshape) == 1 and not isinstance(newshape[0], int)
    return reshape(a, newshape[0] if one else newshape, order)


def ravel(a: Any) -> Tensor:
    """All elements in one dimension."""
    return _kept("reshape", a, shape=(-1,))


def flatten(a: Any, order: str = "C") -> Tensor:
    """All elements in one dimension, those of rows together, or of columns (``"F"``).

    Raises:
        ValueError: there is no such order.
    """
    if order not in ("C", "A", "K", "F"):
        raise ValueError("order can only be C, A, K (all row major) or F (column major).")
    return _kept("reshape", a, shape=(-1,), order="F" if order == "F" else "C")


def transpose(a: Any, axes: Any = None) -> Tensor:
    """Axes in another order; in reverse without ``axes``."""
    return _kept("transpose", a, axes=axes_of(axes))


def swapaxes(a: Any, axis1: Any, axis2: Any) -> Tensor:
    """Two axes in each other's place."""
    return _kept("swapaxes", a, axis1=static(axis1), axis2=static(axis2))


def moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    """Axes in other places.

    Raises:
        ValueError: there are not as many places as axes.
    """
    origin, place = axes_of(source), axes_of(destination)
    if np.size(origin) != np.size(place):
        raise ValueError("The lengths of source and destination must equal")
    return _kept("moveaxis", a, source=origin, destination=place)


def expand_dims(a: Any, axis: Any) -> Tensor:
    """With a dimension of size 1 more."""
    return _kept("expand_dims", a, axis=axes_of(axis))


def squeeze(a: Any, axis: Any = None) -> Tensor:
    """Without dimensions of size 1."""
    return _kept("squeeze", a, axis=axes_of(axis))


def _at_least(dimensions: int) -> Any:
    def function(*arys: Any) -> Any:
        made = [_kept(name, each) for each in arys]
        return made[0] if len(made) == 1 else made

    name = f"atleast_{dimensions}d"
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As ``numpy.{name}``: one tensor, or a list of several."
    return function


atleast_1d, atleast_2d, atleast_3d = map(_at_least, (1, 2, 3))


def concatenate(arys: Any, axis: Any = 0) -> Tensor:
    """Arrays one after another along an axis.

    Raises:
        ValueError: there are none.
    """
    given = list(arys) if isinstance(arys, (list, tuple)) else [arys]
    if not given:
        raise ValueError(
            f"Need at least one array to concatenate. Received empty input: arys={arys}"
        )
    arrays, weak = promoted(*given)
    return result(xp_apply("concatenate", arrays, axis=static(axis)), weak)


def xp_apply(name: str, arrays: list[Any], **options: Any) -> Any:
    """A function of a list of arrays, as `apply`."""

    def listed(xp: Any) -> Any:
        return lambda *given, **named: getattr(xp, name)(given, **named)

    import jax.numpy as jnp

    from drumline.compat.ops.numpy.base import call

    return call(listed(np), listed(jnp), *arrays, **options)


def append(arr: Any, values: Any, axis: Any = None) -> Tensor:
    """Values after those of an array; of both all elements in one dimension without ``axis``."""
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], 0)
    return concatenate([arr, values], axis)


def stack(arrays: Any, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis."""
    if type(arrays) is Tensor:
        return arrays if axis == 0 else swapaxes(arrays, 0, axis)
    found, weak = promoted(*arrays)
    return result(xp_apply("stack", found, axis=axis), weak)


def _stacked(name: str) -> Any:
    def function(tup: Any) -> Tensor:
        found, weak = promoted(*tup)
        return result(xp_apply(name, found), weak)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As ``numpy.{name}``."
    return function


hstack, vstack, dstack = map(_stacked, ("hstack", "vstack", "dstack"))


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Parts of an array: so many of one size, or those between positions.

    Raises:
        ValueError: positions descend, or the axis is out of range.
        InvalidArgumentError: the array has no such number of equal parts.
    """
    array = array_of(ary)
    if axis >= array.ndim:
        raise ValueError(f"axis {axis} is out of bound for shape {array.shape}")
    at = static(indices_or_sections)
    if not isinstance(at, int):
        at = list(map(int, at))
        for i, (before, after) in enumerate(zip([0, *at], at, strict=False)):
            if after < before:
                raise ValueError(
                    f"The {i}-th boundary {after} is smaller than the previous boundary {before}"
                )
    parts = apply("split", array, indices_or_sections=at, axis=axis)
    return [result(each, weakness(ary)) for each in parts]


def _split_along(name: str, axis: int) -> Any:
    def function(ary: Any, indices_or_sections: Any) -> list[Tensor]:
        array = array_of(ary)
        along = 0 if axis == 1 and array.ndim == 1 else axis
        if isinstance(indices_or_sections, int) and array.shape[along] % indices_or_sections:
            raise ValueError("array split does not result in an equal division")
        return split(ary, indices_or_sections, along)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As ``numpy.{name}``."
    return function


vsplit, hsplit, dsplit = map(_split_along, ("vsplit", "hsplit", "dsplit"), (0, 1, 2))


def tile(a: Any, reps: Any) -> Tensor:
    """An array repeated as a whole along its axes."""
    return _kept("tile", a, reps=tuple(np.ravel(np.asarray(static(reps), int)).tolist()))


def repeat(a: Any, repeats: Any, axis: Any = None) -> Tensor:
    """Each element repeated."""
    times = np.asarray(static(repeats), int)
    options: dict[str, Any] = {"repeats": times, "axis": static(axis)}
    return _kept("repeat", a, **options)


def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    """Elements moved along axes; those that leave at one end come in at the other."""
    return _kept("roll", a, shift=axes_of(shift), axis=axes_of(axis))


def flip(m: Any, axis: Any = None) -> Tensor:
    """Elements in the reverse order along an axis, or all."""
    return _kept("flip", m, axis=axes_of(axis))


def flipud(m: Any) -> Tensor:
    """Rows in the reverse order."""
    return flip(m, 0)


def fliplr(m: Any) -> Tensor:
    """Columns in the reverse order."""
    return flip(m, 1)


def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    """Turned by ``k`` times 90 degrees in the plane of two axes."""
    return _kept("rot90", m, k=k, axes=tuple(axes))


def pad(array: Any, pad_width: Any, mode: str, **kwargs: Any) -> Tensor:
    """Elements before and after those of each axis.

    Args:
        array: the array.
        pad_width: for each axis the numbers before and after.
        mode: ``"constant"``, ``"reflect"`` or ``"symmetric"``.
        kwargs: ``constant_values``: the value, 0 by default.

    Raises:
        ValueError: there is no such mode.
    """
    value = kwargs.pop("constant_values", 0)
    if kwargs:
        raise TypeError(f"pad has no arguments {', '.join(kwargs)}")
    if mode not in ("constant", "reflect", "symmetric"):
        raise ValueError(f"Unsupported padding mode: {mode}")
    options = {"constant_values": static(value)} if mode == "constant" else {}
    return _kept("pad", array, pad_width=static(pad_width), mode=mode, **options)


def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "clip") -> Tensor:
    """Elements at positions; those out of range are the nearest ones (or ``mode="wrap"``).

    Raises:
        ValueError: ``out`` is given, or another mode.
    """
    if out is not None:
        raise ValueError("out argument is not supported in take.")
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError(f"Invalid mode '{mode}' for take")
    if mode == "raise":
        raise ValueError("The 'raise' mode to take is not supported.")
    array, at = array_of(a), array_of(indices)
    made = apply("take", array, at, axis=static(axis), mode=mode)
    return result(made, weakness(a))


def take_along_axis(arr: Any, indices: Any, axis: Any) -> Tensor:
    """Elements at positions of their own for each row."""
    array, at = array_of(arr), array_of(indices)
    if axis is None:
        array, axis = array.reshape(-1), 0
    along = int(static(axis)) % array.ndim
    sides = [1 if i == along else -1 for i in range(array.ndim)]
    shape = list(
        np.broadcast_shapes(
            *(
                tuple(
                    1 if side == 1 else size for side, size in zip(sides, each.shape, strict=True)
                )
                for each in (array, at)
            )
        )
    )

    def in_shape(each: Any) -> Any:
        shape[along] = each.shape[along]
        return apply("broadcast_to", each, shape=tuple(shape))

    array, at = in_shape(array), in_shape(at)
    return result(apply("take_along_axis", array, at, axis=along), weakness(arr))


def compress(condition: Any, a: Any, axis: Any = None) -> Tensor:
    """The elements along an axis where a condition is true.

    Raises:
        ValueError: the condition has not one dimension.
    """
    chosen = _concrete(cast(array_of(condition), np.bool_))
    if chosen.ndim != 1:
        raise ValueError("condition must be a 1-d array.")
    array = array_of(a)
    if axis is None or not array.ndim:
        array, axis = array.reshape(-1), 0
    made = apply("take", array, np.flatnonzero(chosen), axis=axis)
    return result(made, weakness(a))


def nonzero(a: Any) -> list[Tensor]:
    """For each axis the positions of what is not zero, as int64."""
    found = np.nonzero(np.atleast_1d(_concrete(array_of(a))))
    return [result(each) for each in found]


def ix_(*args: Any) -> list[Tensor]:
    """Vectors of positions, so shaped that they choose a block of an array.

    Raises:
        ValueError: one has not one dimension, or is neither of integers nor of bools.
    """
    made = []
    for i, each in enumerate(args):
        array = array_of(each)
        if array.ndim != 1:
            raise ValueError(f"Arguments must be 1-d, got arg {i} of rank {array.ndim}")
        if array.dtype.kind not in "biu":
            raise ValueError(f"Only integer and bool dtypes are supported, got {array.dtype}")
        if array.dtype.kind == "b":
            array = np.flatnonzero(_concrete(array))
        made.append(result(array.reshape([-1 if j == i else 1 for j in range(len(args))])))
    return made


def diag_indices(n: Any, ndim: int = 2) -> tuple[Tensor, ...]:
    """The positions on the diagonal of a square array, as int32.

    Raises:
        ValueError: a number is below zero.
    """
    count = int(static(n))
    for name, value in (("n", count), ("ndim", ndim)):
        if value < 0:
            raise ValueError(f"{name} argument to diag_indices must be nonnegative, got {value}")
    return (result(np.arange(count, dtype=np.int32)),) * ndim


def diag(v: Any, k: int = 0) -> Tensor:
    """A matrix with a vector on its diagonal, or the diagonal of a matrix.

    Raises:
        InvalidArgumentError: it is neither.
    """
    return _kept("diag", v, k=int(static(k)))


def diagflat(v: Any, k: int = 0) -> Tensor:
    """A matrix with all elements on its diagonal."""
    return diag(ravel(v), k)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonals in the plane of two axes."""
    return _kept("diagonal", a, offset=offset, axis1=axis1, axis2=axis2)


def _triangle(name: str) -> Any:
    def function(m: Any, k: int = 0) -> Tensor:
        array = array_of(m)
        if array.ndim < 2:
            raise ValueError(f"Argument to {name} must have rank at least 2")
        return result(apply(name, array, k=k), weakness(m))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As ``numpy.{name}``."
    return function


tril, triu = _triangle("tril"), _triangle("triu")


def vander(x: Any, N: Any = None, increasing: bool = False) -> Tensor:
    """The powers of numbers, as rows.

    Raises:
        ValueError: ``x`` has not one dimension, or ``N`` is below zero.
    """
    array = array_of(x)
    if array.ndim != 1:
        raise ValueError("x must be a one-dimensional array")
    count = len(array) if N is None else int(static(N))
    if count < 0:
        raise ValueError("N must be nonnegative")
    powers = np.arange(count) if increasing else np.arange(count)[::-1]
    made = apply("power", array[:, None], powers.astype(array.dtype))
    return result(cast(made, array.dtype), weakness(x))
