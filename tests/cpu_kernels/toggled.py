"""Computing the same thing with and without the lowerings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from drumline import cpu_kernels


@contextmanager
def only(*names: str) -> Iterator[None]:
    """Installs just these lowerings, and afterwards those that were installed before."""
    before = cpu_kernels.installed()
    cpu_kernels.install(names)
    try:
        yield
    finally:
        cpu_kernels.install(before)


def both(function: Callable[..., Any], name: str, *args: Any) -> tuple[Any, Any]:
    """The results of ``function``, compiled with XLA's own lowering and with that of ``name``."""
    with only():
        original = jax.device_get(jax.jit(lambda *a: function(*a))(*args))
    with only(name):
        replaced = jax.device_get(jax.jit(lambda *a: function(*a))(*args))
    return original, replaced


def compiled_text(function: Callable[..., Any], name: str, *args: Any) -> str:
    """The program that JAX hands to XLA with the lowering of ``name``."""
    with only(name):
        return jax.jit(lambda *a: function(*a)).lower(*args).as_text()


def assert_same_bits(a: np.ndarray, b: np.ndarray) -> None:
    """Equal shapes, dtypes and bits; any NaN equals any other."""
    assert a.shape == b.shape and a.dtype == b.dtype
    nan = np.asarray(a != a)
    assert np.array_equal(nan, np.asarray(b != b))
    integers = np.dtype(f"u{a.dtype.itemsize}")
    different = (a.view(integers) != b.view(integers)) & ~nan
    assert not different.any(), (a[different][:5], b[different][:5])
