"""Strategies: how one training script runs on several devices.

A strategy answers three questions: where variables live, where replicas run, and how values
are reduced. The names follow ``tf.distribute``.
"""

from drumline.distribute import cluster_resolver, experimental
from drumline.distribute.collectives import (
    CrossDeviceOps,
    HierarchicalCopyAllReduce,
    NcclAllReduce,
    ReductionToOneDevice,
    RingAllReduce,
)
from drumline.distribute.collectives.platform import (
    CollectiveCommunication,
    CommunicationImplementation,
    CommunicationOptions,
)
from drumline.distribute.functions import Function, function
from drumline.distribute.input.distributed_dataset import DistributedDataset
from drumline.distribute.input.distributed_iterator import DistributedIterator
from drumline.distribute.input.options import (
    InputContext,
    InputOptions,
    InputReplicationMode,
    ValueContext,
)
from drumline.distribute.parameter_server import (
    ParameterServerLostError,
    ParameterServerStrategy,
    Server,
    ShardedVariable,
    coordinator,
)
from drumline.distribute.process_group import PeerLostError
from drumline.distribute.replica import (
    ReplicaContext,
    get_replica_context,
    get_strategy,
    has_strategy,
    in_cross_replica_context,
)
from drumline.distribute.step.run import RunOptions
from drumline.distribute.strategies import (
    MirroredStrategy,
    ModelParallelStrategy,
    MultiWorkerMirroredStrategy,
    OneDeviceStrategy,
    TPUStrategy,
)
from drumline.distribute.strategy import Strategy, StrategyExtended
from drumline.distribute.values import DistributedValues, PerReplica, ReduceOp
from drumline.distribute.variable import (
    Variable,
    VariableAggregation,
    VariableSynchronization,
)

__all__ = [
    "CollectiveCommunication",
    "CommunicationImplementation",
    "CommunicationOptions",
    "CrossDeviceOps",
    "DistributedDataset",
    "DistributedIterator",
    "DistributedValues",
    "Function",
    "HierarchicalCopyAllReduce",
    "InputContext",
    "InputOptions",
    "InputReplicationMode",
    "MirroredStrategy",
    "ModelParallelStrategy",
    "MultiWorkerMirroredStrategy",
    "NcclAllReduce",
    "OneDeviceStrategy",
    "ParameterServerLostError",
    "ParameterServerStrategy",
    "PeerLostError",
    "PerReplica",
    "ReduceOp",
    "ReductionToOneDevice",
    "ReplicaContext",
    "RingAllReduce",
    "RunOptions",
    "Server",
    "ShardedVariable",
    "Strategy",
    "StrategyExtended",
    "TPUStrategy",
    "ValueContext",
    "Variable",
    "VariableAggregation",
    "VariableSynchronization",
    "cluster_resolver",
    "coordinator",
    "experimental",
    "function",
    "get_replica_context",
    "get_strategy",
    "has_strategy",
    "in_cross_replica_context",
]
