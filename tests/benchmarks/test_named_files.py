"""Archives of named datasets, which are put together of parts that were compressed once."""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest

from benchmarks.workloads import named_files
from drumline.datasets.sources.archives import iter_archive

PHOTOGRAPHS = [b"\xff\xd8" + bytes([n]) * (500 + n * 37) for n in range(3)]


def test_an_archive_of_flowers_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        named_files, "contents", lambda count: [PHOTOGRAPHS[n % 3] for n in range(count)]
    )
    (path,) = named_files.flower_files(8).values()
    names = [f"flower_photos/{named_files.KINDS[n % 5]}/{n}.jpg" for n in range(8)]
    expected = {name: PHOTOGRAPHS[n % 3] for n, name in enumerate(names)}
    unpacked = io.BytesIO(gzip.decompress(path.read_bytes()))  # which compares sum and size
    with tarfile.open(fileobj=unpacked) as archive:
        found = {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]
    assert found == expected
    assert {name: contents.read() for name, contents in iter_archive(path)} == expected
