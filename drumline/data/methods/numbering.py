"""Datasets of numbers that never end."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from drumline.data.methods.arguments import seed_of
from drumline.data.methods.planned import Planned, named
from drumline.data.plan import numbers
from drumline.data.spec import as_dtype


class Numbering(Planned):
    """``counter`` and ``random``."""

    @classmethod
    def counter(
        cls, start: Any = 0, step: Any = 1, dtype: Any = np.int64, name: str | None = None
    ) -> Self:
        """``start``, ``start + step``, and so on, as ``dtype``.

        A number that does not fit raises ``OverflowError`` when it is its turn.

        Raises:
            TypeError: ``dtype`` is no integer or floating-point type.
            ValueError: ``start`` or ``step`` is no integer, for an integer type.
        """
        kind = as_dtype(dtype)
        if kind.kind not in "iuf":
            raise TypeError(f"counter: dtype must be a number type, not {kind}")
        given = []
        for value, what in ((start, "start"), (step, "step")):
            number = np.asarray(value).item()
            if kind.kind in "iu" and int(number) != number:
                raise ValueError(f"counter: {what} must be an integer for {kind}, got {value!r}")
            given.append(int(number) if kind.kind in "iu" else float(number))
        return cls(named(numbers.Counter((), given[0], given[1], kind), name))

    @classmethod
    def random(
        cls,
        seed: int | None = None,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """Random int64 numbers, uniform from 0 to 2**32 - 1.

        Args:
            seed: what they follow from. ``None`` draws one now, from Python's ``random``.
            rerandomize_each_iteration: whether each epoch, and each pass of a ``repeat``, has other
                numbers; by default not.
            name: shown by ``explain()``.
        """
        drawn = seed_of(seed, "random")
        return cls(named(numbers.Random((), drawn, bool(rerandomize_each_iteration)), name))
