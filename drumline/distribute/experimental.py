"""Names that guides write as ``tf.distribute.experimental``."""

from drumline.distribute.cluster_resolver import ClusterResolver, TPUClusterResolver
from drumline.distribute.cluster_resolver.tpu import DeviceAssignment
from drumline.distribute.collectives.platform import (
    CollectiveCommunication,
    CommunicationImplementation,
    CommunicationOptions,
)
from drumline.distribute.input.distributed_iterator import Optional
from drumline.distribute.input.options import ValueContext
from drumline.distribute.parameter_server import (
    ParameterServerStrategy,
    coordinator,
    partitioners,
)
from drumline.distribute.process_group.preemption import (
    PreemptionCheckpointHandler,
    TerminationConfig,
)
from drumline.distribute.strategies import CentralStorageStrategy
from drumline.distribute.strategies import (
    MultiWorkerMirroredStrategy as _MultiWorkerMirroredStrategy,
)
from drumline.distribute.strategies import TPUStrategy as _TPUStrategy

__all__ = [
    "CentralStorageStrategy",
    "CollectiveCommunication",
    "CommunicationImplementation",
    "CommunicationOptions",
    "MultiWorkerMirroredStrategy",
    "Optional",
    "ParameterServerStrategy",
    "PreemptionCheckpointHandler",
    "TPUStrategy",
    "TerminationConfig",
    "ValueContext",
    "coordinator",
    "partitioners",
]


class MultiWorkerMirroredStrategy(_MultiWorkerMirroredStrategy):
    """`drumline.distribute.MultiWorkerMirroredStrategy`, with the arguments of the older name.

    Args:
        communication: a `CollectiveCommunication`.
        cluster_resolver: by default what ``TF_CONFIG`` says.
    """

    def __init__(
        self,
        communication: CollectiveCommunication = CollectiveCommunication.AUTO,
        cluster_resolver: ClusterResolver | None = None,
    ) -> None:
        super().__init__(cluster_resolver, CommunicationOptions.of(communication))


class TPUStrategy(_TPUStrategy):
    """`drumline.distribute.TPUStrategy`, with the arguments of the older name.

    Args:
        tpu_cluster_resolver: says which machines the TPU has.
        device_assignment: the cores that compute, one for each replica; by default all.
    """

    def __init__(
        self,
        tpu_cluster_resolver: TPUClusterResolver | None = None,
        device_assignment: DeviceAssignment | None = None,
    ) -> None:
        super().__init__(tpu_cluster_resolver, device_assignment)
