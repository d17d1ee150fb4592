"""The way that arrays take between CPU processes, by their size and the number of replicas."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drumline.distribute.collectives import (
    GlooAllReduce,
    NcclAllReduce,
    RecursiveDoublingAllReduce,
)
from tests.distribute.collectives import checks
from tests.distribute.collectives.replicas import (
    assert_same_bits,
    axis_of,
    program,
    run,
    stack_of,
)

SMALL, LARGE = 16 * 1024, 16 * 1024 + 4
"""Elements of a float32 array of 64 KiB, and of a larger one."""


@pytest.mark.parametrize(
    ("replicas", "size", "messages"), [(2, LARGE, True), (4, SMALL, True), (4, LARGE, False)]
)
def test_the_way_depends_on_size_and_replicas(replicas, size, messages):
    array = jax.ShapeDtypeStruct((size,), jnp.float32)
    axis, ops = axis_of(replicas), GlooAllReduce()
    way = RecursiveDoublingAllReduce() if messages else NcclAllReduce()
    formula = [way.bytes_sent(array, axis, replica) for replica in range(replicas)]
    assert [ops.bytes_sent(array, axis, replica) for replica in range(replicas)] == formula
    assert checks.count(ops, replicas, array).sum(axis=1).tolist() == formula
    reduce = program(lambda a: ops.all_reduce("SUM", a, axis), replicas)
    text = reduce.lower(jax.ShapeDtypeStruct((replicas, size), jnp.float32)).as_text()
    assert ("collective_permute" in text, "all_reduce" in text) == (messages, not messages)


def test_sums_are_right():
    checks.check_sums(GlooAllReduce(), 2)


def test_between_two_a_pack_is_summed_as_its_arrays_are():
    given = stack_of(checks.values, 2)
    alone, packed = (
        run(lambda v, ops=ops: ops.all_reduce("SUM", v, axis_of(2)), 2, given)
        for ops in (GlooAllReduce(num_packs=0), GlooAllReduce())
    )
    assert_same_bits(alone, packed)


def test_doubling_exchanges_with_replicas_ever_farther_apart():
    array = jax.ShapeDtypeStruct((10,), jnp.float32)
    sent = checks.count(RecursiveDoublingAllReduce(), 4, array) // 40
    assert_same_bits(sent, np.array([[int(i ^ j in (1, 2)) for j in range(4)] for i in range(4)]))


def test_it_says_what_it_does():
    assert "two replicas exchange" in GlooAllReduce().describe(axis_of(2))
    assert "recursive doubling up to 64 KiB" in GlooAllReduce().describe(axis_of(3))
    on_cpus = "NcclAllReduce, which is XLA's own all-reduce on CPUs"
    assert NcclAllReduce().describe(axis_of(3)) == on_cpus
