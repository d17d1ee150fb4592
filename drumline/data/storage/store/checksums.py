"""Checksums of stored rows: a CRC32C for each mebibyte of a file, compared when it is first read.

Files are memory-mapped and may be larger than the memory, so nothing reads all of one to compare
it: a chunk is compared when the first of its rows is asked for, by the first pass that does. What
former releases stored has CRC-32 in their place, under another name.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from drumline._core import crc32c
from drumline.data.elements.errors import DataLossError

CHUNK_NBYTES = 1 << 20
_NAME, _FORMER_NAME = "crc32c", "crc32"


def damaged(path: Path, reason: str, offset: int = 0, number: int = 0) -> DataLossError:
    """Return the error of a file of stored elements that is not as it was written.

    Args:
        path: of the file.
        reason: what is wrong.
        offset: of the first byte that may be wrong.
        number: of its row.
    """
    return DataLossError(reason, str(path), offset, number)


class ChunkChecksums:
    """The checksums of a file that is being written."""

    def __init__(self) -> None:
        self._finished: list[int] = []
        self._current = 0
        self._room = CHUNK_NBYTES

    def add(self, content: np.ndarray) -> None:
        """Count in what was written next: bytes as uint8 (n,)."""
        while len(content):
            piece, content = content[: self._room], content[self._room :]
            self._current = crc32c(piece, self._current)
            self._room -= len(piece)
            if not self._room:
                self._finished.append(self._current)
                self._current, self._room = 0, CHUNK_NBYTES

    def to_json(self) -> dict[str, Any]:
        """Return what `CheckedRows` takes."""
        begun = [self._current] if self._room < CHUNK_NBYTES else []
        digits = "".join(f"{each:08x}" for each in [*self._finished, *begun])
        return {"chunk": CHUNK_NBYTES, _NAME: digits}


class CheckedRows:
    """The rows of one file, compared with its checksums before they are used.

    Threads may read at once: each chunk is compared by one of them at least.

    Args:
        path: of the file.
        rows: memory-mapped.
        checksums: what `ChunkChecksums.to_json` returned.
        splits: where items begin and end, in rows, for strings and rows that vary; None if each
            row is an item.
        on_damage: is called before damage is raised.

    Raises:
        DataLossError: there are checksums of another number of bytes.
    """

    def __init__(
        self,
        path: Path,
        rows: np.ndarray,
        checksums: Mapping[str, Any],
        splits: np.ndarray | None = None,
        on_damage: Callable[[], None] | None = None,
    ):
        self._path = path
        self._bytes = rows.reshape(-1).view(np.uint8) if rows.nbytes else np.empty(0, np.uint8)
        self._width = rows.nbytes // len(rows) if len(rows) else 0
        self._splits = splits
        self._on_damage = on_damage
        self._chunk = checksums["chunk"]
        self._is_former = _NAME not in checksums
        digits = checksums[_FORMER_NAME if self._is_former else _NAME]
        self._expected = np.frombuffer(bytes.fromhex(digits), ">u4")
        if self._chunk < 1 or len(self._expected) != -(-rows.nbytes // self._chunk):
            raise damaged(path, "its checksums are of a file of another length")
        self._done = np.zeros(len(self._expected), bool)
        self._remaining = len(self._expected)

    def __reduce__(self) -> Any:
        # Rows that are sent to another process are compared before, and never again.
        self.check_all()
        return _checked, ()

    def check(self, index: Any) -> None:
        """Compare the chunks that hold items, unless that was done.

        Args:
            index: a range with step 1, or the numbers of items (k,).

        Raises:
            DataLossError: a chunk is damaged; the error has its first byte and row.
        """
        if not self._remaining or not len(index):
            return
        if isinstance(index, range):
            first, stop = self._places(index.start, index.stop - 1)
            chunks = np.arange(first // self._chunk, -(-stop // self._chunk))
        else:
            starts, stops = self._places(np.asarray(index), np.asarray(index))
            first, last = starts // self._chunk, np.maximum(starts, stops - 1) // self._chunk
            steps = range(int((last - first).max()) + 1)
            chunks = np.unique(np.concatenate([np.minimum(first + step, last) for step in steps]))
            chunks = chunks[chunks < len(self._done)]
        for chunk in chunks[~self._done[chunks]].tolist():
            self._compare(chunk)
        self._remaining = len(self._done) - int(np.count_nonzero(self._done))

    def check_all(self) -> None:
        """Compare all chunks.

        Raises:
            DataLossError: one is damaged.
        """
        for chunk in range(len(self._done)):
            self._compare(chunk)
        self._remaining = 0

    def _places(self, first: Any, last: Any) -> tuple[Any, Any]:
        """Return where items begin in the file's rows, and where they end, in bytes."""
        if self._splits is None:
            return first * self._width, (last + 1) * self._width
        return self._splits[first] * self._width, self._splits[last + 1] * self._width

    def _compare(self, chunk: int) -> None:
        start = chunk * self._chunk
        content = self._bytes[start : start + self._chunk]
        found = zlib.crc32(content.data) if self._is_former else crc32c(content)
        if found != self._expected[chunk]:
            if self._on_damage is not None:
                self._on_damage()
            raise damaged(
                self._path,
                f"the checksum of the {self._chunk} bytes from there differs; store the dataset "
                "again (a damaged cache or snapshot is removed, and made by the next pass)",
                start,
                start // max(1, self._width),
            )
        self._done[chunk] = True


def _checked() -> None:
    return None
