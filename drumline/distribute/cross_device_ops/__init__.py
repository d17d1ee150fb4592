"""Collectives: the algorithms by which replicas' values are reduced, and a base for custom ones."""

from drumline.distribute.cross_device_ops.cross_device_ops import CrossDeviceOps
from drumline.distribute.cross_device_ops.platform import (
    GlooAllReduce,
    NcclAllReduce,
    resolve_cross_device_ops,
)
from drumline.distribute.cross_device_ops.replica_axis import ReplicaAxis
from drumline.distribute.cross_device_ops.ring import RingAllReduce
from drumline.distribute.cross_device_ops.shared_memory import SharedMemoryAllReduce
from drumline.distribute.cross_device_ops.traffic import bytes_between
from drumline.distribute.cross_device_ops.tree import (
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
    "bytes_between",
    "resolve_cross_device_ops",
]
