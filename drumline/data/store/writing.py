"""Choosing how elements are written."""

from __future__ import annotations

from pathlib import Path

from drumline.data.elements.spec import ElementSpec
from drumline.data.store.directory import DirectoryWriter
from drumline.data.store.shards import ShardsWriter


def elements_writer(
    path: Path, spec: ElementSpec, compression: str | None, sharded: bool
) -> DirectoryWriter | ShardsWriter:
    """What writes elements of ``spec`` into the directory ``path``; see `ShardsWriter`."""
    if sharded or compression is not None:
        return ShardsWriter(path, spec, compression, sharded)
    return DirectoryWriter(path, spec)
