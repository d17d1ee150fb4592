"""The rules by which operands of two dtypes get one: ``off``, ``legacy``, ``safe`` and ``all``.

They are process-wide, as in TensorFlow, and set by ``experimental_enable_numpy_behavior``:

- ``off``: functions of tensors refuse operands of two dtypes (`convert.same_dtype`).
- ``legacy``: operators, and ``tf.experimental.numpy``, promote as numpy does.
- ``all`` and ``safe``: functions of two tensors promote by `combined`. What is made of Python's
  numbers is *weak*: it takes the dtype of what stands beside it. ``safe`` refuses what may lose
  digits.

The source of the two latter is TensorFlow's guide ``tf_numpy_type_promotion``, whose table
``tests/compat/test_numpy_like_tf.py`` compares in full.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from drumline.compat.values import dtypes
from drumline.compat.values.dtypes import DType

NUMBERS = (bool, int, float, complex)
"""Python's numbers, which numpy's float64 and complex128 are, too."""

MODES = ("off", "legacy", "safe", "all")
Kind = tuple[DType, bool]
"""A dtype, and whether it is weak."""


class Promotion:
    """What is in force.

    Attributes:
        mode: one of `MODES`.
        legacy: whether operators promote as numpy's.
        auto: whether functions promote by `combined`, and tensors can be weak.
        prefer_float32: whether Python's floats are float32 in ``tf.experimental.numpy``.
    """

    mode = "off"
    legacy = False
    auto = False
    prefer_float32 = False

    def set(self, mode: str, prefer_float32: bool) -> None:
        """Put others in force.

        Raises:
            ValueError: there is no such mode.
        """
        if mode not in MODES:
            raise ValueError(
                f"The provided promotion mode {mode} does not exist. Make sure the provided dtype "
                "conversion mode is one of the followings: 'off', 'legacy', 'safe' or 'all'."
            )
        self.mode, self.prefer_float32 = mode, bool(prefer_float32)
        self.legacy, self.auto = mode == "legacy", mode in ("safe", "all")


rules = Promotion()

_WEAK = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.complex128)
_INT, _FLOAT, _COMPLEX = ((d, True) for d in (dtypes.int32, dtypes.float32, dtypes.complex128))
_BOOL, _TEXT = (dtypes.bool_, False), (dtypes.string, False)


def is_weak(value: Any) -> bool:
    """Whether a value is a tensor that takes the dtype of what stands beside it."""
    return getattr(value, "_weak", False) is True


def kind_of(value: Any) -> Kind:
    """The dtype of an array, number or dtype, and whether it is weak.

    Raises:
        OverflowError: an int of Python's does not fit int32.
        NotImplementedError: it is none of these.
    """
    if isinstance(value, DType):
        return value, False
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, (DType, np.dtype)) or hasattr(dtype, "itemsize"):
        return dtypes.as_dtype(dtype), is_weak(value)
    if isinstance(value, bool) or value is bool:
        return _BOOL
    if isinstance(value, int):
        if not -(2**31) <= value < 2**31:
            raise OverflowError(f"Python int {value} too large to convert to np.int32")
        return _INT
    for python, kind in ((int, _INT), (float, _FLOAT), (complex, _COMPLEX)):
        if value is python or isinstance(value, python):
            return kind
    if isinstance(value, (str, bytes)) or value in (str, bytes):
        return _TEXT
    if isinstance(value, (np.dtype, type)):
        return dtypes.as_dtype(value), False
    raise NotImplementedError(
        f"Auto dtype conversion semantics does not support {type(value)} type."
    )


def leaves(value: Any) -> Iterable[Any]:
    """The numbers and arrays of nested lists and tuples."""
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from leaves(each)
    else:
        yield value


def combined(values: Iterable[Any]) -> Kind:
    """The dtype that values have in common, by the rules ``all`` or ``safe``.

    Raises:
        TypeError: ``safe`` does not allow it.
        NotImplementedError: they have none in common, as text and numbers.
    """
    found: Kind | None = None
    for kind in map(kind_of, values):
        found = kind if found is None else pair(found, kind)
    return found or _FLOAT


def pair(a: Kind, b: Kind) -> Kind:
    """The dtype that two have in common, and whether it is weak; see `combined`."""
    if a == b:
        return a
    if dtypes.string in (a[0], b[0]):
        raise NotImplementedError(
            f"Implicit Conversion between {a[0]} and {b[0]} is not allowed. Please convert the "
            "input manually if you need to."
        )
    found, exact = _pair(a, b)
    if rules.mode == "safe" and not exact:
        raise TypeError(
            f"In promotion mode PromoMode.SAFE, implicit dtype promotion between ({a[0]}, "
            f"weak={a[1]}) and ({b[0]}, weak={b[1]}) is disallowed. You need to explicitly specify "
            "the dtype in your op, or relax your dtype promotion rules (such as from SAFE mode to "
            "ALL mode)."
        )
    return found


def _pair(a: Kind, b: Kind) -> tuple[Kind, bool]:
    """What two kinds have in common, and whether no digits can be lost."""
    if a[1] and b[1]:
        return max(a, b, key=lambda kind: _WEAK.index(kind[0])), True
    if _BOOL in (a, b):
        return (b if a == _BOOL else a), True
    if a[1] or b[1]:
        return _with_weak(*((a[0], b[0]) if b[1] else (b[0], a[0])))
    return _of_strong(*sorted((a[0], b[0]), key=_rank))


def _rank(kind: DType) -> int:
    return 0 if kind.is_integer else 1 if kind.is_floating else 2


def _with_weak(strong: DType, weak: DType) -> tuple[Kind, bool]:
    wide = strong.is_integer and strong.size == 8
    if weak.is_integer:
        return (strong, False), True
    if weak.is_floating:
        if strong.is_integer:
            return (dtypes.float64, True), weak == dtypes.float64 and not wide
        return (strong, False), True
    if strong.is_integer:
        return (weak, True), not wide
    if strong.is_floating and strong.size < 8:
        return (dtypes.complex64, False), False
    return (strong if strong.is_complex else weak, False), True


def _of_strong(a: DType, b: DType) -> tuple[Kind, bool]:
    """Of two dtypes that are not weak; integers stand before floats, and these before complex."""
    if a.is_integer and b.is_integer:
        if a.is_unsigned == b.is_unsigned:
            return (max(a, b, key=lambda d: d.size), False), True
        unsigned, signed = (a, b) if a.is_unsigned else (b, a)
        if unsigned.size == 8:
            return (dtypes.float64, True), False
        return (
            (dtypes.as_dtype(np.promote_types(a.dtype, b.dtype)), False),
            signed.size > unsigned.size,
        )
    if a.is_integer:
        digits = b.real_dtype.size
        return (b, False), a.size == 1 or (a.size == 2 and digits >= 4) or (a.size, digits) == (
            4,
            8,
        )
    if a.is_floating and b.is_floating:
        if a.size == b.size:
            return (dtypes.float32, False), False
        return (max(a, b, key=lambda d: d.size), False), True
    if a == dtypes.float64 and b == dtypes.complex64:
        return (dtypes.complex128, False), False
    return (max(a, b, key=lambda d: (d.is_complex, d.size)), False), True
