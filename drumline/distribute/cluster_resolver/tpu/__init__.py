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
    HardwareFeature,
    TPUNotFoundError,
    TPUSystemMetadata,
    local_tpu_devices,
    require_tpu_support,
    topology_of_tpus,
    tpu_devices,
)
from drumline.distribute.cluster_resolver.tpu.topology import Topology

__all__ = [
    "DeviceAssignment",
    "DeviceOrderMode",
    "HardwareFeature",
    "NoTPUNamedError",
    "TPUClusterResolver",
    "TPUNotFoundError",
    "TPUSystemMetadata",
    "Topology",
    "local_tpu_devices",
    "register_initializer",
    "require_tpu_support",
    "topology_of_tpus",
    "tpu_devices",
]
