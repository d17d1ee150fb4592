"""Features of ``Example`` messages; what is expected is what TensorFlow 2.21 gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline.data.elements.spec import TensorSpec
from drumline.data.functions.native.operation import OperationResult
from drumline.io import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    VarLenFeature,
    parse_example,
    parse_single_example,
)
from drumline.io.features import features_of
from drumline.io.parsing import ParseExample

# As TensorFlow's SerializeToString writes them.
FULL = (
    b"\n/\n\n\n\x01a\x12\x05\x1a\x03\n\x01\x01\n\x11\n\x01b\x12\x0c\x12\n\n\x08\x00\x00\xc0?"
    b"\x00\x00 @\n\x0e\n\x01c\x12\t\n\x07\n\x01x\n\x02yy"
)
"""a: 1, b: 1.5 and 2.5, c: "x" and "yy"."""
NOTHING = b"\n\x00"
B_OF_1 = b"\n\x0f\n\r\n\x01b\x12\x08\x12\x06\n\x04\x00\x00\x80?"
B_OF_3 = b"\n\x17\n\x15\n\x01b\x12\x10\x12\x0e\n\x0c\x00\x00\x80?\x00\x00\x00@\x00\x00@@"
B_OF_4 = (
    b"\n\x1b\n\x19\n\x01b\x12\x14\x12\x12\n\x10\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80@"
)
A_WITHOUT_KIND = b"\n\x07\n\x05\n\x01a\x12\x00"
A_OF_NO_INTEGERS = b"\n\t\n\x07\n\x01a\x12\x02\x1a\x00"
PARTS = (
    b"\n\x7f\n\x0c\n\x02st\x12\x06\x1a\x04\n\x02\x00\x02\n\n\n\x01u\x12\x05\x1a\x03\n\x01\x02"
    b"\n\x0f\n\x01v\x12\n\x1a\x08\n\x06\x01\x02\x03\x04\x05\x06\n\x0c\n\x01s\x12\x07\x1a\x05\n"
    b"\x03\x00\x02\x06\n\x0c\n\x01l\x12\x07\x1a\x05\n\x03\x02\x00\x04\n\x11\n\x03rid\x12\n\x1a"
    b"\x08\n\x06\x00\x00\x01\x01\x01\x03\n\x0c\n\x02li\x12\x06\x1a\x04\n\x02\x02\x06\n\x15\n\x07"
    b"sixones\x12\n\x1a\x08\n\x06\x01\x00\x05\x00\x00\x00"
)
"""v: 1 to 6, l: 2 0 4, s: 0 2 6, st: 0 2, li: 2 6, rid: 0 0 1 1 1 3, sixones: 1 0 5 0 0 0."""


def shown(value: Any) -> Any:
    """Dtype and content, which must be equal."""
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, dl.RaggedArray):
        return ("ragged", value.dtype.name, value.to_list())
    return (value.dtype.name, value.tolist())


def test_features_of_a_vector() -> None:
    found = parse_example(
        [FULL],
        {
            "c": VarLenFeature("string"),
            "a": FixedLenFeature([], np.int64),
            "b": FixedLenFeature([2, 1], np.float32),
        },
    )
    assert list(found) == ["c", "a", "b"]
    assert shown(found) == {
        "c": ("ragged", "object", [[b"x", b"yy"]]),
        "a": ("int64", [1]),
        "b": ("float32", [[[1.5], [2.5]]]),
    }


def test_features_of_one_record() -> None:
    features = {
        "c": VarLenFeature(bytes),
        "a": FixedLenFeature([], np.int64),
        "b": FixedLenSequenceFeature([2], np.float32, allow_missing=True),
        "z": FixedLenSequenceFeature([2], np.float32, allow_missing=True),
    }
    expected = {
        "c": ("object", [b"x", b"yy"]),
        "a": ("int64", 1),
        "b": ("float32", [[1.5, 2.5]]),
        "z": ("float32", []),
    }
    found = parse_single_example(FULL, features)
    assert found["z"].shape == (0, 2)
    assert shown(found) == expected
    assert shown(parse_example(FULL, features)) == expected


def test_defaults() -> None:
    features = {
        "a": FixedLenFeature([], np.int64, default_value=3),
        "s": FixedLenFeature([2], str, default_value=["p", b"q"]),
        "b": FixedLenFeature([1, 1], np.float32, default_value=0.5),
        "none": FixedLenFeature([0], str, default_value=[]),
    }
    assert shown(parse_example([NOTHING, A_WITHOUT_KIND, B_OF_1], features)) == {
        "a": ("int64", [3, 3, 3]),
        "s": ("object", [[b"p", b"q"]] * 3),
        "b": ("float32", [[[0.5]], [[0.5]], [[1.0]]]),
        "none": ("object", [[], [], []]),
    }
    with pytest.raises(ValueError, match="it holds 0 values, but its shape has 1"):
        parse_example([A_OF_NO_INTEGERS], {"a": features["a"]})


def test_sequences_of_a_batch_are_filled_up() -> None:
    feature = FixedLenSequenceFeature([2], np.float32, allow_missing=True, default_value=-1)
    found = parse_example([FULL, B_OF_4], {"b": feature})
    assert shown(found["b"]) == (
        "float32",
        [[[1.5, 2.5], [-1.0, -1.0]], [[1.0, 2.0], [3.0, 4.0]]],
    )
    assert parse_example([NOTHING, NOTHING], {"b": feature})["b"].shape == (2, 0, 2)
    scalars = FixedLenSequenceFeature([], np.float32, allow_missing=True)
    found = parse_example([FULL, B_OF_3], {"b": scalars})
    assert shown(found["b"]) == ("float32", [[1.5, 2.5, 0.0], [1.0, 2.0, 3.0]])


def test_features_of_any_length() -> None:
    features = {"b": VarLenFeature(np.float32), "q": RaggedFeature(np.float32, "b")}
    rows = ("ragged", "float32", [[1.5, 2.5], [], [1.0]])
    assert shown(parse_example([FULL, NOTHING, B_OF_1], features)) == {"b": rows, "q": rows}
    found = parse_example(np.array([], object), {**features, "a": FixedLenFeature([3], np.int64)})
    nothing = ("ragged", "float32", [])
    assert shown(found) == {"b": nothing, "q": nothing, "a": ("int64", [])}
    assert found["a"].shape == (0, 3)


@pytest.mark.parametrize(
    ("partition", "rows"),
    [
        (RaggedFeature.RowLengths("l"), [[1, 2], [], [3, 4, 5, 6]]),
        (RaggedFeature.RowSplits("s"), [[1, 2], [3, 4, 5, 6]]),
        (RaggedFeature.RowStarts("st"), [[1, 2], [3, 4, 5, 6]]),
        (RaggedFeature.RowLimits("li"), [[1, 2], [3, 4, 5, 6]]),
        (RaggedFeature.ValueRowIds("rid"), [[1, 2], [3, 4, 5], [], [6]]),
        (RaggedFeature.UniformRowLength(2), [[1, 2], [3, 4], [5, 6]]),
    ],
)
def test_partitions(partition: Any, rows: list[list[int]]) -> None:
    features = {"q": RaggedFeature(np.int64, value_key="v", partitions=[partition])}
    found = parse_example([PARTS, NOTHING, PARTS], features)["q"]
    assert shown(found) == ("ragged", "int64", [rows, [], rows])
    single = parse_single_example(PARTS, features)["q"]
    if isinstance(partition, RaggedFeature.UniformRowLength):
        assert shown(single) == ("int64", rows)
    else:
        assert shown(single) == ("ragged", "int64", rows)


def test_partitions_of_partitions() -> None:
    uniform, lengths = RaggedFeature.UniformRowLength(3), RaggedFeature.RowLengths("sixones")
    two = RaggedFeature(np.int64, value_key="v", partitions=[uniform, lengths])
    found = parse_example([PARTS], {"q": two})["q"]
    assert shown(found)[2] == [[[[1], [], [2, 3, 4, 5, 6]], [[], [], []]]]
    inner = RaggedFeature(np.int64, "v", [uniform, RaggedFeature.UniformRowLength(1)])
    found = parse_single_example(PARTS, {"q": inner})["q"]
    assert shown(found) == ("int64", [[[1], [2], [3]], [[4], [5], [6]]])


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (RaggedFeature.RowLengths("st"), r"RowLengths in feature 'st' do not cut its 6 values"),
        (RaggedFeature.RowSplits("l"), r"RowSplits begin with 2, not with 0"),
        (RaggedFeature.RowSplits("st"), r"RowSplits in feature 'st' do not cut its 6 values"),
        (RaggedFeature.RowStarts("v"), r"RowStarts begin with 1, not with 0"),
        (RaggedFeature.RowLimits("l"), r"RowLimits in feature 'l' do not cut its 6 values"),
        (RaggedFeature.ValueRowIds("sixones"), r"ValueRowIds do not rise"),
        (RaggedFeature.ValueRowIds("s"), r"it has 3 ValueRowIds for 6 values"),
        (RaggedFeature.UniformRowLength(4), r"it holds 6 values, .* no multiple of the 4"),
    ],
)
def test_partitions_must_hold_all_values(partition: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"parse_example: record 1: feature '[qv]'.*{message}"):
        parse_example([NOTHING, PARTS], {"q": RaggedFeature(np.int64, "v", [partition])})


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"z": FixedLenFeature([], np.int64)}, "feature 'z': it is missing; .*default_value"),
        (
            {"a": FixedLenFeature([], np.float32)},
            "feature 'a', at byte 9: it holds int64 values, but its dtype is float32",
        ),
        ({"a": VarLenFeature(str)}, "feature 'a', at byte 9: it holds int64 .* is string"),
        (
            {"b": FixedLenFeature([], np.float32)},
            "feature 'b', at byte 21: it holds 2 values, but its shape has 1; .*VarLenFeature",
        ),
        (
            {"b": FixedLenSequenceFeature([3], np.float32, allow_missing=True)},
            "feature 'b', at byte 21: it holds 2 values, which is no multiple of the 3",
        ),
    ],
)
def test_a_record_that_does_not_fit_is_named(features: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^parse_single_example: {message}"):
        parse_single_example(FULL, features)
    with pytest.raises(ValueError, match=f"^parse_example: record 0: b'first': {message}"):
        parse_example([FULL, FULL], features, example_names=["first", "second"])


def test_damaged_records_are_named() -> None:
    features = {"q": FixedLenFeature([], np.int64, 0)}
    with pytest.raises(ValueError, match="record 1: at byte 0: no field begins with these bytes"):
        parse_example([FULL, b"garbage"], features)
    with pytest.raises(
        ValueError, match="parse_single_example: at byte 1: .* 47 bytes, of which 9"
    ):
        parse_single_example(FULL[:11], features)


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        ({}, ValueError, "features says what to have"),
        (None, ValueError, "features says what to have"),
        (["a"], TypeError, "as a dict"),
        ({"a": np.int64}, TypeError, "feature 'a' is .*not a FixedLenFeature"),
        ({"a": FixedLenFeature([], np.int32)}, TypeError, "float32, int64 and string, not int32"),
        ({"a": FixedLenFeature([None], np.int64)}, ValueError, "FixedLenSequenceFeature"),
        ({"a": FixedLenFeature([-1], np.int64)}, ValueError, "negative"),
        ({"a": FixedLenFeature([2], np.int64, 1)}, ValueError, "default_value has 1 values"),
        ({"a": FixedLenFeature([], np.int64, 1.5)}, TypeError, "default_value is of dtype float32"),
        ({"a": FixedLenFeature([], str, 1)}, TypeError, "default_value is of dtype int32"),
        ({"a": FixedLenSequenceFeature([], np.int64)}, ValueError, "allow_missing=True"),
        ({"a": FixedLenSequenceFeature([0], np.int64, True)}, ValueError, "no values"),
    ],
)
def test_descriptions_are_checked(features: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_example([FULL], features)


def test_partitions_are_checked() -> None:
    with pytest.raises(TypeError, match="'v' is no partition"):
        RaggedFeature(np.int64, partitions=["v"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="row_splits_dtype is int32 or int64"):
        RaggedFeature(np.int64, row_splits_dtype=np.int8)
    bad = RaggedFeature(np.int64, partitions=[RaggedFeature.UniformRowLength(0)])
    with pytest.raises(ValueError, match="UniformRowLength must be positive"):
        parse_example([FULL], {"a": bad})


def test_arguments_are_checked() -> None:
    features = {"a": FixedLenFeature([], np.int64)}
    with pytest.raises(TypeError, match="takes serialized records"):
        parse_example([1, 2], features)
    with pytest.raises(ValueError, match="takes a vector of records"):
        parse_example([[FULL]], features)
    with pytest.raises(ValueError, match="takes one record"):
        parse_single_example([FULL], features)
    with pytest.raises(ValueError, match="1 names for 2 records"):
        parse_example([FULL, FULL], features, example_names=["only"])


def run(operation: ParseExample, column: Any) -> OperationResult:
    return operation.run([column], len(column))


def test_rows_before_the_first_bad_one_are_kept() -> None:
    features = {
        "a": FixedLenFeature([], np.int64),
        "c": VarLenFeature(str),
        "q": RaggedFeature(np.int64, "v", [RaggedFeature.RowLengths("l")]),
    }
    columns = ((1, features_of(features, "parse_example")),)
    single = ParseExample("parse_single_example", columns, batches=False)
    rows = run(single, np.array([FULL, FULL, NOTHING, FULL], object))
    assert [len(column) for column in rows.columns] == [2, 2, 2]
    assert "feature 'a': it is missing" in str(rows.error)
    batches = np.array([[FULL, FULL]] * 2 + [[FULL, NOTHING], [FULL, FULL]], object)
    rows = run(ParseExample("parse_example", columns, batches=True), batches)
    assert rows.columns[0].shape == (2, 2)
    assert [len(column) for column in rows.columns] == [2, 2, 2]
    assert "record 1: feature 'a': it is missing" in str(rows.error)
    uneven = dl.RaggedArray.from_rows([[FULL, FULL], [], [FULL], [NOTHING]], object)
    rows = run(ParseExample("parse_example", columns, batches=True), uneven)
    assert shown(rows.columns[0]) == ("ragged", "int64", [[1, 1], [], [1]])
    assert "record 0: feature 'a': it is missing" in str(rows.error)


def test_a_batch_in_which_partitions_fail_is_the_first_bad_one() -> None:
    lengths = RaggedFeature.RowLengths("st")
    columns = ((1, features_of({"q": RaggedFeature(np.int64, "v", [lengths])}, "f")),)
    batches = np.array([[NOTHING], [NOTHING], [PARTS], [b"damaged"]], object)
    rows = run(ParseExample("f", columns, batches=True), batches)
    assert len(rows.columns[0]) == 2
    assert "RowLengths in feature 'st'" in str(rows.error)


def test_results_have_the_shapes_that_were_announced() -> None:
    features = {
        "a": FixedLenFeature([2], np.int64),
        "b": FixedLenSequenceFeature([2], np.float32, allow_missing=True),
        "c": VarLenFeature(str),
    }
    columns = ((1, features_of(features, "f")),)
    single = ParseExample("f", columns, batches=False).results(TensorSpec((), bytes))
    assert repr(single.tree()) == (
        "{'a': TensorSpec(shape=(2,), dtype=int64), 'b': TensorSpec(shape=(None, 2), "
        "dtype=float32), 'c': TensorSpec(shape=(None,), dtype=string)}"
    )
    batch = ParseExample("f", columns, batches=True).results(TensorSpec((5,), bytes))
    assert repr(batch.tree()) == (
        "{'a': TensorSpec(shape=(5, 2), dtype=int64), 'b': TensorSpec(shape=(5, None, 2), "
        "dtype=float32), 'c': RaggedTensorSpec(shape=(5, None), dtype=string, ragged_rank=1)}"
    )


def field(number: int, content: bytes) -> bytes:
    """A field that holds a message or bytes."""
    sizes = [len(content) >> shift & 0x7F | 0x80 for shift in range(0, 35, 7)]
    return bytes([number << 3 | 2, *sizes[:4], sizes[4] & 0x7F]) + content


@pytest.mark.thorough
def test_a_feature_of_100_megabytes(tmp_path: Path) -> None:
    values = np.arange(25_000_000, dtype=np.float32)
    feature = field(2, field(1, values.tobytes()))
    record = field(1, field(1, field(1, b"big") + field(2, feature)))
    with dl.io.TFRecordWriter(tmp_path / "big") as writer:
        writer.write(record)
        writer.write(b"next")
    read, after = dl.data.TFRecordDataset(str(tmp_path / "big"))
    assert after == b"next"
    found = parse_single_example(read, {"big": VarLenFeature(np.float32)})
    assert np.array_equal(found["big"], values)
    with pytest.raises(ValueError, match="it holds 25000000 values, but its shape has 1"):
        parse_single_example(record, {"big": FixedLenFeature([], np.float32)})
    with pytest.raises(ValueError, match=r"at byte 1: .* 1000000\d\d bytes, of which"):
        parse_single_example(record[:-1], {"big": VarLenFeature(np.float32)})
