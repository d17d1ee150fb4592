"""Settings of this process, and its devices as ``tf.config`` names them.

Settings are made before what they concern is used, by a call here or by an environment variable.
`report` lists what drumline has changed in Keras, in JAX and in the process.
"""

from drumline.config.cache import (
    CompilationCacheInfo,
    compilation_cache,
    compilation_cache_info,
)
from drumline.config.cluster import experimental_connect_to_cluster
from drumline.config.devices import (
    LogicalDeviceConfiguration,
    functions_run_eagerly,
    list_logical_devices,
    list_physical_devices,
    run_functions_eagerly,
    set_logical_device_configuration,
    set_logical_devices,
)
from drumline.config.report import ChangeReport, report
from drumline.config.settings import (
    cpu_kernels,
    reuses_large_buffers,
    set_cpu_kernels,
    set_large_buffer_reuse,
)

__all__ = [
    "ChangeReport",
    "CompilationCacheInfo",
    "LogicalDeviceConfiguration",
    "compilation_cache",
    "compilation_cache_info",
    "cpu_kernels",
    "experimental_connect_to_cluster",
    "functions_run_eagerly",
    "list_logical_devices",
    "list_physical_devices",
    "report",
    "reuses_large_buffers",
    "run_functions_eagerly",
    "set_cpu_kernels",
    "set_large_buffer_reuse",
    "set_logical_device_configuration",
    "set_logical_devices",
]
