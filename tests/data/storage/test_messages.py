"""``dl.train``'s messages; bytes and texts are those of TensorFlow 2.21."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline import train
from drumline.data.storage.messages import example_from_json
from drumline.train import (
    BytesList,
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)

FULL = (
    b"\n/\n\n\n\x01a\x12\x05\x1a\x03\n\x01\x01\n\x11\n\x01b\x12\x0c\x12\n\n\x08\x00\x00\xc0?"
    b"\x00\x00 @\n\x0e\n\x01c\x12\t\n\x07\n\x01x\n\x02yy"
)
SEQUENCE = (
    b"\n\r\n\x0b\n\x02id\x12\x05\x1a\x03\n\x01\x07\x12I\n/\n\x01x\x12*\n\x0c\x12\n\n\x08\x00\x00"
    b"\x80?\x00\x00\x00@\n\x0c\x12\n\n\x08\x00\x00@@\x00\x00\x80@\n\x0c\x12\n\n\x08\x00\x00\xa0@"
    b"\x00\x00\xc0@\n\x16\n\x01w\x12\x11\n\x05\n\x03\n\x01a\n\x08\n\x06\n\x01b\n\x01c"
)


def integers(*values: int) -> Feature:
    return Feature(int64_list=Int64List(value=values))


def floats(*values: float) -> Feature:
    return Feature(float_list=FloatList(value=values))


def strings(*values: bytes) -> Feature:
    return Feature(bytes_list=BytesList(value=values))


def example(**features: Feature) -> Example:
    return Example(features=Features(feature=features))


def test_an_example_has_tensorflows_bytes() -> None:
    made = example(a=integers(1), b=floats(1.5, 2.5), c=strings(b"x", b"yy"))
    assert made.SerializeToString() == FULL
    read = Example.FromString(FULL)
    assert read == made
    assert read.features.feature["b"].float_list.value == [1.5, 2.5]
    assert read.SerializeToString() == FULL


def test_a_sequence_has_tensorflows_bytes() -> None:
    frames = [floats(1, 2), floats(3, 4), floats(5, 6)]
    words = [strings(b"a"), strings(b"b", b"c")]
    lists = {"x": FeatureList(feature=frames), "w": FeatureList(feature=words)}
    made = SequenceExample(
        context=Features(feature={"id": integers(7)}),
        feature_lists=FeatureLists(feature_list=lists),
    )
    assert made.SerializeToString() == SEQUENCE
    read = SequenceExample()
    assert read.ParseFromString(SEQUENCE) == len(SEQUENCE)
    assert read == made
    assert read.feature_lists.feature_list["w"].feature[1].bytes_list.value == [b"b", b"c"]


@pytest.mark.parametrize(
    ("message", "serialized"),
    [
        (Example(), b""),
        (example(), b"\n\x00"),
        (SequenceExample(feature_lists=FeatureLists()), b"\x12\x00"),
        (example(**{"": Feature()}), b"\n\x06\n\x04\n\x00\x12\x00"),
        (example(b=integers()), b"\n\t\n\x07\n\x01b\x12\x02\x1a\x00"),
        (
            example(b=integers(-1, 300)),
            b"\n\x17\n\x15\n\x01b\x12\x10\x1a\x0e\n\x0c" + b"\xff" * 9 + b"\x01\xac\x02",
        ),
    ],
)
def test_what_is_there_is_told_from_what_is_not(message: Any, serialized: bytes) -> None:
    assert message.SerializeToString() == serialized
    assert type(message).FromString(serialized).SerializeToString() == serialized


def test_deterministic_bytes_have_sorted_keys() -> None:
    made = example(b=integers(1), a=floats(2.0), c=strings(b"x"))
    assert made.SerializeToString(deterministic=True) == (
        b"\n'\n\r\n\x01a\x12\x08\x12\x06\n\x04\x00\x00\x00@\n\n\n\x01b\x12\x05\x1a\x03\n\x01\x01\n"
        b"\n\n\x01c\x12\x05\n\x03\n\x01x"
    )
    assert made == example(a=floats(2.0), c=strings(b"x"), b=integers(1))
    assert made != example(b=integers(1), a=floats(2.5), c=strings(b"x"))
    assert made != FULL


def test_what_is_asked_for_is_made() -> None:
    made = Example()
    made.features.feature["a"].int64_list.value.append(3)
    made.features.feature["b"].bytes_list.value.extend([b"x", b"y"])
    assert made.features.feature["a"].WhichOneof("kind") == "int64_list"
    assert made.features.feature["c"].WhichOneof("kind") is None
    assert not made.features.feature["c"].float_list.value
    expected = example(a=integers(3), b=strings(b"x", b"y"), c=Feature())
    assert made.SerializeToString() == expected.SerializeToString()
    lists = SequenceExample()
    lists.feature_lists.feature_list["x"].feature.append(floats(1.0))
    assert SequenceExample.FromString(lists.SerializeToString()) == lists


def test_a_feature_holds_one_list() -> None:
    feature = integers(1)
    assert feature.HasField("int64_list") and not feature.HasField("float_list")
    with pytest.raises(ValueError, match="no field 'ints'"):
        feature.HasField("ints")
    with pytest.raises(ValueError, match="oneof 'kind', not 'list'"):
        feature.WhichOneof("list")
    feature.float_list.value.append(1.0)
    with pytest.raises(ValueError, match="one list of values, not int64_list and float_list"):
        feature.SerializeToString()
    with pytest.raises(ValueError, match="one list of values, not bytes_list and int64_list"):
        Feature(bytes_list=BytesList(), int64_list=Int64List())


def test_values_are_of_their_kind() -> None:
    values = Int64List(value=np.arange(3)).value
    values += [5]
    values.insert(0, np.int32(-7))
    values[1:3] = [8, 9]
    values[0] = 2**63 - 1
    assert values == [2**63 - 1, 8, 9, 2, 5]
    assert FloatList(value=[0.1, 1, 1e300]).value == [0.10000000149011612, 1.0, np.inf]
    with pytest.raises(TypeError, match=r"Int64List takes integers, got 1\.5"):
        values.append(1.5)
    with pytest.raises(TypeError, match="Int64List takes integers, got 1.0"):
        values[0] = 1.0
    with pytest.raises(ValueError, match="9223372036854775808 has more than 64 bits"):
        Int64List(value=[2**63])
    with pytest.raises(TypeError, match="BytesList takes bytes, got 'abc'; encode"):
        BytesList(value=["abc"])
    with pytest.raises(TypeError, match="FloatList takes numbers, got 'abc'"):
        FloatList(value=["abc"])
    with pytest.raises(TypeError, match="Feature: int64_list must be Int64List"):
        Feature(int64_list=[1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be Feature, got 3"):
        example(a=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="names must be str"):
        Features(feature={1: Feature()})  # type: ignore[dict-item]


def test_copies_are_of_their_own() -> None:
    made = example(a=integers(1))
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert other == made
        other.features.feature["a"].int64_list.value.append(2)
        with pytest.raises(TypeError):
            other.features.feature["a"].int64_list.value.append(2.0)
        other.features.feature["b"].float_list.value.append(2.0)
        assert made == example(a=integers(1))


@pytest.mark.parametrize("cut", [1, 10, 30, 48])
def test_damaged_bytes_are_refused(cut: int) -> None:
    with pytest.raises(ValueError, match=r"Example\.FromString: no such message: at byte"):
        Example.FromString(FULL[:cut])
    with pytest.raises(ValueError, match=r"FloatList\.FromString: .*no multiple of 4"):
        FloatList.FromString(b"\n\x03abc")


def test_text() -> None:
    made = example(a=integers(3), b=strings(b'a\x00"\xff\n'), c=floats(0.1, 1, 16777216, 1e-40))
    assert repr(made) == (
        'features {\n  feature {\n    key: "a"\n    value {\n      int64_list {\n        value: 3\n'
        '      }\n    }\n  }\n  feature {\n    key: "b"\n    value {\n      bytes_list {\n'
        '        value: "a\\000\\"\\377\\n"\n      }\n    }\n  }\n  feature {\n    key: "c"\n'
        "    value {\n      float_list {\n        value: 0.1\n        value: 1\n"
        "        value: 16777216\n        value: 9.99995e-41\n      }\n    }\n  }\n}\n"
    )
    assert repr(Example()) == repr(SequenceExample()) == ""
    assert repr(SequenceExample.FromString(SEQUENCE)).startswith("context {\n  feature {\n")


NAMES = st.text(max_size=5)
VALUES = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4).map(lambda v: integers(*v)),
    st.lists(st.floats(width=32, allow_nan=False), max_size=4).map(lambda v: floats(*v)),
    st.lists(st.binary(max_size=9), max_size=3).map(lambda v: strings(*v)),
    st.just(Feature()),
)


@settings(max_examples=15)
@given(
    st.dictionaries(NAMES, VALUES, max_size=3),
    st.dictionaries(NAMES, st.lists(VALUES, max_size=3), max_size=2),
)
def test_messages_come_back(context: Any, lists: Any) -> None:
    frames = {name: FeatureList(feature=features) for name, features in lists.items()}
    made = SequenceExample(Features(feature=context), FeatureLists(feature_list=frames))
    read = SequenceExample.FromString(made.SerializeToString())
    assert read == made
    assert list(read.context.feature) == list(context)
    for name, feature in context.items():
        assert read.context.feature[name].WhichOneof("kind") == feature.WhichOneof("kind")


def test_they_are_public() -> None:
    names = {"Example", "Features", "Feature", "BytesList", "FloatList", "Int64List"}
    assert {*names, "SequenceExample", "FeatureLists", "FeatureList"} <= set(train.__all__)


class TestFunctionsOfTheProtobufPackage:
    @pytest.mark.parametrize(
        ("kind", "serialized"), [(Example, FULL), (SequenceExample, SEQUENCE), (Example, b"\n\x00")]
    )
    def test_the_text_format(self, kind: Any, serialized: bytes) -> None:
        text_format = pytest.importorskip("google.protobuf.text_format")
        message = kind.FromString(serialized)
        text = text_format.MessageToString(message)
        assert text_format.Parse(repr(message), kind()) == message
        assert text_format.Parse(text, kind()) == message
        assert text_format.Merge(text, kind()) == message

    def test_an_empty_list_is_there(self) -> None:
        text_format = pytest.importorskip("google.protobuf.text_format")
        text = 'features { feature { key: "a" value { int64_list { value: [] } } } }'
        merged = text_format.Merge(text, Example())
        assert merged == example(a=integers())
        assert merged.features.feature["a"].WhichOneof("kind") == "int64_list"

    @pytest.mark.parametrize(
        "text",
        [
            "feature { }",
            'features { feature { value { int64_list { value: "a" } } } }',
            "features { feature { value { int64_list { } float_list { } } } }",
        ],
    )
    def test_wrong_texts(self, text: str) -> None:
        text_format = pytest.importorskip("google.protobuf.text_format")
        with pytest.raises(text_format.ParseError):
            text_format.Parse(text, Example())

    def test_json(self) -> None:
        json_format = pytest.importorskip("google.protobuf.json_format")
        message = Example.FromString(FULL)
        text = json_format.MessageToJson(message)
        assert example_from_json(text.encode()) == message

    def test_copies(self) -> None:
        message, other = Example(), Example.FromString(FULL)
        message.CopyFrom(other)
        assert message == other
        message.Clear()
        assert message == Example()
        message.features.feature["d"] = integers(1)
        message.MergeFrom(other)
        assert sorted(message.features.feature) == ["a", "b", "c", "d"]
        assert message.HasField("features") and not Example().HasField("features")
