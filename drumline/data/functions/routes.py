"""Where each output leaf of a traced function comes from."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Passed:
    """Input leaf ``leaf``, untouched; it does not enter XLA at all."""

    leaf: int


@dataclasses.dataclass(frozen=True)
class Constant:
    """The same value for every element."""

    value: np.ndarray


@dataclasses.dataclass(frozen=True)
class Computed:
    """Output ``output`` of a compiled program, converted to ``dtype``.

    Attributes:
        wide: whether the program traced with 64-bit types computes it.
        output: the position among that program's outputs.
        dtype: what the column has.
        shape: of one element.
    """

    wide: bool
    output: int
    dtype: np.dtype
    shape: tuple[int, ...]


Route = Passed | Constant | Computed


def same_routes(a: list[Any], b: list[Any]) -> bool:
    """Whether two traces route their outputs alike."""
    if len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):
        if isinstance(x, Constant) and isinstance(y, Constant):
            if x.value.dtype != y.value.dtype or x.value.tobytes() != y.value.tobytes():
                return False
        elif x != y:
            return False
    return True
