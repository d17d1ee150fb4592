"""TPUs: their machines, what JAX finds of them, and the places of their cores.

The names follow ``tf.distribute.cluster_resolver`` and ``tf.tpu.experimental``.
"""

from drumline.distribute.cluster_resolver.tpu.device_assignment import (
    DeviceAssignment,
    DeviceOrderMode,
)
from drumline.distribute.cluster_resolver.tpu.resolver import (
    NoTPUNamedError,
    TPUClusterResolver,
    register_initializer,
)
from drumline.distribute.cluster_resolver.tpu.system import (
    MODEL_PARALLELISM,
    HardwareFeature,
    TPUNotFoundError,
    TPUSystemMetadata,
    assigned_devices,
    local_tpu_devices,
    require_assignment,
    require_tpu_support,
    topology_of_tpus,
    tpu_devices,
)
from drumline.distribute.cluster_resolver.tpu.topology import Topology

__all__ = [
    "MODEL_PARALLELISM",
    "DeviceAssignment",
    "DeviceOrderMode",
    "HardwareFeature",
    "NoTPUNamedError",
    "TPUClusterResolver",
    "TPUNotFoundError",
    "TPUSystemMetadata",
    "Topology",
    "assigned_devices",
    "local_tpu_devices",
    "register_initializer",
    "require_assignment",
    "require_tpu_support",
    "topology_of_tpus",
    "tpu_devices",
]
