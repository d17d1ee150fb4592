"""Contexts and lists of ``SequenceExample`` messages; expected is what TensorFlow 2.21 gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline.io import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    VarLenFeature,
    parse_sequence_example,
    parse_single_sequence_example,
)

# As TensorFlow's SerializeToString writes them.
LONG = (
    b"\n\r\n\x0b\n\x02id\x12\x05\x1a\x03\n\x01\x07\x12I\n/\n\x01x\x12*\n\x0c\x12\n\n\x08\x00\x00"
    b"\x80?\x00\x00\x00@\n\x0c\x12\n\n\x08\x00\x00@@\x00\x00\x80@\n\x0c\x12\n\n\x08\x00\x00\xa0@"
    b"\x00\x00\xc0@\n\x16\n\x01w\x12\x11\n\x05\n\x03\n\x01a\n\x08\n\x06\n\x01b\n\x01c"
)
"""id: 7; x: frames 1 2, 3 4, 5 6; w: frames "a", "b" "c"."""
SHORT = (
    b"\n\r\n\x0b\n\x02id\x12\x05\x1a\x03\n\x01\x08\x12\x1c\n\x13\n\x01x\x12\x0e\n\x0c\x12\n\n\x08"
    b"\x00\x00\x10A\x00\x00\x10A\n\x05\n\x01w\x12\x00"
)
"""id: 8; x: a frame 9 9; w: no frames."""
EMPTY = b"\n\r\n\x0b\n\x02id\x12\x05\x1a\x03\n\x01\t\x12\x00"
"""id: 9; no lists."""

ID = {"id": FixedLenFeature([], np.int64)}
PAIRS = FixedLenSequenceFeature([2], np.float32)
OPTIONAL = FixedLenSequenceFeature([2], np.float32, allow_missing=True, default_value=-1)


def rows(value: Any) -> Any:
    return value.to_list() if isinstance(value, dl.RaggedArray) else value.tolist()


def test_one_sequence() -> None:
    context, lists = parse_single_sequence_example(LONG, ID, {"x": PAIRS, "w": VarLenFeature(str)})
    assert context == {"id": 7}
    assert list(lists) == ["x", "w"]
    assert rows(lists["x"]) == [[1, 2], [3, 4], [5, 6]]
    assert lists["x"].dtype == np.float32
    assert rows(lists["w"]) == [[b"a"], [b"b", b"c"]]
    ragged = {"q": RaggedFeature(str, value_key="w")}
    assert rows(parse_single_sequence_example(LONG, None, ragged)[1]["q"]) == rows(lists["w"])
    _, lists = parse_single_sequence_example(EMPTY, None, {"x": OPTIONAL, "w": VarLenFeature(str)})
    assert lists["x"].shape == (0, 2)
    assert rows(lists["w"]) == []


def test_a_batch_of_sequences() -> None:
    words = {"w": VarLenFeature(str)}
    context, lists, lengths = parse_sequence_example([LONG, SHORT], ID, {"x": PAIRS, **words})
    assert rows(context["id"]) == [7, 8]
    assert rows(lists["x"]) == [[[1, 2], [3, 4], [5, 6]], [[9, 9], [0, 0], [0, 0]]]
    assert rows(lists["w"]) == [[[b"a"], [b"b", b"c"]], []]
    assert list(lengths) == ["x"]
    assert (lengths["x"].dtype, rows(lengths["x"])) == (np.int64, [3, 1])
    _, lists, lengths = parse_sequence_example([EMPTY, SHORT], None, {"x": OPTIONAL, **words})
    assert rows(lists["x"]) == [[[-1, -1]], [[9, 9]]]
    assert rows(lists["w"]) == [[], []]
    assert rows(lengths["x"]) == [0, 1]


def test_contexts_alone() -> None:
    ids = {"id": VarLenFeature(np.int64), "r": RaggedFeature(np.int64, "id")}
    context, lists, lengths = parse_sequence_example([LONG, SHORT], ids)
    assert rows(context["id"]) == rows(context["r"]) == [[7], [8]]
    assert (lists, lengths) == ({}, {})


@pytest.mark.parametrize(
    ("records", "features", "message"),
    [
        ([LONG, EMPTY], {"x": PAIRS}, "record 1: feature list 'x': the list is missing; .*allow_m"),
        (
            [SHORT, LONG],
            {"x": FixedLenSequenceFeature([3], np.float32)},
            "record 0: feature list 'x', frame 0, at byte 26: it holds 2 values, .* 3",
        ),
        (
            [SHORT, LONG],
            {"w": FixedLenSequenceFeature([], str)},
            "record 1: feature list 'w', frame 1, at byte 82: it holds 2 values, .* 1",
        ),
        (
            [LONG],
            {"x": VarLenFeature(np.int64)},
            "record 0: feature list 'x', frame 0, at byte 26: it holds float32 .* is int64",
        ),
        ([LONG[:-1]], {"x": PAIRS}, "record 0: at byte 16: .* 73 bytes, of which 72"),
    ],
)
def test_sequences_that_do_not_fit_are_named(records: Any, features: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^parse_sequence_example: {message}"):
        parse_sequence_example(records, None, features)


def test_names_are_told() -> None:
    with pytest.raises(ValueError, match="^parse_single_sequence_example: b'one': feature list"):
        parse_single_sequence_example(EMPTY, None, {"x": PAIRS}, example_name="one")
    with pytest.raises(ValueError, match="record 1: b'two': feature list 'x'"):
        parse_sequence_example([LONG, EMPTY], None, {"x": PAIRS}, example_names=["one", "two"])


@pytest.mark.parametrize(
    ("context", "lists", "error", "message"),
    [
        (None, None, ValueError, "context_features, sequence_features or both"),
        ({"id": OPTIONAL}, None, ValueError, "'id' of the context is a FixedLenSequenceFeature"),
        (None, {"x": FixedLenFeature([], np.int64)}, TypeError, "feature list 'x' is FixedLen"),
        (
            None,
            {"x": RaggedFeature(np.int64, "x", [RaggedFeature.RowLengths("l")])},
            TypeError,
            "lists have no partitions",
        ),
    ],
)
def test_descriptions_are_checked(
    context: Any, lists: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        parse_sequence_example([LONG], context, lists)
