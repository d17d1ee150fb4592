"""``shard``: what is left out, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.data import Dataset, Options, TensorSpec
from drumline.data.rewrite.optimize import drop_noops, push_shard


def counted(pulled: list[int], length: int = 30) -> Dataset:
    def numbers() -> Iterator[int]:
        for value in range(length):
            pulled.append(value)
            yield value

    return Dataset.from_generator(numbers, output_signature=TensorSpec((), np.int64))


def unoptimized() -> Options:
    options = Options()
    options.experimental_optimization.apply_default_optimizations = False
    return options


@given(st.integers(1, 6), st.integers(0, 30), st.booleans())
def test_shards_are_disjoint_and_complete(num_shards: int, length: int, stream: bool) -> None:
    base = counted([], length) if stream else Dataset.range(length)
    shards = [[int(v) for v in base.shard(num_shards, i)] for i in range(num_shards)]
    assert shards == [list(range(length))[i::num_shards] for i in range(num_shards)]


def test_a_generator_is_read_no_further_than_the_element_asked_for() -> None:
    pulled: list[int] = []
    iterator = iter(counted(pulled).shard(4, 2))
    assert pulled == []
    assert next(iterator) == 2 and pulled == [0, 1, 2]
    assert next(iterator) == 6 and pulled[-1] == 6


@pytest.mark.parametrize("stream", [False, True])
def test_errors_of_other_shards_are_not_seen(stream: bool) -> None:
    def fails_at_five(value: Any) -> Any:
        if value == 5:
            raise ValueError("five")
        return value

    base = counted([]) if stream else Dataset.range(30)
    failing = base.map(lambda v: fails_at_five(int(v)))
    assert [int(v) for v in failing.shard(3, 1)] == list(range(1, 30, 3))
    iterator = iter(failing.shard(3, 2))
    assert next(iterator) == 2
    with pytest.raises(ValueError, match="five"):
        next(iterator)
    assert [int(v) for v in iterator] == list(range(8, 30, 3))


@pytest.mark.parametrize("stop", [0, 1, 5, 9, 10])
@pytest.mark.parametrize("options", [Options(), unoptimized()])
def test_a_shard_of_a_stream_goes_on_where_it_was(options: Options, stop: int) -> None:
    def build() -> Dataset:
        return counted([]).shard(3, 1).map(lambda v: v * 2).with_options(options)

    iterator = iter(build())
    for _ in range(stop):
        next(iterator)
    state = json.loads(json.dumps(iterator.state()))
    again = iter(build())
    again.restore(state)
    assert [int(v) for v in again] == list(range(2, 60, 6))[stop:]


def test_rules() -> None:
    def names(dataset: Dataset) -> list[str]:
        return [node.name for node in push_shard(dataset._plan).walk()]

    assert names(Dataset.range(9).map(lambda v: v + 1).shard(3, 1)) == ["range", "shard", "map"]
    python = Dataset.range(9).map(lambda v: int(v)).shard(3, 1)
    assert names(python) == ["range", "map", "shard"]
    merged = push_shard(Dataset.range(40).shard(4, 1).shard(3, 2)._plan)
    assert merged.arguments() == "12, index=9"
    assert [n.name for n in drop_noops(Dataset.range(9).shard(1, 0)._plan).walk()] == ["range"]


def test_cardinality() -> None:
    assert [Dataset.range(10).shard(4, i).cardinality() for i in range(4)] == [3, 3, 2, 2]
    assert Dataset.range(2).shard(4, 3).cardinality() == 0
    assert Dataset.range(2).repeat().shard(4, 3).cardinality() == -1
    assert counted([]).shard(2, 0).cardinality() == -2


@pytest.mark.parametrize(
    ("num_shards", "index", "message"),
    [
        (0, 0, "num_shards must be at least 1"),
        (3, 3, "index must be between 0 and 2, got 3"),
        (3, -1, "index must be at least 0"),
        (1.5, 0, "num_shards must be an integer"),
    ],
)
def test_bad_arguments(num_shards: Any, index: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        Dataset.range(10).shard(num_shards, index)
