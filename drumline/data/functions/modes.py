"""The JAX settings under which map functions are traced and run, whatever the process's are."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import jax
import numpy as np
from jax._src import config as jax_config
from jax._src import core as jax_core

from drumline._backend import cpu_device

WIDE = frozenset(np.dtype(t) for t in ("int64", "uint64", "float64", "complex128"))
"""Types that JAX narrows by default."""

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


def is_tracing() -> bool:
    """Whether JAX traces something in this thread."""
    return not jax_core.trace_state_clean()
