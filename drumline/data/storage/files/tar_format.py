"""How tar archives of samples are read."""

from __future__ import annotations

import dataclasses

from drumline._core import TarReader, tar_extensions
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec, flatten
from drumline.data.storage.files.records import CHUNK
from drumline.data.storage.files.remote import Source, opened_bytes

KEY = "__key__"

MOST_BYTES = 1 << 30
"""The largest sample by default."""


@dataclasses.dataclass(frozen=True)
class TarFormat:
    """How to read an archive.

    Attributes:
        extensions: what to read of each sample, and its keys beside ``__key__``.
        defaults: what stands for an extension that a sample lacks, ``None`` for an error.
        others: whether samples may have other extensions, which are passed over.
        compression: ``""`` or ``"GZIP"``.
        most: the most bytes of a sample.
    """

    extensions: tuple[str, ...]
    defaults: tuple[bytes | None, ...]
    others: bool
    compression: str
    most: int
    kind: str = "tar"

    @property
    def spec(self) -> ElementSpec:
        leaf = TensorSpec((), STRING)
        leaves, structure = flatten(dict.fromkeys([KEY, *self.extensions], leaf))
        return ElementSpec(structure, tuple(leaves))

    def __str__(self) -> str:
        parts = [
            name if default is None else f"{name} or {default!r}"
            for name, default in zip(self.extensions, self.defaults, strict=True)
        ]
        others = ", others dropped" if self.others else ""
        compressed = f" {self.compression}" if self.compression else ""
        return f"tar[{', '.join(parts)}{others}]{compressed}"

    def open(self, path: str, offset: int, number: int) -> tuple[TarReader, Source]:
        """Return the reader of an archive's samples from a place on, and its fetcher."""
        with opened_bytes(path, offset, self.compression, CHUNK) as source:
            reader = TarReader(
                source,
                self.compression,
                CHUNK,
                offset,
                number,
                [name.encode() for name in self.extensions],
                list(self.defaults),
                self.others,
                self.most,
            )
            return reader, source


def first_extensions(path: str, compression: str) -> tuple[str, ...]:
    """Return the extensions of an archive's first sample.

    Raises:
        OSError: the archive cannot be opened.
        ValueError: it is none, or has no sample.
    """
    with opened_bytes(path, 0, compression, CHUNK) as source:
        try:
            found = tar_extensions(source, compression, CHUNK)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    if not found:
        raise ValueError(
            f"{path}: the archive has no member with a name of the form key.extension; pass "
            "extensions= to say what samples have"
        )
    return tuple(name.decode(errors="surrogateescape") for name in found)
