"""Running one program on several replicas and looking at what each of them gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, PartitionSpec

from drumline.distribute.collectives import (
    CrossDeviceOps,
    HierarchicalCopyAllReduce,
    NcclAllReduce,
    RecursiveDoublingAllReduce,
    ReductionToOneDevice,
    ReplicaAxis,
    RingAllReduce,
)

ALGORITHMS: dict[str, Callable[..., CrossDeviceOps]] = {
    "nccl": NcclAllReduce,
    "hierarchical": HierarchicalCopyAllReduce,
    "one_device": ReductionToOneDevice,
    "ring": RingAllReduce,
    "doubling": RecursiveDoublingAllReduce,
}


def axis_of(replicas: int) -> ReplicaAxis:
    return ReplicaAxis("replica", tuple(jax.devices()[:replicas]))


def program(body: Callable[..., Any], replicas: int) -> Any:
    """Compile on call: `body` for every replica, its arguments and results stacked by replica."""
    mesh = Mesh(np.array(jax.devices()[:replicas]), ("replica",), axis_types=(AxisType.Auto,))
    spec = PartitionSpec("replica")

    def one(*stacked: Any) -> Any:
        result = body(*jax.tree.map(lambda leaf: leaf[0], stacked))
        return jax.tree.map(lambda leaf: leaf[None], result)

    mapped = jax.shard_map(one, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    return jax.jit(mapped)


def run(body: Callable[..., Any], replicas: int, *stacked: Any) -> Any:
    """The results of `body` on each replica, as NumPy arrays, stacked."""
    return jax.tree.map(np.asarray, jax.block_until_ready(program(body, replicas)(*stacked)))


def stack_of(values: Callable[[int], Any], replicas: int) -> Any:
    """Stack what `values` makes for each replica."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *map(values, range(replicas)))


def assert_same_bits(actual: Any, expected: Any) -> None:
    jax.tree.map(_assert_same_bits, actual, expected)


def _assert_same_bits(actual: np.ndarray, expected: np.ndarray) -> None:
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert actual.tobytes() == expected.tobytes()
