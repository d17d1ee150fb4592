"""``read_file``."""

from __future__ import annotations

import fsspec
import pytest

import drumline as dl
from drumline.data import Dataset


@pytest.fixture
def paths(tmp_path):
    made = [tmp_path / f"{i}.bin" for i in range(40)]
    for i, path in enumerate(made):
        path.write_bytes(bytes([i]) * i * 100)
    return made


def test_files_of_a_block_are_read_natively(paths):
    ds = Dataset.from_tensor_slices([str(path) for path in paths]).map(dl.io.read_file)
    assert list(ds) == [path.read_bytes() for path in paths]
    assert "native io.read_file" in ds.explain()
    assert dl.io.read_file(str(paths[3])) == paths[3].read_bytes()


def test_files_behind_schemes(paths):
    system = fsspec.filesystem("memory")
    for i in range(5):
        system.pipe(f"/read_file/{i}", bytes([i]))
    urls = [f"memory://read_file/{i}" for i in range(5)] + [str(paths[2])]
    ds = Dataset.from_tensor_slices(urls).map(dl.io.read_file)
    assert list(ds) == [bytes([i]) for i in range(5)] + [paths[2].read_bytes()]
    with pytest.raises(FileNotFoundError):
        dl.io.read_file("memory://read_file/9")


def test_a_file_that_cannot_be_read_is_an_error_in_its_place(paths):
    paths[17].unlink()
    iterator = iter(Dataset.from_tensor_slices([str(p) for p in paths]).map(dl.io.read_file))
    assert len([next(iterator) for _ in range(17)]) == 17
    with pytest.raises(FileNotFoundError, match=r"17\.bin") as caught:
        next(iterator)
    assert caught.value.element_index == 17
    assert len(list(iterator)) == 22
    with pytest.raises(IsADirectoryError):
        dl.io.read_file(str(paths[0].parent))
