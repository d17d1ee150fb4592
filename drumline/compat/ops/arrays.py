"""Functions that make and rearrange tensors: ``tf.constant``, ``tf.reshape``, ``tf.concat``."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from drumline.autograph import TracedRange
from drumline.compat.ops import elementwise
from drumline.compat.ops.elementwise import cast, keras_ops
from drumline.compat.values import dtypes
from drumline.compat.values.boundary import map_structure, unwrap
from drumline.compat.values.computing import compute_as_one
from drumline.compat.values.convert import (
    cast_array,
    convert,
    is_jax,
    is_traced,
    is_wide,
    raw,
    same_dtype,
    static,
    static_shape,
    tensor,
)
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.promotion import is_weak, leaves, rules
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.tensor import Tensor
from drumline.data.functions.native.symbol import Symbol, ValueNeedsPython
from drumline.training.jax_internals import size_value


def xp_of(*arrays: Any) -> Any:
    """JAX's numpy if an array is JAX's and none holds strings, else numpy."""
    if any(isinstance(each, Symbol) for each in arrays):
        raise ValueNeedsPython("the function computes with a string or an array of varying shape")
    if not any(map(is_jax, arrays)):
        return np
    if any(isinstance(each, np.ndarray) and each.dtype == object for each in arrays):
        if any(map(is_traced, arrays)):
            raise ValueNeedsPython("the function computes with strings, which no device holds")
        return np
    return jnp


def _arranged(name: str, *arrays: Any, **options: Any) -> Any:
    """A function of numpy's or JAX's, by its name, of raw arrays."""
    xp = xp_of(*arrays)
    if xp is np:
        return getattr(np, name)(*arrays, **options)
    return compute_as_one(getattr(jnp, name), *arrays, **options)


def constant(value: Any, dtype: Any = None, shape: Any = None, name: Any = "Const") -> Tensor:
    """A tensor of numbers, text, or nested lists of them.

    Args:
        value: Python's ints are int32, floats float32; arrays keep their types.
        dtype: another one.
        shape: to reshape to; a single number fills it.
        name: accepted.

    Raises:
        TypeError: the values cannot be of ``dtype``.
    """
    if rules.auto and dtype is not None and type(value) is Tensor:
        return constant(cast(value, dtype), None, shape)
    made = convert(value, dtype)
    if isinstance(made, np.ndarray) and made is raw(value):
        made = made.copy()
    if shape is not None:
        wanted = static_shape(shape)
        made = np.broadcast_to(made, wanted).copy() if made.size == 1 else made.reshape(wanted)
    return _made_of(value, made) if rules.auto and dtype is None else Tensor(made)


def _made_of(value: Any, made: Any) -> Tensor:
    """A tensor that is weak if it is made of Python's numbers, or of a weak one."""
    tensor = Tensor(made)
    if made.dtype.kind in "ifc" and all(
        is_weak(each) or type(each) in (int, float, complex) for each in leaves(value)
    ):
        tensor._weak = True
    return tensor


def convert_to_tensor(
    value: Any, dtype: Any = None, dtype_hint: Any = None, name: Any = None
) -> Any:
    """A tensor of a value; tensors as they are.

    Raises:
        ValueError: a tensor has another dtype than the one asked for.
    """
    if keras_ops(value) is not None:
        return value
    if dtype is not None and type(value) is Tensor and value.dtype != dtype:
        wanted = dtypes.as_dtype(dtype).name
        raise ValueError(
            f"Tensor conversion requested dtype {wanted} for Tensor with dtype {value.dtype.name}"
        )
    if dtype is None and dtype_hint is not None and not hasattr(value, "dtype"):
        try:
            return tensor(value, dtype_hint)
        except TypeError:
            return tensor(value)
    return tensor(value, dtype)


def identity(input: Any, name: Any = None) -> Any:
    """A tensor with the same value."""
    if keras_ops(input) is not None:
        return input
    return Tensor(convert(input))


def stop_gradient(input: Any, name: Any = None) -> Any:
    """The same value, through which no gradient is taken."""
    if keras_ops(input) is not None:
        return keras_ops(input).stop_gradient(input)
    value = convert(input)
    return Tensor(jax.lax.stop_gradient(value) if is_jax(value) else value)


def is_tensor(x: Any) -> bool:
    """Whether a value is a tensor, a variable or a composite of tensors."""
    return isinstance(x, Tensor) or hasattr(x, "_is_keras_variable") or hasattr(x, "read_value")


def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """The value as a numpy array; None if it is not known while a function is traced."""
    value = raw(tensor)
    if isinstance(value, (Symbol, jax.core.Tracer)):
        return None
    return np.asarray(value)[()]


def _filled(number: int) -> Callable[..., Tensor]:
    def make(shape: Any, dtype: Any = dtypes.float32, name: Any = None, layout: Any = None) -> Any:
        kind = dtypes.as_dtype(dtype)
        value: Any = number
        if kind == dtypes.string:
            value = b"" if not number else b"1"
            return Tensor(np.full(static_shape(shape), value, object))
        return Tensor(np.full(static_shape(shape), value, kind.dtype))

    make.__name__ = make.__qualname__ = ("zeros", "ones")[number]
    return make


zeros = _filled(0)
ones = _filled(1)


_MOST_ON_HOST = 4096
"""So many elements are sooner moved to a device, if need be, than computed there."""


def _filled_like(number: int) -> Callable[..., Any]:
    def make(input: Any, dtype: Any = None, name: Any = None, layout: Any = None) -> Any:
        if keras_ops(input) is not None:
            functions = keras_ops(input)
            return (functions.ones_like if number else functions.zeros_like)(input, dtype)
        value = convert(input)
        kind = value.dtype if dtype is None else dtypes.as_dtype(dtype).dtype
        if kind.kind == "O":
            return Tensor(np.full(value.shape, b"1" if number else b"", object))
        if xp_of(value) is np or not (is_traced(value) or value.size > _MOST_ON_HOST):
            return Tensor(np.full(value.shape, number, kind))
        with jax.enable_x64(True) if is_wide(value) else contextlib.nullcontext():
            return Tensor(jnp.full(value.shape, number, kind))

    make.__name__ = make.__qualname__ = "ones_like" if number else "zeros_like"
    return make


zeros_like = _filled_like(0)
ones_like = _filled_like(1)


def fill(dims: Any, value: Any, name: Any = None, layout: Any = None) -> Tensor:
    """A tensor of one value."""
    made = convert(value)
    return Tensor(xp_of(made).full(static_shape(dims), made, made.dtype))


class _RangeOfTensors(TracedRange):
    """``tf.range`` of traced limits: its size is not known, so ``for`` alone takes it."""

    __array_ufunc__ = None

    def _refuse(self, *_: Any) -> NoReturn:
        raise ValueNeedsPython(
            "the size of a tf.range is known only when the program runs",
            remedy="loop over it by a `for` statement, or give it numbers of Python",
        )

    def __getattr__(self, name: str) -> NoReturn:
        self._refuse()

    __iter__ = __len__ = __getitem__ = __bool__ = __neg__ = __abs__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __pow__ = __rpow__ = _refuse
    __matmul__ = __rmatmul__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __eq__ = __ne__ = _refuse
    __hash__ = None  # type: ignore[assignment]


def range_(
    start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: Any = None
) -> Any:
    """Numbers from ``start`` up to ``limit``, which is not among them.

    Limits that are traced give what only a ``for`` statement can go over.
    """
    if limit is None:
        start, limit = 0, start
    given = [convert(each) for each in (start, limit, delta)]
    if dtype is not None:
        kind = dtypes.as_dtype(dtype).dtype
    else:
        ranks = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64]
        found = [dtypes.of_array(each.dtype) for each in given]
        kind = max(found, key=ranks.index).dtype
    if any(map(is_traced, given)):
        return _RangeOfTensors(*(cast_array(each, kind) for each in given))
    numbers = [static(each) for each in (start, limit, delta)]
    if numbers[2] == 0:
        raise InvalidArgumentError(None, None, "Requires delta != 0: 0")
    return Tensor(np.arange(*numbers, dtype=kind))


def linspace(start: Any, stop: Any, num: Any, name: Any = None, axis: int = 0) -> Tensor:
    """``num`` numbers from ``start`` to ``stop``, both among them, at equal distances."""
    a = convert(start)
    a, b = same_dtype(a, stop if hasattr(stop, "dtype") else convert(stop, a.dtype), "LinSpace")
    xp = xp_of(a, b)
    return Tensor(xp.linspace(a, b, int(static(num)), dtype=a.dtype, axis=axis))


def shape(input: Any, out_type: Any = None, name: Any = None) -> Any:
    """The dimensions, an int32 tensor."""
    if keras_ops(input) is not None:
        return keras_ops(input).shape(input)
    value = convert(input)
    if isinstance(value, Symbol) and None in value.shape:
        raise ValueNeedsPython("the function needs a shape that varies between elements")
    kind = dtypes.as_dtype(out_type or dtypes.int32).dtype
    if any(map(jax.export.is_symbolic_dim, value.shape)):
        return Tensor(jnp.stack([jnp.asarray(size_value(size), kind) for size in value.shape]))
    return Tensor(np.asarray(value.shape, kind))


def size(input: Any, out_type: Any = None, name: Any = None) -> Tensor:
    """The number of elements."""
    count = int(np.prod(convert(input).shape))
    return Tensor(np.asarray(count, dtypes.as_dtype(out_type or dtypes.int32).dtype))


def rank(input: Any, name: Any = None) -> Tensor:
    """The number of dimensions."""
    return Tensor(np.asarray(len(convert(input).shape), np.int32))


def reshape(tensor: Any, shape: Any, name: Any = None) -> Any:
    """The same elements in another shape; -1 for one dimension that is left to compute.

    Raises:
        InvalidArgumentError: the shapes have different numbers of elements.
    """
    wanted = static_shape(shape)
    if keras_ops(tensor) is not None:
        return keras_ops(tensor).reshape(tensor, wanted)
    value = convert(tensor)
    try:
        if is_jax(value):
            return Tensor(compute_as_one(jnp.reshape, value, shape=wanted))
        return Tensor(value.reshape(wanted))
    except ValueNeedsPython:
        raise
    except (ValueError, TypeError):
        count = int(np.prod(value.shape))
        raise InvalidArgumentError(
            None,
            None,
            f"Input to reshape is a tensor with {count} values, but the requested shape is "
            f"{list(wanted)}",
        ) from None


def ensure_shape(x: Any, shape: Any, name: Any = None) -> Any:
    """The tensor, if it has this shape; else ``InvalidArgumentError``."""
    if not TensorShape(x.shape).is_compatible_with(shape):
        raise InvalidArgumentError(
            None, None, f"Shape of tensor {x.shape} is not compatible with {TensorShape(shape)}"
        )
    if type(x) is Tensor and isinstance(x._value, Symbol):
        x = Tensor(x._value)
        x.set_shape(shape)
    return x


def expand_dims(input: Any, axis: Any, name: Any = None) -> Any:
    """The tensor with a dimension of 1 more."""
    if keras_ops(input) is not None:
        return keras_ops(input).expand_dims(input, axis)
    value = convert(input)
    if isinstance(value, Symbol):
        return Tensor(np.expand_dims(value, static(axis)))
    return Tensor(_arranged("expand_dims", value, axis=static(axis)))


def squeeze(input: Any, axis: Any = None, name: Any = None) -> Any:
    """The tensor without its dimensions of 1, or without those that are named."""
    if keras_ops(input) is not None:
        return keras_ops(input).squeeze(input, axis)
    value = convert(input)
    chosen = static(axis)
    chosen = tuple(chosen) if isinstance(chosen, list) else chosen
    try:
        return Tensor(_arranged("squeeze", value, axis=chosen))
    except ValueNeedsPython:
        raise
    except ValueError as error:
        raise InvalidArgumentError(None, None, f"Can not squeeze: {error}") from None


def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: Any = "transpose") -> Any:
    """The dimensions in another order; reversed by default."""
    order = None if perm is None else static_shape(perm)
    if keras_ops(a) is not None:
        return keras_ops(a).transpose(a, order)
    value = convert(a)
    return Tensor(_arranged("transpose", value.conj() if conjugate else value, axes=order))


def _aligned(values: Any) -> list[Any]:
    """Raw arrays of one dtype: Python's values take the one of the first tensor."""
    kinds = [raw(each).dtype for each in values if hasattr(raw(each), "dtype")]
    arrays = [convert(each, None if hasattr(raw(each), "dtype") else (kinds or [None])[0])
              for each in values]  # fmt: skip
    found = {each.dtype for each in arrays}
    if len(found) > 1 and not any(isinstance(each, jax.core.Tracer) for each in arrays):
        names = sorted(dtypes.of_array(each).name for each in found)
        raise InvalidArgumentError(
            None, None, f"cannot join tensors of different dtypes: {', '.join(names)}"
        )
    return arrays


def _joined(name: str, arrays: list[Any], axis: int) -> Any:
    """Raw arrays concatenated or stacked."""
    if xp_of(*arrays) is np:
        return getattr(np, name)(arrays, axis)
    return compute_as_one(_joined_by_jax, *arrays, name=name, axis=axis)


def _joined_by_jax(*arrays: Any, name: str, axis: int) -> Any:
    return getattr(jnp, name)(arrays, axis)


def concat(values: Any, axis: Any, name: Any = "concat") -> Any:
    """Tensors one behind the other along a dimension that is there.

    Raises:
        InvalidArgumentError: their shapes or dtypes differ.
    """
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    if keras_ops(*values) is not None:
        return keras_ops(*values).concatenate(values, axis)
    arrays = _aligned(values)
    try:
        return Tensor(_joined("concatenate", arrays, static(axis)))
    except ValueNeedsPython:
        raise
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(None, None, f"ConcatOp: {error}") from None


def stack(values: Any, axis: int = 0, name: Any = "stack") -> Any:
    """Tensors side by side along a new dimension."""
    values = list(values)
    if keras_ops(*values) is not None:
        return keras_ops(*values).stack(values, axis)
    arrays = _aligned(values)
    try:
        return Tensor(_joined("stack", arrays, static(axis)))
    except ValueNeedsPython:
        raise
    except ValueError as error:
        raise InvalidArgumentError(None, None, f"Pack: {error}") from None


def unstack(value: Any, num: Any = None, axis: int = 0, name: Any = "unstack") -> list[Tensor]:
    """The parts of a tensor along a dimension."""
    array = convert(value)
    if xp_of(array) is np:
        return [Tensor(each) for each in np.moveaxis(array, axis, 0)]
    return [Tensor(each) for each in compute_as_one(_parts, array, axis=axis)]


def _parts(array: Any, axis: int) -> list[Any]:
    return list(jnp.moveaxis(array, axis, 0))


def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: Any = None, name: Any = "split"
) -> list[Tensor]:
    """Parts of a tensor along a dimension: so many equal ones, or of these sizes; -1 for a rest."""
    array, sizes, along = convert(value), static(num_or_size_splits), static(axis)
    total = array.shape[along]
    if isinstance(sizes, int):
        if total % sizes:
            raise InvalidArgumentError(None, None, f"{sizes} does not divide {total}")
        sizes = [total // sizes] * sizes
    if -1 in sizes:
        rest = total - sum(each for each in sizes if each != -1)
        sizes = [rest if each == -1 else each for each in sizes]
    if sum(sizes) != total:
        raise InvalidArgumentError(None, None, f"sizes {sizes} must sum to {total}")
    ends = np.cumsum(sizes)[:-1].tolist()
    parts = _arranged("split", array, indices_or_sections=ends, axis=along)
    return [Tensor(each) for each in parts]


def tile(input: Any, multiples: Any, name: Any = None) -> Tensor:
    """The tensor repeated along each dimension."""
    value = convert(input)
    xp = xp_of(value)
    if xp is np:
        return Tensor(np.tile(value, static_shape(multiples)))
    return Tensor(compute_as_one(jnp.tile, value, reps=static_shape(multiples)))


def repeat(input: Any, repeats: Any, axis: Any = None, name: Any = None) -> Tensor:
    """The elements, each so many times."""
    value = convert(input)
    return Tensor(xp_of(value).repeat(value, np.asarray(static(repeats)), static(axis)))


def broadcast_to(input: Any, shape: Any, name: Any = None) -> Tensor:
    """The tensor in a larger shape."""
    value = convert(input)
    return Tensor(_arranged("broadcast_to", value, shape=static_shape(shape)))


def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: Any = None
) -> Tensor:
    """The tensor with a border: of one value, or mirrored (``REFLECT``, ``SYMMETRIC``)."""
    value = convert(tensor)
    kind = mode.lower()
    if kind not in ("constant", "reflect", "symmetric"):
        raise ValueError(f"Value of argument `mode` expected to be one of CONSTANT, REFLECT or "
                         f"SYMMETRIC. Received: {mode}")  # fmt: skip
    widths = [tuple(each) for each in static(paddings)]
    filler = raw(constant_values)
    if getattr(getattr(value, "dtype", None), "kind", "") == "O" and isinstance(filler, int):
        filler = b""  # TensorFlow's 0 of strings
    options = {"constant_values": filler} if kind == "constant" else {}
    return Tensor(_arranged("pad", value, pad_width=widths, mode=kind, **options))


def reverse(tensor: Any, axis: Any, name: Any = None) -> Tensor:
    """The elements in the opposite order along dimensions."""
    value = convert(tensor)
    return Tensor(_arranged("flip", value, axis=static_shape(axis)))


def roll(input: Any, shift: Any, axis: Any, name: Any = None) -> Tensor:
    """The elements moved along dimensions; those at the end come first."""
    value = convert(input)
    return Tensor(_arranged("roll", value, shift=static(shift), axis=static(axis)))


def slice_(input_: Any, begin: Any, size: Any, name: Any = None) -> Tensor:
    """A part of a tensor; -1 for a size is all that is left."""
    value = convert(input_)
    begins, sizes = static_shape(begin), static_shape(size)
    if not len(begins) == len(sizes) == value.ndim:
        raise InvalidArgumentError(
            None, None, f"begin and size have {value.ndim} numbers, not {begins} and {sizes}"
        )
    parts = []
    for axis, (first, count, length) in enumerate(zip(begins, sizes, value.shape, strict=True)):
        end = length if count == -1 else first + count
        if not 0 <= first <= end <= length:
            raise InvalidArgumentError(
                None,
                None,
                f"begin[{axis}] = {first} and size[{axis}] = {count} are not in the dimension's "
                f"{length} elements",
            )
        parts.append(slice(first, end))
    return Tensor(value[tuple(parts)])


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: Any = None,
) -> Any:
    """The rows with these numbers along a dimension.

    Raises:
        InvalidArgumentError: there is no row with a number; in a compiled function such rows are
            NaN, and integers the least of their dtype.
    """
    values, rows = convert(params), convert(indices)
    xp = xp_of(values, rows)
    along = batch_dims if axis is None else operator.index(static(axis))
    along += len(values.shape) if along < 0 else 0
    if not is_traced(rows) and rows.size:
        most, known = values.shape[along], np.asarray(rows)
        if known.min() < 0 or known.max() >= most:
            wrong = known[(known < 0) | (known >= most)].ravel()[0]
            raise InvalidArgumentError(None, None, f"indices = {wrong} is not in [0, {most})")
    batch = batch_dims + (len(rows.shape) if batch_dims < 0 else 0)
    if not batch:
        return Tensor(_arranged("take", values, rows, axis=along))

    def take(a: Any, i: Any, left: int, at: int) -> Any:
        if not left:
            return xp.take(a, i, axis=at)
        return xp.stack([take(x, y, left - 1, at - 1) for x, y in zip(a, i, strict=True)])

    return Tensor(take(values, rows, batch, along))


_POLICIES = ("", "DEFAULT", "ERROR", "IGNORE")
"""What TensorFlow lets one choose for positions that are outside; the first two are "ERROR"."""


def _inside(positions: Any, shape: tuple[int, ...], policy: str) -> Any:
    """Which of the positions are in a shape; None if all are, or if that is not known.

    Raises:
        InvalidArgumentError: a position is outside, and the policy is not to ignore it.
    """
    if policy not in _POLICIES:
        raise ValueError(f"bad_indices_policy is one of {_POLICIES}, not {policy!r}")
    depth = positions.shape[-1]
    if depth > len(shape):
        raise InvalidArgumentError(
            None, None, f"positions of {depth} numbers, of a tensor of {len(shape)} dimensions"
        )
    if is_traced(positions):
        if policy == "IGNORE":
            return ((positions >= 0) & (positions < np.asarray(shape[:depth]))).all(-1)
        return None
    known = np.asarray(positions)
    inside = ((known >= 0) & (known < np.asarray(shape[:depth], np.int64))).all(-1)
    if inside.all():
        return None
    if policy != "IGNORE":
        place = tuple(map(int, np.argwhere(~inside)[0]))
        raise InvalidArgumentError(
            None,
            None,
            f"indices{list(place)} = {known[place].tolist()} does not index into shape "
            f"{list(shape)}",
        )
    return inside


def gather_nd(
    params: Any,
    indices: Any,
    batch_dims: int = 0,
    name: Any = None,
    bad_indices_policy: str = "",
) -> Tensor:
    """The elements or parts at positions, which the last dimension of ``indices`` gives.

    Raises:
        InvalidArgumentError: a position is outside; with ``bad_indices_policy="IGNORE"`` zeros are
            there. A compiled function does not raise: there it is the nearest one.
    """
    values, positions = convert(params), convert(indices)
    xp = xp_of(values, positions)
    if batch_dims:
        pairs = zip(values, positions, strict=True)
        made = [
            gather_nd(Tensor(a), Tensor(i), batch_dims - 1, None, bad_indices_policy)._value
            for a, i in pairs
        ]
        return Tensor(xp.stack(made))
    inside = _inside(positions, values.shape, bad_indices_policy)
    if inside is not None:
        positions = xp.where(inside[..., None], positions, xp.zeros((), positions.dtype))
    found = values[tuple(xp.moveaxis(positions, -1, 0))]
    if inside is not None:
        kept = inside.reshape(*inside.shape, *(1,) * (found.ndim - inside.ndim))
        found = xp.where(kept, found, xp.zeros((), found.dtype))
    return Tensor(found)


def scatter_nd(
    indices: Any, updates: Any, shape: Any, bad_indices_policy: str = "", name: Any = None
) -> Tensor:
    """Zeros with updates added at positions; see `gather_nd` for those outside."""
    new = convert(updates)
    zeros = Tensor(np.zeros(static_shape(shape), new.dtype))
    return tensor_scatter_nd_add(zeros, indices, new, bad_indices_policy)


def _scatter(kind: str) -> Callable[..., Tensor]:
    def function(
        tensor: Any, indices: Any, updates: Any, bad_indices_policy: str = "", name: Any = None
    ) -> Tensor:
        value, positions = convert(tensor), convert(indices)
        new = convert(updates, value.dtype)
        xp = xp_of(value, positions, new)
        inside = _inside(positions, value.shape, bad_indices_policy)
        parts = value.shape[positions.shape[-1] :]
        new = xp.broadcast_to(new, (*positions.shape[:-1], *parts))
        if xp is jnp:
            if inside is not None:
                # A position past the end: JAX drops its update.
                positions = jnp.where(inside[..., None], positions, np.iinfo(np.int32).max)
            key = tuple(jnp.moveaxis(positions, -1, 0))
            return Tensor(getattr(jnp.asarray(value).at[key], kind)(new))
        if inside is not None:
            positions, new = positions[inside], new[inside]
        key = tuple(np.moveaxis(positions, -1, 0))
        made = value.copy()
        if kind == "set":
            made[key] = new
        else:
            {"add": np.add, "max": np.maximum, "min": np.minimum}[kind].at(made, key, new)
        return Tensor(made)

    function.__name__ = function.__qualname__ = f"tensor_scatter_nd_{kind}"
    function.__doc__ = f"""The tensor, in which updates are applied by ``{kind}`` at positions.

    Raises:
        InvalidArgumentError: a position is outside; with ``bad_indices_policy="IGNORE"`` its update
            is dropped, as it is in a compiled function.
    """
    return function


_scatter_set = _scatter("set")
tensor_scatter_nd_add = _scatter("add")
tensor_scatter_nd_max = _scatter("max")
tensor_scatter_nd_min = _scatter("min")


def tensor_scatter_nd_update(tensor: Any, indices: Any, updates: Any, name: Any = None) -> Tensor:
    """The tensor, in which updates stand at positions.

    Raises:
        InvalidArgumentError: a position is outside; in a compiled function its update is dropped.
    """
    return _scatter_set(tensor, indices, updates)


def tensor_scatter_nd_sub(
    tensor: Any, indices: Any, updates: Any, bad_indices_policy: str = "", name: Any = None
) -> Tensor:
    """The tensor, from which updates are subtracted at positions."""
    negative = elementwise.negative(updates)
    return tensor_scatter_nd_add(tensor, indices, negative, bad_indices_policy)


def where(condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Any:
    """Elements of ``x`` where a condition is true, else of ``y``; without these the positions."""
    if keras_ops(condition, x, y) is not None:
        return keras_ops(condition, x, y).where(condition, x, y)
    chosen = convert(condition)
    if (x is None) != (y is None):
        raise ValueError("x and y must both be non-None or both be None.")
    if x is None:
        if isinstance(chosen, jax.core.Tracer):
            raise ValueNeedsPython("the function makes an array whose shape depends on values")
        return Tensor(np.argwhere(np.asarray(chosen)))
    a, b = same_dtype(x, y, "SelectV2")
    return Tensor(_arranged("where", chosen, a, b))


def boolean_mask(tensor: Any, mask: Any, axis: Any = None, name: Any = None) -> Tensor:
    """The elements where a mask is true."""
    value, chosen = convert(tensor), convert(mask)
    if isinstance(chosen, jax.core.Tracer):
        raise ValueNeedsPython("the function makes an array whose shape depends on values")
    skipped = (slice(None),) * (0 if axis is None else static(axis))
    return Tensor(value[(*skipped, np.asarray(chosen))])


def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: Any = None,
    dtype: Any = None,
    name: Any = None,
) -> Any:
    """A row for each number that is one there and zero otherwise."""
    rows, count = convert(indices), int(static(depth))
    kind = dtypes.float32 if dtype is None else dtypes.as_dtype(dtype)
    if dtype is None and on_value is not None:
        kind = dtypes.of_array(convert(on_value).dtype)
    on = convert(1 if on_value is None else on_value, kind)
    off = convert(0 if off_value is None else off_value, kind)
    options = {"count": count, "axis": -1 if axis is None else static(axis)}
    if xp_of(rows, on, off) is np:
        return Tensor(_hot(rows, on, off, np, **options))
    return Tensor(compute_as_one(_hot, rows, on, off, xp=jnp, **options))


def _hot(rows: Any, on: Any, off: Any, xp: Any, count: int, axis: int) -> Any:
    hot = rows[..., None] == xp.arange(count, dtype=rows.dtype)
    made = xp.where(hot, on, off)
    return made if axis == -1 else xp.moveaxis(made, -1, axis)


def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = None, name: Any = None) -> Tensor:
    """For each length a row of so many True, and False behind them."""
    counts = convert(lengths)
    most = int(static(maxlen)) if maxlen is not None else int(np.max(static(counts)))
    xp = xp_of(counts)
    made = xp.arange(most) < counts[..., None]
    return Tensor(made.astype(dtypes.as_dtype(dtype or dtypes.bool_).dtype))


class UniqueValues(NamedTuple):
    """The different values, and the number of each element's."""

    y: Tensor
    idx: Tensor


UniqueValues.__name__ = UniqueValues.__qualname__ = "Unique"


class UniqueWithCounts(NamedTuple):
    """The same, and how often each value occurs."""

    y: Tensor
    idx: Tensor
    count: Tensor  # type: ignore[assignment]  # TensorFlow's name hides tuple.count


def unique(x: Any, out_idx: Any = dtypes.int32, name: Any = None) -> UniqueValues:
    """The different values in the order in which they occur, and for each element its number."""
    values, numbers, _ = unique_with_counts(x, out_idx)
    return UniqueValues(values, numbers)


def unique_with_counts(x: Any, out_idx: Any = dtypes.int32, name: Any = None) -> UniqueWithCounts:
    """As `unique`, and how often each value occurs."""
    value = np.asarray(static_array(x))
    _, first, inverse, counts = np.unique(
        value, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    numbers = np.empty_like(order)
    numbers[order] = np.arange(len(order))
    kind = dtypes.as_dtype(out_idx).dtype
    found = value[first[order]], numbers[inverse].astype(kind), counts[order].astype(kind)
    return UniqueWithCounts(*map(Tensor, found))


def static_array(x: Any) -> np.ndarray:
    """A tensor's value, which must be known.

    Raises:
        ValueNeedsPython: it belongs to a function that is being traced.
    """
    value = convert(x)
    if isinstance(value, (Symbol, jax.core.Tracer)):
        raise ValueNeedsPython("the function makes an array whose shape depends on values")
    return np.asarray(value)


def meshgrid(*args: Any, indexing: str = "xy", name: Any = None) -> list[Tensor]:
    """The coordinates of a grid."""
    arrays = [convert(each) for each in args]
    return [Tensor(each) for each in xp_of(*arrays).meshgrid(*arrays, indexing=indexing)]


def searchsorted(
    sorted_sequence: Any,
    values: Any,
    side: str = "left",
    out_type: Any = dtypes.int32,
    name: Any = None,
) -> Tensor:
    """Where values belong in sorted ones."""
    a, b = same_dtype(sorted_sequence, values, "SearchSorted")
    xp = xp_of(a, b)
    kind = dtypes.as_dtype(out_type).dtype
    if len(a.shape) == 1:
        return Tensor(xp.searchsorted(a, b, side).astype(kind))
    rows = zip(a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1]), strict=True)
    made = xp.stack([xp.searchsorted(x, y, side) for x, y in rows])
    return Tensor(made.reshape(b.shape).astype(kind))


def group(*inputs: Any, name: Any = None) -> Any:
    """An operation in an Estimator's model_fn, if one of the inputs is something; else nothing.

    All have run when it is called.
    """
    found = next((each for each in inputs if getattr(each, "is_graph_op", False)), None)
    if found is None and any(each is not None for each in inputs):
        return _operation(name or "group_deps")
    return found


def no_op(name: Any = None) -> Any:
    """An operation in an Estimator's model_fn, which takes it as ``train_op``; else nothing."""
    return _operation(name or "NoOp")


def _operation(name: str) -> Any:
    from drumline.estimator.graph import GraphOp, running

    return None if running() is None else GraphOp(name)


def as_numpy(value: Any) -> Any:
    """Nested tensors as numpy's arrays."""
    return map_structure(np.asarray, unwrap(value))
