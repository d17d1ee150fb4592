"""Split expressions as ``"train[:80%]+test"``: what they select, in rows.

The rules are those of ``tfds`` (https://www.tensorflow.org/datasets/splits): boundaries as in
Python slices, in rows or in percent; percents rounded to the closest row, halves to even.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import NoReturn

from drumline.data.elements.errors import did_you_mean

ALL = "all"
_NAME = re.compile(r"[\w-]+")
_BOUNDARY = re.compile(r"(?P<value>-?\d[\d_]*(?:\.\d+)?)\s*(?P<unit>%|[A-Za-z]+)?")
_EXAMPLES = "Write it as 'train', 'train[:80%]', 'train[10:20]' or 'train[:10%]+test[-5:]'."


@dataclasses.dataclass(frozen=True)
class RowRange:
    """Rows `start` (included) to `stop` (excluded) of the split `name`."""

    name: str
    start: int
    stop: int


@dataclasses.dataclass(frozen=True)
class _Boundary:
    value: float
    percent: bool

    def row(self, rows: int) -> int:
        at = round(self.value * rows / 100.0) if self.percent else int(self.value)
        return at + rows if at < 0 else at

    def within(self, rows: int) -> bool:
        return abs(self.value) <= (100 if self.percent else rows)


def resolve_split(expression: str, sizes: Mapping[str, int]) -> list[RowRange]:
    """The row ranges an expression selects, in its order.

    Args:
        expression: split names, each with or without a slice, joined by ``+``; ``"all"`` stands
            for every split, in order.
        sizes: the number of rows of each split there is.

    Raises:
        ValueError: the expression is malformed (the message says where), names a split there is
            not, reaches beyond a split's rows, or selects nothing of one.
    """
    if not isinstance(expression, str):
        raise TypeError(f"A split expression is a string, got {expression!r}. {_EXAMPLES}")
    return _Scanner(expression, sizes).ranges()


class _Scanner:
    """Reads an expression from left to right."""

    def __init__(self, expression: str, sizes: Mapping[str, int]) -> None:
        self._text = expression
        self._at = 0
        self._sizes = sizes

    def ranges(self) -> list[RowRange]:
        found = self._term()
        while self._take("+"):
            found += self._term()
        if self._at < len(self._text):
            self._malformed("'+' or the end")
        return found

    def _term(self) -> list[RowRange]:
        self._skip_spaces()
        begin = self._at
        name = self._match(_NAME)
        if name is None:
            self._malformed("the name of a split")
        split = name[0]
        if split == ALL and ALL not in self._sizes:
            if self._take("["):
                raise ValueError(f"Split {self._text!r}: 'all' cannot be sliced; slice each split.")
            return [RowRange(other, 0, rows) for other, rows in self._sizes.items()]
        if split not in self._sizes:
            raise ValueError(
                f"Unknown split {split!r} in {self._text!r}. {_choices(split, self._sizes)}"
            )
        rows = self._sizes[split]
        return [self._slice(split, rows, begin) if self._take("[") else RowRange(split, 0, rows)]

    def _slice(self, split: str, rows: int, begin: int) -> RowRange:
        first = self._boundary()
        if not self._take(":"):
            self._malformed("':' (a slice has two sides, as [:80%])")
        last = self._boundary()
        if not self._take("]"):
            self._malformed("a number, a percentage or ']'")
        term = self._text[begin : self._at].strip()
        _check_boundaries(term, rows, first, last)
        start = first.row(rows) if first else 0
        stop = last.row(rows) if last else rows
        if start >= stop:
            raise ValueError(
                f"Split {term!r} selects no example: of {rows} rows, [{start}:{stop}]."
            )
        return RowRange(split, start, stop)

    def _boundary(self) -> _Boundary | None:
        self._skip_spaces()
        begin, found = self._at, self._match(_BOUNDARY)
        if found is None:
            return None
        if found["unit"] not in (None, "%"):
            self._at = begin + found.start("unit") - found.start()
            self._malformed("a number of rows or a percentage")
        percent = found["unit"] == "%"
        if "." in found["value"] and not percent:
            self._at = begin
            self._malformed("a whole number of rows")
        return _Boundary(float(found["value"]) if percent else int(found["value"]), percent)

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found:
            self._at = found.end()
        return found

    def _take(self, character: str) -> bool:
        self._skip_spaces()
        taken = self._text.startswith(character, self._at)
        self._at += taken
        return taken

    def _skip_spaces(self) -> None:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1

    def _malformed(self, expected: str) -> NoReturn:
        found = repr(self._text[self._at]) if self._at < len(self._text) else "its end"
        raise ValueError(
            f"Malformed split {self._text!r}: expected {expected} at character {self._at + 1}, "
            f"found {found}. {_EXAMPLES}"
        )


def _check_boundaries(
    term: str, rows: int, first: _Boundary | None, last: _Boundary | None
) -> None:
    given = [boundary for boundary in (first, last) if boundary is not None]
    if len({boundary.percent for boundary in given}) > 1:
        raise ValueError(f"Split {term!r} mixes rows and percent; use one unit for both sides.")
    for boundary in given:
        if not boundary.within(rows):
            limit = "100%" if boundary.percent else f"the split's {rows} rows"
            raise ValueError(f"Split {term!r} reaches beyond {limit}.")


def _choices(name: str, sizes: Mapping[str, int]) -> str:
    return f"{did_you_mean(name, sizes)}There are: {', '.join(sizes)}."
