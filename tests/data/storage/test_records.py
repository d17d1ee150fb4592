"""Records of files: formats, order, positions, damage."""

from __future__ import annotations

import gzip
import os
import pickle
import random
import re
import time
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drumline as dl
from drumline.data import Dataset, FixedLengthRecordDataset, TextLineDataset, TFRecordDataset

HELLO = (
    b"\x00\x00\x00\x00\x00\x00\x00\x00)\x03\x98\x07\xd8\xea\x82\xa2"
    b"\x05\x00\x00\x00\x00\x00\x00\x00\xea\xb2\x04>hello\xbb\x1f\x1c\x19"
)
"""The records b"" and b"hello" as TensorFlow 2.21 writes them; and with its default options:"""
HELLO_GZIP = bytes.fromhex(
    "1f8b0800000000000003636080004de619ec375e352d6285f25f6d62b1cb48cdc9c9df2d2f230900a28ebd5b25000000"
)
HELLO_ZLIB = bytes.fromhex(
    "789c636080004de619ec375e352d6285f25f6d62b1cb48cdc9c9df2d2f23090083ca08b8"
)


def write(path: Any, records: list[bytes], options: Any = None) -> str:
    with dl.io.TFRecordWriter(path, options) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def put(path: Any, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def outcomes(dataset: Dataset) -> list[Any]:
    """The elements, and the type and text of errors in their places."""
    iterator, found = iter(dataset), []
    while len(found) < 1000:
        try:
            found.append(next(iterator))
        except StopIteration:
            break
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found


def test_files_are_tensorflows(tmp_path):
    for kind, content in ((None, HELLO), ("GZIP", HELLO_GZIP), ("ZLIB", HELLO_ZLIB)):
        theirs = put(tmp_path / "theirs", content)
        assert list(TFRecordDataset(theirs, kind)) == [b"", b"hello"]
        ours = (
            (tmp_path / "ours").read_bytes()
            if write(tmp_path / "ours", [b"", b"hello"], kind)
            else b""
        )
        plain = {None: bytes, "GZIP": gzip.decompress, "ZLIB": zlib.decompress}[kind]
        assert plain(ours) == HELLO


def test_a_writer(tmp_path):
    path = tmp_path / "a"
    writer = dl.io.TFRecordWriter(path)
    writer.write("grüße")
    writer.write(bytearray(b"x" * 300_000))
    assert path.stat().st_size > 300_000
    writer.write(np.arange(3, dtype=np.uint8))
    writer.flush()
    assert list(TFRecordDataset(path)) == ["grüße".encode(), b"x" * 300_000, b"\0\1\2"]
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="is closed"):
        writer.write(b"")
    with dl.io.TFRecordWriter(path) as writer:
        for wrong in (5, np.int64(5), [b"a"]):
            with pytest.raises(TypeError, match="a record is bytes, such as Example"):
                writer.write(wrong)
    for wrong in ("gzip", "BAD"):
        with pytest.raises(ValueError, match="compression_type must be"):
            dl.io.TFRecordOptions(wrong)
    with pytest.raises(ValueError, match="at most 9"):
        dl.io.TFRecordOptions("GZIP", compression_level=10)
    with pytest.raises(FileNotFoundError):
        dl.io.TFRecordWriter(tmp_path / "none" / "a")
    sizes = []
    for level in (0, 9):
        options = dl.io.TFRecordOptions("GZIP", compression_level=level)
        sizes.append(os.stat(write(path, [b"ab" * 1000] * 9, options)).st_size)
    assert sizes[0] > 18_000 > 1000 > sizes[1]


def test_a_dataset_is_written(tmp_path):
    writer = dl.data.experimental.TFRecordWriter(tmp_path / "a", "GZIP")
    for texts in (["a", "bc", ""], ["d"]):
        writer.write(dl.data.Dataset.from_tensor_slices(texts))
        found = list(TFRecordDataset(tmp_path / "a", "GZIP"))
        assert found == [text.encode() for text in texts]
    with pytest.raises(TypeError, match="a record is bytes"):
        writer.write(dl.data.Dataset.range(2))


def test_damage_is_an_error_in_its_place_and_the_next_file_follows(tmp_path):
    records = [b"", b"hello", b"x" * 20]
    good = write(tmp_path / "good", records)
    whole = (tmp_path / "good").read_bytes()
    bad = tmp_path / "bad"
    put(bad, whole[:-3])
    error = (
        "DataLossError",
        f"{bad}: record 2, at byte 37: the file ends within a record, 3 or more bytes are missing",
    )
    assert outcomes(TFRecordDataset([bad, good])) == [*records[:2], error, *records]
    cases = {
        "changed data": (
            whole[:29] + b"?" + whole[30:],
            1,
            "record 1, at byte 16: the checksum of the record's 5",
        ),
        "changed length": (
            b"\1" + whole[1:],
            0,
            "record 0, at byte 0: the checksum of the record's length",
        ),
        "cut header": (whole[:20], 1, "at byte 16: the file ends within"),
        "garbage between": (
            whole + b"garbage garbage" + whole,
            3,
            "record 3, at byte 73: the checksum of the record's len",
        ),
        "compressed": (HELLO_GZIP, 0, "look compressed, pass compression_type"),
    }
    for content, before, text in cases.values():
        *found, (kind, message) = outcomes(TFRecordDataset(put(bad, content)))
        assert (found, kind) == (records[:before], "DataLossError")
        assert text in message
    assert outcomes(TFRecordDataset([put(bad, b""), good])) == records
    for kind, text in (("GZIP", "incorrect header"), ("ZLIB", "is damaged")):
        assert outcomes(TFRecordDataset(put(bad, b""), kind)) == []
        ((name, message),) = outcomes(TFRecordDataset(good, kind))
        assert (name, "is damaged" in message) == ("DataLossError", True), text


def test_files_of_other_compressions_are_errors_in_their_places(tmp_path):
    kinds = {"plain": None, "gzip": "GZIP", "zlib": "ZLIB"}
    names = {kind: write(tmp_path / kind, [b"a", b"b"], given) for kind, given in kinds.items()}
    names["two"] = put(tmp_path / "two", b"".join((tmp_path / k).read_bytes() for k in kinds))
    wrong = {
        None: {
            "gzip": "record 0, at byte 0: no TFRecord: these bytes look compressed",
            "zlib": "record 0, at byte 0: no TFRecord: these bytes look compressed",
            "two": "record 2, at byte 34: no TFRecord: these bytes look compressed",
        },
        "GZIP": dict.fromkeys(("plain", "zlib", "two"), "record 0, at byte 0: .* is damaged"),
        "ZLIB": dict.fromkeys(("plain", "gzip", "two"), "record 0, at byte 0: .* is damaged"),
    }
    for kind, errors in wrong.items():
        found = outcomes(TFRecordDataset(list(names.values()), kind))
        told = iter([item for item in found if not isinstance(item, bytes)])
        expected = [b"a", b"b"] + ([b"a", b"b"] if kind is None else [])
        assert [item for item in found if isinstance(item, bytes)] == expected
        for name, text in errors.items():
            error, message = next(told)
            assert error == "DataLossError"
            assert re.search(f"^{re.escape(names[name])}: {text}", message), message
        assert next(told, None) is None


def test_what_cannot_be_opened_is_an_error_in_its_place(tmp_path):
    good = write(tmp_path / "good", [b"a", b"b"])
    names = [str(tmp_path / "none"), good, str(tmp_path)]
    found = outcomes(TFRecordDataset(names))
    assert [item if isinstance(item, bytes) else item[0] for item in found] == [
        "FileNotFoundError",
        b"a",
        b"b",
        "IsADirectoryError",
    ]
    assert f"'{names[0]}'" in found[0][1] and f"'{names[2]}'" in found[3][1]
    with pytest.raises(dl.errors.DataLossError) as raised:
        list(TFRecordDataset(put(tmp_path / "bad", b"1234567890123")))
    error = pickle.loads(pickle.dumps(raised.value))
    assert (error.offset, error.number, str(error)) == (0, 0, str(raised.value))
    assert any("element 0" in note for note in raised.value.__notes__)


def test_an_absurd_length_takes_no_memory(tmp_path):
    header = bytes.fromhex("0000008000000000")
    crc = dl.io.TFRecordWriter  # the checksum comes from a writer of the header as a record
    with crc(tmp_path / "crc") as writer:
        writer.write(header)
    checksum = (tmp_path / "crc").read_bytes()[-4:]
    bad = put(tmp_path / "bad", header + checksum + b"7" * 100)
    ((kind, message),) = outcomes(TFRecordDataset(bad))
    assert kind == "DataLossError" and "2147483552 or more bytes are missing" in message


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB"])
def test_lines(tmp_path, compression):
    encode = {None: bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}[compression]
    cases = {
        b"a\rb\r\nc\r": [b"ab", b"c"],
        b"a\n\nb": [b"a", b"", b"b"],
        b"": [],
        b"\n": [b""],
        b"\r\n": [b""],
        b"a\x00b\n": [b"a\x00b"],
        b"x" * 1000 + b"\n" + b"y" * 1000: [b"x" * 1000, b"y" * 1000],
    }
    for content, lines in cases.items():
        path = put(tmp_path / "a", encode(content))
        for size in (None, 0, 1, 7):
            assert list(TextLineDataset(path, compression, size)) == lines


def test_fixed_length_records(tmp_path):
    path = tmp_path / "a"
    for kind, encode in (("", bytes), ("GZIP", gzip.compress), ("ZLIB", zlib.compress)):

        def fixed(content, *sizes, kind=kind, encode=encode):
            put(path, encode(content))
            return outcomes(FixedLengthRecordDataset(path, *sizes, compression_type=kind))

        assert fixed(b"HHaabbccF", 2, 2, 1) == [b"aa", b"bb", b"cc"]
        assert fixed(b"aabb", 2) == [b"aa", b"bb"]
        assert fixed(b"HHF", 2, 2, 1) == fixed(b"", 2) == []
        a, b, (name, message) = fixed(b"HHaabbcF", 2, 2, 1)
        assert (a, b, name) == (b"aa", b"bb", "DataLossError")
        assert "record 2, at byte 6: 2 bytes are left" in message
        ((_, message),) = fixed(b"H", 2, 2, 1)
        assert "fewer than its header and footer" in message
    for sizes, name in (((0,), "record_bytes"), ((2, -1), "header_bytes"), ((2, 0, -1), "footer")):
        with pytest.raises(ValueError, match=name):
            FixedLengthRecordDataset(path, *sizes)


def test_arguments(tmp_path):
    path = write(tmp_path / "a", [b"a"])
    dataset = TFRecordDataset(path, name="mine")
    assert dataset.element_spec == dl.TensorSpec((), "string")
    assert dataset.cardinality() == dl.data.UNKNOWN_CARDINALITY
    assert TFRecordDataset([]).cardinality() == 0 and list(TFRecordDataset([])) == []
    assert "files(tfrecord) 'mine'" in dataset.explain()
    for given_ in (path, tmp_path / "a", path.encode(), [path], np.array([[path]])):
        assert list(TFRecordDataset(given_)) == [b"a"]
    for wrong in (5, [5], {"a": path}):
        with pytest.raises(TypeError, match="expected a path"):
            TFRecordDataset(wrong)
    for wrong in (Dataset.range(2), Dataset.from_tensors([path])):
        with pytest.raises(TypeError, match="one path per element"):
            TFRecordDataset(wrong)
    for arguments in (
        {"num_parallel_reads": 0},
        {"num_parallel_reads": -5},
        {"buffer_size": -5},
        {"buffer_size": 2**40},
    ):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            TFRecordDataset(path, **arguments)
    with pytest.raises(ValueError, match="compression_type must be"):
        TextLineDataset(path, "gzip")


def visits(files: list[list[bytes]], slots: int) -> list[bytes]:
    """The order of tf.data: an empty slot opens the next file; an ended one is passed by."""
    waiting, open_, found, slot = list(files), [None] * slots, [], 0
    while waiting or any(file is not None for file in open_):
        if open_[slot] is None and waiting:
            open_[slot] = list(waiting.pop(0))
        if open_[slot]:
            found.append(open_[slot].pop(0))
        else:
            open_[slot] = None
        slot = (slot + 1) % slots
    return found


def test_a_damaged_file_among_files_read_by_turns(tmp_path):
    """The order in which TensorFlow gives them."""
    names = [
        write(tmp_path / letter, [b"%s%d" % (letter.encode(), i) for i in range(n)])
        for letter, n in (("b", 3), ("g", 5), ("h", 5))
    ]
    with open(names[0], "r+b") as file:
        file.truncate(os.stat(names[0]).st_size - 2)
    before, after = "b0 g0 b1 g1", "g2 g3 h0 g4 h1 h2 h3 h4"
    dataset = TFRecordDataset(names, num_parallel_reads=2)
    found = outcomes(dataset)
    texts = [item.decode() if isinstance(item, bytes) else item[0] for item in found]
    assert " ".join(texts) == f"{before} DataLossError {after}"
    iterator = iter(dataset)
    for _ in range(4):
        next(iterator)
    again = iter(TFRecordDataset(names, num_parallel_reads=2))
    again.restore(iterator.state())
    with pytest.raises(dl.errors.DataLossError):
        next(again)
    assert b" ".join(again).decode() == after


contents = st.lists(st.sampled_from([0, 0, 1, 2, 3, 7, 40]), max_size=6)


@settings(max_examples=20)
@given(
    lengths=contents,
    at_once=st.sampled_from([None, 1, 2, 3, 5]),
    compression=st.sampled_from(["", "GZIP", "ZLIB"]),
    chunk=st.sampled_from([1, 50, None]),
    taken=st.integers(0, 60),
)
def test_order_and_positions(tmp_path_factory, lengths, at_once, compression, chunk, taken):
    directory = tmp_path_factory.mktemp("files")
    files = [[f"{i}.{j}".encode() * (j % 4) for j in range(n)] for i, n in enumerate(lengths)]
    names = [write(directory / str(i), records, compression) for i, records in enumerate(files)]
    expected = visits(files, at_once) if at_once else [r for records in files for r in records]
    dataset = TFRecordDataset(names, compression, chunk, at_once)
    assert list(dataset) == expected
    assert [r for batch in dataset.batch(4) for r in batch] == expected
    iterator = iter(dataset)
    head = [record for _, record in zip(range(taken), iterator, strict=False)]
    other = iter(TFRecordDataset(names, compression, chunk, at_once))
    other.restore(pickle.loads(pickle.dumps(iterator.state())))
    assert head + list(other) == expected


def test_a_position_in_a_large_file_is_reached_by_seeking(tmp_path):
    path = write(tmp_path / "a", [b"%d" % i for i in range(1000)])
    iterator = iter(TFRecordDataset(path, buffer_size=64))
    for _ in range(900):
        next(iterator)
    state = iterator.state()
    # What was read before is not looked at again: it may be gone.
    with open(path, "r+b") as file:
        file.write(b"\0" * 5_000)
    again = iter(TFRecordDataset(path, buffer_size=64))
    again.restore(state)
    assert list(again) == [b"%d" % i for i in range(900, 1000)]


def test_other_operations_over_records(tmp_path):
    names = [write(tmp_path / str(i), [b"%d" % (10 * i + j) for j in range(5)]) for i in range(3)]
    dataset = TFRecordDataset(Dataset.from_tensor_slices(names).shuffle(3, seed=1))
    first, second = list(dataset), list(dataset)
    assert sorted(first) == sorted(second) and first != second
    numbers = TFRecordDataset(names).map(lambda record: np.int64(int(record)))
    assert [int(n) for n in numbers] == [10 * i + j for i in range(3) for j in range(5)]
    shuffled = [list(TFRecordDataset(names).shuffle(20, seed=3)) for _ in range(2)]
    assert shuffled[0] == shuffled[1] != sorted(shuffled[0]) == sorted(first)
    turns = Dataset.from_tensor_slices(names).interleave(TFRecordDataset, cycle_length=3)
    assert list(turns) == list(TFRecordDataset(names, num_parallel_reads=3))
    assert len(list(TFRecordDataset(names, num_parallel_reads=dl.data.AUTOTUNE))) == 15


@pytest.mark.parametrize("at_once", [None, 2])
def test_large_records_are_read_ahead_by_their_size_not_their_number(tmp_path, at_once):
    names = [write(tmp_path / str(i), [b"x" * 100_000] * 200) for i in range(2)]
    iterator = iter(TFRecordDataset(names, num_parallel_reads=at_once).prefetch(dl.data.AUTOTUNE))
    next(iterator)
    held = [-1]
    while held[-1] < 10 or held[-1] != held[-2]:
        time.sleep(0.05)
        held.append(iterator.stage.queue()[0])
    assert held[-1] < 160
    assert sum(1 for _ in iterator) == 399


def test_damaged_files_end_in_records_and_errors(tmp_path):
    """Whatever the bytes: no crash, no hang, and what comes before the damage is right."""
    rng = random.Random(7)
    records = [rng.randbytes(rng.choice([0, 1, 20, 300])) for _ in range(6)]
    valid = {
        kind: write(tmp_path / (kind or "plain"), records, kind) for kind in ("", "GZIP", "ZLIB")
    }
    for trial in range(150):
        kind = rng.choice(["", "GZIP", "ZLIB"])
        with open(valid[kind], "rb") as file:
            content = bytearray(file.read())
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(content))
            match rng.randrange(3):
                case 0:
                    content[place] ^= 1 << rng.randrange(8)
                case 1:
                    del content[place:]
                case _:
                    content[place:place] = rng.randbytes(rng.randint(1, 30))
            if not content:
                break
        bad = put(tmp_path / "bad", bytes(content))
        found = outcomes(TFRecordDataset(bad, kind, buffer_size=rng.choice([1, 64, None])))
        whole = [item for item in found if isinstance(item, bytes)]
        assert whole == records[: len(whole)], trial
        assert all(item[0] == "DataLossError" for item in found if not isinstance(item, bytes))
        assert len(found) - len(whole) <= 1
        for dataset in (
            TextLineDataset(bad, kind),
            FixedLengthRecordDataset(bad, 7, 3, 2, None, kind),
        ):
            errors = [item for item in outcomes(dataset) if not isinstance(item, bytes)]
            assert len(errors) <= 1 and all(error[0] == "DataLossError" for error in errors)
