"""What ``drumline._core`` offers for strings and files of comma-separated values."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Strings = npt.NDArray[np.object_]
"""An array (n,) of ``bytes``."""

Splits = npt.NDArray[np.int64]
"""Where rows of values begin and the last ends: (rows + 1,)."""

def change_strings(strings: Strings, how: str) -> Strings:
    """Strings changed: ``"lower"``, ``"upper"``, ``"lower utf-8"``, ``"upper utf-8"``, ``"strip"``.

    Raises:
        ValueError: `how` is another.
        TypeError: here and below, `strings` is no contiguous array of ``bytes``.
    """

def substrings(
    strings: Strings, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], unit: str
) -> tuple[Strings, int | None]:
    """A part of each string, up to the first whose start lies outside of it, and its place.

    Args:
        strings: the strings.
        starts: from the end if negative.
        lengths: of the parts.
        unit: ``"BYTE"`` or ``"UTF8_CHAR"``.
    """

def string_lengths(strings: Strings, unit: str) -> npt.NDArray[np.int32]:
    """The length of each string in `unit`, as of ``substrings``."""

def split_strings(strings: Strings, separator: bytes, most: int) -> tuple[Strings, Splits]:
    """The parts of each string, cut at most `most` times unless that is negative.

    An empty `separator` stands for runs of white space.
    """

def join_strings(columns: Sequence[Strings], separator: bytes) -> Strings:
    """The strings at the same places of all columns joined, up to the end of the shortest."""

def join_rows(strings: Strings, splits: Splits, separator: bytes) -> Strings:
    """The strings of each row joined."""

def numbers_of_strings(strings: Strings, dtype: str) -> tuple[npt.NDArray[Any], int | None]:
    """The numbers that strings stand for, up to the first that is none, and its place.

    Args:
        strings: the strings.
        dtype: int32, int64, uint32, uint64, float32 or float64.
    """

def print_floats(
    values: npt.NDArray[np.float64], style: str, fill: bytes, width: int, precision: int
) -> Strings:
    """Numbers as ``printf`` writes them: ``"fixed"``, ``"scientific"`` or ``"shortest"``."""

def print_integers(values: npt.NDArray[np.int64], signed: bool, fill: bytes, width: int) -> Strings:
    """Integers as ``printf`` writes them; not `signed`, their bits are those of uint64."""

def hash_strings(
    strings: Strings, buckets: int, key: tuple[int, int] | None = None
) -> npt.NDArray[np.int64]:
    """The bucket of each string by FarmHash's ``Fingerprint64``, by SipHash-2-4 under a key.

    Raises:
        ValueError: there are no buckets, or 2**63 or more.
    """

class StringPattern:
    """A regular expression with RE2's syntax."""

    def __new__(cls, pattern: str) -> StringPattern:
        """Compile it.

        Raises:
            ValueError: it is wrong.
        """

    def check(self, rewrite: bytes) -> None:
        """Check what matches are to be replaced by.

        Raises:
            ValueError: it is wrong.
        """

    def replace(self, strings: Strings, rewrite: bytes, all: bool) -> Strings:
        """The strings with their matches, or the first of each only, replaced."""

    def matches(self, strings: Strings) -> npt.NDArray[np.bool_]:
        """Whether strings match as a whole."""

Given = tuple[str, str, bool]
"""``"replace"``, ``"ignore"`` or ``"strict"`` for what is no character; the character for it; and
whether that replaces control characters as well."""

BadByte = tuple[int, int] | None
"""Which string, and which of its bytes, is no character."""

def unicode_decode(
    strings: Strings, encoding: str, given: Given
) -> tuple[tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], Splits], BadByte]:
    """The characters of strings as numbers, the bytes where they begin, and whose they are."""

def unicode_split(
    strings: Strings, encoding: str, given: Given
) -> tuple[tuple[Strings, npt.NDArray[np.int64], Splits], BadByte]:
    """The same with characters as strings."""

def unicode_transcode(
    strings: Strings, source: str, target: str, given: Given
) -> tuple[Strings, BadByte]:
    """Strings in another encoding, up to the first that has what is no character."""

def unicode_encode(
    numbers: npt.NDArray[np.int32], splits: Splits, encoding: str, given: Given
) -> tuple[Strings, int | None]:
    """Rows of characters as strings, up to the first with what is none, and its place."""

def string_ngrams(
    strings: Strings,
    splits: Splits,
    widths: Sequence[int],
    joining: tuple[bytes, bytes, bytes, int],
    preserve_short: bool,
    skipped: npt.NDArray[np.bool_],
) -> tuple[Strings, Splits]:
    """The n-grams of each row.

    Args:
        strings: of all rows.
        splits: of the rows.
        widths: of the n-grams.
        joining: what stands between strings, before the first and after the last of a row, and how
            often the last two do at most.
        preserve_short: whether a row without any gives one of all its strings.
        skipped: rows that give none.
    """

class StringTable:
    """Different strings, numbered from 0 on."""

    def __new__(cls, strings: Strings) -> StringTable:
        """Number them.

        Raises:
            ValueError: one occurs twice.
        """

    def numbers(self, strings: Strings) -> npt.NDArray[np.int64]:
        """The number of each string; -1 if it is not there."""

class StringChain:
    """Strings changed, then cut into parts, in one pass."""

    def __new__(
        cls,
        changes: Sequence[str | tuple[StringPattern, bytes, bool]],
        cut: tuple[bytes, int] | None,
    ) -> StringChain:
        """`changes` are as of ``change_strings`` and ``StringPattern.replace``; `cut` is as of
        ``split_strings``: without it each string has one part.

        Raises:
            ValueError: a change is none.
        """

    def parts(self, strings: Strings) -> tuple[Strings, Splits]:
        """The parts of each string."""

    def numbers(
        self, strings: Strings, table: StringTable, numbering: tuple[int, int, int]
    ) -> tuple[npt.NDArray[np.int64], Splits]:
        """The numbers of each string's parts.

        Args:
            strings: the strings.
            table: what has numbers.
            numbering: what the table's first counts as; what a part does that is not in it; and how
                many numbers after the table's stand for such parts by their hash, if any do.
        """

Numbering = tuple[int, int, int]
"""What an empty token counts as, one that is not in the table, and the table's first."""

class TextTokenizer:
    """Cuts documents, rows of strings, into tokens."""

    def __new__(
        cls, lower: bool, strip_punctuation: bool, split: str, widths: Sequence[int] | None
    ) -> TextTokenizer:
        """`split` is ``"whitespace"``, ``"character"`` or ``""``; `widths` are of n-grams."""

    def tokens(self, strings: Strings, splits: Splits) -> tuple[Strings, Splits]:
        """The tokens of each row."""

    def numbers(
        self, strings: Strings, splits: Splits, table: StringTable, numbering: Numbering
    ) -> tuple[npt.NDArray[np.int64], Splits]:
        """The numbers of each row's tokens."""

    def padded(
        self,
        strings: Strings,
        splits: Splits,
        table: StringTable,
        numbering: Numbering,
        length: int,
    ) -> npt.NDArray[np.int64]:
        """The numbers of each row's first `length` tokens, and zeros: (rows, length)."""

    def counted(
        self,
        strings: Strings,
        splits: Splits,
        table: StringTable,
        numbering: Numbering,
        depth: int,
        once: bool,
    ) -> npt.NDArray[np.int64]:
        """How often, or whether, each number is a token's, if it is one: (rows, depth)."""

class TokenCounts:
    """How often tokens occur."""

    def add(self, tokenizer: TextTokenizer, strings: Strings, splits: Splits) -> None:
        """Count the tokens of rows."""

    def counts(self) -> tuple[Strings, npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
        """The tokens, how often each occurred, in how many rows, and how many rows there were."""

class CsvLayout:
    """How records of comma-separated values are written and what is read of them."""

    def __new__(
        cls,
        fields: Sequence[tuple[str, Any]],
        delimiter: int,
        quotes: bool,
        missing: bytes,
        only: Sequence[int] | None,
        without: Sequence[int] | None,
    ) -> CsvLayout:
        """Describe records.

        Args:
            fields: type (int32, int64, float32, float64, string) and default of those read.
            delimiter: a byte.
            quotes: whether fields may be quoted.
            missing: text that stands for a missing value, as no text does.
            only: which of the record's fields are read, ascending.
            without: which are left out, ascending.
        """

    def decode(
        self, strings: Strings
    ) -> tuple[list[npt.NDArray[Any]], tuple[int, str, int | None] | None]:
        """Columns of records, one a string, up to the first that is bad.

        Returns:
            The columns; and which record is bad, why, and in which of its fields, if it is in one.
        """

class CsvReader:
    """Reads the records of one file in order, many at a time; threads may share it."""

    def __new__(
        cls,
        source: Any,
        layout: CsvLayout,
        header: bool,
        compression: str,
        chunk: int,
        before: tuple[int, int, int],
    ) -> CsvReader:
        """Start at a place in a file, as ``RecordReader`` does.

        Args:
            source: as of ``RecordReader``.
            layout: of the records.
            header: whether the file's first record is passed over.
            compression: as of ``RecordReader``.
            chunk: how many bytes to read at once.
            before: bytes of the decompressed file, records and lines before the place.
        """

    def next(
        self, limit: int
    ) -> tuple[
        list[npt.NDArray[Any]],
        int,
        tuple[str, int | None, tuple[int, int, int], bool, BaseException | None] | None,
    ]:
        """Up to `limit` further records, at least one unless the next is bad or there is none.

        Returns:
            Columns; how many records there are; and, of a bad record: what is wrong, in which of
            its fields, bytes, records and lines before it, whether others may follow, and the
            exception if it was the source that failed.
        """

    def position(self) -> tuple[int, int, int]:
        """Bytes of the decompressed file, records and lines before the next record."""
