"""The public base: structures, refusals, broadcast, and an algorithm of one's own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drumline.distribute.collectives import (
    CrossDeviceOps,
    NcclAllReduce,
    ReductionToOneDevice,
    RingAllReduce,
)
from drumline.distribute.values import ReduceOp
from tests.distribute.collectives.replicas import assert_same_bits, axis_of, program, run

SPEC = jax.ShapeDtypeStruct((4, 1), jnp.float32)


class ByGathering(CrossDeviceOps):
    """Without a constructor of its own that calls the base's."""

    def __init__(self):
        self.shapes = []

    def sum_array(self, array, axis):
        self.shapes.append(array.shape)
        return jax.lax.all_gather(array, axis.name).sum(axis=0, dtype=array.dtype)


class Cutting(CrossDeviceOps):
    def sum_array(self, array, axis):
        return jax.lax.psum(array, axis.name)[:1]


class Widening(CrossDeviceOps):
    def sum_array(self, array, axis):
        return jax.lax.psum(array.astype(jnp.float32), axis.name)


def test_algorithm_of_ones_own():
    ops = ByGathering()
    x = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    y = np.arange(4, dtype=np.float32)
    results = run(lambda x, y: ops.all_reduce(ReduceOp.SUM, (x, y), axis_of(4)), 4, x, y)
    assert_same_bits(results[0], np.broadcast_to(x.sum(axis=0), x.shape).copy())
    assert_same_bits(results[1], np.full(4, 6, np.float32))
    assert ops.shapes == [(1, 7)]
    assert ops.bytes_sent(SPEC, axis_of(4), 0) is None


@pytest.mark.parametrize("ops", [Cutting(), Widening()])
def test_sum_that_changes_the_array_is_refused(ops):
    with pytest.raises(TypeError, match=rf"{type(ops).__name__} made float32.* must keep shape"):
        program(lambda x: ops.all_reduce("SUM", x, axis_of(4)), 4).lower(
            jax.ShapeDtypeStruct((4, 3), jnp.float16 if ops.__class__ is Widening else jnp.float32)
        )


def test_base_alone_is_no_algorithm():
    with pytest.raises(TypeError, match="sum_array"):
        CrossDeviceOps()


def test_structures_are_kept_and_python_numbers_accepted():
    def body(x):
        return NcclAllReduce().all_reduce("mean", {"a": [x, None], "b": (2, True)}, axis_of(2))

    results = run(body, 2, np.array([1, 4], np.float32))
    assert results["a"][0].tolist() == [2.5, 2.5] and results["a"][1] is None
    assert results["b"][0].tolist() == [2.0, 2.0] and results["b"][0].dtype == np.float32
    assert results["b"][1].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("leaf", ["text", object(), np.array(["a"])])
def test_leaf_that_is_no_number_is_named(leaf):
    with pytest.raises(TypeError, match=r"value\['w'\]\[1\] is"):
        NcclAllReduce().all_reduce("SUM", {"w": [1.0, leaf]}, axis_of(1))


def test_random_keys_are_refused():
    with pytest.raises(TypeError, match=r"the value is an array of key<fry>"):
        NcclAllReduce().all_reduce("SUM", jax.random.key(0), axis_of(1))


def test_unknown_reduction():
    with pytest.raises(ValueError, match="'MAX'"):
        NcclAllReduce().all_reduce("MAX", 1.0, axis_of(1))


@pytest.mark.parametrize("options", [{"num_packs": -1}, {"bytes_per_pack": -5}])
@pytest.mark.parametrize("make", [NcclAllReduce, RingAllReduce, ReductionToOneDevice])
def test_negative_options_are_refused(make, options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be 0 or more"):
        make(**options)


def test_options_must_be_integers():
    with pytest.raises(TypeError, match="num_packs must be an integer, got 1.5"):
        NcclAllReduce(num_packs=1.5)


@pytest.mark.parametrize("source", [0, 3])
def test_broadcast(source):
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    flags = np.array([True, False, True, False])
    x[source, 0] = -0.0

    def body(x, flag):
        return RingAllReduce().broadcast((x, flag, x[:2]), axis_of(4), source)

    results = run(body, 4, x, flags)
    assert_same_bits(results[0], np.stack([x[source]] * 4))
    assert_same_bits(results[1], np.stack([flags[source]] * 4))
    assert_same_bits(results[2], np.stack([x[source, :2]] * 4))


def test_broadcast_from_nowhere():
    with pytest.raises(ValueError, match="no replica 4 to copy from, of 4"):
        RingAllReduce().broadcast(1.0, axis_of(4), 4)
