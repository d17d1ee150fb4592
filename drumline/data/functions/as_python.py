"""What holds while a user's function runs as Python: no number becomes another unnoticed.

numpy gives 0 for ``5 // np.int64(0)`` and ``5 % np.int64(0)``, with a warning. TensorFlow, Python
and compiled functions raise. Floats are divided as IEEE 754 has it everywhere: inf or nan.

``jax.numpy`` makes int32 of int64, and another number of one that does not fit, unless 64-bit types
are enabled.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

from drumline._lazy import jax
from drumline.data.elements.precision import WIDE
from drumline.data.elements.spec import STRING, TensorSpec

_OF_INTEGERS = ("remainder", "fmod")
"""What divides by zero for integers alone: of floats numpy says that the value is invalid."""

_OF_BOTH = ("floor_divide", "divmod")


@contextlib.contextmanager
def as_python(leaves: Collection[TensorSpec], wide: bool | None = None) -> Iterator[None]:
    """Around calls of a function.

    Args:
        leaves: of its argument; none where they are not known.
        wide: whether 64-bit types are enabled; by default where the argument has some.
    """
    if wide is None:
        wide = any(leaf.dtype in WIDE for leaf in leaves)
    with (
        integer_division_raises(leaves),
        jax.enable_x64(True) if wide else contextlib.nullcontext(),
    ):
        yield


def integer_division_raises(leaves: Iterable[TensorSpec]) -> np.errstate:
    """A context in which numpy raises ``ZeroDivisionError`` for integers divided by zero.

    numpy names the operation and not the types. A floor division by zero counts as one of integers
    unless all numbers that the function is given are floats.

    Args:
        leaves: of the function's argument.
    """
    kinds = {leaf.dtype.kind for leaf in leaves if leaf.dtype != STRING}
    names = _OF_INTEGERS if kinds and not kinds & set("iub") else _OF_INTEGERS + _OF_BOTH
    before = np.geterr()["divide"]
    if before == "raise":
        return np.errstate()
    return np.errstate(divide="log", call=_Report(names, before, np.geterrcall()))


class _Report:
    """What numpy reports to; all that is not for us is passed on as it would be otherwise."""

    def __init__(self, names: tuple[str, ...], before: str, others: Any):
        self._names = names
        self._before = before
        self._others = others

    def write(self, text: str) -> None:
        message = text.strip().removeprefix("Warning: ")
        what, _, name = message.rpartition(" encountered in ")
        if what != "divide by zero":
            self._others.write(text)
            return
        if name.split(" ")[-1] in self._names:
            raise ZeroDivisionError("integer division by zero")
        if self._before == "warn":
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        elif self._before == "log":
            self._others.write(text)
        elif self._before == "call":
            self._others("divide by zero", 1)
        elif self._before == "print":
            print(text, end="")

    def __call__(self, kind: str, flag: int) -> None:
        self._others(kind, flag)


@contextlib.contextmanager
def keras_writes_held() -> Iterator[list[str]]:
    """Keeps Keras variables as they are, and lists on exit that some would have been written.

    A layer with a seed, such as ``RandomFlip``, advances it whenever it is called; a traced value
    assigned to it would make the layer unusable.
    """
    written: list[str] = []
    keras = sys.modules.get("keras")
    if keras is None or not hasattr(keras, "StatelessScope"):
        yield written
        return
    with keras.StatelessScope() as scope:
        yield written
    if scope.state_mapping:
        written.append("it updates Keras variables, such as a layer's seed")
