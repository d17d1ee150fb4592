"""What is particular to the reduction to one device."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drumline.distribute.collectives import ReductionToOneDevice, ReplicaAxis
from tests.distribute.collectives.replicas import assert_same_bits, axis_of, run


def test_accumulation_function_gets_the_replicas_arrays_in_order_and_unpacked():
    seen = []

    def weighted(arrays):
        seen.append([array.shape for array in arrays])
        return sum(array * 10**index for index, array in enumerate(arrays))

    ops = ReductionToOneDevice("cpu:1", weighted)
    x = np.array([[[1, 2]], [[3, 4]], [[5, 6]]], np.int32)
    results = run(lambda x: ops.all_reduce("SUM", [x, x[0]], axis_of(3)), 3, x)
    assert_same_bits(results[0], np.array([[[531, 642]]] * 3, np.int32))
    assert_same_bits(results[1], np.array([[531, 642]] * 3, np.int32))
    assert seen == [[(1, 2)] * 3, [(2,)] * 3]


def test_accumulation_function_serves_a_single_replica_too():
    ops = ReductionToOneDevice(accumulation_fn=lambda arrays: jnp.maximum(arrays[0], 0))
    assert run(lambda x: ops.all_reduce("SUM", x, axis_of(1)), 1, np.array([-2.0])).tolist() == [0]


def test_device_that_runs_no_replica_is_refused():
    ops = ReductionToOneDevice("cpu:3")
    ops.check(axis_of(4))
    with pytest.raises(ValueError, match=r"'cpu:3' runs no replica; .* 'cpu:0', 'cpu:1'\."):
        ops.check(axis_of(2))


def test_device_name_is_refused_when_replicas_run_in_several_processes():
    axis = ReplicaAxis("replica", tuple(SimpleNamespace(process_index=i) for i in (0, 0, 1)))
    ReductionToOneDevice().check(axis)
    with pytest.raises(ValueError, match="'cpu:0' names a device of one process.* several"):
        ReductionToOneDevice("cpu:0").check(axis)


def test_default_is_the_first_replica():
    assert ReductionToOneDevice().root(axis_of(4)) == 0
    assert ReductionToOneDevice(jax.devices()[2]).root(axis_of(4)) == 2
