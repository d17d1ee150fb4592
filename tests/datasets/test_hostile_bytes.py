"""Bytes that are not what they should be give clean errors that name the file, and nothing else."""

from __future__ import annotations

import functools
import gzip
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline import datasets
from drumline.datasets.sources.archives import ArchiveError, extract, iter_archive, member_of
from drumline.datasets.split_expression import resolve_split
from tests.datasets.builders.archives import tar, zipped
from tests.datasets.idx_files import idx_bytes
from tests.datasets.prepared.test_writing import Squares

LONGEST = 20.0
"""Seconds that a small file may take: one that hangs takes forever."""

Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that was prepared."""
    made = Squares(data_dir=tmp_path_factory.mktemp("prepared"))
    made.download_and_prepare()
    return made.data_dir


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < 30 * LONGEST


def caught(use: Callable[[], Any], *kinds: type[BaseException]) -> BaseException | None:
    """Return the error of these kinds that a function raises."""
    try:
        use()
    except kinds as error:
        return error
    return None


def read(folder: Path) -> list[Any]:
    return list(datasets.builder_from_directory(folder).as_dataset("train"))


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places of all values in nested ones."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    if isinstance(value, dict | list):
        for key, inner in pairs:
            yield from paths_of(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    made = dict(value) if isinstance(value, dict) else list(value)
    made[path[0]] = replaced(value[path[0]], path[1:], new)
    return made


@pytest.mark.parametrize("name", ["features.json", "dataset_info.json"])
@settings(deadline=None)
@given(data=st.data())
def test_descriptions(prepared: Path, name: str, data: st.DataObject) -> None:
    whole = (prepared / name).read_bytes()
    if data.draw(st.booleans(), "JSON with another value"):
        known = json.loads(whole)
        place = data.draw(st.sampled_from(list(paths_of(known))))
        content = json.dumps(replaced(known, place, data.draw(Json))).encode()
    else:
        start = data.draw(st.integers(0, len(whole)))
        end = data.draw(st.integers(start, len(whole)))
        content = whole[:start] + data.draw(st.binary(max_size=12)) + whole[end:]
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "1.0.0"
        shutil.copytree(prepared, folder)
        (folder / name).write_bytes(content)
        error = caught(lambda: read(folder), ValueError, OSError)
        # A split may have another name, and a feature another type than what is stored.
        named = (str(folder), "'train'", "datasets.decode(", "elements were expected")
        assert error is None or any(each in str(error) for each in named), content


@settings(deadline=None)
@given(data=st.data())
def test_shards(prepared: Path, data: st.DataObject) -> None:
    (path,) = prepared.glob("*.tfrecord*")
    whole = path.read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 40)))
    content = whole[:start] + data.draw(st.binary(max_size=12)) + whole[end:]
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "1.0.0"
        shutil.copytree(prepared, folder)
        (folder / path.name).write_bytes(content)
        if content == whole:
            return
        with pytest.raises((ValueError, OSError), match=f"{path.name}|elements were expected"):
            read(folder)


_IDX = idx_bytes(np.arange(12).reshape(3, 4))


@pytest.mark.parametrize("packed", [False, True])
@settings(deadline=None)
@given(
    place=st.integers(0, len(_IDX)),
    noise=st.binary(max_size=20),
    cut=st.integers(0, 60),
)
def test_idx(packed: bool, place: int, noise: bytes, cut: int) -> None:
    content = _IDX[:place] + noise + _IDX[place + len(noise) :]
    content = gzip.compress(content)[: cut or None] if packed else content[: cut or None]
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / "values"
        path.write_bytes(content)
        error = caught(lambda: datasets.read_idx(path), datasets.IdxError)
        assert error is None or str(path) in str(error)


_FILES = {"a/one.txt": b"one" * 50, "b": bytes(200)}
_ARCHIVES = {
    "tar": tar(_FILES, "w:"),
    "tar.gz": tar(_FILES),
    "tar.bz2": tar(_FILES, "w:bz2"),
    "tar.xz": tar(_FILES, "w:xz"),
    "zip": zipped(_FILES),
}


@pytest.mark.parametrize("kind", _ARCHIVES)
@settings(deadline=None)
@given(data=st.data())
def test_archives(kind: str, data: st.DataObject) -> None:
    whole = _ARCHIVES[kind]
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 20)))
    content = whole[:start] + data.draw(st.binary(max_size=20)) + whole[end:]
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / f"archive.{kind}"
        path.write_bytes(content)
        for use in (_read_all, _extract, _read_one):
            error = caught(functools.partial(use, path), ArchiveError)
            assert error is None or str(path) in str(error)
        assert sorted(os.listdir(root))[-1].startswith(("archive", "place"))


def _read_all(path: Path) -> None:
    for _, contents in iter_archive(path):
        contents.read()


def _extract(path: Path) -> None:
    extract(path, path.parent / "place")


def _read_one(path: Path) -> None:
    with member_of(path, "a/one.txt") as contents:
        contents.read()


@given(st.text(alphabet="train[]:+-%0123456789 shardel,\n\0é", max_size=24))
def test_split_expressions(text: str) -> None:
    found: list[Any] = []
    error = caught(
        lambda: found.extend(resolve_split(text, {"train": 10, "test": [3, 4]})), ValueError
    )
    assert error is None or str(error)
    for part in found:
        assert 0 <= part.start <= part.stop <= 10
