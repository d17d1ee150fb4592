"""Arithmetic with constants that a native operation does on its results by itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}

OPERATORS = frozenset(_SIGNS)

SUMS = frozenset({"add", "sub"})

Rounded = tuple[str, list[float], list[float]]
"""``"add"`` or ``"mul"`` and the constants, or ``"mul_add"``, which rounds once, and both's."""


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """A step on float32 values.

    Attributes:
        operator: the name of JAX's primitive, of ``OPERATORS``; the constant is on its right.
        constants: one, or one for each channel (the last dimension).
    """

    operator: str
    constants: tuple[float, ...]

    def __str__(self) -> str:
        shown = [f"{constant:g}" for constant in self.constants]
        constants = shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
        return f"{_SIGNS[self.operator]} {constants}"

    def added_or_multiplied(self) -> list[float]:
        """What is added or multiplied with instead of subtracted or divided by, as XLA does."""
        constants = np.asarray(self.constants, np.float32)
        if self.operator == "sub":
            constants = -constants
        elif self.operator == "div":
            constants = np.float32(1) / constants
        return [float(constant) for constant in constants]


def described(name: str, arithmetic: Sequence[Arithmetic]) -> str:
    """An operation's name and what it then does."""
    return ", ".join([name, *map(str, arithmetic)])


def rounded(arithmetic: Sequence[Arithmetic]) -> list[Rounded]:
    """At most two steps as the Rust core takes them, rounded where XLA's programs round."""
    names = ["add" if step.operator in SUMS else "mul" for step in arithmetic]
    constants = [step.added_or_multiplied() for step in arithmetic]
    if names == ["mul", "add"]:
        factors, added = constants
        return [("mul_add", factors, added)]
    return [(name, values, []) for name, values in zip(names, constants, strict=True)]
