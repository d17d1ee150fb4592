"""Records that are parsed where they were read: nothing of it shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drumline as dl
from drumline._core import RecordReader
from drumline.data import Dataset, TFRecordDataset
from drumline.data.elements.columns import PackedStrings
from drumline.data.operations.reading.files import packed_reads
from drumline.io import FixedLenFeature, VarLenFeature
from drumline.train import BytesList, Example, Feature, Features, FloatList, Int64List

FEATURES = {
    "i": FixedLenFeature([], np.int64),
    "x": FixedLenFeature([3], np.float32),
    "name": FixedLenFeature([], bytes, default_value=b"none"),
    "many": VarLenFeature(np.int64),
}
SIZES = (700, 0, 41, 300)


def record(i: int) -> bytes:
    features = {
        "i": Feature(int64_list=Int64List(value=[i * i - 40])),
        "x": Feature(float_list=FloatList(value=[i, -i, i / 2])),
        "many": Feature(int64_list=Int64List(value=range(i % 4))),
    }
    if i % 50 > 20:
        features["name"] = Feature(bytes_list=BytesList(value=[b"%d" % i]))
    return Example(features=Features(feature=features)).SerializeToString()


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder, first = tmp_path_factory.mktemp("packed"), 0
    found = []
    for number, size in enumerate(SIZES):
        found.append(str(folder / str(number)))
        with dl.io.TFRecordWriter(found[-1]) as writer:
            for i in range(first, first + size):
                writer.write(record(i))
        first += size
    return found


def single(records: Dataset) -> Dataset:
    return records.map(lambda one: dl.io.parse_single_example(one, FEATURES))


def batches(size: int) -> Callable[[Dataset], Dataset]:
    def plan(records: Dataset) -> Dataset:
        mapped = records.batch(size).map(lambda some: dl.io.parse_example(some, FEATURES))
        return mapped.prefetch(2)

    return plan


def part(records: Dataset) -> Dataset:
    return batches(7)(records.skip(3).prefetch(5).take(900))


def parallel(records: Dataset) -> Dataset:
    def parse(some: Any) -> Any:
        return dl.io.parse_example(some, FEATURES)

    return records.batch(64, drop_remainder=True).map(parse, num_parallel_calls=2)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return value
    return value.to_list() if isinstance(value, dl.RaggedArray) else value.tolist()


@pytest.mark.parametrize("plan", [single, batches(64), batches(2000), part, parallel])
def test_files_give_what_their_records_in_memory_give(paths: list[str], plan: Any) -> None:
    files = plan(TFRecordDataset(paths, buffer_size=999))
    assert packed_reads(files._plan)
    wanted = plan(Dataset.from_tensor_slices([record(i) for i in range(sum(SIZES))]))
    assert [plain(element) for element in files] == [plain(element) for element in wanted]


def test_records_that_something_else_looks_at_are_objects(paths: list[str]) -> None:
    def both(one: Any) -> Any:
        return one, dl.io.parse_single_example(one, FEATURES)["i"]

    def named(some: Any) -> Any:
        return dl.io.parse_example(some, FEATURES, example_names=some)["i"]

    records = TFRecordDataset(paths)
    looked = [records.map(both), records.batch(9).map(named), records.map(dl.strings.length)]
    for dataset in (*looked, records.shuffle(9).batch(2), single(records.cache())):
        assert not packed_reads(dataset._plan)
        next(iter(dataset))
    assert next(iter(looked[0]))[0] == record(0)


@pytest.mark.parametrize("size", [1, 16, 300])
def test_a_shuffle_over_parsed_rows_has_the_order_of_one_over_records(
    paths: list[str], size: int
) -> None:
    parsed = single(TFRecordDataset(paths)).map(lambda row: (row["i"], row["x"]))
    both = zip(
        parsed.shuffle(size, seed=5).batch(100),
        TFRecordDataset(paths).shuffle(size, seed=5).batch(100),
        strict=True,
    )
    for (i, x), records in both:
        wanted = dl.io.parse_example(records, FEATURES)
        np.testing.assert_array_equal(i, wanted["i"])
        np.testing.assert_array_equal(x, wanted["x"])


def test_iteration_goes_on_from_a_state(paths: list[str]) -> None:
    dataset = batches(32)(TFRecordDataset(paths, buffer_size=2000))
    iterator = iter(dataset)
    for _ in range(5):
        next(iterator)
    state = iterator.state()
    rest = [plain(element) for element in iterator]
    again = iter(dataset)
    again.restore(state)
    assert [plain(element) for element in again] == rest


@pytest.mark.parametrize("damaged", ["record", "file"])
def test_damage_is_an_error_in_its_place(tmp_path: Path, damaged: str) -> None:
    records = [record(i) for i in range(40)]
    if damaged == "record":
        records[25] = b"\n\x05ab"
    path = tmp_path / "damaged"
    with dl.io.TFRecordWriter(path) as writer:
        for one in records:
            writer.write(one)
    offset = sum(len(one) + 16 for one in records[:25])
    if damaged == "file":
        content = bytearray(path.read_bytes())
        content[offset + 20] ^= 1
        path.write_bytes(content)
    wanted = {
        "record": r"parse_single_example: at byte 1: .* of which 2 are there",
        "file": rf"damaged: record 25, at byte {offset}: the checksum of",
    }
    found = iter(single(TFRecordDataset(str(path))))
    assert [int(next(found)["i"]) for _ in range(25)] == [i * i - 40 for i in range(25)]
    with pytest.raises(Exception, match=wanted[damaged]):
        next(found)
    some = iter(batches(10)(TFRecordDataset(str(path))))
    assert [next(some)["i"][0] for _ in range(2)] == [-40, 60]
    in_batch = wanted[damaged].replace("single_example", "example: record 5")
    with pytest.raises(Exception, match=in_batch):
        next(some)


@given(st.lists(st.binary(max_size=5), max_size=12), st.data())
@settings(deadline=None, max_examples=50)
def test_packed_strings_are_cut_and_joined_as_lists(
    tmp_path_factory: pytest.TempPathFactory, strings: list[bytes], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("strings") / "records"
    with dl.io.TFRecordWriter(path) as writer:
        for string in strings:
            writer.write(string)
    columns = []
    with open(path, "rb") as file:
        reader = RecordReader(file.fileno(), "tfrecord", "", 8)
        while len(packed := reader.packed(data.draw(st.integers(1, 5)), 9)[0]):
            columns.append(PackedStrings.of(packed))
    column = PackedStrings.joined(columns) if columns else PackedStrings([], (0,))
    assert column.objects().tolist() == strings
    start, stop = data.draw(st.integers(-13, 13)), data.draw(st.integers(-13, 13))
    cut = column[start:stop]
    assert cut.objects().tolist() == strings[start:stop] and len(cut) == len(strings[start:stop])
    assert cut.nbytes == sum(map(len, strings[start:stop]))
    pairs = column[: len(strings) // 2 * 2].reshape(len(strings) // 2, 2)
    tail = pairs[1:]
    assert tail.objects().tolist() == [strings[i : i + 2] for i in range(2, len(strings) - 1, 2)]
