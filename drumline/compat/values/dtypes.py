"""`DType`, as ``tf.DType``: the types of tensors, comparable with numpy's and with their names."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


class DType:
    """A type of the elements of tensors, as ``tf.DType``.

    It is equal to what numpy and text call the same type: ``tf.int64 == np.int64 == "int64"``.
    numpy and JAX take it where they take a dtype.

    Attributes:
        name: as TensorFlow has it, ``"float32"``.
        dtype: numpy's; that of objects for strings.
    """

    __slots__ = ("dtype", "name")

    def __init__(self, name: str, dtype: Any):
        self.name = name
        self.dtype = np.dtype(dtype)

    @property
    def as_numpy_dtype(self) -> Any:
        """The numpy type, ``np.float32``; ``object`` for strings."""
        return object if self.name == "string" else self.dtype.type

    @property
    def is_floating(self) -> bool:
        """Whether it is a real floating type, ``bfloat16`` among them."""
        return self.dtype.kind == "f" or self.name in _SMALL_FLOATS

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer type; bool is none."""
        return self.dtype.kind in "iu"

    @property
    def is_complex(self) -> bool:
        """Whether it is a complex type."""
        return self.dtype.kind == "c"

    @property
    def is_bool(self) -> bool:
        """Whether it is bool."""
        return self.dtype.kind == "b"

    @property
    def is_numeric(self) -> bool:
        """Whether its elements are numbers."""
        return self.is_floating or self.is_integer or self.is_complex

    @property
    def is_unsigned(self) -> bool:
        """Whether it is an integer type without a sign."""
        return self.dtype.kind == "u"

    @property
    def size(self) -> int:
        """How many bytes an element has; 1 for strings, as in TensorFlow."""
        return 1 if self.name == "string" else self.dtype.itemsize

    @property
    def base_dtype(self) -> DType:
        """Itself: there are no references."""
        return self

    @property
    def real_dtype(self) -> DType:
        """The type of the real part of a complex type; itself for others."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    @property
    def min(self) -> Any:
        """The smallest number.

        Raises:
            TypeError: it has none, as strings.
        """
        return self._limits().min

    @property
    def max(self) -> Any:
        """The largest number.

        Raises:
            TypeError: it has none, as strings.
        """
        return self._limits().max

    @property
    def limits(self) -> tuple[Any, Any]:
        """The smallest and the largest number."""
        return self.min, self.max

    def _limits(self) -> Any:
        if self.is_integer:
            return np.iinfo(self.dtype)
        if self.is_floating:
            return ml_dtypes.finfo(self.dtype)
        raise TypeError(f"Cannot find the limits of {self!r}.")

    def is_compatible_with(self, other: Any) -> bool:
        """Whether `other` is the same type."""
        return self == other

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if other is None:
            return False
        try:
            return as_dtype(other) is self
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


_SMALL_FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")

float16 = half = DType("float16", np.float16)
float32 = DType("float32", np.float32)
float64 = double = DType("float64", np.float64)
bfloat16 = DType("bfloat16", ml_dtypes.bfloat16)
int8 = DType("int8", np.int8)
int16 = DType("int16", np.int16)
int32 = DType("int32", np.int32)
int64 = DType("int64", np.int64)
uint8 = DType("uint8", np.uint8)
uint16 = DType("uint16", np.uint16)
uint32 = DType("uint32", np.uint32)
uint64 = DType("uint64", np.uint64)
complex64 = DType("complex64", np.complex64)
complex128 = DType("complex128", np.complex128)
bool_ = DType("bool", np.bool_)
string = DType("string", np.object_)
variant = DType("variant", np.void)
resource = DType("resource", np.void)
float8_e4m3fn = DType("float8_e4m3fn", ml_dtypes.float8_e4m3fn)
float8_e5m2 = DType("float8_e5m2", ml_dtypes.float8_e5m2)

_ALL = {d.name: d for d in list(globals().values()) if isinstance(d, DType)}
_NAMES = {
    **_ALL,
    "half": float16,
    "double": float64,
    "float": float32,
    "int": int32,
    "str": string,
    "bytes": string,
    "object": string,
}
_OF_NUMPY: dict[Any, DType] = {
    d.dtype: d for d in _ALL.values() if d.name not in ("variant", "resource")
}
_OF_PYTHON: dict[Any, DType] = {
    float: float32,
    int: int32,
    bool: bool_,
    complex: complex128,
    str: string,
    bytes: string,
    object: string,
}


def as_dtype(type_value: Any) -> DType:
    """The `DType` of a name, a numpy or a Python type, as ``tf.as_dtype``.

    Raises:
        TypeError: it is no type of tensors.
    """
    if type(type_value) is DType:
        return type_value
    try:
        return _OF_NUMPY[type_value]
    except (KeyError, TypeError):
        pass
    if isinstance(type_value, type) and type_value in _OF_PYTHON:
        return _OF_PYTHON[type_value]
    if isinstance(type_value, str) and type_value in _NAMES:
        return _NAMES[type_value]
    try:
        found = np.dtype(type_value)
    except TypeError:
        found = None
    if found is not None and found.kind in "SUO":
        return string
    if found is None or found not in _OF_NUMPY:
        raise TypeError(f"Cannot convert value {type_value!r} to a TensorFlow DType.")
    return _OF_NUMPY[found]


def numpy_dtype(type_value: Any) -> np.dtype | None:
    """numpy's dtype of anything that names a type; None for None."""
    return None if type_value is None else as_dtype(type_value).dtype


def of_array(dtype: Any) -> DType:
    """The `DType` of an array's dtype, quickly."""
    found = _OF_NUMPY.get(dtype)
    return as_dtype(dtype) if found is None else found
