"""Settings of the process: ``tf.config``'s threads, precision and the like; eager execution."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import jax

from drumline._backend import jax_has_started, may_have_accelerators
from drumline._changes import note, set_variable
from drumline.compat.distribute.tpu import connect_to_tpu
from drumline.distribute.cluster_resolver import (
    ClusterResolver,
    ClusterSpec,
    TPUClusterResolver,
)
from drumline.training import jax_internals
from drumline.training.keras_internals import outside_scopes

_THREADS = "NPROC"
_DETERMINISTIC = "--xla_gpu_deterministic_ops=true"
_OFF = "do not call it"

_inter_op_threads = 0
_jit = ""
_optimizer_options: dict[str, Any] = {
    "disable_model_pruning": False,
    "disable_meta_optimizer": False,
}
_OPTIMIZER_OPTIONS = frozenset(
    [
        "layout_optimizer",
        "constant_folding",
        "shape_optimization",
        "remapping",
        "arithmetic_optimization",
        "dependency_optimization",
        "loop_optimization",
        "function_optimization",
        "debug_stripper",
        "disable_model_pruning",
        "scoped_allocator_optimization",
        "pin_to_host_optimization",
        "implementation_selector",
        "auto_mixed_precision",
        "disable_meta_optimizer",
        "min_graph_nodes",
        "auto_parallel",
        "use_plugin_optimizers",
        "disable_generator_optimizer",
        "auto_mixed_precision_mkl",
        "auto_mixed_precision_onednn_bfloat16",
        "auto_mixed_precision_cpu",
    ]
)


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Have XLA use so many threads on the CPU, before JAX starts.

    Args:
        num_threads: how many; 0 for one for each core.

    Raises:
        RuntimeError: JAX has started with another number.
    """
    wanted = _number_of_threads(num_threads)
    if wanted == get_intra_op_parallelism_threads():
        return
    if jax_has_started():
        raise RuntimeError("Intra op parallelism cannot be modified after initialization.")
    if wanted:
        why = "set_intra_op_parallelism_threads chose XLA's number of threads on the CPU"
        set_variable(_THREADS, str(wanted), why, _OFF)
    else:
        del os.environ[_THREADS]


def get_intra_op_parallelism_threads() -> int:
    """How many threads XLA uses on the CPU; 0 for one for each core."""
    text = os.environ.get(_THREADS, "")
    return int(text) if text.isdigit() else 0


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Note how many operations run side by side, before JAX starts.

    XLA runs independent operations in the threads of `set_intra_op_parallelism_threads`.

    Raises:
        RuntimeError: JAX has started, and the number is another one.
    """
    global _inter_op_threads
    wanted = _number_of_threads(num_threads)
    if wanted != _inter_op_threads and jax_has_started():
        raise RuntimeError("Inter op parallelism cannot be modified after initialization.")
    _inter_op_threads = wanted


def get_inter_op_parallelism_threads() -> int:
    """What `set_inter_op_parallelism_threads` was given; 0 at first."""
    return _inter_op_threads


def _number_of_threads(given: Any) -> int:
    number = int(given)
    if number < 0:
        raise ValueError(f"The number of threads must be 0 or more, got {number}.")
    return number


def set_jit(enabled: bool | str) -> None:
    """Note whether programs are to be compiled by XLA: they are in any case.

    Args:
        enabled: True or ``"autoclustering"``, or False.

    Raises:
        ValueError: it is something else.
    """
    global _jit
    if enabled not in (True, False, "autoclustering", "", None):
        raise ValueError(f"set_jit takes True, False or 'autoclustering', got {enabled!r}.")
    _jit = "autoclustering" if enabled else ""


def get_jit() -> str:
    """What `set_jit` was given: ``"autoclustering"``, or nothing."""
    return _jit


def set_experimental_options(options: dict[str, Any]) -> None:
    """Note options of TensorFlow's graph optimizer; XLA chooses its own optimizations.

    Raises:
        ValueError: TensorFlow has no such option.
    """
    unknown = sorted(options.keys() - _OPTIMIZER_OPTIONS)
    if unknown:
        raise ValueError(f"tf.config.optimizer has no option {', '.join(unknown)}")
    _optimizer_options.update(options)


def get_experimental_options() -> dict[str, Any]:
    """The options that `set_experimental_options` was given, and the two that are always there."""
    return dict(_optimizer_options)


def enable_op_determinism() -> None:
    """Have programs give the same bits each time they run.

    On CPUs they do. For GPUs it comes before JAX starts; seeds are the user's to set, with
    ``tf.keras.utils.set_random_seed``.

    Raises:
        RuntimeError: JAX has started on a GPU without it.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if _DETERMINISTIC in flags:
        return
    if jax_has_started():
        if jax.default_backend() != "cpu":
            raise RuntimeError(
                "enable_op_determinism comes too late: JAX has started. Call it right after the "
                "imports."
            )
        return
    # To list GPUs would start JAX, which reads the flags at that time.
    if may_have_accelerators():
        why = "enable_op_determinism has GPUs give the same bits in each run"
        set_variable("XLA_FLAGS", f"{flags} {_DETERMINISTIC}".strip(), why, _OFF)


def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Whether GPUs may round float32 operands of products to TensorFloat-32, as JAX does at first.

    Args:
        enabled: if not, products of float32 are computed at the highest precision.
    """
    jax.config.update("jax_default_matmul_precision", None if enabled else "highest")
    note(
        "JAX",
        "jax.config.jax_default_matmul_precision",
        "enable_tensor_float_32_execution chooses the precision of products",
        _OFF,
    )


def tensor_float_32_execution_enabled() -> bool:
    """Whether float32 operands of products may be rounded."""
    precision = jax.config.values["jax_default_matmul_precision"]
    return precision not in ("highest", "float32")


def set_synchronous_execution(enable: bool) -> None:
    """Whether programs on the CPU are waited for when they are called, before JAX starts.

    Raises:
        RuntimeError: JAX has started with the other setting.
    """
    if enable == get_synchronous_execution():
        return
    if jax_has_started():
        raise RuntimeError("set_synchronous_execution comes before JAX starts.")
    jax.config.update("jax_cpu_enable_async_dispatch", not enable)
    name = "jax.config.jax_cpu_enable_async_dispatch"
    note("JAX", name, "set_synchronous_execution chose it", _OFF)


def get_synchronous_execution() -> bool:
    """Whether programs on the CPU are waited for; JAX does not at first."""
    return not jax.config.jax_cpu_enable_async_dispatch  # type: ignore[attr-defined]


def get_device_policy() -> str:
    """What happens to operands of several devices: ``"silent"``, they are brought together."""
    return "silent"


def experimental_connect_to_cluster(
    cluster_spec_or_resolver: Any,
    job_name: str = "localhost",
    task_index: int = 0,
    protocol: str | None = None,
    make_master_device_default: bool = True,
    cluster_device_filters: Any = None,
) -> None:
    """Join the machines of a TPU; to other clusters strategies connect themselves.

    Args:
        cluster_spec_or_resolver: a ``tf.train.ClusterSpec``, or a resolver.
        job_name: accepted; strategies go by the resolver.
        task_index: accepted, too.
        protocol: accepted; drumline has one.
        make_master_device_default: accepted: the default device is this process's own.
        cluster_device_filters: must be None.

    Raises:
        ValueError: it is no cluster.
        NotFoundError: it is a TPU's, and JAX has no TPU support.
        NotImplementedError: for filters of devices.
    """
    if cluster_device_filters is not None:
        raise NotImplementedError(
            "experimental_connect_to_cluster(cluster_device_filters=...): processes see their own "
            "devices alone; leave it out."
        )
    if not isinstance(cluster_spec_or_resolver, (ClusterSpec, ClusterResolver)):
        raise ValueError(
            "`cluster_spec_or_resolver` must be a `ClusterSpec` or a `ClusterResolver`, got "
            f"{cluster_spec_or_resolver!r}."
        )
    if isinstance(cluster_spec_or_resolver, TPUClusterResolver):
        connect_to_tpu(cluster_spec_or_resolver)


_log_placement = False


def set_log_device_placement(enabled: bool) -> None:
    """Have JAX log what it compiles, and for which devices, or not."""
    global _log_placement
    _log_placement = bool(enabled)
    jax.config.update("jax_log_compiles", _log_placement)
    if _log_placement:
        logging.basicConfig()
    note("JAX", "jax.config.jax_log_compiles", "set_log_device_placement chose it", _OFF)


def get_log_device_placement() -> bool:
    """Whether `set_log_device_placement` is in force."""
    return _log_placement


def executing_eagerly() -> bool:
    """Whether operations are computed where they are called: outside of compiled functions."""
    return not jax_internals.is_staged(jax_internals.current_trace())


@contextlib.contextmanager
def init_scope() -> Iterator[None]:
    """Within the block operations are computed at once, also where a function is being traced.

    Variables keep what is assigned to them.

    Raises:
        TracerError: (JAX's) where they depend on the function's arguments.
    """
    with jax_internals.evaluating(), outside_scopes():
        yield
