"""JSON to messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drumline as dl
from drumline.io import FixedLenFeature, VarLenFeature, decode_json_example, parse_single_example

TEXT = (
    '{"features":{"feature":{"a":{"int64List":{"value":["1",2,3.0]}},'
    '"b":{"bytes_list":{"value":["eHk=","_-8"]}},'
    '"c":{"floatList":{"value":[1.5,"NaN","-Infinity",2]}},"d":{},"e":{"int64List":null}}}}'
)
FEATURES = {
    "a": FixedLenFeature([3], np.int64),
    "b": VarLenFeature(str),
    "c": VarLenFeature(np.float32),
}


def test_values_are_what_tensorflow_reads() -> None:
    found = parse_single_example(decode_json_example(TEXT), FEATURES)
    assert found["a"].tolist() == [1, 2, 3]
    assert found["b"].tolist() == [b"xy", b"\xff\xef"]
    assert np.array_equal(found["c"], np.array([1.5, np.nan, -np.inf, 2], np.float32), True)
    read = dl.train.Example.FromString(decode_json_example(TEXT))
    assert [feature.WhichOneof("kind") for feature in read.features.feature.values()] == [
        "int64_list",
        "bytes_list",
        "float_list",
        None,
        None,
    ]


def test_shapes_are_kept() -> None:
    found = decode_json_example([["{}", TEXT], ['{"features":{}}', '{"features":null}']])
    assert found.shape == (2, 2)
    assert found[0, 0] == found[1, 1] == b"" and found[1, 0] == b"\n\x00"
    assert found[0, 1] == decode_json_example(TEXT)


def test_in_a_map() -> None:
    texts = dl.data.Dataset.from_tensor_slices([TEXT, "{}", TEXT, "{", TEXT])

    def count(batch: object) -> object:
        return decode_json_example(batch)

    assert list(texts.take(3).map(count)) == [
        decode_json_example(TEXT),
        b"",
        decode_json_example(TEXT),
    ]
    batches = iter(texts.batch(2).map(count))
    assert [len(next(batches))] == [2]
    with pytest.raises(ValueError, match="decode_json_example: Expecting property name"):
        next(batches)
    assert len(next(batches)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", r"the Example is \[\], not an object"),
        ('{"features":{"featur":{}}}', "features has no field 'featur'; it has feature"),
        ('{"features":{"feature":[]}}', r"features.feature is \[\], not an object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"features":{"feature":3}}', "features.feature is 3, not an object"),
        ('{"features":{"feature":{"a":{"intList":{}}}}}', "feature 'a' has no field 'intList'"),
        ('{"features":{"feature":{"a":{},"a":{}}}}', "duplicate key 'a'"),
        (
            '{"features":{"feature":{"a":{"int64List":{},"int64_list":{}}}}}',
            "duplicate key 'int64List'",
        ),
        ('{"features":{"feature":{"a":{"int64List":{},"floatList":{}}}}}', "one list of values"),
        ('{"features":{"feature":{"a":{"int64List":{"value":[1.5]}}}}}', "'a': 1.5 is no integer"),
        ('{"features":{"feature":{"a":{"int64List":{"value":[true]}}}}}', "true is no integer"),
        ('{"features":{"feature":{"a":{"int64List":{"value":["x"]}}}}}', "invalid literal"),
        ('{"features":{"feature":{"a":{"int64List":{"value":["1_0"]}}}}}', "is no integer"),
        ('{"features":{"feature":{"a":{"floatList":{"value":["1_0"]}}}}}', "is no number"),
        ('{"features":{"feature":{"a":{"int64List":{"value":3}}}}}', "value is 3, not a list"),
        ('{"features":{"feature":{"a":{"floatList":{"value":[[]]}}}}}', r"\[\] is no number"),
        ('{"features":{"feature":{"a":{"bytesList":{"value":["!"]}}}}}', "is no base64 string"),
        ('{"features":{"feature":{"a":{"bytesList":{"value":[3]}}}}}', "3 is no base64 string"),
        (b"\xff\xfe{", "no UTF-8"),
    ],
)
def test_what_is_wrong_is_named(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"^decode_json_example: .*{message}"):
        decode_json_example(text)


PLACES = st.integers(0, len(TEXT))
PIECES = st.sampled_from(
    ["", "[", "]", "{", "}", '"', ",", "-", "1e999", "9" * 5000, "\\ud800", "é"]
)


@given(st.lists(st.tuples(PLACES, PLACES, PIECES), min_size=1, max_size=3))
def test_any_text_is_read_or_refused(changes: list[tuple[int, int, str]]) -> None:
    text = TEXT
    for start, length, piece in changes:
        text = text[:start] + piece + text[start + length % 5 :]
    try:
        message = decode_json_example(text)
    except ValueError as error:
        assert str(error).startswith("decode_json_example: ")  # noqa: PT017
    else:
        dl.train.Example.FromString(message)


def test_arguments_are_checked() -> None:
    with pytest.raises(TypeError, match="takes strings"):
        decode_json_example(3)
