"""ArrayRecord files, where their library is installed."""

import pathlib

import pytest

from drumline.data import GLOBAL, ArrayRecordDataset
from drumline.errors import DataLossError

library = pytest.importorskip("array_record.python.array_record_module")

RECORDS = [b"%d" % i * 9 for i in range(500)]


def write(path, records, options="group_size:1"):
    writer = library.ArrayRecordWriter(str(path), options)
    for record in records:
        writer.write(record)
    writer.close()
    return str(path)


@pytest.fixture
def paths(tmp_path):
    return [
        write(tmp_path / "a", RECORDS[:200]),
        write(tmp_path / "none", []),
        write(tmp_path / "b", RECORDS[200:], "group_size:16"),
    ]


def test_records_in_any_order(paths):
    dataset = ArrayRecordDataset(paths)
    assert list(dataset) == RECORDS and len(dataset) == 500
    assert dataset.index(321) == RECORDS[321]
    shuffled = dataset.shuffle(GLOBAL, seed=1)
    first = list(shuffled)
    assert first != RECORDS and sorted(first) == sorted(RECORDS)
    assert list(dataset.skip(199).take(2)) == RECORDS[199:201]
    assert list(dataset.shard(3, 1)) == RECORDS[1::3]
    assert "3 ArrayRecord files (500 elements)" in dataset.explain()


def test_an_iterator_goes_on_where_it_was(paths):
    dataset = ArrayRecordDataset(paths).shuffle(GLOBAL, seed=1)
    iterator = iter(dataset)
    found = [next(iterator) for _ in range(211)]
    other = iter(ArrayRecordDataset(paths).shuffle(GLOBAL, seed=1))
    other.restore(iterator.state())
    assert found + list(other) == list(ArrayRecordDataset(paths).shuffle(GLOBAL, seed=1))


def test_damage(tmp_path, paths):
    content = bytearray(pathlib.Path(paths[0]).read_bytes())
    content[4000:4010] = b"?" * 10
    bad = tmp_path / "bad"
    bad.write_bytes(content)
    iterator, found, failures = iter(ArrayRecordDataset([paths[2], bad])), [], []
    while len(found) + len(failures) < 500:
        try:
            found.append(next(iterator))
        except DataLossError as error:
            failures.append((str(error), error.element_index))
    assert failures and len(failures) < 9
    assert all(text.startswith(f"{bad}: record ") for text, _ in failures)
    lost = {position - 300 for _, position in failures}
    assert found == RECORDS[200:] + [r for i, r in enumerate(RECORDS[:200]) if i not in lost]
    for whole in (b"", b"garbage" * 99, content[:-100]):
        bad.write_bytes(whole)
        with pytest.raises(DataLossError, match=f"{bad}: .*its {len(whole)} bytes are no whole"):
            ArrayRecordDataset(bad)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        ArrayRecordDataset(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="reads local files only"):
        ArrayRecordDataset("memory://a")
