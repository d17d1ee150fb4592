"""What this room uses that is not public API: of jax 0.8 to 0.12, and of Keras 3.12 to 3.15."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any
from unittest import mock

import jax
import keras
from jax.experimental.compilation_cache import compilation_cache

from drumline._changes import note
from drumline._jax_start import require, unsupported
from drumline.training.keras_internals import load, seed_generators, sublayers

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


load({"keras.src.backend.jax.nn": ["jax"]})
RematMode = load({"keras.src.backend.common.remat": ["RematMode"]})["RematMode"]
_CHOOSING = [
    module
    for name in ("nn", "numpy")
    if hasattr(module := importlib.import_module(f"keras.src.backend.jax.{name}"), "jax")
]
"""Which kernel attention takes, and how integers are multiplied; Keras 3.12 multiplies alike."""


class _JaxOf(ModuleType):
    """JAX as it is where the devices are those of the planned hardware."""

    def __init__(self, devices: Sequence[jax.Device]) -> None:
        super().__init__("jax")
        self._devices = list(devices)

    def devices(self, *_: Any) -> list[jax.Device]:
        return self._devices

    def default_backend(self) -> str:
        return str(self._devices[0].platform)

    def __getattr__(self, name: str) -> Any:
        return getattr(jax, name)


@contextlib.contextmanager
def seeing(devices: Sequence[jax.Device]) -> Iterator[None]:
    """Within the block let Keras choose kernels for `devices`, and not for this process's."""
    stand_in = _JaxOf(devices)
    with contextlib.ExitStack() as stack:
        for module in _CHOOSING:
            stack.enter_context(mock.patch.object(module, "jax", stand_in))
        yield


def rematerialize(model: keras.Model) -> int:
    """Let the layers of `model` be computed again for their gradients, and return how many.

    As if they had been made in ``keras.RematScope("list_of_layers", layer_names=...)``, with the
    layers of models within it, and not those within layers. Those that write variables are left
    out: Keras cannot compute them again (a write would be lost in the trace).
    """
    found = list(_outermost(model))
    mode = RematMode("list_of_layers", 0, [layer.name for layer in found])
    for layer in found:
        layer._remat_mode = mode
    return len(found)


def _outermost(model: keras.Model) -> Iterator[keras.Layer]:
    for layer in sublayers(model):
        if isinstance(layer, keras.Model):
            yield from _outermost(layer)
        elif not _writes(layer):
            yield layer


def _writes(layer: keras.Layer) -> bool:
    return bool(layer.non_trainable_variables or seed_generators(layer)) or any(
        map(_writes, sublayers(layer))
    )
