"""Files of records: formats, compression, and writing TFRecord files."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from types import TracebackType
from typing import IO, Any, Literal, Protocol, Self

from drumline._core import RecordEncoder
from drumline._local_path import has_scheme
from drumline.data.elements.spec import LEAF_STRUCTURE, STRING, ElementSpec, TensorSpec
from drumline.data.plan.node import count_of

BYTES = ElementSpec(LEAF_STRUCTURE, (TensorSpec((), STRING),))

COMPRESSIONS = ("", "GZIP", "ZLIB")

CHUNK = 256 << 10
"""How many bytes are read at once by default, as in ``tf.data``."""


class Format(Protocol):
    """How files are read. ``execute/lowering/files.py`` has the stage of each class."""

    @property
    def kind(self) -> str:
        """A word for files of the format."""

    @property
    def spec(self) -> ElementSpec:
        """The spec of the elements in the files."""

    def __str__(self) -> str:
        """Return a description for ``explain()`` and the plan's fingerprint."""


@dataclasses.dataclass(frozen=True)
class FileFormat:
    """How to read a file of records.

    Attributes:
        kind: which records it holds.
        compression: one of ``COMPRESSIONS``.
        chunk: how many bytes to read at once.
        sizes: of fixed-length records: bytes of a record, of the header and of the footer.
    """

    kind: Literal["tfrecord", "lines", "fixed"]
    compression: str = ""
    chunk: int = CHUNK
    sizes: tuple[int, int, int] = (0, 0, 0)

    @property
    def spec(self) -> ElementSpec:
        return BYTES

    def __str__(self) -> str:
        sizes = f" {list(self.sizes)}" if any(self.sizes) else ""
        compressed = f" {self.compression}" if self.compression else ""
        return f"{self.kind}{sizes}{compressed}"


def checked_compression(compression_type: str | None, operation: str) -> str:
    """Return one of ``COMPRESSIONS``; ``None`` is no compression.

    Raises:
        ValueError: it is none of these.
    """
    compression = "" if compression_type is None else compression_type
    if compression not in COMPRESSIONS:
        raise ValueError(
            f"{operation}: compression_type must be None, '', 'GZIP' or 'ZLIB', "
            f"got {compression_type!r}"
        )
    return compression


_WRITE_BYTES = 256 << 10
_DEFAULT_LEVEL = 6


@dataclasses.dataclass(frozen=True)
class TFRecordOptions:
    """How ``TFRecordWriter`` compresses, as ``tf.io.TFRecordOptions``.

    Attributes:
        compression_type: ``None``, ``""``, ``"GZIP"`` or ``"ZLIB"``.
        compression_level: zlib's, 0 to 9; ``None`` is zlib's default, 6.

    Raises:
        ValueError: the compression is none of these, or the level is out of range.
    """

    compression_type: str | None = None
    compression_level: int | None = None

    def __post_init__(self) -> None:
        checked_compression(self.compression_type, "TFRecordOptions")
        if self.compression_level is not None:
            level = count_of(self.compression_level, "TFRecordOptions", "compression_level", 0)
            if level > 9:
                raise ValueError(f"TFRecordOptions: compression_level is at most 9, got {level}")


class TFRecordWriter:
    """Writes a TFRecord file, which TensorFlow reads as well; usable in a ``with`` statement.

    Args:
        path: of the file, which is replaced. One with a scheme is written by fsspec.
        options: a ``TFRecordOptions``, or a compression alone: ``"GZIP"``, ``"ZLIB"``.

    Raises:
        OSError: the file cannot be written.
        ValueError: the compression is not known.
    """

    def __init__(
        self, path: str | bytes | os.PathLike[str], options: TFRecordOptions | str | None = None
    ) -> None:
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(options)
        level = options.compression_level
        self._path = os.fsdecode(path)
        self._encoder = RecordEncoder(
            options.compression_type or "", _DEFAULT_LEVEL if level is None else level
        )
        self._file: IO[bytes] | None = _opened(self._path)

    def write(self, record: bytes) -> None:
        """Append a record.

        Args:
            record: its bytes, or an array that holds them; a ``str`` is encoded as UTF-8.

        Raises:
            ValueError: the writer is closed.
            TypeError: the record is neither bytes nor ``str``.
        """
        file = self._open_file()
        waiting = self._encoder.add(self._bytes_of(record))
        if waiting >= _WRITE_BYTES:
            file.write(self._encoder.take(False))

    def flush(self) -> None:
        """Hand everything written so far to the file system."""
        file = self._open_file()
        file.write(self._encoder.take(True))
        file.flush()

    def close(self) -> None:
        """Write what is left and close the file; further calls do nothing."""
        file, self._file = self._file, None
        if file is not None:
            with file:
                file.write(self._encoder.finish())

    def _bytes_of(self, record: Any) -> bytes:
        if type(record) is bytes:
            return record
        if isinstance(record, str):
            return record.encode()
        try:
            held = memoryview(record)
        except TypeError:
            held = None
        if held is None or not held.ndim:  # bytes(5) would be five zeros.
            raise TypeError(
                f"{self._path}: a record is bytes, such as Example.SerializeToString() gives, not "
                f"{type(record).__name__} ({record!r:.60})"
            )
        return held.tobytes()

    def _open_file(self) -> IO[bytes]:
        if self._file is None:
            raise ValueError(f"the TFRecordWriter of {self._path} is closed")
        return self._file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _opened(path: str) -> IO[bytes]:
    if not has_scheme(path):
        return open(path, "wb")
    import fsspec

    file: Any = fsspec.open(path, "wb").open()
    opened: IO[bytes] = file
    return opened


class DatasetRecordWriter:
    """Writes all records of a dataset, as ``tf.data.experimental.TFRecordWriter``.

    Args:
        filename: of the file, which ``write`` replaces.
        compression_type: ``None``, ``""``, ``"GZIP"`` or ``"ZLIB"``.

    Raises:
        ValueError: the compression is not known.
    """

    def __init__(
        self, filename: str | bytes | os.PathLike[str], compression_type: str | None = None
    ):
        self._filename = filename
        self._options = TFRecordOptions(compression_type)

    def write(self, dataset: Iterable[bytes]) -> None:
        """Write a dataset of strings, a record each.

        Raises:
            TypeError: elements are no strings.
            OSError: the file cannot be written.
        """
        with TFRecordWriter(self._filename, self._options) as writer:
            for record in dataset:
                writer.write(record)
