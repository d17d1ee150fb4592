"""Which arrays travel together."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.distribute.collectives import RingAllReduce
from drumline.distribute.collectives.cross_device_ops import SMALL_BYTES, Packing
from tests.distribute.collectives.replicas import axis_of, program

arrays_to_pack = st.lists(
    st.builds(
        np.zeros,
        st.integers(1, 400) | st.sampled_from([SMALL_BYTES // 4, SMALL_BYTES // 4 + 1, 10**6]),
        st.sampled_from([np.float32, np.float16, np.int32]),
    ),
    max_size=12,
)


@given(arrays_to_pack, st.integers(0, 5), st.integers(0, 3000))
def test_groups(arrays, num_packs, bytes_per_pack):
    groups = Packing(num_packs, bytes_per_pack).groups(arrays)
    assert sorted(i for group in groups for i in group) == list(range(len(arrays)))
    for group in groups:
        assert group == sorted(group)
        assert len({arrays[i].dtype for i in group}) == 1
        if len(group) > 1:
            assert num_packs and all(arrays[i].nbytes <= SMALL_BYTES for i in group)
            assert not bytes_per_pack or sum(arrays[i].nbytes for i in group) <= bytes_per_pack
    if num_packs and not bytes_per_pack:
        for dtype in {array.dtype for array in arrays}:
            small = [
                group
                for group in groups
                if arrays[group[0]].dtype == dtype and arrays[group[0]].nbytes <= SMALL_BYTES
            ]
            assert len(small) <= num_packs


@pytest.mark.parametrize(
    ("num_packs", "bytes_per_pack", "expected"),
    [
        (1, 0, [[0, 1, 2, 3, 4, 5]]),
        (2, 0, [[0, 1, 2], [3, 4, 5]]),
        (4, 0, [[0, 1], [2], [3, 4], [5]]),
        (9, 0, [[0], [1], [2], [3], [4], [5]]),
        (0, 0, [[0], [1], [2], [3], [4], [5]]),
        (1, 900, [[0, 1], [2, 3], [4, 5]]),
        (2, 800, [[0, 1], [2], [3, 4], [5]]),
        (1, 399, [[0], [1], [2], [3], [4], [5]]),
    ],
)
def test_packs_of_equal_arrays(num_packs, bytes_per_pack, expected):
    arrays = [np.zeros(100, np.float32)] * 6
    assert Packing(num_packs, bytes_per_pack).groups(arrays) == expected


@pytest.mark.parametrize(
    ("options", "packs"), [({}, 1), ({"num_packs": 3}, 3), ({"num_packs": 0}, 20)]
)
def test_number_of_sends_in_the_compiled_program(options, packs):
    ops, axis = RingAllReduce(**options), axis_of(4)
    reduce = program(lambda arrays: ops.all_reduce("SUM", arrays, axis), 4)
    given = [jax.ShapeDtypeStruct((4, 10), jnp.float32)] * 20
    text = reduce.lower(given).compile().as_text()
    assert text.count(" collective-permute(") == packs * 2 * 3
