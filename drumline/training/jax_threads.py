"""Going on with a thread's trace in another thread (private to jax 0.8 to 0.10)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
from jax._src import core

if not (hasattr(core, "set_current_trace") and hasattr(core, "trace_ctx")):
    raise ImportError(
        f"This JAX ({jax.__version__}) lacks what drumline builds on: core.set_current_trace. "
        "Install jax>=0.8,<0.11."
    )


def in_this_trace() -> Callable[[], contextlib.AbstractContextManager[Any]]:
    """The trace that is current in the calling thread, to be entered in another.

    The two threads must not run at the same time.
    """
    trace = core.trace_ctx.trace
    return lambda: core.set_current_trace(trace)
