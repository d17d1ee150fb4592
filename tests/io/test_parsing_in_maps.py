"""Parsing in ``map``: natively, in whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline.io import FixedLenFeature, FixedLenSequenceFeature, RaggedFeature, VarLenFeature
from drumline.train import Example, Feature, Features, FloatList, Int64List


def record(i: int) -> bytes:
    features = {
        "i": Feature(int64_list=Int64List(value=[i])),
        "x": Feature(float_list=FloatList(value=[i / 2] * (2 * (i % 3)))),
    }
    return Example(features=Features(feature=features)).SerializeToString()


RECORDS = [record(i) for i in range(23)]
FEATURES = {
    "i": FixedLenFeature([1], np.int64),
    "x": VarLenFeature(np.float32),
    "pairs": RaggedFeature(np.float32, "x", [RaggedFeature.UniformRowLength(2)]),
}
PADDED = {"x": FixedLenSequenceFeature([2], np.float32, allow_missing=True)}


def records() -> dl.data.Dataset:
    return dl.data.Dataset.from_tensor_slices(RECORDS)


def rows(element: Any) -> Any:
    return {
        key: value.to_list() if isinstance(value, dl.RaggedArray) else value.tolist()
        for key, value in element.items()
    }


def parsed(i: int) -> dict[str, Any]:
    pairs = [[i / 2, i / 2]] * (i % 3)
    return {"i": [i], "x": [x for pair in pairs for x in pair], "pairs": pairs}


def test_records_one_by_one() -> None:
    mapped = records().map(lambda record: dl.io.parse_single_example(record, FEATURES))
    assert "native io.parse_single_example" in mapped.explain()
    assert repr(mapped.element_spec) == (
        "{'i': TensorSpec(shape=(1,), dtype=int64), 'x': TensorSpec(shape=(None,), dtype=float32), "
        "'pairs': TensorSpec(shape=(None, 2), dtype=float32)}"
    )
    assert [rows(element) for element in mapped] == [parsed(i) for i in range(23)]


@pytest.mark.parametrize("drop_remainder", [True, False])
def test_batches(drop_remainder: bool) -> None:
    batches = records().batch(5, drop_remainder)
    mapped = batches.map(lambda batch: dl.io.parse_example(batch, FEATURES))
    assert "native io.parse_example" in mapped.explain()
    found = [rows(element) for element in mapped]
    ends = [*range(0, 23, 5), *([] if drop_remainder else [23])]
    assert len(found) == len(ends) - 1
    for element, start, end in zip(found, ends, ends[1:], strict=False):
        each = [parsed(i) for i in range(start, end)]
        assert element == {key: [one[key] for one in each] for key in FEATURES}
    padded = batches.map(lambda batch: dl.io.parse_example(batch, PADDED))
    shapes = [element["x"].shape for element in padded]
    assert shapes == [(min(5, 23 - i), 2, 2) for i in range(0, 20 if drop_remainder else 23, 5)]


def test_numbers_are_computed_with_and_shuffled() -> None:
    def double(record: Any) -> Any:
        return dl.io.parse_single_example(record, {"i": FEATURES["i"]})["i"] * 2

    mapped = records().map(double)
    assert "native io.parse_single_example | compiled" in mapped.explain()
    (batch,) = mapped.shuffle(8, seed=3).batch(23)
    assert sorted(batch[:, 0].tolist()) == [2 * i for i in range(23)]


def test_a_bad_record_is_an_error_in_its_place() -> None:
    bad = dl.data.Dataset.from_tensor_slices([*RECORDS[:3], b"\n\x05ab", *RECORDS[:2]])
    mapped = bad.map(lambda record: dl.io.parse_single_example(record, FEATURES)["i"])
    found = iter(mapped)
    assert [next(found).tolist() for _ in range(3)] == [[0], [1], [2]]
    with pytest.raises(ValueError, match=r"parse_single_example: at byte 1: .* of which 2"):
        next(found)
    assert [element.tolist() for element in found] == [[0], [1]]


def test_sequences_in_a_map() -> None:
    lists = {"x": VarLenFeature(np.float32)}
    one = records().map(lambda r: dl.io.parse_single_sequence_example(r, FEATURES, lists))
    context, frames = next(iter(one.skip(1)))
    assert rows(context) == parsed(1) and rows(frames) == {"x": []}
    several = records().batch(4).map(lambda r: dl.io.parse_sequence_example(r, FEATURES, PADDED))
    context, frames, lengths = next(iter(several))
    assert rows(context)["i"] == [[0], [1], [2], [3]]
    assert frames["x"].shape == (4, 0, 2) and rows(lengths) == {"x": [0, 0, 0, 0]}
