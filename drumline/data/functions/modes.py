"""The JAX settings under which map functions are traced and run, whatever the process's are."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np
from jax._src import config as jax_config
from jax._src import core as jax_core
from jaxlib import xla_client

from drumline._backend import cpu_device
from drumline._forks import never_freed
from drumline._jax_start import require, require_parameters

require(xla_client, "make_cpu_client")
require_parameters(xla_client.make_cpu_client, "asynchronous", "num_devices")
require(jax_config, "explicit_x64_dtypes")
require(jax_core, "trace_state_clean")

WIDE = frozenset(np.dtype(t) for t in ("int64", "uint64", "float64", "complex128"))
"""Types that JAX narrows by default."""


def narrowed(dtype: np.dtype) -> np.dtype:
    """What it makes of such a type."""
    return np.dtype(f"{dtype.kind}{dtype.itemsize // 2}")


_device = functools.cache(cpu_device)


def _explicit_allowed() -> contextlib.AbstractContextManager[object]:
    mode = getattr(jax_config, "ExplicitX64Mode", None)
    return jax_config.explicit_x64_dtypes(mode.ALLOW if mode is not None else "allow")


@functools.cache
def calling_thread() -> jax.Device:
    """A CPU device whose programs run in the thread that calls them.

    On JAX's own CPU devices a thread of XLA's runs them while the caller goes on, which costs two
    changes of threads for a call that waits for its results. Whether they do is set for a whole
    process, and so the user's to say; this device belongs to a client of its own.
    """
    client: Any = xla_client.make_cpu_client(asynchronous=False, num_devices=1)
    os.register_at_fork(after_in_child=functools.partial(never_freed, client))
    device: jax.Device = client.devices()[0]
    return device


@contextlib.contextmanager
def _mode(x64: bool, device: jax.Device | None) -> Iterator[None]:
    with (
        jax.enable_x64(x64),
        _explicit_allowed(),
        jax.default_device(_device() if device is None else device),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
        jax.disable_jit(False),
        jax.debug_nans(False),
    ):
        yield


def narrow(device: jax.Device | None = None) -> contextlib.AbstractContextManager[None]:
    """JAX's default: 32-bit types, but a 64-bit type that is asked for by name is given.

    Args:
        device: where programs run; ``None`` for the process's first CPU device.
    """
    return _mode(False, device)


def wide(device: jax.Device | None = None) -> contextlib.AbstractContextManager[None]:
    """64-bit types enabled, for what is computed from 64-bit columns; as ``narrow``."""
    return _mode(True, device)


@contextlib.contextmanager
def arrays_of_jax(x64: bool) -> Iterator[None]:
    """A mode in which what functions of drumline's make of values are JAX's arrays.

    Args:
        x64: whether it is ``wide``.
    """
    token = _of_jax.set(True)
    try:
        with _mode(x64, None):
            yield
    finally:
        _of_jax.reset(token)


def given(value: Any) -> Any:
    """A value as a user's function is given it: numbers are JAX's arrays in ``arrays_of_jax``."""
    numbers = isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufcV"
    if not numbers or not _of_jax.get():
        return value
    return jax.numpy.asarray(value, dtype=value.dtype)


_of_jax: ContextVar[bool] = ContextVar("drumline_arrays_of_jax", default=False)


def is_tracing() -> bool:
    """Whether JAX traces something in this thread."""
    return not jax_core.trace_state_clean()
