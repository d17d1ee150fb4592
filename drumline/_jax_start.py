"""What drumline needs of JAX before anything else: a supported version, not yet started.

JAX offers no public way to ask whether its backends have started: every public question about
devices starts them. Here and in one adapter file per room private parts of JAX are used; each is
looked up at import, so that a JAX of another version is refused there, with what it lacks.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import os
from collections.abc import Callable
from typing import Any

import jax
from jax._src import config as jax_config
from jax._src import core as jax_core
from jax._src import xla_bridge
from jax._src.interpreters import mlir
from jaxlib import xla_client

from drumline._changes import in_forked_child
from drumline._forks import never_freed

SUPPORTED = "jax>=0.8,<0.13"
"""The versions of JAX for which the private parts that drumline uses are known."""


def unsupported(lacks: str) -> ImportError:
    """The error for a JAX without something that drumline builds on."""
    return ImportError(
        f"This jax ({jax.__version__}) lacks what drumline builds on: {lacks}. Install {SUPPORTED}."
    )


def require(owner: Any, *names: str) -> None:
    """Check that a private module or class of JAX has what is used of it.

    Args:
        owner: the module or class.
        names: attributes of it, or of its attributes: ``"trace_ctx.trace"``.

    Raises:
        ImportError: if it lacks any.
    """
    missing = [name for name in names if not _has(owner, name)]
    if missing:
        raise unsupported(", ".join(f"{owner.__name__}.{name}" for name in missing))


def require_parameters(function: Any, *names: str) -> None:
    """Check that a private function of JAX takes arguments of these names.

    Raises:
        ImportError: if it does not.
    """
    taken = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values()):
        return
    missing = [name for name in names if name not in taken]
    if missing:
        raise unsupported(
            f"{function.__module__}.{function.__qualname__} without the parameters "
            f"{', '.join(missing)}"
        )


def _has(owner: Any, name: str) -> bool:
    try:
        operator.attrgetter(name)(owner)
    except AttributeError:
        return False
    return True


require(xla_bridge, "_backends", "backends_are_initialized")
require(xla_client, "make_cpu_client")
require_parameters(xla_client.make_cpu_client, "asynchronous", "num_devices")
require(jax_config, "explicit_x64_dtypes")
require(jax_core, "trace_state_clean")


def jax_has_started() -> bool:
    """Whether this process has initialised JAX's backends, after which devices are fixed."""
    return bool(xla_bridge.backends_are_initialized())


_mode = getattr(jax_config, "ExplicitX64Mode", None)
explicit_64_bits: Callable[[], contextlib.AbstractContextManager[object]] = functools.partial(
    jax_config.explicit_x64_dtypes, "allow" if _mode is None else _mode.ALLOW
)
"""A context in which a 64-bit type that is asked for by name is given."""


_THREADS_VARIABLE = "PJRT_NPROC"
_threads_when_made: list[tuple[Any, str | None]] = []


def cpu_client() -> Any:
    """A client of XLA's with one CPU device, whose programs run in the thread that calls them."""
    client = xla_client.make_cpu_client(asynchronous=False, num_devices=1)
    _threads_when_made.append((client, os.environ.get(_THREADS_VARIABLE)))
    return client


def threads_of(client: Any) -> str | None:
    """What the environment said of a CPU client's threads when it was made, if it said anything."""
    for made, threads in _threads_when_made:
        if made is client:
            return threads
    return os.environ.get(_THREADS_VARIABLE)


def traces() -> bool:
    """Whether JAX traces something in this thread."""
    return not jax_core.trace_state_clean()


def _keep_threads() -> None:
    """Let a forked child end: what has threads in JAX joins them when it is freed, and crashes."""
    for thing in (getattr(mlir, "global_thread_pool", None), *xla_bridge._backends.values()):
        never_freed(thing)


in_forked_child(_keep_threads, "JAX's threads are not joined there")
