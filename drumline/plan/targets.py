"""The devices of hardware that is not there, as JAX's compilers take them.

TPUs are described by libtpu, and NVIDIA's GPUs by JAX's CUDA plugin, which need neither a device
nor a driver. CPU devices are there anywhere. `prepare_environment` comes before JAX is imported.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from collections.abc import MutableMapping
from typing import Any

from drumline.plan.hardware import ChipGroup, side_lengths

_SMALLEST_SIDE = 2
"""libtpu's machines have 2 x 2 chips: smaller groups are a part of one."""
CUDA_PACKAGES = (
    "jax-cuda13-plugin and jax-cuda13-pjrt (both in jax's version), nvidia-cuda-nvcc and "
    "nvidia-nvvm (both 13), or jax-cuda12-plugin, jax-cuda12-pjrt and nvidia-cuda-nvcc-cu12"
)
"""What compiles for NVIDIA's GPUs, as pip names it."""
_PIP = {"tpu": "pip install 'drumline[plan]'.", "gpu": f"Install by pip {CUDA_PACKAGES}."}
_TPU_ENVIRONMENT = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "true",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
}
_MACHINES = ("TF_CONFIG", "SLURM_JOB_ID", "DRUMLINE_CPU_DEVICES")
_CPU_DEVICES = "--xla_force_host_platform_device_count"


class CompilerMissingError(Exception):
    """There is no compiler for the hardware; the message says what brings it."""


def tpu_environment() -> dict[str, str]:
    """Return what a process's environment has to hold before JAX starts, to compile for TPUs.

    Without it libtpu asks Google Cloud's metadata server, and ends the process if another one of
    the machine has loaded it.
    """
    return dict(_TPU_ENVIRONMENT)


@dataclasses.dataclass(frozen=True)
class CudaPlugin:
    """A plugin of JAX's that compiles for NVIDIA's GPUs.

    Attributes:
        module: of JAX's.
        major: of CUDA's version.
        tools: the package in whose folder the assembler of PTX and libdevice are.
    """

    module: str
    major: int
    tools: str


_CUDA_PLUGINS = (
    CudaPlugin("jax_cuda13_plugin", 13, "nvidia.cu13"),
    CudaPlugin("jax_cuda12_plugin", 12, "nvidia.cuda_nvcc"),
)


def cuda_plugin() -> CudaPlugin | None:
    """Return the plugin that is installed, the newest of several; None without one."""
    for plugin in _CUDA_PLUGINS:
        if importlib.util.find_spec(plugin.module) is not None:
            return plugin
    return None


def require_compiler(group: ChipGroup) -> None:
    """Check that a compiler for the group's chips is installed, without loading it.

    Raises:
        CompilerMissingError: if not.
    """
    platform, missing = group.chip.platform, ""
    if platform == "tpu" and importlib.util.find_spec("libtpu") is None:
        missing = "libtpu"
    elif platform == "gpu" and cuda_plugin() is None:
        missing = "JAX's plugin for CUDA"
    if missing:
        raise CompilerMissingError(
            f"To plan for {group.name} a compiler is needed that is not installed: {missing}. "
            f"{_PIP[platform]}"
        )


def prepare_environment(
    group: ChipGroup, environment: MutableMapping[str, str] | None = None
) -> None:
    """Set what JAX and its compilers read when they start.

    The script's process is alone, whatever the cluster in its environment, and computes on the CPU.

    Args:
        group: what is planned for.
        environment: changed; by default this process's.
    """
    environment = os.environ if environment is None else environment
    environment["JAX_PLATFORMS"] = "cpu"
    for name in _MACHINES:
        environment.pop(name, None)
    if group.chip.platform == "tpu":
        environment.update(tpu_environment())
    if group.chip.platform == "cpu":
        flags = environment.get("XLA_FLAGS", "").split()
        kept = [flag for flag in flags if not flag.startswith(_CPU_DEVICES)]
        environment["XLA_FLAGS"] = " ".join([*kept, f"{_CPU_DEVICES}={group.chips}"])


def devices_of(group: ChipGroup) -> tuple[Any, ...]:
    """Return JAX's devices of the group, as many as the compiler sees.

    Raises:
        CompilerMissingError: if the compiler does not know such a group.
    """
    if group.chip.platform == "cpu":
        return _cpu_devices(group)
    if group.chip.platform == "gpu":
        return _gpu_devices(group)
    from drumline.plan.planned_strategy import tpu_topology

    chip = group.chip
    sides = [max(side, 1) for side in side_lengths(chip, group.chips_per_slice) or ()]
    sides = [max(_SMALLEST_SIDE, side) if at < 2 else side for at, side in enumerate(sides)]
    name = f"{chip.name}:{'x'.join(map(str, sorted(sides) if len(sides) == 2 else sides))}"
    try:
        devices = tpu_topology(name, group.slices)
    except ValueError as error:
        raise CompilerMissingError(
            f"The compiler knows no {group.name}: {str(error).splitlines()[0]}"
        ) from error
    if group.slices == 1:
        devices = devices[: group.chips * chip.cores]
    return devices


def _cpu_devices(group: ChipGroup) -> tuple[Any, ...]:
    import jax

    from drumline._backend import jax_has_started

    if not jax_has_started():  # whatever the script has said before
        jax.config.update("jax_num_cpu_devices", group.chips)
    found = jax.local_devices(backend="cpu")
    if len(found) < group.chips:
        raise CompilerMissingError(
            f"{group.name} has {group.chips} devices, but the script has started JAX with "
            f"{len(found)}. Leave `set_logical_devices` out of it, or before the first array."
        )
    return tuple(found[: group.chips])


def _gpu_devices(group: ChipGroup) -> tuple[Any, ...]:
    from drumline.plan.gpu_topology import gpu_compiler_options, gpu_topology

    try:
        gpu_compiler_options()
        return gpu_topology(f"{group.chip.name}:{group.slices}x{group.chips_per_slice}")
    except ValueError as error:
        raise CompilerMissingError(str(error)) from error
