"""Strings compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.native.apply import apply
from drumline.data.native.flat import flat
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.data.native.string_elementwise import failure
from drumline.data.native.string_specs import one, with_dtype
from drumline.data.spec import ElementSpec, TensorSpec
from drumline.strings.joining import Join


@dataclasses.dataclass(frozen=True)
class Equal(NativeOperation):
    """Whether strings at the same places are the same."""

    negated: bool

    @property
    def name(self) -> str:
        return "strings.not_equal" if self.negated else "strings.equal"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (joined,) = Join(b"").results(*arguments).leaves
        return one(with_dtype(joined, np.bool_))

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        parts = [flat(column) for column in columns]
        whole, other = parts if not parts[0].scalar else parts[::-1]
        sizes = whole.sizes()
        unequal = np.zeros(n, np.bool_) if other.scalar else other.sizes() != sizes
        bad = np.flatnonzero(unequal)
        rows = int(bad[0]) if len(bad) else n
        whole, other = whole.head(rows), other.head(rows)
        values = np.repeat(other.values, sizes[:rows]) if other.scalar else other.values
        same = np.asarray(whole.values == values, np.bool_)
        made = whole.put(~same if self.negated else same)
        if rows == n:
            return Rows([made])
        return Rows([made], failure(self.name, "arrays of different lengths are compared"))


def equal(x: Any, y: Any) -> Any:
    """Whether strings are the same, as ``tf.equal`` of strings.

    Args:
        x: strings of any shape.
        y: strings of the same shape, or one; ``x`` may be one as well.

    Returns:
        bool, in their shape.

    Raises:
        ValueError: the shapes differ.
        TypeError: they are no strings.
    """
    return apply(Equal(False), x, y)


def not_equal(x: Any, y: Any) -> Any:
    """Whether strings differ, as ``tf.not_equal``; arguments and errors are ``equal``'s."""
    return apply(Equal(True), x, y)
