"""JAX's 64-bit types: the settings under which functions are traced, and what may be narrowed.

JAX has 32 bits by default. An integer that does not fit would become another number, so it is
refused. `keeping_64_bits` turns JAX's 64-bit types on. Floats are rounded to 32 bits, as JAX does.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

from drumline._backend import cpu_device
from drumline._changes import in_forked_child
from drumline._forks import never_freed
from drumline._lazy import is_jax_array, jax, jax_is_loaded, jnp

WIDE = frozenset(np.dtype(t) for t in ("int64", "uint64", "float64", "complex128"))
"""Types that JAX narrows by default."""


def narrowed(dtype: np.dtype) -> np.dtype:
    """What it makes of such a type."""
    return np.dtype(f"{dtype.kind}{dtype.itemsize // 2}")


_device = functools.cache(cpu_device)


@functools.cache
def calling_thread(shared: bool = True) -> jax.Device:
    """A CPU device whose programs run in the thread that calls them.

    On JAX's own CPU devices a thread of XLA's runs them while the caller continues, which costs two
    changes of threads for a call that waits for its results. Whether they do is set for a whole
    process, and so the user's to say; this device belongs to a client of its own.

    Args:
        shared: whether XLA's threads take parts of the work of a program. Where several threads
            call programs at once, parts that take microseconds cost more to hand over than to do.
    """
    from drumline._jax_start import cpu_client

    with contextlib.nullcontext() if shared else _one_thread():
        client = cpu_client()
    in_forked_child(functools.partial(never_freed, client), "XLA's client is not freed there")
    device: jax.Device = client.devices()[0]
    return device


_THREADS = "PJRT_NPROC"
"""The environment variable that says how many threads a client of XLA's has for its programs."""


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    before = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_THREADS]
        else:
            os.environ[_THREADS] = before


@contextlib.contextmanager
def _mode(x64: bool, device: jax.Device | None) -> Iterator[None]:
    from drumline._jax_start import explicit_64_bits

    with (
        jax.enable_x64(x64),
        explicit_64_bits(),
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


def gives_arrays_of_jax() -> bool:
    """Whether the mode is that of ``arrays_of_jax``."""
    return _of_jax.get()


_of_jax: ContextVar[bool] = ContextVar("drumline_arrays_of_jax", default=False)


def is_tracing() -> bool:
    """Whether JAX traces something in this thread."""
    if not jax_is_loaded():
        return False
    from drumline._jax_start import traces

    return traces()


def is_wide(dtype: Any) -> bool:
    """Whether JAX by default has no such numbers, of 64 bits."""
    return isinstance(dtype, np.dtype) and dtype in WIDE


def require_fits(array: Any, what: str, remedy: str, to: Any = None) -> None:
    """Refuse integers that are other numbers in the type that they become.

    It costs a look at the smallest and the largest (0.2 ms for a million on a CPU of 2023), and
    nothing for arrays of JAX's and for other types than 64-bit integers.

    Args:
        array: any value.
        what: what it is, for the message.
        remedy: what to do, for the message: a clause that ends the sentence.
        to: the type; by default what JAX makes of the array's.

    Raises:
        OverflowError: if one does not fit.
    """
    if not isinstance(array, (np.ndarray, np.generic)) or array.dtype not in WIDE:
        return
    if array.dtype.kind not in "iu" or not array.size:
        return
    target = np.dtype(jax.dtypes.canonicalize_dtype(array.dtype) if to is None else to)
    if target == array.dtype or target.kind not in "iu":
        return
    limits = np.iinfo(target)
    for value in (int(array.min()), int(array.max())):
        if not limits.min <= value <= limits.max:
            became = np.asarray(value, array.dtype).astype(target)
            raise OverflowError(
                f"{what} holds the {array.dtype} number {value}, which does not fit into {target}, "
                f"what JAX makes of it by default: it would become {became}. To keep 64 bits, "
                f"{remedy}; or make it smaller, as with `x % 2**31`."
            )


def require_all_fit(tree: Any, what: str, remedy: str) -> None:
    """`require_fits` for each leaf of a pytree."""
    for leaf in jax.tree.leaves(tree):
        require_fits(leaf, what, remedy)


@contextlib.contextmanager
def keeping_64_bits(keep: bool = True) -> Iterator[None]:
    """Within the block JAX has its 64-bit types, if `keep`.

    To allow them where they are asked for by name is not enough: numbers beside them, as in
    ``x + np.int64(2**40)``, would be narrowed.
    """
    with jax.enable_x64(True) if keep else contextlib.nullcontext():
        yield


def bits_of_this_thread() -> Callable[[], contextlib.AbstractContextManager[Any]]:
    """Makes contexts in which another thread has 64-bit types where this one has them now.

    JAX's settings by context managers hold for one thread.
    """
    x64 = bool(jax.config.read("jax_enable_x64"))
    return lambda: jax.enable_x64(x64)


def in_64_bits(tree: Any) -> Any:
    """A pytree with numpy's arrays of 64-bit numbers as arrays of JAX's that keep them."""

    def kept(leaf: Any) -> Any:
        if not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype not in WIDE:
            return leaf
        return jnp.asarray(leaf)

    with keeping_64_bits():
        return jax.tree.map(kept, tree)


def in_32_bits(array: Any) -> Any:
    """An array of numpy's in the types that JAX has by default, also where it has others now."""
    if not isinstance(array, (np.ndarray, np.generic)) or array.dtype not in WIDE:
        return array
    return np.asarray(array).astype(narrowed(array.dtype))


def any_wide(arrays: Iterable[Any]) -> bool:
    """Whether one of JAX's arrays, concrete or traced, has 64-bit numbers."""
    return any(is_jax_array(array) and is_wide(array.dtype) for array in arrays)
