"""Names that guides write as ``tf.distribute.experimental``."""

from drumline.distribute.cluster_resolver import ClusterResolver
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

__all__ = [
    "CentralStorageStrategy",
    "CollectiveCommunication",
    "CommunicationImplementation",
    "CommunicationOptions",
    "MultiWorkerMirroredStrategy",
    "Optional",
    "ParameterServerStrategy",
    "PreemptionCheckpointHandler",
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
