"""Where each output leaf of a traced function comes from."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Passed:
    """Value ``leaf``, an input leaf or a native operation's result, untouched by XLA."""

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
