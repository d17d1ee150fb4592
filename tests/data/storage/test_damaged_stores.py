"""Damage in what `save`, caches and snapshots have stored: refused or made again, never served."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset
from drumline.data.storage.store import checksums
from drumline.errors import DataLossError

ROWS = 2_000


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "CHUNK_NBYTES", 1 << 10)
    from drumline.data.storage.store import columns

    monkeypatch.setattr(columns, "CHUNK_NBYTES", 1 << 10)


def made() -> Dataset:
    """Elements of every kind of column: numbers, rows, bytes, rows that vary."""
    rows = np.arange(3 * ROWS, dtype=np.float32).reshape(ROWS, 3)
    names = np.array([b"item %d" % n for n in range(ROWS)], object)
    base = Dataset.from_tensor_slices({"x": rows, "name": names})
    return Dataset.zip((base, Dataset.range(ROWS).map(_varying)))


def _varying(n: int) -> np.ndarray:
    return np.arange(n % 5, dtype=np.int64)


def values(dataset: Any) -> list[Any]:
    return [(e["x"].tolist(), bytes(e["name"]), v.tolist()) for e, v in dataset]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checksums, "CHUNK_NBYTES", 1 << 10)
        path = tmp_path_factory.mktemp("stored") / "a"
        made().save(path)
    return path


FILES = [
    *("0.values.npy", "1.sizes.npy", "1.values.npy", "2.values.npy", "2.lengths.npy"),
]


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def go_through(dataset: Dataset, order: str, name: str, seen: list[Any]) -> None:
    """Read all of a dataset in some way; the elements that are given go to `seen`."""
    if order == "batches":
        numbers = dataset.map(lambda e, v: e["x"]).batch(7) if name[0] == "0" else dataset
        assert len(list(numbers)) > 0
    if order == "shuffled":
        dataset = dataset.shuffle(ROWS, seed=1)
    if order == "indices":
        for index in range(0, ROWS, 3):
            seen += values([dataset.index(index)])
    for element in dataset:
        seen += values([element])


@pytest.mark.parametrize("order", ["in order", "shuffled", "batches", "indices"])
@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_never_served(stored: Path, tmp_path: Path, name: str, order: str) -> None:
    path = tmp_path / "a"
    shutil.copytree(stored, path)
    file = next(path / each for each in FILES if each == name)
    size = file.stat().st_size
    place = 128 + (size - 128) * 3 // 4
    flip(file, place)
    expected = values(made())
    seen: list[Any] = []
    with pytest.raises(DataLossError, match=f"{name}: record .* at byte .*checksum") as caught:
        go_through(Dataset.load(path), order, name, seen)
    assert caught.value.path == str(file)
    assert caught.value.offset <= max(0, place - 128)
    known = set(map(str, expected))
    assert all(str(each) in known for each in seen), "what was given is what was stored"


def test_all_is_read_again(stored: Path) -> None:
    assert values(Dataset.load(stored)) == values(made())
    assert sorted(values(Dataset.load(stored).shuffle(ROWS, seed=2))) == sorted(values(made()))
    sent = pickle.loads(pickle.dumps(Dataset.load(stored)))
    assert values(sent) == values(made())


def test_what_older_releases_stored_is_read(stored: Path, tmp_path: Path) -> None:
    path = tmp_path / "a"
    shutil.copytree(stored, path)
    described = json.loads((path / "dataset.json").read_text())
    assert len(described["checksums"]) == 3
    old = {key: described[key] for key in described.keys() - {"checksums", "crc32"}}
    (path / "dataset.json").write_text(json.dumps(old))
    assert values(Dataset.load(path)) == values(made())


def test_checksums_of_older_releases_are_compared(stored: Path, tmp_path: Path) -> None:
    path = tmp_path / "a"
    shutil.copytree(stored, path)
    described = json.loads((path / "dataset.json").read_text())
    del described["crc32"]
    for number, leaf in enumerate(described["checksums"]):
        for what, sums in leaf.items():
            sums["crc32"] = "".join(
                f"{zlib.crc32(piece):08x}"
                for piece in pieces(path / f"{number}.{what}.npy", sums["chunk"])
            )
            del sums["crc32c"]
    text = json.dumps(described, sort_keys=True).encode()
    described["crc32"] = f"{zlib.crc32(text):08x}"
    (path / "dataset.json").write_text(json.dumps(described))
    assert values(Dataset.load(path)) == values(made())
    (file, *_) = sorted(path.glob("0.values.npy"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataLossError, match="checksum"):
        values(Dataset.load(path))


def pieces(file: Path, size: int) -> list[bytes]:
    rows = np.load(file, mmap_mode="r").tobytes()
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def test_a_description_with_a_flipped_bit_is_refused(stored: Path, tmp_path: Path) -> None:
    content = (stored / "dataset.json").read_bytes()
    (tmp_path / "a").mkdir()
    for file in stored.glob("*.npy"):
        os.link(file, tmp_path / "a" / file.name)
    for place in range(0, len(content), 11):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        (tmp_path / "a" / "dataset.json").write_bytes(damaged)
        with pytest.raises(DataLossError, match="dataset.json"):
            Dataset.load(tmp_path / "a")


def test_a_part_of_shards(tmp_path: Path) -> None:
    made().save(tmp_path / "a", shard_func=lambda e, v: np.int64(0))
    flip(tmp_path / "a" / "0-0" / "1.values.npy", 5_000)
    with pytest.raises(DataLossError, match=r"0-0/1\.values\.npy"):
        list(Dataset.load(tmp_path / "a"))


@pytest.mark.parametrize("kind", ["cache", "snapshot", "compressed snapshot"])
def test_caches_and_snapshots_are_made_again(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    def build() -> Dataset:
        source = Dataset.range(ROWS).map(lambda n: n + 1)
        if kind == "cache":
            return source.cache(tmp_path / "c")
        return source.snapshot(tmp_path / "c", "GZIP" if "compressed" in kind else None)

    def described() -> Path:
        return min((tmp_path / "c").rglob("dataset.json"), key=lambda path: len(path.parts))

    def is_read() -> bool:
        """Whether the next pass gives all, and reads what is stored."""
        if list((tmp_path / "c").rglob("dataset.json")):
            described().with_name("mark").touch()
        assert [int(n) for n in build()] == expected
        return described().with_name("mark").exists()

    expected = list(range(1, ROWS + 1))
    assert [is_read(), is_read(), is_read()] == [False, True, True]
    (file,) = (tmp_path / "c").rglob("*values.npy*")
    flip(file, file.stat().st_size // 2)
    # Rows that were given before the damage was found are right; then the pass ends.
    given: list[int] = []
    with pytest.raises(DataLossError, match=r"values\.npy"):
        given.extend(int(n) for n in build())
    assert given == expected[: len(given)]
    assert [is_read(), is_read()] == [False, True], "it was removed, and is made again"
    # Damage that is found before the first row is no error at all.
    described().write_text("{")
    assert [is_read(), is_read()] == [False, True]
    assert "is removed" in caplog.text


def test_a_resumed_save_has_checksums_of_all(tmp_path: Path) -> None:
    class Counter:
        """Counts elements, and interrupts once."""

        count, interrupts = 0, True

        def assign_add(self, count: int) -> None:
            self.count += count
            if self.interrupts and self.count > ROWS // 2:
                self.interrupts = False
                raise KeyboardInterrupt

    arguments = {
        "directory": str(tmp_path / "checkpoints"),
        "checkpoint_interval": 100,
        "step_counter": Counter(),
    }
    with pytest.raises(KeyboardInterrupt):
        Dataset.range(ROWS).save(tmp_path / "a", checkpoint_args=arguments)
    Dataset.range(ROWS).save(tmp_path / "a", checkpoint_args=arguments)
    assert list(Dataset.load(tmp_path / "a")) == list(range(ROWS))
    flip(tmp_path / "a" / "0.values.npy", 1_000)
    with pytest.raises(DataLossError, match="checksum"):
        list(Dataset.load(tmp_path / "a"))


def test_the_default_chunk_is_a_mebibyte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    rows = np.arange(400_000)
    dl.data.Dataset.from_tensor_slices(rows).save(tmp_path / "a")
    (described,) = json.loads((tmp_path / "a" / "dataset.json").read_text())["checksums"]
    assert described["values"]["chunk"] == 1 << 20 and len(described["values"]["crc32c"]) == 8 * 4
