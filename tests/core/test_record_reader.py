"""The records of a file, straight from the core."""

import io
import sys
import threading

import pytest

from drumline._core import RecordEncoder, RecordReader


def encoded(records, compression=""):
    encoder = RecordEncoder(compression, 6)
    for record in records:
        encoder.add(record)
    return encoder.take(True) + encoder.finish()


def everything(reader, limit=5):
    found = []
    while len(part := (given := reader.next(limit))[0]):
        found += part.tolist()
        assert given[1] is None and len(part) <= limit
    return found


RECORDS = [b"%d" % i * (i % 9) for i in range(200)]


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_sources_are_descriptors_and_objects(tmp_path, compression):
    content = encoded(RECORDS, compression)
    (tmp_path / "a").write_bytes(content)
    with open(tmp_path / "a", "rb") as file:
        from_file = RecordReader(file.fileno(), "tfrecord", compression, 64)
    assert everything(from_file) == RECORDS
    assert everything(RecordReader(io.BytesIO(content), "tfrecord", compression, 64)) == RECORDS


def test_positions(tmp_path):
    (tmp_path / "a").write_bytes(encoded(RECORDS))

    def opened(*place):
        with open(tmp_path / "a", "rb") as file:
            return RecordReader(file.fileno(), "tfrecord", "", 1 << 10, *place)

    reader = opened()
    reader.next(7)
    place = reader.position()
    assert place == (sum(16 + len(record) for record in RECORDS[:7]), 7)
    again = opened(*place)
    assert everything(again) == RECORDS[7:] == everything(reader)
    assert again.position()[1] == 200


def test_what_a_source_raises_is_told():
    class Broken:
        def __init__(self, answer):
            self.answer = answer

        def read(self, size):
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    error = KeyError("mine")
    column, told = RecordReader(Broken(error), "lines", "", 8).next(1)
    assert len(column) == 0 and told[3] is error
    for answer, kind in ((b"123456789", ValueError), ("text", TypeError)):
        _, told = RecordReader(Broken(answer), "lines", "", 8).next(1)
        assert isinstance(told[3], kind)
    _, told = RecordReader(Broken(error), "lines", "GZIP", 8).next(1)
    assert told[3] is error


def test_wrong_arguments():
    source = io.BytesIO(b"")
    with pytest.raises(OSError, match="Bad file descriptor"):
        RecordReader(1 << 20, "lines", "", 8)
    with pytest.raises(TypeError, match="no format"):
        RecordReader(source, "csv", "", 8)
    with pytest.raises(TypeError, match="no format"):
        RecordReader(source, "fixed", "", 8, sizes=(0, 1, 1))
    for make in (lambda: RecordReader(source, "lines", "zip", 8), lambda: RecordEncoder("zip", 6)):
        with pytest.raises(ValueError, match="compression_type must be"):
            make()
    with pytest.raises(ValueError, match="must be 0 to 9"):
        RecordEncoder("GZIP", 10)


def test_threads_share_a_reader():
    reader = RecordReader(io.BytesIO(encoded(RECORDS)), "tfrecord", "", 64)
    parts = [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda p=p: p.extend(everything(reader, 3))) for p in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(record for part in parts for record in part) == sorted(RECORDS)


def test_records_are_released_with_the_last_array_of_them():
    records = [b"x" * 1000 + b"%d" % i for i in range(50)]
    column, _ = RecordReader(io.BytesIO(encoded(records)), "tfrecord", "", 1 << 20).next(100)
    alone = sys.getrefcount(object())
    held = sys.getrefcount(column[0])
    assert held == alone + 1
    kept, first = column[0], column[:1]
    del column
    assert first.tolist() == records[:1]
    del first
    held = sys.getrefcount(kept)
    assert held == alone + 1
