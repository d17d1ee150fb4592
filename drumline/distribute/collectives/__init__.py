"""Collectives: the algorithms by which replicas' values are reduced, and a base for custom ones."""

from drumline.distribute.collectives.cross_device_ops import CrossDeviceOps, ReplicaAxis
from drumline.distribute.collectives.platform import (
    GlooAllReduce,
    NcclAllReduce,
    resolve_cross_device_ops,
)
from drumline.distribute.collectives.ring import RingAllReduce
from drumline.distribute.collectives.shared_memory import SharedMemoryAllReduce
from drumline.distribute.collectives.tree import (
    HierarchicalCopyAllReduce,
    RecursiveDoublingAllReduce,
    ReductionToOneDevice,
)

__all__ = [
    "CrossDeviceOps",
    "GlooAllReduce",
    "HierarchicalCopyAllReduce",
    "NcclAllReduce",
    "RecursiveDoublingAllReduce",
    "ReductionToOneDevice",
    "ReplicaAxis",
    "RingAllReduce",
    "SharedMemoryAllReduce",
    "resolve_cross_device_ops",
]
