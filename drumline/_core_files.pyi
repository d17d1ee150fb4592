"""What ``drumline._core`` offers for files."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

class ByteReader:
    """Reads the decompressed bytes of a file in order; threads may share it."""

    def __new__(cls, source: Any, compression: str, chunk: int) -> ByteReader:
        """Read a file from its beginning; the arguments are those of `RecordReader`."""

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes; fewer at the end.

        Raises:
            ValueError: if the compressed data is damaged or ends too early.
            OSError: if reading fails.
        """

class TarReader:
    """Reads the samples of one tar archive in order, many at a time; threads may share it."""

    def __new__(
        cls,
        source: Any,
        compression: str,
        chunk: int,
        offset: int,
        number: int,
        extensions: list[bytes],
        defaults: list[bytes | None],
        others: bool,
        most: int,
    ) -> TarReader:
        """Start at a place in an archive, as `RecordReader`.

        Args:
            source: as of `RecordReader`.
            compression: as of `RecordReader`.
            chunk: how many bytes to read at once.
            offset: bytes of the decompressed archive before the headers of the first sample.
            number: samples before it.
            extensions: what to read of each sample: in lower case, after the first dot of names.
            defaults: for each extension, what stands for it in samples that lack it.
            others: whether members with other extensions are passed over, not errors.
            most: the most bytes of a sample.

        Raises:
            OSError: if the descriptor is not open.
            ValueError: if there are not as many defaults as extensions.
        """

    def next(
        self, limit: int, nbytes: int
    ) -> tuple[
        list[npt.NDArray[np.object_]], tuple[str, int, int, BaseException | None, bool] | None
    ]:
        """Up to `limit` further samples, none more after `nbytes`, and what went wrong after them.

        Returns:
            Arrays (k,) of ``bytes``: the keys, and one for each extension; empty at the end. For a
            sample that cannot be had: why, its byte and number, the exception that reading raised,
            and whether it is the last.
        """

    def position(self) -> tuple[int, int]:
        """How many bytes of the decompressed archive, and samples, came before the next one."""

def tar_extensions(source: Any, compression: str, chunk: int) -> list[bytes]:
    """The extensions of the members of an archive's first sample, each once.

    Raises:
        ValueError: if it is no archive.
        OSError: if reading fails.
    """

class PackedBytes:
    """Strings in the memory they were read into."""

    def __len__(self) -> int: ...
    def nbytes(self, start: int, stop: int) -> int:
        """How many bytes the strings from `start` to `stop` have."""

    def objects(self, start: int, stop: int) -> npt.NDArray[np.object_]:
        """The strings from `start` to `stop` as ``bytes``."""

class RecordReader:
    """Reads the records of one file in order, many at a time; threads may share it."""

    def __new__(
        cls,
        source: Any,
        format: str,
        compression: str,
        chunk: int,
        offset: int = 0,
        number: int = 0,
        sizes: tuple[int, int, int] = (0, 0, 0),
    ) -> RecordReader:
        """Start at a place in a file, of which nothing is read yet if it is not compressed.

        Args:
            source: a file descriptor, which is duplicated and whose place in the file no other code
                may change, or an object with ``read(size)``, which returns bytes; such an object
                begins at `offset` already, unless `compression` is named.
            format: ``"tfrecord"``; ``"lines"``, whose carriage returns are dropped; ``"fixed"``.
            compression: ``""``, ``"GZIP"`` or ``"ZLIB"``.
            chunk: how many bytes to read at once; longer records take more memory as they come.
            offset: bytes of the decompressed file before the first record to read.
            number: records before it.
            sizes: of ``"fixed"`` records: bytes of a record, of the header and of the footer.

        Raises:
            OSError: if the descriptor is not open.
            ValueError: if `compression` is none of these.
        """

    def next(
        self, limit: int
    ) -> tuple[npt.NDArray[np.object_], tuple[str, int, int, BaseException | None] | None]:
        """Up to `limit` further records, at least one, and what went wrong after them.

        Returns:
            An array (k,) of ``bytes``, empty at the end, and, for a record that cannot be read:
            what is wrong, the bytes of the file and the records before it, and the exception if it
            was the source that failed. There are no records after one.
        """

    def packed(
        self, limit: int, nbytes: int
    ) -> tuple[PackedBytes, tuple[str, int, int, BaseException | None] | None]:
        """The same of records that are not made objects.

        Args:
            limit: the most records.
            nbytes: with fewer bytes of records buffered more are read, up to `limit`.
        """

    def position(self) -> tuple[int, int]:
        """How many bytes of the decompressed file, and records, came before the next record."""

class RecordEncoder:
    """Makes the bytes of a TFRecord file."""

    def __new__(cls, compression: str, level: int) -> RecordEncoder:
        """Compress by zlib's `level`, 0 to 9, if `compression` is ``"GZIP"`` or ``"ZLIB"``.

        Raises:
            ValueError: if it is neither of these nor ``""``, or for another level.
        """

    def add(self, record: bytes) -> int:
        """Add a record; returns how many bytes there are to write."""

    def take(self, flush: bool) -> bytes:
        """The bytes to write by now; all that was added, if `flush`."""

    def finish(self) -> bytes:
        """The last bytes; no record may be added any more."""

def crc32c(content: npt.NDArray[np.uint8], before: int = 0) -> int:
    """The CRC32C of bytes (n,), after those of which `before` is the CRC32C.

    Raises:
        TypeError: if they are no one-dimensional uint8.
        ValueError: if they are not contiguous.
    """

def masked_checksum(content: bytes) -> int:
    """The CRC32C of `content`, masked as in TFRecord files and Snappy's."""

def decode_wavs(
    contents: Sequence[bytes], channels: int | None, count: int | None, most: int
) -> tuple[list[npt.NDArray[np.float32]], list[int], str | None]:
    """Decode WAV files of 16-bit samples.

    Args:
        contents: of the files.
        channels: how many to give; further ones are as a file's last. ``None``: a file's own.
        count: how many samples to give, zeros at the end; ``None``: a file's own.
        most: the most numbers an array may have.

    Returns:
        Arrays (samples, channels) from -1 to 1 and rates of the files before the first that cannot
        be decoded, and what is wrong with that.
    """
