"""The JAX settings under which map functions are traced and run, whatever the process's are."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np
from jax._src import config as jax_config
from jax._src import core as jax_core

from drumline._backend import cpu_device
from drumline._jax_start import require

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


@contextlib.contextmanager
def _mode(x64: bool) -> Iterator[None]:
    with (
        jax.enable_x64(x64),
        _explicit_allowed(),
        jax.default_device(_device()),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
        jax.disable_jit(False),
        jax.debug_nans(False),
    ):
        yield


def narrow() -> contextlib.AbstractContextManager[None]:
    """JAX's default: 32-bit types, but a 64-bit type that is asked for by name is given."""
    return _mode(False)


def wide() -> contextlib.AbstractContextManager[None]:
    """64-bit types enabled, for what is computed from 64-bit columns."""
    return _mode(True)


@contextlib.contextmanager
def arrays_of_jax(x64: bool) -> Iterator[None]:
    """A mode in which what functions of drumline's make of values are JAX's arrays.

    Args:
        x64: whether it is ``wide``.
    """
    token = _of_jax.set(True)
    try:
        with _mode(x64):
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
