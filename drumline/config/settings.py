"""Settings of this process that change how JAX computes on CPUs."""

from __future__ import annotations

from collections.abc import Iterable

from drumline import _large_buffers, _settings
from drumline._lazy import jax_is_loaded


def set_cpu_kernels(kernels: bool | Iterable[str]) -> tuple[str, ...]:
    """Choose which of drumline's kernels replace XLA's own on CPUs.

    All are on by default. Programs that JAX compiled before the call stay as they are until
    ``jax.clear_caches()``. The environment variable ``DRUMLINE_CPU_KERNELS`` makes the same choice:
    ``0``, ``1``, or names separated by commas.

    Args:
        kernels: ``True`` for all, ``False`` for none, or names of groups: ``"max_pool_gradient"``,
            ``"pointwise_convolution"``, ``"direct_convolution"``, ``"weight_gradient"``,
            ``"few_channels"``, ``"pooled_convolution"`` and ``"eigen_convolution"``.

    Returns:
        The names of the groups that are on now.

    Raises:
        ValueError: if a name is none of these.
        TypeError: if `kernels` is a string.

    Example:
        >>> dl.config.set_cpu_kernels(["max_pool_gradient", "direct_convolution"])
        ('max_pool_gradient', 'direct_convolution')
        >>> dl.config.set_cpu_kernels(True) == dl.config.cpu_kernels()
        True
    """
    if isinstance(kernels, str):
        raise TypeError(
            f"set_cpu_kernels: give a list of names, or True or False, not the string {kernels!r}"
        )
    if isinstance(kernels, bool):
        chosen = _settings.ordered(_settings.CPU_KERNELS if kernels else ())
    else:
        chosen = _settings.ordered(kernels)
    _settings.cpu_kernels = chosen
    if jax_is_loaded():
        from drumline import cpu_kernels as room

        room.install(chosen)
    return chosen


def cpu_kernels() -> tuple[str, ...]:
    """Return the names of the groups of CPU kernels that are on (see `set_cpu_kernels`).

    Example:
        >>> "direct_convolution" in dl.config.cpu_kernels()
        True
    """
    return _settings.cpu_kernels


def set_large_buffer_reuse(reuse: bool) -> bool:
    """Choose whether XLA's large buffers on the CPU are reused from call to call.

    XLA allocates the temporary memory of a program at every call and frees it afterwards; the C
    library gives such memory back to the kernel, which clears it page by page for the next call.
    With reuse, the calls of the allocator that jaxlib's library makes are routed through a store of
    freed buffers of 4 MiB and more, in huge pages: its table of imported functions is rewritten, in
    this process alone. Results are the same. The process holds up to half of the machine's memory
    between steps.

    Off by default, as a library does not change another's memory unasked. ``drumline demo``,
    ``drumline cnn`` and drumline's benchmarks turn it on; so does the environment variable
    ``DRUMLINE_LARGE_BUFFERS=1``.

    Args:
        reuse: whether they are reused from now on. After ``False`` what was held is freed, and
            buffers are allocated and freed as if it had never been on.

    Returns:
        Whether they are reused, or will be when JAX is imported. ``False`` where that is not
        possible: on other systems than 64-bit Linux with glibc.

    Example:
        >>> dl.config.set_large_buffer_reuse(False)
        False
    """
    _settings.large_buffers = bool(reuse)
    if not _settings.large_buffers:
        _large_buffers.stop()
    elif jax_is_loaded():
        _settings.large_buffers = _large_buffers.reuse()
    return reuses_large_buffers()


def reuses_large_buffers() -> bool:
    """Whether XLA's large buffers are reused, or will be when JAX is imported.

    Example:
        >>> dl.config.reuses_large_buffers()
        False
    """
    return _settings.large_buffers and _large_buffers.is_possible()
