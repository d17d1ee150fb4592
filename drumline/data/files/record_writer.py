"""Writing TFRecord files."""

from __future__ import annotations

import dataclasses
import os
from types import TracebackType
from typing import IO, Any, Self

from drumline._core import RecordEncoder
from drumline._local_path import has_scheme
from drumline.data.files.file_format import checked_compression
from drumline.data.plan.arguments import count_of

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
        path: of the file, which is made anew. One with a scheme is written by fsspec.
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
        """Appends a record.

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
        """Hands everything written so far to the file system."""
        file = self._open_file()
        file.write(self._encoder.take(True))
        file.flush()

    def close(self) -> None:
        """Writes what is left and closes the file; further calls do nothing."""
        file, self._file = self._file, None
        if file is not None:
            with file:
                file.write(self._encoder.finish())

    def _bytes_of(self, record: Any) -> bytes:
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
