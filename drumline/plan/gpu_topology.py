"""NVIDIA GPUs that are not there, for which JAX's CUDA plugin compiles without a GPU or a driver.

The compiler takes the device's properties from a description, and tries no kernel: it chooses by
rules where it measures on a GPU that is there. So a program's memory and collectives are right, its
kernels may be others, and the workspaces of cuDNN's convolutions are not in its memory.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import jax
from jax.experimental import topologies

from drumline.plan import jax_internals
from drumline.plan.targets import CUDA_PACKAGES, cuda_plugin

_ASSEMBLER, _LIBRARY = "bin/ptxas", "nvvm/libdevice"

_OF_ALL = {
    "threads_per_block_limit": 1024,
    "threads_per_warp": 32,
    "shared_memory_per_block": 49152,
    "threads_per_core_limit": 2048,
    "block_dim_limit_x": 2147483647,
    "block_dim_limit_y": 65535,
    "block_dim_limit_z": 65535,
    "registers_per_core_limit": 65536,
    "registers_per_block_limit": 65536,
}
"""The limits of CUDA's compute capabilities 8.0 and 9.0."""

_KINDS: dict[str, tuple[str, int, dict[str, float]]] = {
    "a100": (
        "NVIDIA A100-SXM4-80GB",
        8,
        {
            "core_count": 108,
            "fpus_per_core": 64,
            "shared_memory_per_core": 167936,
            "shared_memory_per_block_optin": 166912,
            "memory_bandwidth": 2039040000000,
            "l2_cache_size": 41943040,
            "clock_rate_ghz": 1.41,
            "device_memory_size": 85100068864,
        },
    ),
    "h100": (
        "NVIDIA H100 80GB HBM3",
        9,
        {
            "core_count": 132,
            "fpus_per_core": 128,
            "shared_memory_per_core": 233472,
            "shared_memory_per_block_optin": 232448,
            "memory_bandwidth": 3352320000000,
            "l2_cache_size": 52428800,
            "clock_rate_ghz": 1.98,
            "device_memory_size": 84942979072,
        },
    ),
    "h200": (
        "NVIDIA H200 141GB HBM3e",
        9,
        {
            "core_count": 132,
            "fpus_per_core": 128,
            "shared_memory_per_core": 233472,
            "shared_memory_per_block_optin": 232448,
            "memory_bandwidth": 4800000000000,
            "l2_cache_size": 52428800,
            "clock_rate_ghz": 1.98,
            "device_memory_size": 151397597184,
        },
    ),
}
"""Name, major compute capability, and what the driver says of each, as XLA's own target
configurations have it (xla/backends/gpu/target_config/specs)."""


def gpu_topology(name: str) -> tuple[jax.Device, ...]:
    """Return the devices of GPUs that are not there, one machine's after another's.

    Args:
        name: a kind, and machines times the GPUs of each, as ``"h100:2x8"``; ``"a100"``, ``"h100"``
            and ``"h200"`` are known.

    Raises:
        ValueError: for a name of another form, a kind that is not known, or if the packages are
            not installed that compile for GPUs.

    Example:
        >>> devices = gpu_topology("h100:1x8")  # doctest: +SKIP
        >>> strategy = PlannedStrategy(devices)  # doctest: +SKIP
    """
    form = re.fullmatch(r"([a-z]\w*):([1-9]\d*)x([1-9]\d*)", name)
    if form is None or form[1] not in _KINDS:
        raise ValueError(
            f"No topology {name!r} of GPUs: a kind ({', '.join(_KINDS)}), machines and the GPUs of "
            "each, as 'h100:2x8'."
        )
    kind, machines, each = form.groups()
    try:
        devices = topologies.get_topology_desc(
            platform="cuda", target_config=_described(kind), topology=f"1x{machines}x{each}"
        ).devices
    except Exception as error:  # JAX and its plugin raise several kinds
        raise ValueError(
            f"No topology {name!r} of GPUs: {error}. Install {CUDA_PACKAGES}; neither a GPU nor a "
            "driver is needed."
        ) from error
    jax_internals.take_gpus_for_nvidias()
    return tuple(sorted(devices, key=lambda device: (device.process_index, device.id)))


def gpu_compiler_options() -> dict[str, str]:
    """Return what ``Lowered.compile(compiler_options=...)`` needs without a GPU.

    Kernels are not measured, and the assembler of PTX and libdevice are those of the package of
    CUDA's compiler.

    Raises:
        ValueError: if that package, or one that it needs, is not installed.
    """
    plugin = cuda_plugin()
    found: Any = None
    if plugin is not None and importlib.util.find_spec("nvidia") is not None:
        found = importlib.util.find_spec(plugin.tools)
    for folder in [] if found is None else map(Path, found.submodule_search_locations):
        if (folder / _ASSEMBLER).exists() and (folder / _LIBRARY).is_dir():
            return {"xla_gpu_autotune_level": "0", "xla_gpu_cuda_data_dir": str(folder)}
    raise ValueError(f"Compiling for GPUs needs CUDA's compiler. Install {CUDA_PACKAGES}.")


def _described(kind: str) -> str:
    """XLA's description of a kind, as the text of a ``GpuTargetConfigProto``."""
    name, capability, properties = _KINDS[kind]
    plugin = cuda_plugin()
    runtime = "major: 12 minor: 8" if plugin is None or plugin.major == 12 else "major: 13 minor: 0"
    lines = [f"  {key}: {value}" for key, value in {**_OF_ALL, **properties}.items()]
    return "\n".join(
        [
            "gpu_device_info {",
            *lines,
            f"  cuda_compute_capability {{ major: {capability} }}",
            "}",
            'platform_name: "CUDA"',
            "dnn_version_info { major: 9 minor: 7 }",
            f"runtime_version {{ {runtime} patch: 0 }}",
            f'device_description_str: "{name}"',
        ]
    )
