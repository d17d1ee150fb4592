"""What this room uses of JAX that is not public API (jax 0.8 to 0.12)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax
from jax.experimental.compilation_cache import compilation_cache

from drumline._changes import note
from drumline._jax_start import require, unsupported

try:
    from jax._src import xla_bridge
except ImportError as error:
    raise unsupported(str(error)) from error

require(xla_bridge, "canonicalize_platform")

_ask_jax = xla_bridge.canonicalize_platform


def take_gpus_for_nvidias() -> None:
    """Let JAX lower programs for ``"gpu"``, as a GPU that is not there calls its platform.

    JAX asks the backends that are present which maker's GPUs are meant, and fails without one
    (github.com/jax-ml/jax, issues 23971 and 28376). Where there are GPUs, their answer counts.
    """
    if xla_bridge.canonicalize_platform is _named:
        return
    xla_bridge.canonicalize_platform = _named
    note(
        "JAX",
        "jax._src.xla_bridge.canonicalize_platform",
        "Programs are compiled for GPUs that are not there, and JAX asks those that are.",
        "do not call drumline.plan.gpu_topology.gpu_topology",
    )


def _named(platform: str) -> str:
    try:
        return _ask_jax(platform)
    except RuntimeError:
        if platform != "gpu":
            raise
        return "cuda"


@contextlib.contextmanager
def without_cache() -> Iterator[None]:
    """Within the block JAX's cache of compiled programs is off, whoever compiles.

    Compilers for devices that are not there cannot read back what they wrote, which JAX finds out
    with a warning, after it has looked for the program.
    """
    if not jax.config.jax_enable_compilation_cache:  # type: ignore[attr-defined]
        yield
        return
    try:
        jax.config.update("jax_enable_compilation_cache", False)
        compilation_cache.reset_cache()  # JAX asks for the setting once
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", True)
        compilation_cache.reset_cache()
