"""Operations on each string alone."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import numpy as np

from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec
from drumline.data.native.flat import flat
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.data.native.string_specs import one, require_strings, with_dtype

Bad = tuple[int, str]
"""Which of the values has no result, and why."""


class Elementwise(NativeOperation):
    """Makes one value of each string, wherever in an array it is."""

    @property
    def dtype(self) -> np.dtype:
        """Of the results."""
        return STRING

    @abc.abstractmethod
    def compute(self, values: np.ndarray) -> tuple[np.ndarray, Bad | None]:
        """Results for strings (n,): all, or those before the first that has none."""

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (strings,) = arguments
        require_strings(self.name, strings)
        return one(with_dtype(strings, self.dtype))

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        given = flat(columns[0])
        made, bad = self.compute(given.values)
        if bad is None:
            return Rows([given.put(made)])
        place, reason = bad
        row = given.row_of(place)
        before = given.head(row)
        return Rows([before.put(made[: len(before.values)])], failure(self.name, reason))


def failure(name: str, reason: str) -> ValueError:
    """What is raised for a value without a result."""
    return ValueError(f"{name}: {reason}")


def shown(value: bytes) -> str:
    """A string in a message."""
    return repr(value if len(value) <= 60 else value[:57] + b"...")
