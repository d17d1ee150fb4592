"""``tf.config``, ``tf.device``, ``tf.test``, and whether code runs eagerly."""

from drumline.compat.symbols.table import area, same_names

_DEVICES = "drumline.compat.runtime.devices"
_SETTINGS = "drumline.compat.runtime.settings"
_TESTS = "drumline.compat.runtime.testing"

AREA = (
    *area(
        _DEVICES,
        PhysicalDevice="config.PhysicalDevice",
        LogicalDevice="config.LogicalDevice",
        PartOfDevice=(
            "config.LogicalDeviceConfiguration config.experimental.VirtualDeviceConfiguration"
        ),
        list_physical_devices=(
            "config.list_physical_devices config.experimental.list_physical_devices"
        ),
        list_logical_devices=(
            "config.list_logical_devices config.experimental.list_logical_devices"
        ),
        set_visible_devices="config.set_visible_devices config.experimental.set_visible_devices",
        get_visible_devices="config.get_visible_devices config.experimental.get_visible_devices",
        set_logical_device_configuration=(
            "config.set_logical_device_configuration "
            "config.experimental.set_virtual_device_configuration"
        ),
        get_logical_device_configuration=(
            "config.get_logical_device_configuration "
            "config.experimental.get_virtual_device_configuration"
        ),
        set_memory_growth="config.experimental.set_memory_growth",
        get_memory_growth="config.experimental.get_memory_growth",
        get_memory_info="config.experimental.get_memory_info",
        get_memory_usage="config.experimental.get_memory_usage",
        get_device_details="config.experimental.get_device_details",
        set_soft_device_placement="config.set_soft_device_placement",
        get_soft_device_placement="config.get_soft_device_placement",
        device="device",
        differences={
            "list_physical_devices": "where JAX has plugins for accelerators it starts JAX",
            "set_visible_devices": "the CPU cannot be made invisible",
            "set_logical_device_configuration": "GPUs cannot be divided, nor their memory limited",
            "set_memory_growth": "it is one setting for all GPUs",
            "device": (
                "tensors that were made of numbers, lists or numpy's arrays stay on the host until "
                "they are computed with, and say so in their `device`"
            ),
        },
    ),
    *area(
        _SETTINGS,
        set_intra_op_parallelism_threads="config.threading.set_intra_op_parallelism_threads",
        get_intra_op_parallelism_threads="config.threading.get_intra_op_parallelism_threads",
        set_inter_op_parallelism_threads="config.threading.set_inter_op_parallelism_threads",
        get_inter_op_parallelism_threads="config.threading.get_inter_op_parallelism_threads",
        set_jit="config.optimizer.set_jit",
        get_jit="config.optimizer.get_jit",
        set_experimental_options="config.optimizer.set_experimental_options",
        get_experimental_options="config.optimizer.get_experimental_options",
        enable_op_determinism="config.experimental.enable_op_determinism",
        enable_tensor_float_32_execution="config.experimental.enable_tensor_float_32_execution",
        tensor_float_32_execution_enabled="config.experimental.tensor_float_32_execution_enabled",
        set_synchronous_execution="config.experimental.set_synchronous_execution",
        get_synchronous_execution="config.experimental.get_synchronous_execution",
        get_device_policy="config.experimental.get_device_policy",
        experimental_connect_to_cluster="config.experimental_connect_to_cluster",
        set_log_device_placement="debugging.set_log_device_placement",
        get_log_device_placement="debugging.get_log_device_placement",
        executing_eagerly="executing_eagerly",
        init_scope="init_scope",
        differences={
            "set_inter_op_parallelism_threads": (
                "XLA runs independent operations in the threads of "
                "set_intra_op_parallelism_threads: the number is remembered, and changes nothing"
            ),
            "set_jit": "XLA compiles in any case: the setting is remembered, and changes nothing",
            "set_experimental_options": (
                "XLA chooses its optimizations: options are remembered, and change nothing"
            ),
            "enable_op_determinism": "it does not require seeds",
            "get_synchronous_execution": "programs are not waited for at first",
            "experimental_connect_to_cluster": (
                "it joins a TPU's machines; to other clusters strategies connect when made"
            ),
            "set_log_device_placement": "programs are logged when they are compiled, by JAX",
        },
    ),
    *area(
        "drumline.compat.training.function",
        run_functions_eagerly="config.experimental_run_functions_eagerly",
        functions_run_eagerly="config.experimental_functions_run_eagerly",
    ),
    *same_names(
        _TESTS,
        "test.",
        "TestCase compute_gradient gpu_device_name is_built_with_cuda is_built_with_gpu_support "
        "is_built_with_rocm is_built_with_xla is_cpu_target_available is_gpu_available main "
        "disable_with_predicate with_eager_op_as_function create_local_cluster",
    ),
    *area(_TESTS, sync_devices="test.experimental.sync_devices"),
)
