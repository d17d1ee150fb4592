"""Split expressions as ``"train[:80%]+test"``: what they select, in rows.

The rules are those of ``tfds`` (https://www.tensorflow.org/datasets/splits): boundaries as in
Python slices, in rows, in percent or in shards; percents rounded to the closest row, halves to
even. `Split` and its kin are expressions that are no text.
"""

from __future__ import annotations

import abc
import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn

from drumline.data.elements.errors import did_you_mean
from drumline.data.plan.node import count_of

ALL = "all"
_NAME = re.compile(r"[\w-]+")
_BOUNDARY = re.compile(r"(?P<value>-?\d[\d_]*(?:\.\d+)?)\s*(?P<unit>%|[A-Za-z]+)?")
_EXAMPLES = "Write it as 'train', 'train[:80%]', 'train[10:20]' or 'train[:10%]+test[-5:]'."
_UNITS = {None: "abs", "%": "%", "shard": "shard"}

Sizes = Mapping[str, int | Sequence[int]]
"""Of each split the number of rows, or that of each of its shards."""


@dataclasses.dataclass(frozen=True)
class RowRange:
    """Rows `start` (included) to `stop` (excluded) of the split `name`."""

    name: str
    start: int
    stop: int


@dataclasses.dataclass(frozen=True)
class _Boundary:
    value: float
    unit: str
    rounding: str = "closest"

    def row(self, shards: Sequence[int]) -> int:
        rows = sum(shards)
        if self.unit == "shard":
            return sum(shards[: int(self.value)])
        if self.unit == "%":
            if self.rounding == "closest":
                at = round(self.value * rows / 100.0)
            else:
                at = int(self.value * math.trunc(rows / 100.0))
        else:
            at = int(self.value)
        return at + rows if at < 0 else at

    def within(self, shards: Sequence[int]) -> bool:
        most = {"%": 100, "shard": len(shards), "abs": sum(shards)}[self.unit]
        return abs(self.value) <= most


class AbstractSplit(abc.ABC):
    """A part of a dataset, as ``tfds.core.AbstractSplit``; ``+`` joins parts."""

    @abc.abstractmethod
    def ranges(self, sizes: Sizes) -> list[RowRange]:
        """Return the rows that it selects, in order.

        Raises:
            ValueError: there is no such split, or it has too few rows.
        """

    def __add__(self, other: AbstractSplit | str) -> AbstractSplit:
        return _Union((self, as_split(other)))

    def __radd__(self, other: str) -> AbstractSplit:
        return _Union((as_split(other), self))


def as_split(split: AbstractSplit | str) -> AbstractSplit:
    """Return a split expression as an object.

    Raises:
        TypeError: it is no expression.
    """
    if isinstance(split, AbstractSplit):
        return split
    if not isinstance(split, str):
        raise TypeError(f"A split expression is a string, got {split!r}. {_EXAMPLES}")
    return _Text(split)


@dataclasses.dataclass(frozen=True)
class _Text(AbstractSplit):
    text: str

    def ranges(self, sizes: Sizes) -> list[RowRange]:
        return _Scanner(self.text, sizes).ranges()

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class _Union(AbstractSplit):
    parts: tuple[AbstractSplit, ...]

    def ranges(self, sizes: Sizes) -> list[RowRange]:
        return [found for part in self.parts for found in part.ranges(sizes)]

    def __str__(self) -> str:
        return "+".join(map(str, self.parts))


@dataclasses.dataclass(frozen=True)
class ReadInstruction(AbstractSplit):
    """A slice of a split, as ``tfds.core.ReadInstruction``.

    Attributes:
        split_name: of the split.
        from_: where it begins; at the first row unless given.
        to: before what it ends; after the last row unless given.
        unit: ``"abs"``: rows; ``"%"``: percent; ``"shard"``: files.
        rounding: of percents: ``"closest"``, or ``"pct1_dropremainder"``: a percent is always the
            same number of rows, and up to 99 at the end belong to none.

    Raises:
        ValueError: an attribute is none of these.

    Example:
        >>> dl.datasets.ReadInstruction("train", to=10, unit="%")
        ReadInstruction('train[:10%]')
    """

    split_name: str
    from_: float | None = None
    to: float | None = None
    unit: str = "abs"
    rounding: str = "closest"

    def __post_init__(self) -> None:
        if self.unit not in _UNITS.values():
            raise ValueError(f"unit must be 'abs', '%' or 'shard', got {self.unit!r}")
        if self.rounding not in ("closest", "pct1_dropremainder"):
            raise ValueError(
                f"rounding must be 'closest' or 'pct1_dropremainder', got {self.rounding!r}"
            )

    def ranges(self, sizes: Sizes) -> list[RowRange]:
        shards = _shards(self.split_name, sizes, self.split_name)
        if self.unit == "%" and self.rounding != "closest" and sum(shards) < 100:
            raise ValueError(
                f"{self}: of {sum(shards)} rows, a percent without remainder is none; 100 are "
                "needed"
            )
        ends = [
            None if at is None else _Boundary(at, self.unit, self.rounding)
            for at in (self.from_, self.to)
        ]
        return [_range_of(str(self), self.split_name, shards, *ends)]

    def __str__(self) -> str:
        unit = "" if self.unit == "abs" else self.unit
        first, last = ("" if at is None else f"{at:g}{unit}" for at in (self.from_, self.to))
        whole = self.from_ is None and self.to is None
        return self.split_name if whole else f"{self.split_name}[{first}:{last}]"

    def __repr__(self) -> str:
        rounding = "" if self.rounding == "closest" else f", rounding={self.rounding!r}"
        return f"ReadInstruction({str(self)!r}{rounding})"


@dataclasses.dataclass(frozen=True)
class _EvenPart(AbstractSplit):
    split: AbstractSplit
    index: int
    count: int
    drop_remainder: bool

    def ranges(self, sizes: Sizes) -> list[RowRange]:
        found = [self._part(each) for each in self.split.ranges(sizes)]
        return [each for each in found if each.start < each.stop]

    def _part(self, whole: RowRange) -> RowRange:
        each, left = divmod(whole.stop - whole.start, self.count)
        edges = [whole.start + each * i for i in (self.index, self.index + 1)]
        if not self.drop_remainder:
            edges = [at + min(self.index + i, left) for i, at in enumerate(edges)]
        return RowRange(whole.name, *edges)

    def __str__(self) -> str:
        return f"even_splits({self.split}, {self.count})[{self.index}]"


def even_splits(
    split: AbstractSplit | str, n: int, *, drop_remainder: bool = False
) -> list[AbstractSplit]:
    """Return parts of a split of equal sizes, as ``tfds.even_splits``.

    Args:
        split: a split expression.
        n: how many parts.
        drop_remainder: whether rows that are left over belong to none; otherwise the first parts
            have one more.

    Raises:
        TypeError: the split is no expression, or `n` no number.
        ValueError: `n` is less than 1.

    Example:
        >>> first, second = dl.datasets.even_splits("train", 2)
        >>> len(dl.datasets.load("digits", split=first))
        721
    """
    count = count_of(n, "even_splits", "n", least=1)
    whole = as_split(split)
    return [_EvenPart(whole, index, count, bool(drop_remainder)) for index in range(count)]


def split_for_jax_process(
    split: AbstractSplit | str,
    *,
    process_index: int | None = None,
    process_count: int | None = None,
    drop_remainder: bool = False,
) -> AbstractSplit:
    """Return this process's part of a split, as ``tfds.split_for_jax_process``.

    Args:
        split: a split expression.
        process_index: the process's number; that of JAX unless given.
        process_count: how many there are; those of JAX unless given.
        drop_remainder: as of `even_splits`.

    Raises:
        ValueError: there is no process of that number.
    """
    import jax

    count = jax.process_count() if process_count is None else process_count
    index = jax.process_index() if process_index is None else process_index
    parts = even_splits(split, count, drop_remainder=drop_remainder)
    if not 0 <= index < count:
        raise ValueError(f"split_for_jax_process: there is no process {index} of {count}")
    return parts[index]


def resolve_split(expression: AbstractSplit | str, sizes: Sizes) -> list[RowRange]:
    """The row ranges an expression selects, in its order.

    Args:
        expression: split names, each with or without a slice, joined by ``+``; ``"all"`` stands
            for every split, in order.
        sizes: the number of rows of each split there is, or of each of its shards.

    Raises:
        TypeError: it is no expression.
        ValueError: the expression is malformed (the message says where), names a split there is
            not, reaches beyond a split's rows, or selects nothing of one.
    """
    found = as_split(expression).ranges(sizes)
    if not found:
        raise ValueError(f"Split {str(expression)!r} selects no example.")
    return found


def _shards(split: str, sizes: Sizes, text: str) -> Sequence[int]:
    if split not in sizes:
        raise ValueError(f"Unknown split {split!r} in {text!r}. {_choices(split, sizes)}")
    found = sizes[split]
    return [found] if isinstance(found, int) else found


def _range_of(
    term: str,
    split: str,
    shards: Sequence[int],
    first: _Boundary | None,
    last: _Boundary | None,
) -> RowRange:
    _check_boundaries(term, shards, first, last)
    rows = sum(shards)
    start = first.row(shards) if first else 0
    stop = last.row(shards) if last else rows
    if start >= stop:
        raise ValueError(f"Split {term!r} selects no example: of {rows} rows, [{start}:{stop}].")
    return RowRange(split, start, stop)


class _Scanner:
    """Reads an expression from left to right."""

    def __init__(self, expression: str, sizes: Sizes) -> None:
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
            shards = {other: _shards(other, self._sizes, self._text) for other in self._sizes}
            return [RowRange(other, 0, sum(each)) for other, each in shards.items() if sum(each)]
        found = _shards(split, self._sizes, self._text)
        if self._take("["):
            return [self._slice(split, found, begin)]
        return [RowRange(split, 0, sum(found))]

    def _slice(self, split: str, shards: Sequence[int], begin: int) -> RowRange:
        first = self._boundary()
        single = first is not None and first.unit == "shard" and self._take("]")
        if single:
            assert first is not None
            after = int(first.value) + 1
            last = None if after == 0 else _Boundary(after, "shard")
        else:
            if not self._take(":"):
                self._malformed("':' (a slice has two sides, as [:80%])")
            last = self._boundary()
            if not self._take("]"):
                self._malformed("a number, a percentage or ']'")
        return _range_of(self._text[begin : self._at].strip(), split, shards, first, last)

    def _boundary(self) -> _Boundary | None:
        self._skip_spaces()
        begin, found = self._at, self._match(_BOUNDARY)
        if found is None:
            return None
        if found["unit"] not in _UNITS:
            self._at = begin + found.start("unit") - found.start()
            self._malformed("a number of rows or shards, or a percentage")
        unit = _UNITS[found["unit"]]
        if "." in found["value"] and unit != "%":
            self._at = begin
            self._malformed("a whole number of rows")
        return _Boundary(float(found["value"]) if unit == "%" else int(found["value"]), unit)

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
    term: str, shards: Sequence[int], first: _Boundary | None, last: _Boundary | None
) -> None:
    given = [boundary for boundary in (first, last) if boundary is not None]
    if len({boundary.unit for boundary in given}) > 1:
        raise ValueError(f"Split {term!r} mixes rows and percent; use one unit for both sides.")
    for boundary in given:
        if not boundary.within(shards):
            limit = {
                "%": "100%",
                "shard": f"the split's {len(shards)} shards",
                "abs": f"the split's {sum(shards)} rows",
            }
            raise ValueError(f"Split {term!r} reaches beyond {limit[boundary.unit]}.")


def _choices(name: str, sizes: Sizes) -> str:
    return f"{did_you_mean(name, sizes)}There are: {', '.join(sizes)}."
