"""``tf.version``, ``tf.compat``, ``tf.sysconfig``, logging, and switches of ``tf.compat.v1``."""

from drumline.compat.symbols.table import area, same_names

_MODULE = "drumline.compat.v1.platform"
_EAGER = "does nothing: eager execution cannot be switched off"
_LOGGING = (
    "DEBUG INFO WARN ERROR FATAL debug info warn error fatal warning log vlog log_every_n "
    "log_first_n log_if flush get_verbosity set_verbosity"
)
_FLAGS = (
    "ArgumentParser DEFINE DEFINE_alias DEFINE_bool DEFINE_boolean DEFINE_enum DEFINE_enum_class "
    "DEFINE_flag DEFINE_float DEFINE_integer DEFINE_list DEFINE_multi DEFINE_multi_enum "
    "DEFINE_multi_float DEFINE_multi_integer DEFINE_multi_string DEFINE_spaceseplist DEFINE_string "
    "Error FLAGS Flag FlagValues declare_key_flag mark_flag_as_required "
    "mark_flags_as_mutual_exclusive mark_flags_as_required register_validator set_default validator"
)

AREA = (
    *area(
        _MODULE,
        SessionSettings="compat.v1.ConfigProto",
        GPUSettings="compat.v1.GPUOptions",
        differences={
            "SessionSettings": "without effect: there are no sessions, and XLA has one pool of "
            "threads",
            "GPUSettings": "without effect: XLA_PYTHON_CLIENT_PREALLOCATE and "
            "XLA_PYTHON_CLIENT_MEM_FRACTION in the environment set JAX's memory",
        },
    ),
    *area(
        _MODULE,
        newaxis="newaxis compat.v1.newaxis",
        VERSION="version.VERSION compat.v1.VERSION compat.v1.version.VERSION",
        GIT_VERSION="version.GIT_VERSION compat.v1.GIT_VERSION compat.v1.version.GIT_VERSION",
        COMPILER_VERSION=(
            "version.COMPILER_VERSION compat.v1.COMPILER_VERSION compat.v1.version.COMPILER_VERSION"
        ),
        get_build_info="sysconfig.get_build_info",
        get_logger="get_logger",
        run="compat.v1.app.run",
        enable_eager_execution="compat.v1.enable_eager_execution",
        disable_eager_execution="compat.v1.disable_eager_execution",
        enable_v2_behavior="compat.v1.enable_v2_behavior",
        enable_v2_tensorshape="compat.v1.enable_v2_tensorshape",
        enable_resource_variables="compat.v1.enable_resource_variables",
        enable_control_flow_v2="compat.v1.enable_control_flow_v2",
        enable_tensor_equality="compat.v1.enable_tensor_equality",
        disable_tensor_equality="compat.v1.disable_tensor_equality",
        is_so=(
            "compat.v1.executing_eagerly_outside_functions compat.v1.resource_variables_enabled "
            "compat.v1.control_flow_v2_enabled"
        ),
        differences={
            "VERSION": "the version of TensorFlow that is followed, for scripts that compare it",
            "GIT_VERSION": "the name of drumline; its version is drumline.__version__",
            "COMPILER_VERSION": "none: nothing of TensorFlow was compiled",
            "get_build_info": "False for everything: JAX knows its devices, see jax.devices",
            "enable_eager_execution": _EAGER,
            "disable_eager_execution": "warns, and does nothing: there are no graphs",
            "get_logger": "drumline and JAX log to loggers of their own",
        },
    ),
    *same_names(
        _MODULE,
        "compat.",
        "as_bytes as_str as_str_any as_text path_to_str bytes_or_text_types complex_types "
        "integral_types real_types dimension_value dimension_at_index forward_compatible",
        differences={"forward_compatible": "always True"},
    ),
    *same_names(
        _MODULE,
        "compat.v1.logging.",
        _LOGGING,
        differences={
            "vlog": "a level of logging, not of detail",
            "fatal": "does not end the process, as in TensorFlow 2",
        },
    ),
    *same_names("absl.flags", "compat.v1.flags.", _FLAGS),
)
