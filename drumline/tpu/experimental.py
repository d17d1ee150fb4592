"""Names that scripts write as ``tf.tpu.experimental``."""

from drumline.distribute.cluster_resolver.tpu import (
    DeviceAssignment,
    DeviceOrderMode,
    HardwareFeature,
    Topology,
    TPUSystemMetadata,
)
from drumline.distribute.process_group.start import initialize_tpu_system, shutdown_tpu_system

__all__ = [
    "DeviceAssignment",
    "DeviceOrderMode",
    "HardwareFeature",
    "TPUSystemMetadata",
    "Topology",
    "initialize_tpu_system",
    "shutdown_tpu_system",
]
