"""Names that guides write as ``tf.distribute.experimental``."""

from drumline.distribute.communication_options import (
    CollectiveCommunication,
    CommunicationImplementation,
    CommunicationOptions,
)
from drumline.distribute.distributed_iterator import Optional
from drumline.distribute.input import ValueContext

__all__ = [
    "CollectiveCommunication",
    "CommunicationImplementation",
    "CommunicationOptions",
    "Optional",
    "ValueContext",
]
