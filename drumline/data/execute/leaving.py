"""Threads that must not live on while the interpreter is taken down."""

from __future__ import annotations

import sys
import threading

GRACE_SECONDS = 2.0
"""How long code of the user's may take to end, which may as well wait forever."""

_STEP_SECONDS = 0.05
_NATIVE = ("drumline", "jax", "jaxlib", "numpy")


def wait_for(thread: threading.Thread) -> None:
    """Waits for a thread that was told to end; one in a user's function gets ``GRACE_SECONDS``.

    One inside XLA is waited for as long as it takes: before Python 3.14 the interpreter, once it is
    being taken down, ends threads that come back to it, and XLA's code does not survive that.
    """
    thread.join(GRACE_SECONDS)
    while thread.is_alive() and _is_computing(thread):
        thread.join(_STEP_SECONDS)


def _is_computing(thread: threading.Thread) -> bool:
    """Whether a thread is in a library that computes, and so comes back by itself."""
    frame = None if thread.ident is None else sys._current_frames().get(thread.ident)
    module = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    return module.split(".")[0] in _NATIVE
