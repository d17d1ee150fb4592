"""The operations of integer arithmetic that workers evaluate in numpy, by JAX's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Operation = Callable[..., np.ndarray]


def _convert(x: np.ndarray, *, new_dtype: str) -> np.ndarray:
    target = np.dtype(new_dtype)
    if x.dtype.kind != "f" or target.kind not in "iu":
        return x.astype(target)
    # As XLA: towards zero, within the type's bounds, and 0 for what is no number.
    limits = np.iinfo(target)
    whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0))
    inside = np.clip(whole, float(limits.min), float(limits.max))
    return np.where(
        inside >= float(limits.max), limits.max, np.where(inside <= limits.min, limits.min, inside)
    ).astype(target)


def _broadcast(x: np.ndarray, *, shape: list[int], broadcast_dimensions: list[int]) -> np.ndarray:
    widened = [1] * len(shape)
    for size, axis in zip(x.shape, broadcast_dimensions, strict=True):
        widened[axis] = size
    made = x.reshape(widened)
    return made if widened == shape else np.broadcast_to(made, shape)


def _slice(
    x: np.ndarray, *, start_indices: list[int], limit_indices: list[int], strides: Any
) -> np.ndarray:
    steps = strides or [1] * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def _select(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    if len(cases) != 2 or which.dtype != np.bool_:
        return np.choose(which.astype(np.intp), cases)
    return np.where(which, cases[1], cases[0])


def _iota(*, dtype: str, shape: list[int], dimension: int) -> np.ndarray:
    along = [1] * len(shape)
    along[dimension] = shape[dimension]
    return np.broadcast_to(np.arange(shape[dimension], dtype=dtype).reshape(along), shape)


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    # As XLA's integers: towards zero, and no trap for a division by zero.
    by = np.where(y == 0, 1, y)
    quotient = np.sign(x) * np.sign(by) * (np.abs(x) // np.abs(by))
    return np.where(y == 0, -1, quotient).astype(x.dtype)


def _remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y))).astype(x.dtype)


def _shift_right_logical(x: np.ndarray, by: np.ndarray) -> np.ndarray:
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    return np.right_shift(x.view(unsigned), by.astype(unsigned)).view(x.dtype)


def _clamp(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(x, low), high)


OPERATIONS: Mapping[str, Operation] = {
    "abs": np.abs,
    "add": np.add,
    "and": np.bitwise_and,
    "broadcast_in_dim": _broadcast,
    "clamp": _clamp,
    "concatenate": lambda *xs, dimension: np.concatenate(xs, dimension),
    "convert_element_type": _convert,
    "copy": lambda x: x,
    "copy_p": lambda x: x,
    "div": _divide,
    "eq": np.equal,
    "expand_dims": lambda x, *, dimensions: np.expand_dims(x, tuple(dimensions)),
    "floor": np.floor,
    "ge": np.greater_equal,
    "gt": np.greater,
    "iota": _iota,
    "le": np.less_equal,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "not": np.invert,
    "or": np.bitwise_or,
    "rem": _remainder,
    "reshape": lambda x, *, new_sizes: x.reshape(new_sizes),
    "rev": lambda x, *, dimensions: np.flip(x, tuple(dimensions)),
    "select_n": _select,
    "shift_left": np.left_shift,
    "shift_right_arithmetic": np.right_shift,
    "shift_right_logical": _shift_right_logical,
    "sign": np.sign,
    "slice": _slice,
    "squeeze": lambda x, *, dimensions: np.squeeze(x, tuple(dimensions)),
    "stop_gradient": lambda x: x,
    "sub": np.subtract,
    "transpose": lambda x, *, permutation: np.transpose(x, permutation),
    "xor": np.bitwise_xor,
}
"""Each takes arrays, and its equation's parameters by name."""

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "broadcast_in_dim": ("shape", "broadcast_dimensions"),
    "concatenate": ("dimension",),
    "convert_element_type": ("new_dtype",),
    "expand_dims": ("dimensions",),
    "iota": ("dtype", "shape", "dimension"),
    "reshape": ("new_sizes",),
    "rev": ("dimensions",),
    "slice": ("start_indices", "limit_indices", "strides"),
    "squeeze": ("dimensions",),
    "transpose": ("permutation",),
}
"""The parameters that count; other operations have none."""

INTEGERS_ONLY = frozenset({"div", "rem", "abs", "sign"})
"""What numpy computes as XLA does for integers, and maybe not for others."""
