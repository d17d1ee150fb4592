"""Collectives: the algorithms by which replicas' values meet, and a base for one's own."""

from drumline.distribute.cross_device_ops.cross_device_ops import CrossDeviceOps
from drumline.distribute.cross_device_ops.hierarchical_copy import HierarchicalCopyAllReduce
from drumline.distribute.cross_device_ops.nccl import NcclAllReduce
from drumline.distribute.cross_device_ops.platform import GlooAllReduce
from drumline.distribute.cross_device_ops.recursive_doubling import RecursiveDoublingAllReduce
from drumline.distribute.cross_device_ops.replica_axis import ReplicaAxis
from drumline.distribute.cross_device_ops.resolve import resolve_cross_device_ops
from drumline.distribute.cross_device_ops.ring_all_reduce import RingAllReduce
from drumline.distribute.cross_device_ops.shared_memory import SharedMemoryAllReduce
from drumline.distribute.cross_device_ops.traffic import bytes_between
from drumline.distribute.cross_device_ops.tree import ReductionToOneDevice

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
