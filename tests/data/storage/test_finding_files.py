"""Listing files, and files behind a scheme."""

from __future__ import annotations

import threading

import fsspec
import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest

import drumline as dl
from drumline.data import Dataset, TextLineDataset, TFRecordDataset
from drumline.data.storage.files.remote import (
    ReadAhead,
    RemoteFile,
    RemoteReads,
    opened_bytes,
    remote_retries,
    set_remote_reads,
)


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("b.txt", "a.txt", ".h.txt", "sub/c.txt", "a.py"):
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*", [".h.txt", "a.py", "a.txt", "b.txt", "sub"]),
        ("*.txt", [".h.txt", "a.txt", "b.txt"]),
        ("**/*.txt", ["sub/c.txt"]),
        ("[ab].txt", ["a.txt", "b.txt"]),
        ("?.txt", ["a.txt", "b.txt"]),
        ("*/*", ["sub/c.txt"]),
    ],
)
def test_patterns_match_what_tensorflow_matches(directory, pattern, expected):
    found = Dataset.list_files(str(directory / pattern), shuffle=False)
    assert list(found) == [str(directory / name).encode() for name in expected]
    assert found.cardinality() == len(expected)


def test_listed_files_are_shuffled_unless_told_otherwise(directory):
    files = Dataset.list_files([directory / "*.txt", directory / "b.*"], shuffle=False)
    in_order = list(files)
    assert [name[-5:] for name in in_order] == [b"h.txt", b"a.txt", b"b.txt", b"b.txt"]
    shuffled = Dataset.list_files(str(directory / "*"), seed=5)
    epochs = [list(shuffled) for _ in range(4)]
    assert len(set(map(tuple, epochs))) > 1
    assert all(len(epoch) == 5 for epoch in epochs)
    assert list(Dataset.list_files(str(directory / "*"), seed=5)) == epochs[0]
    with pytest.raises(FileNotFoundError, match=r"no files matched pattern: .*nothing"):
        Dataset.list_files([str(directory / "nothing*")])


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()


def test_paths_with_a_scheme(memory, tmp_path):
    records = [b"%d" % i * 50 for i in range(300)]
    for place in ("memory://in/a", f"file://{tmp_path}/a"):
        for kind in ("", "GZIP"):
            with dl.io.TFRecordWriter(place, kind) as writer:
                for record in records:
                    writer.write(record)
            dataset = TFRecordDataset([place, place], kind, num_parallel_reads=2)
            assert list(dataset)[::2] == records
            iterator = iter(TFRecordDataset(place, kind))
            head = [next(iterator) for _ in range(123)]
            again = iter(TFRecordDataset(place, kind))
            again.restore(iterator.state())
            assert head + list(again) == records
    memory.pipe("/in/b.txt", b"one\ntwo")
    files = Dataset.list_files("memory://in/*.txt", shuffle=False)
    assert list(files) == [b"memory:///in/b.txt"]
    assert list(TextLineDataset(files)) == [b"one", b"two"]
    with pytest.raises(FileNotFoundError):
        list(TFRecordDataset("memory://in/none"))
    with pytest.raises(ValueError, match="nosuch"):
        list(TFRecordDataset("nosuch://a/b"))
    with pytest.raises(dl.errors.DataLossError, match=r"memory://in/b\.txt: record 0, at byte 0"):
        list(TFRecordDataset("memory://in/b.txt"))


class Flaky:
    """A file system whose requests fail ``times`` times before each success."""

    def __init__(self, content, times, error=ConnectionResetError):
        self.content, self.times, self.error = content, times, error
        self.failures = {}
        self.lock = threading.Lock()

    def _fail(self, what):
        with self.lock:
            self.failures[what] = self.failures.get(what, 0) + 1
            if self.failures[what] <= self.times:
                raise self.error("the network is down")

    def size(self, path):
        self._fail("size")
        return len(self.content)

    def cat_file(self, path, start, end):
        self._fail(start)
        return self.content[start:end]


ATTEMPTS = RemoteReads().attempts
SMALL = RemoteReads(range_bytes=32)


def everything(reader):
    parts = []
    while part := reader.read(7):
        parts.append(part)
    reader.close()
    return b"".join(parts)


def test_failed_ranges_are_asked_for_again():
    content = bytes(range(200))
    waits = []
    system = Flaky(content, ATTEMPTS - 1)
    assert everything(ReadAhead(system, "a", 13, SMALL, waits.append)) == content[13:]
    ranges = -(-(200 - 13) // 32)
    assert len(waits) == (ATTEMPTS - 1) * (ranges + 1) and sorted(set(waits)) == [0.4, 1.6, 6.4]
    with pytest.raises(ConnectionResetError) as caught:
        everything(ReadAhead(Flaky(content, ATTEMPTS), "a", 0, SMALL, waits.append))
    assert caught.value.__notes__ == [f"drumline: attempt {ATTEMPTS} of {ATTEMPTS} to read a"]
    for lasting in (FileNotFoundError, PermissionError):
        system = Flaky(content, 1, lasting)
        with pytest.raises(lasting):
            everything(ReadAhead(system, "a", 0, SMALL, waits.append))
        assert system.failures == {"size": 1}


def test_a_file_of_unknown_length_is_an_error():
    system = Flaky(b"a", 0)
    system.size = lambda path: None
    with pytest.raises(OSError, match="does not tell how long"):
        everything(ReadAhead(system, "a"))


def test_a_file_that_becomes_shorter_is_an_error():
    system = Flaky(b"a" * 100, 0)
    reader = ReadAhead(system, "a", 0, SMALL)
    assert reader.read(50) == b"a" * 32
    system.content = b"a" * 40
    with pytest.raises(OSError, match="became shorter"):
        everything(reader)


def test_how_remote_files_are_read_can_be_set(memory, monkeypatch, caplog):
    table = pyarrow.table({"x": np.arange(100)})
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    memory.pipe("/flaky/a.parquet", sink.getvalue().to_pybytes())
    memory.pipe("/flaky/a.txt", b"line\n" * 100)
    flaky = Flaky(b"", 2, TimeoutError)
    cat_file = type(memory).cat_file

    def failing(self, path, start=None, end=None, **options):
        flaky._fail((path, start))
        return cat_file(self, path, start, end, **options)

    monkeypatch.setattr(type(memory), "cat_file", failing)
    before = set_remote_reads(RemoteReads(attempts=3, pause=0, range_bytes=100, at_once=3))
    try:
        retries = remote_retries()
        with opened_bytes("memory://flaky/a.txt", 0, "", 1) as source:
            assert everything(source) == b"line\n" * 100
        assert remote_retries() - retries == 2 * 5
        assert "memory:///flaky/a.txt: attempt 2 of 3 failed (TimeoutError(" in caplog.text
        rows = Dataset.from_parquet("memory://flaky/a.parquet")
        assert [row["x"] for row in rows] == list(range(100))
        flaky.failures.clear()
        set_remote_reads(RemoteReads(attempts=2, pause=0))
        with pytest.raises(TimeoutError) as caught:
            list(TextLineDataset("memory://flaky/a.txt"))
        assert any(
            "attempt 2 of 2 to read memory:///flaky/a.txt" in note
            for note in caught.value.__notes__
        )
    finally:
        set_remote_reads(before)
    with pytest.raises(ValueError, match="attempts must be at least 1"):
        RemoteReads(attempts=0)
    with pytest.raises(TypeError, match="takes RemoteReads"):
        set_remote_reads(3)


def test_a_remote_file_is_read_at_any_place(memory):
    memory.pipe("/flaky/b", bytes(range(100)))
    file = RemoteFile(memory, "/flaky/b")
    assert (file.read(3), file.tell(), file.seek(-2, 2)) == (bytes(range(3)), 3, 98)
    assert (file.read(), file.read(5), file.seek(200), file.read()) == (b"bc", b"", 200, b"")
    room = bytearray(4)
    assert (file.seek(1), file.seek(1, 1), file.readinto(room), room) == (1, 2, 4, b"\2\3\4\5")
    memory.pipe("/flaky/b", b"short")
    with pytest.raises(OSError, match="/flaky/b became shorter"):
        file.read(50)
    with pytest.raises(FileNotFoundError):
        RemoteFile(memory, "/flaky/none")
