"""From what users pass to arrays: `raw`, `convert`, `tensor`, and the dtypes of two operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.compat.values import dtypes
from drumline.compat.values.composite import CompositeTensor
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.tensor import Tensor
from drumline.data.elements.ragged import RaggedArray
from drumline.data.functions.native.symbol import Symbol, ValueNeedsPython

WIDE = frozenset(np.dtype(name) for name in ("int64", "uint64", "float64", "complex128"))
"""The dtypes that JAX's functions narrow, unless they are computed in a mode for 64 bits."""


def raw(value: Any) -> Any:
    """The array, tracer or symbol of what stands for a tensor; Python's numbers as they are."""
    kind = type(value)
    if kind is Tensor:
        return value._value
    if kind in (int, float, bool, str, bytes, list, tuple, np.ndarray):
        return value
    if isinstance(value, TensorShape):
        return np.asarray(value.as_list(), np.int32)
    if hasattr(value, "_is_keras_variable") or hasattr(value, "read_value"):
        return value.value
    if hasattr(value, "as_tensor_value"):
        return value.as_tensor_value()
    if hasattr(value, "iloc") and hasattr(value, "to_numpy"):
        return value.to_numpy()
    return _registered(value) if _conversions else value


# By priority and then by time: who registered first is asked first.
_conversions: list[tuple[int, Any, Callable[..., Any]]] = []


def register_tensor_conversion_function(
    base_type: Any, conversion_func: Callable[..., Any], priority: int = 100
) -> None:
    """Have a function convert objects of a class wherever a tensor is taken.

    Args:
        base_type: the class, or a tuple of classes; not tensors or numpy's arrays.
        conversion_func: of ``(value, dtype=None, name=None, as_ref=False)``: gives a tensor, or
            NotImplemented to have the next one asked.
        priority: functions of a lower one are asked first.

    Raises:
        TypeError: `base_type` is no class, or what is not to be converted otherwise.
    """
    classes = base_type if isinstance(base_type, tuple) else (base_type,)
    if not all(isinstance(each, type) for each in classes):
        raise TypeError("Argument `base_type` must be a type or a tuple of types.")
    if any(issubclass(each, (Tensor, np.ndarray, np.generic, int, float)) for each in classes):
        raise TypeError("Cannot register conversions for Python numeric types and NumPy types.")
    if not callable(conversion_func):
        raise TypeError("Argument `conversion_func` must be callable.")
    _conversions.append((priority, base_type, conversion_func))
    _conversions.sort(key=lambda each: each[0])


def _registered(value: Any) -> Any:
    for _, base_type, conversion in _conversions:
        if isinstance(value, base_type):
            made = conversion(value, dtype=None, name=None, as_ref=False)
            if made is not NotImplemented:
                return raw(made)
    return value


def is_jax(value: Any) -> bool:
    """Whether a raw value is an array or a tracer of JAX."""
    return isinstance(value, jax.Array)


def convert(value: Any, dtype: Any = None) -> Any:
    """What ``tf.convert_to_tensor`` makes of a value, without the `Tensor` around it.

    Python's numbers are int32 (int64 is needed for larger ones), float32 and bool; text is bytes.

    Args:
        value: a tensor, variable, array, number, text, or nested lists of them.
        dtype: to convert to, if the value's kind allows it.

    Raises:
        TypeError: the value cannot be of this type.
        ValueError: it is no tensor, as None, or nested lists of differing lengths.
    """
    value = raw(value)
    wanted = None if dtype is None else dtypes.as_dtype(dtype).dtype
    if isinstance(value, jax.Array):
        # `in (None, ...)` would not do: numpy's float64 equals None.
        return value if wanted is None or wanted == value.dtype else _checked_cast(value, wanted)
    if isinstance(value, Symbol):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.kind in "SU":
            return _bytes(array)
        if array.dtype.kind == "O" and wanted is not None and wanted.kind != "O":
            array = np.asarray(array.tolist())
        if array.dtype.kind == "O":
            return _bytes(array)
        return array if wanted is None or wanted == array.dtype else _checked_cast(array, wanted)
    if isinstance(value, (list, tuple)):
        return _of_sequence(value, wanted)
    if value is None:
        raise ValueError("Attempt to convert a value (None) with an unsupported type to a Tensor.")
    if isinstance(value, (RaggedArray, CompositeTensor)):
        raise TypeError(
            f"A {type(value).__name__} is no dense tensor: convert it with its to_tensor(), or "
            "tf.sparse.to_dense."
        )
    return _of_python(value, wanted)


def tensor(value: Any, dtype: Any = None) -> Tensor:
    """``tf.convert_to_tensor``; a tensor of this type as it is."""
    if type(value) is Tensor and (dtype is None or value.dtype == dtype):
        return value
    return Tensor(convert(value, dtype))


def _of_sequence(value: Any, wanted: np.dtype | None) -> Any:
    if _holds_arrays(value):
        parts = [convert(each, wanted) for each in value]
        if any(isinstance(part, Symbol) for part in parts):
            raise ValueNeedsPython("the function stacks strings")
        strongest = next((p.dtype for p, v in zip(parts, value, strict=True) if _typed(v)), None)
        parts = [p if p.dtype == strongest else convert(p, strongest) for p in parts]
        return (jnp if any(map(is_jax, parts)) else np).stack(parts)
    return _of_python(value, wanted)


def _typed(value: Any) -> bool:
    return hasattr(value, "dtype") or (isinstance(value, (list, tuple)) and _holds_arrays(value))


def _holds_arrays(value: Any) -> bool:
    for each in value:
        if type(each) in (int, float, bool, str, bytes):
            continue
        if isinstance(each, (list, tuple)):
            if _holds_arrays(each):
                return True
        elif hasattr(each, "dtype"):
            return True
    return False


def _of_python(value: Any, wanted: np.dtype | None) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError("Can't convert non-rectangular Python sequence to Tensor.") from None
    kind = array.dtype.kind
    if kind in "SU" or (kind == "O" and wanted is not None and wanted.kind == "O"):
        if wanted is not None and wanted.kind != "O":
            raise TypeError(f"Cannot convert {value!r:.60} to a tensor of {wanted}.")
        return _bytes(np.asarray(value, object))
    if kind == "O":
        texts = np.ravel(array).tolist()
        if all(isinstance(each, (str, bytes)) for each in texts):
            return _bytes(array)
        raise ValueError(
            f"Attempt to convert a value ({value!r:.60}) with an unsupported type "
            f"({type(value)}) to a Tensor."
        )
    if wanted is None:
        if kind == "i":
            small = array.size == 0 or (array.min() >= -(2**31) and array.max() < 2**31)
            if not small:
                raise ValueError(f"{value!r:.60} does not fit int32; give dtype=tf.int64.")
            return array.astype(np.int32)
        if kind == "f":
            return array.astype(np.float32)
        return array
    if wanted.kind == "O":
        if not array.size:
            return np.empty(array.shape, object)
        raise TypeError(f"Cannot convert {value!r:.60} to a tensor of strings.")
    if wanted.kind in "iu" and kind in "iu" and array.size:
        info = np.iinfo(wanted)
        if int(array.min()) < info.min or int(array.max()) > info.max:
            raise TypeError(f"Cannot convert {value!r:.60} to EagerTensor of dtype {wanted}")
    if (kind == "b") != (wanted.kind == "b") and array.size:
        raise TypeError(f"Cannot convert {value!r:.60} to EagerTensor of dtype {wanted}")
    return _checked_cast(array, wanted)


def _bytes(array: np.ndarray) -> np.ndarray:
    """An array of ``bytes`` of one of text."""
    flat = [e.encode() if isinstance(e, str) else bytes(e) for e in np.ravel(array).tolist()]
    made = np.empty(len(flat), object)
    made[:] = flat
    return made.reshape(array.shape)


def _is_whole(array: Any) -> bool:
    """Whether it is numpy's, and of floats without fractions."""
    return (
        isinstance(array, np.ndarray)
        and array.dtype.kind == "f"
        and bool(np.isfinite(array).all())
        and bool((np.trunc(array) == array).all())
    )


def _checked_cast(array: Any, wanted: np.dtype) -> Any:
    """The array in another type, which does not lose fractions or imaginary parts."""
    kind, size = array.dtype.kind, int(np.prod(array.shape))
    to_integer = wanted.kind in "iub" and not (wanted.kind in "iu" and _is_whole(array))
    if (to_integer and kind in "fcV" and size) or (kind == "c" and wanted.kind not in "c"):
        shown = np.ravel(np.asarray(array))[0] if isinstance(array, np.ndarray) else array
        raise TypeError(f"Cannot convert {shown} to EagerTensor of dtype {wanted}")
    return cast_array(array, wanted)


def cast_array(array: Any, wanted: np.dtype) -> Any:
    """The array in another type, 64-bit types as asked for."""
    if isinstance(array, jax.Array) and wanted in WIDE and not is_traced(array):
        with jax.enable_x64(True):
            return array.astype(wanted)
    return array.astype(wanted)


def is_traced(value: Any) -> bool:
    """Whether a raw value is a tracer."""
    return isinstance(value, jax.core.Tracer)


def is_wide(value: Any) -> bool:
    """Whether it is an array of JAX with 64-bit numbers, which its functions need a mode for."""
    return isinstance(value, jax.Array) and value.dtype in WIDE and not is_traced(value)


def same_dtype(x: Any, y: Any, name: str) -> tuple[Any, Any]:
    """Two operands as raw arrays of one dtype.

    A Python number, list or numpy array takes the dtype of the tensor beside it; of two numbers or
    lists the second takes that of the first.

    Raises:
        InvalidArgumentError: both are tensors, of different dtypes.
        TypeError: numbers with fractions stand beside integers.
    """
    a, b = raw(x), raw(y)
    if isinstance(a, Symbol) or isinstance(b, Symbol):
        return a, b
    a_fixed, b_fixed = _is_fixed(x, a), _is_fixed(y, b)
    if not a_fixed and not b_fixed:
        if hasattr(a, "dtype") == hasattr(b, "dtype"):
            a = convert(a)
            b = convert(b) if hasattr(b, "dtype") else convert(b, a.dtype)
            return (a, b) if a.dtype == b.dtype else _agreed(a, b, name)
        a_fixed, b_fixed = hasattr(a, "dtype"), hasattr(b, "dtype")
    if not b_fixed:
        a = convert(a)
        return a, _adopt(b, a.dtype, name)
    if not a_fixed:
        b = convert(b)
        return _adopt(a, b.dtype, name), b
    a, b = convert(a), convert(b)
    return (a, b) if a.dtype == b.dtype else _agreed(a, b, name)


def _is_fixed(given: Any, value: Any) -> bool:
    return type(given) is Tensor or isinstance(value, jax.Array) or value is not given


def _adopt(value: Any, dtype: Any, name: str) -> Any:
    try:
        return convert(value, dtype)
    except TypeError:
        return _agreed(convert(value), np.empty((), dtype), name)[0]


def _agreed(a: Any, b: Any, name: str) -> tuple[Any, Any]:
    """Operands of two dtypes: JAX's own promotion where a tracer or a weak type is, else refused.

    A traced function is traced in 32 and in 64 bits, so widths are not compared there.
    """
    lenient = is_traced(a) or is_traced(b)
    weak = getattr(a, "weak_type", False) or getattr(b, "weak_type", False)
    if weak or (lenient and a.dtype.kind == b.dtype.kind):
        found = jnp.promote_types(a.dtype, b.dtype)
        return a.astype(found), b.astype(found)
    wanted, got = dtypes.of_array(a.dtype).name, dtypes.of_array(b.dtype).name
    raise InvalidArgumentError(
        None,
        None,
        f"cannot compute {name} as input #1(zero-based) was expected to be a {wanted} tensor but "
        f"is a {got} tensor; cast one of them with tf.cast",
    )


def stacked(values: list[Any], axis: int = 0) -> Any:
    """Raw arrays stacked, by JAX if one is JAX's."""
    return (jnp if any(map(is_jax, values)) else np).stack(values, axis)


def static(value: Any) -> Any:
    """A tensor that says a shape, an axis or a size, as Python's numbers.

    Raises:
        TypeError: it belongs to a function that is being traced, so its value is not known.
    """
    value = raw(value)
    if isinstance(value, (list, tuple)):
        return [static(each) for each in value]
    if is_traced(value) or isinstance(value, Symbol):
        raise ValueNeedsPython("the function needs the value of a tensor for a shape or an axis")
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        return np.asarray(value).tolist()
    return value


def static_shape(shape: Any) -> tuple[int, ...]:
    """A shape that users give as a list of numbers and tensors, a tensor or a `TensorShape`."""
    found = static(list(shape) if isinstance(shape, TensorShape) else shape)
    return tuple(map(int, found)) if isinstance(found, list) else (int(found),)
