"""Into how many parts variables are cut, beside what TensorFlow 2.21 gave."""

import json

import numpy as np
import pytest

from drumline.distribute.parameter_server.partitioners import (
    FixedShardsPartitioner,
    MaxSizePartitioner,
    MinSizePartitioner,
    Partitioner,
)
from drumline.distribute.parameter_server.servers import RoundRobin
from drumline.distribute.parameter_server.wire import Message
from drumline.distribute.parameter_server.wire.messages import LoadProgram
from drumline.distribute.parameter_server.wire.schema import decode, encode

# (partitioner, shape, what tf.distribute.experimental.partitioners gave for float32)
FROM_TENSORFLOW = [
    (FixedShardsPartitioner(1), (10,), [1]),
    (FixedShardsPartitioner(2), (10,), [2]),
    (FixedShardsPartitioner(5), (10,), [5]),
    (MinSizePartitioner(64, 3), (10,), [1]),
    (MaxSizePartitioner(64, None), (10,), [1]),
    (MaxSizePartitioner(1000, 4), (10,), [1]),
    (FixedShardsPartitioner(1), (7, 3), [1, 1]),
    (FixedShardsPartitioner(2), (7, 3), [2, 1]),
    (FixedShardsPartitioner(5), (7, 3), [5, 1]),
    (MinSizePartitioner(64, 3), (7, 3), [2, 1]),
    (MaxSizePartitioner(64, None), (7, 3), [2, 1]),
    (MaxSizePartitioner(1000, 4), (7, 3), [1, 1]),
    (FixedShardsPartitioner(1), (100, 16), [1, 1]),
    (FixedShardsPartitioner(2), (100, 16), [2, 1]),
    (FixedShardsPartitioner(5), (100, 16), [5, 1]),
    (MinSizePartitioner(64, 3), (100, 16), [3, 1]),
    (MinSizePartitioner(1000, 8), (100, 16), [7, 1]),
    (MaxSizePartitioner(64, None), (100, 16), [100, 1]),
    (MaxSizePartitioner(1000, None), (100, 16), [7, 1]),
    (MaxSizePartitioner(1000, 4), (100, 16), [4, 1]),
    (FixedShardsPartitioner(1), (1, 5), [1, 1]),
    (FixedShardsPartitioner(5), (1, 5), [1, 1]),
    (MinSizePartitioner(64, 3), (1, 5), [1, 1]),
    (MaxSizePartitioner(64, None), (1, 5), [1, 1]),
    (MaxSizePartitioner(1000, 4), (1, 5), [1, 1]),
    (FixedShardsPartitioner(1), (1000, 64), [1, 1]),
    (FixedShardsPartitioner(2), (1000, 64), [2, 1]),
    (FixedShardsPartitioner(5), (1000, 64), [5, 1]),
    (MinSizePartitioner(64, 3), (1000, 64), [3, 1]),
    (MinSizePartitioner(1000, 8), (1000, 64), [8, 1]),
    (MaxSizePartitioner(64, None), (1000, 64), [1000, 1]),
    (MaxSizePartitioner(1000, None), (1000, 64), [334, 1]),
    (MaxSizePartitioner(1000, 4), (1000, 64), [4, 1]),
    (FixedShardsPartitioner(1), (3, 100000), [1, 1]),
    (FixedShardsPartitioner(2), (3, 100000), [2, 1]),
    (FixedShardsPartitioner(5), (3, 100000), [3, 1]),
    (MinSizePartitioner(262144, 4), (3, 100000), [3, 1]),
    (MinSizePartitioner(64, 3), (3, 100000), [3, 1]),
    (MinSizePartitioner(1000, 8), (3, 100000), [3, 1]),
    (MaxSizePartitioner(64, None), (3, 100000), [3, 1]),
    (MaxSizePartitioner(1000, None), (3, 100000), [3, 1]),
    (MaxSizePartitioner(1000, 4), (3, 100000), [3, 1]),
    (MaxSizePartitioner(300000, None), (3, 100000), [3, 1]),
]


@pytest.mark.parametrize(("partitioner", "shape", "expected"), FROM_TENSORFLOW)
def test_parts_as_in_tensorflow(partitioner, shape, expected):
    assert partitioner(shape, "float32") == expected


def test_dtypes_count_by_their_size():
    assert MaxSizePartitioner(64)((8, 8), "float32") == [4, 1]
    assert MaxSizePartitioner(64)((8, 8), "bfloat16") == [2, 1]
    assert MinSizePartitioner(64, max_shards=9)((8, 8), "float64") == [8, 1]


def test_scalars_and_vectors_without_rows_are_not_cut():
    assert FixedShardsPartitioner(3)((), "float32") == []
    assert FixedShardsPartitioner(3)((0, 4), "float32") == [1, 1]
    assert MaxSizePartitioner(8)((), "float32") == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedShardsPartitioner(0),
        lambda: MinSizePartitioner(0),
        lambda: MinSizePartitioner(8, max_shards=0),
        lambda: MaxSizePartitioner(8, max_shards=0),
        lambda: MaxSizePartitioner(8, bytes_per_string=0),
    ],
)
def test_numbers_below_one_are_refused(make):
    with pytest.raises(ValueError, match="at least 1"):
        make()


def test_parts_go_to_one_server_after_the_other():
    servers = RoundRobin(3, FixedShardsPartitioner(2))
    first = servers.place("a", (5, 2), "float32")
    second = servers.place("b", (), "float32")
    third = servers.place("a", (4,), "float32")
    assert [(p.server, p.start, p.stop) for p in first.shards] == [(0, 0, 3), (1, 3, 5)]
    assert [(p.server, p.start, p.stop) for p in second.shards] == [(2, 0, 1)]
    assert [(p.server, p.start, p.stop) for p in third.shards] == [(0, 0, 2), (1, 2, 4)]
    assert first.key != third.key
    assert first.shard_shape(first.shards[0]) == (3, 2)
    assert second.shard_shape(second.shards[0]) == ()


def test_a_layout_goes_through_json():
    layout = RoundRobin(2, FixedShardsPartitioner(2)).place("a", (5, 2), "float32")
    load = LoadProgram(
        session="s",
        function=1,
        signature=(),
        layouts=(layout,),
        updates={},
        state=(),
        program=np.zeros(1, np.uint8),
    )
    header, arrays = encode(load)
    received = decode(LoadProgram, Message(json.loads(json.dumps(header)), arrays))
    assert received.layouts == (layout,)


@pytest.mark.parametrize("counts", [[1, 2], [3], [9, 1], [0, 1]])
def test_cuts_that_servers_cannot_make_are_refused(counts):
    class Odd(Partitioner):
        def __call__(self, shape, dtype, axis=0):
            return counts

    with pytest.raises(ValueError, match="'v'"):
        RoundRobin(2, Odd()).place("v", (5, 4), "float32")
