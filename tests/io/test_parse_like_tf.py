"""Random messages, parsed by TensorFlow as well, where it is installed (the ``bench`` extra)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import drumline as dl

tf = pytest.importorskip("tensorflow", reason="compares with TensorFlow, which the bench extra has")

RNG = np.random.default_rng(5)


def feature(train: Any, kind: int, values: Any) -> Any:
    if kind == 0:
        return train.Feature(int64_list=train.Int64List(value=values))
    if kind == 1:
        return train.Feature(float_list=train.FloatList(value=values))
    return train.Feature(bytes_list=train.BytesList(value=values))


def values(kind: int, count: int) -> list[Any]:
    if kind == 0:
        shifts = RNG.integers(0, 63, count)
        return [
            int(v) >> int(s)
            for v, s in zip(RNG.integers(-(2**63), 2**63, count), shifts, strict=False)
        ]
    if kind == 1:
        return RNG.normal(size=count).astype(np.float32).tolist()
    return [RNG.bytes(int(n)) for n in RNG.integers(0, 300, count)]


def example(train: Any, parts: dict[str, Any]) -> Any:
    features = {name: feature(train, *part) for name, part in parts.items()}
    return train.Example(features=train.Features(feature=features))


def random_parts() -> dict[str, Any]:
    parts = {f"fixed{kind}": (kind, values(kind, 6)) for kind in range(3)}
    for name, kind in itertools.product(("any", "padded", "rows"), range(3)):
        if RNG.random() < 0.8:
            parts[f"{name}{kind}"] = (kind, values(kind, 2 * int(RNG.integers(0, 40))))
    names = list(parts)
    if RNG.random() < 0.5:
        RNG.shuffle(names)
    return {name: parts[name] for name in names}


def descriptions(io: Any) -> dict[str, Any]:
    types = {0: np.int64, 1: np.float32, 2: str if io is dl.io else tf.string}
    described = {}
    for kind, dtype in types.items():
        default = [0] * 4 if kind < 2 else [b"x"] * 4
        described |= {
            f"fixed{kind}": io.FixedLenFeature([2, 3], dtype),
            f"absent{kind}": io.FixedLenFeature([4], dtype, default),
            f"any{kind}": io.VarLenFeature(dtype),
            f"padded{kind}": io.FixedLenSequenceFeature([2], dtype, allow_missing=True),
            f"ragged{kind}": io.RaggedFeature(dtype, value_key=f"rows{kind}"),
        }
    return described


def listed(value: Any) -> Any:
    if isinstance(value, tf.SparseTensor):
        value = tf.RaggedTensor.from_sparse(value)
    if isinstance(value, tf.RaggedTensor | dl.RaggedArray):
        return value.to_list()
    return np.asarray(value).tolist()


PARTS = [random_parts() for _ in range(40)]
RECORDS = [example(tf.train, parts).SerializeToString() for parts in PARTS]


def test_columns_are_tensorflows() -> None:
    ours = dl.io.parse_example(RECORDS, descriptions(dl.io))
    theirs = tf.io.parse_example(RECORDS, descriptions(tf.io))
    assert {key: listed(ours[key]) for key in ours} == {key: listed(theirs[key]) for key in ours}


def test_single_records_are_tensorflows() -> None:
    for record in RECORDS[:10]:
        ours = dl.io.parse_single_example(record, descriptions(dl.io))
        theirs = tf.io.parse_single_example(record, descriptions(tf.io))
        for key, value in ours.items():
            wanted = theirs[key]
            if isinstance(wanted, tf.SparseTensor):
                wanted = wanted.values
            assert listed(value) == listed(wanted), key


def test_messages_have_tensorflows_bytes() -> None:
    for parts, record in zip(PARTS, RECORDS, strict=True):
        ours = example(dl.train, parts)
        theirs = tf.train.Example.FromString(record)
        assert ours.SerializeToString(True) == theirs.SerializeToString(deterministic=True)
        assert tf.train.Example.FromString(ours.SerializeToString()) == theirs
        assert dl.train.Example.FromString(record) == ours


def test_json_is_tensorflows() -> None:
    text = (
        '{"features":{"feature":{"a":{"floatList":{"value":[1.5,"NaN",2]}},"b":{"bytes_list":{}}}}}'
    )
    theirs = tf.train.Example.FromString(tf.io.decode_json_example(text).numpy())
    ours = tf.train.Example.FromString(dl.io.decode_json_example(text))
    assert ours.SerializeToString(deterministic=True) == theirs.SerializeToString(
        deterministic=True
    )
