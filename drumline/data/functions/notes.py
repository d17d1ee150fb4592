"""Saying which element an exception belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_LONGEST = 200
"""Bytes of a string that may tell an element from others, such as a path: no file's contents."""


def at_element(error: Exception, index: int, where: str) -> Exception:
    """Adds to ``error`` (its type and traceback stay the user's) the element it was raised for.

    The index is also put in the attribute ``element_index``. A ``StopIteration`` becomes a
    ``RuntimeError``, as `raised_for_good` has it.
    """
    error = raised_for_good(error)
    if not hasattr(error, "element_index"):
        error.element_index = index  # type: ignore[attr-defined]
        error.add_note(f"drumline: raised for element {index} of {where}")
    return error


def raised_for_good(error: Exception) -> Exception:
    """``error``, or a ``RuntimeError`` in place of a ``StopIteration``, as generators have it.

    A ``StopIteration`` that leaves a user's function (``next`` of an iterator that has ended, for
    one) would end the iteration above it as if the data had run out, and lose the rest of them.
    """
    if not isinstance(error, StopIteration):
        return error
    stopped = RuntimeError(
        "StopIteration was raised: next() of an iterator that has ended, for one, which is no end "
        "of the dataset"
    )
    stopped.__cause__ = error
    return stopped


def with_strings(error: Exception, columns: Sequence[Any], row: int) -> Exception:
    """Adds to ``error`` the short strings of the element it was raised for: files have names."""
    scalars = [c for c in columns if isinstance(c, np.ndarray) and c.ndim == 1]
    shown = [repr(column[row]) for column in scalars if _tells(column[row])]
    if shown:
        error.add_note(f"drumline: the element is {', '.join(shown)}")
    return error


def _tells(value: Any) -> bool:
    short = isinstance(value, bytes) and 0 < len(value) <= _LONGEST
    return short and value.isascii() and value.decode().isprintable()
