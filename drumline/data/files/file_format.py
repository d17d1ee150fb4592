"""What records a file holds, and how they are read."""

from __future__ import annotations

import dataclasses
from typing import Literal, Protocol

from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec
from drumline.data.elements.structure import LEAF_STRUCTURE

BYTES = ElementSpec(LEAF_STRUCTURE, (TensorSpec((), STRING),))

COMPRESSIONS = ("", "GZIP", "ZLIB")

CHUNK = 256 << 10
"""How many bytes are read at once unless told otherwise, as in ``tf.data``."""


class Format(Protocol):
    """How files are read. ``execute/lowering/files.py`` has the stage of each class."""

    @property
    def kind(self) -> str:
        """A word for files of the format."""

    @property
    def spec(self) -> ElementSpec:
        """Of the elements that files hold."""

    def __str__(self) -> str:
        """For ``explain()`` and the plan's fingerprint."""


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
    """One of ``COMPRESSIONS``; ``None`` is no compression.

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
