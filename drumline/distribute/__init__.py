"""Strategies: how one training script runs on several devices.

A strategy answers three questions: where variables live, where replicas run, and how values
meet. The names follow ``tf.distribute``.
"""

from drumline.distribute.distributed_dataset import DistributedDataset
from drumline.distribute.mirrored import MirroredStrategy
from drumline.distribute.one_device import OneDeviceStrategy
from drumline.distribute.per_replica import PerReplica
from drumline.distribute.reduce_op import ReduceOp
from drumline.distribute.replica_context import ReplicaContext, get_replica_context
from drumline.distribute.scope import get_strategy, has_strategy
from drumline.distribute.strategy import Strategy

__all__ = [
    "DistributedDataset",
    "MirroredStrategy",
    "OneDeviceStrategy",
    "PerReplica",
    "ReduceOp",
    "ReplicaContext",
    "Strategy",
    "get_replica_context",
    "get_strategy",
    "has_strategy",
]
