"""Tensors and raw bytes beside TensorFlow's own, where that is installed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import drumline as dl

tf = pytest.importorskip("tensorflow", reason="compares with TensorFlow, which the bench extra has")

NUMBERS = st.sampled_from(
    [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]
).map(np.dtype)
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
TENSORS = NUMBERS.flatmap(lambda dtype: arrays.arrays(dtype, SHAPES))
STRINGS = arrays.arrays(np.dtype(object), SHAPES, elements=st.binary(max_size=5))


@given(TENSORS | STRINGS)
def test_tensors(tensor):
    message = tf.io.serialize_tensor(tf.constant(tensor)).numpy()
    assert dl.io.serialize_tensor(tensor) == message
    dtype = "string" if tensor.dtype == object else tensor.dtype
    np.testing.assert_array_equal(dl.io.parse_tensor(message, dtype), tensor)


@given(TENSORS.filter(lambda tensor: tensor.size > 0))
def test_values_listed_one_by_one(tensor):
    listed = tf.make_tensor_proto([tensor.flat[0].item()], dtype=tensor.dtype, shape=tensor.shape)
    message = listed.SerializeToString()
    wanted = tf.io.parse_tensor(message, tensor.dtype).numpy()
    np.testing.assert_array_equal(dl.io.parse_tensor(message, tensor.dtype), wanted)


@given(
    st.lists(st.binary(min_size=8, max_size=8), min_size=1, max_size=4),
    st.sampled_from(["int16", "float32", "uint8", "float64"]),
    st.booleans(),
    st.sampled_from([None, 8, 16, 32]),
)
def test_raw_bytes(strings, dtype, little_endian, fixed_length):
    arguments = {"little_endian": little_endian, "fixed_length": fixed_length}
    wanted = tf.io.decode_raw(tf.constant(strings, tf.string), dtype, **arguments)
    found = dl.io.decode_raw(np.array(strings, object), dtype, **arguments)
    assert found.shape == wanted.shape
    assert found.tobytes() == wanted.numpy().tobytes()
