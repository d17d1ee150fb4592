"""How ``tf.experimental.numpy`` makes arrays of what users pass, and promotes their dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.compat.values import dtypes
from drumline.compat.values.computing import compute
from drumline.compat.values.convert import cast_array, convert, is_jax, is_traced, raw, static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.promotion import Kind, combined, is_weak, leaves, rules
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.tensor import Tensor
from drumline.data.functions.native.symbol import Symbol, ValueNeedsPython


def result_type(*arrays_and_dtypes: Any) -> dtypes.DType:
    """The dtype that arrays, numbers and dtypes have in common, by the rules in force.

    Example:
        >>> tnp.result_type(tnp.int32, 1.5)
        tf.float64
    """
    return kind_of(*arrays_and_dtypes)[0]


def kind_of(*arrays_and_dtypes: Any) -> Kind:
    """`result_type`, and whether it is weak."""
    if rules.auto:
        return combined(leaves(arrays_and_dtypes))
    found = [_for_numpy(each) for each in leaves(arrays_and_dtypes)] or [np.dtype(np.float64)]
    return dtypes.as_dtype(np.result_type(*found)), False


def _for_numpy(value: Any) -> Any:
    """What numpy's `result_type` takes: a dtype of arrays, and Python's numbers as they are."""
    if isinstance(value, (bool, int)):
        return value
    if isinstance(value, np.generic):
        return value.dtype
    if isinstance(value, (float, complex)):
        if rules.prefer_float32:
            return np.dtype(np.float32 if isinstance(value, float) else np.complex64)
        return value
    if isinstance(value, dtypes.DType):
        return value.dtype
    if isinstance(value, TensorShape):
        return np.dtype(np.int32)
    dtype = getattr(value, "dtype", None)
    if dtype is not None and not isinstance(value, (type, np.dtype)):
        return dtypes.as_dtype(dtype).dtype
    return value


def default_float() -> np.dtype:
    """The dtype of floats of integers: float64; float32 by ``all`` and ``safe``."""
    return result_type(float).dtype


def numpy_type(dtype: Any) -> np.dtype | None:
    """numpy's dtype of one that users pass, where ``float`` is `default_float`; None for None."""
    return None if dtype is None else result_type(dtype).dtype


def array_of(value: Any, dtype: Any = None) -> Any:
    """The array, without a tensor around it, of what users pass.

    Python's numbers and lists have numpy's dtypes (int64, float64).

    Args:
        value: a tensor, array, number, or nested lists of them.
        dtype: numpy's dtype to cast to.
    """
    given: Any = raw(value)
    if given is None:
        raise ValueError("Attempt to convert a value (None) with an unsupported type to a Tensor.")
    if isinstance(given, Symbol):
        raise ValueNeedsPython("the function computes with a string")
    if isinstance(given, range):
        given = list(given)
    if is_jax(given) or isinstance(given, (np.ndarray, np.generic)):
        made: Any = given if is_jax(given) else convert(given)
        return made if dtype is None or dtype == made.dtype else cast(made, dtype)
    texts = all(isinstance(each, (str, bytes)) for each in leaves(given))
    if texts and not (isinstance(given, (list, tuple)) and not list(leaves(given))):
        return convert(given)
    wanted = dtype if dtype is not None else result_type(given).dtype
    return _of_nested(given, wanted)


def _of_nested(value: Any, dtype: np.dtype) -> Any:
    if isinstance(value, (list, tuple)) and not all(
        isinstance(each, (bool, int, float, complex)) for each in leaves(value)
    ):
        parts = [_of_nested(each, dtype) for each in value]
        try:
            return (jnp if any(map(is_jax, parts)) else np).stack(parts)
        except ValueError:
            raise ValueError("Can't convert non-rectangular Python sequence to Tensor.") from None
    if isinstance(value, (bool, int, float, complex, list, tuple)):
        try:
            made = np.asarray(value)
        except ValueError:
            raise ValueError("Can't convert non-rectangular Python sequence to Tensor.") from None
        outside = made.dtype.kind == "u" and dtype == np.int64 and made.max(initial=0) > _LARGEST
        if made.dtype.kind == "O" or outside or _is_mixed(made, value, dtype):
            raise ValueError("Can't convert Python sequence with out-of-range integer to Tensor.")
        return cast(made, dtype)
    return array_of(value, dtype)


_LARGEST = np.iinfo(np.int64).max


def _is_mixed(made: np.ndarray, value: Any, dtype: np.dtype) -> bool:
    """Whether numpy has made floats of integers alone, since they fit no type of integers."""
    return (
        made.dtype.kind == "f"
        and made.size > 0
        and dtype.kind in "iu"
        and all(isinstance(each, int) for each in leaves(value))
    )


def cast(array: Any, dtype: Any) -> Any:
    """An array in another dtype; of complex numbers real ones take the real part."""
    wanted = np.dtype(dtype)
    if is_traced(array):  # compiled functions have 32 bits, unless an argument has 64
        wanted = np.dtype(jax.dtypes.canonicalize_dtype(wanted))
    if array.dtype == wanted:
        return array
    if array.dtype.kind == "c" and wanted.kind not in "cb":
        array = array.real
    with np.errstate(all="ignore"):
        return cast_array(array, wanted)


def promoted(*values: Any) -> tuple[list[Any], bool]:
    """Arrays of one dtype, and whether it is weak."""
    if not rules.auto and all(type(each) is Tensor for each in values):
        arrays = [each._value for each in values]
        kinds = {each.dtype for each in arrays}
        if len(kinds) == 1 and not any(isinstance(each, Symbol) for each in arrays):
            return arrays, False
    dtype, weak = kind_of(*values)
    arrays = [array_of(each, dtype.dtype) for each in values]
    traced = next((each for each in arrays if is_traced(each)), None)
    if traced is not None:
        arrays = [cast(each, traced.dtype) for each in arrays]
    return arrays, weak


def weakness(*values: Any) -> bool:
    """Whether what is made of these alone is weak."""
    return rules.auto and all(
        is_weak(each) or (type(each) in (int, float, complex)) for each in leaves(values)
    )


def result(array: Any, weak: bool = False) -> Tensor:
    """A tensor of an array."""
    made = Tensor(array)
    if weak:
        made._weak = True
    return made


def apply(name: str, *arrays: Any, **options: Any) -> Any:
    """numpy's function of this name of numpy's arrays, JAX's if one is JAX's.

    Raises:
        InvalidArgumentError: shapes or axes do not fit, as numpy says.
    """
    return call(getattr(np, name), getattr(jnp, name), *arrays, **options)


def call(
    of_numpy: Callable[..., Any], of_jax: Callable[..., Any], *arrays: Any, **options: Any
) -> Any:
    """One of two functions, by whose arrays they are; see `apply`."""
    try:
        if any(map(is_jax, arrays)):
            return compute(of_jax, *arrays, **options)
        with np.errstate(all="ignore"):
            return of_numpy(*arrays, **options)
    except (ValueError, IndexError) as error:
        if isinstance(error, ValueNeedsPython):
            raise
        raise InvalidArgumentError(None, None, str(error)) from None


def axes_of(axis: Any) -> Any:
    """An axis, or several as a tuple, that users give as numbers or tensors."""
    found = static(axis)
    return tuple(map(int, found)) if isinstance(found, list) else found


def xp_of(*arrays: Any) -> Any:
    """`jax.numpy` if an array is JAX's, else `numpy`."""
    return jnp if any(map(is_jax, arrays)) else np
