"""Errors of data that was read, by the names of ``tf.errors``, and what messages say."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from drumline._lost_process import LostProcess


class DataLossError(ValueError):
    """A file is damaged, cut off, or not of the format it is read as.

    Attributes:
        path: of the file.
        offset: how many bytes of it, decompressed, come before the record.
        number: how many records.
    """

    def __init__(self, message: str, path: str, offset: int, number: int):
        super().__init__(f"{path}: record {number}, at byte {offset}: {message}")
        self.path = path
        self.offset = offset
        self.number = number
        self._message = message

    def __reduce__(self) -> tuple[type, tuple[str, str, int, int]]:
        return type(self), (self._message, self.path, self.offset, self.number)


class WorkerDiedError(RuntimeError):
    """Workers of a data service ended in turn when they were to compute an element.

    Attributes:
        where: of which the element is one.
        position: how many of it come before the element.
        how: what is known of the last one's end.
        element_index: the element's position in the whole; ``None`` where that is not known.
    """

    element_index: int | None = None

    def __init__(self, where: str, position: int, how: str):
        super().__init__(
            LostProcess("A worker of distribute", how).report(
                f"Each worker that computes element {position} of {where} ends",
                "What makes this element ends its process, as by a crash in native code or for "
                "lack of memory: mend it, or pass over the element with ignore_errors()",
            )
        )
        self.where = where
        self.position = position
        self.how = how

    def __reduce__(self) -> tuple[type, tuple[str, int, str]]:
        return type(self), (self.where, self.position, self.how)


class IteratorStateError(ValueError):
    """What ``restore`` was given is no state of the iterator's plan, or is damaged."""


class CsvError(ValueError):
    """A record of comma-separated values is not as it should be.

    Attributes:
        path: of the file.
        line: where the record begins, from 1 on.
        column: which one it is in, if it is in one, by number from 1 on and name.
        offset: how many bytes of the file, decompressed, come before the record.
    """

    def __init__(self, message: str, path: str, line: int, column: str | None, offset: int):
        place = f"line {line}" if column is None else f"line {line}, {column}"
        super().__init__(f"{path}: {place}: {message}")
        self.path = path
        self.line = line
        self.column = column
        self.offset = offset
        self._message = message

    def __reduce__(self) -> tuple[type, tuple[str, str, int, str | None, int]]:
        return type(self), (self._message, self.path, self.line, self.column, self.offset)


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


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A sentence for a message with the nearest of `names` and a space behind it, or nothing."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"Did you mean {close[0]!r}? " if close else ""
