"""The end of the program, which threads of datasets must not outlive.

Python waits for the threads that are not daemons, calls what ``atexit`` knows, and takes the
interpreter down. All threads of datasets are daemons, so that a thread of the user's that Python
waits for finds them at work, and are ended here.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
import time
import weakref
from types import FrameType
from typing import Protocol

GRACE_SECONDS = 2.0
"""How long code of the user's may take to end, which may as well wait forever."""

_STEP_SECONDS = 0.05
_SHORT_STEP_SECONDS = 0.002
_NATIVE = ("drumline", "jax", "jaxlib", "numpy")


class Leaves(Protocol):
    """What has threads begin something."""

    def leave(self) -> None:
        """Has them begin nothing more; never waits, and is called once, or once again."""


class Joins(Protocol):
    """What has threads."""

    def join(self) -> None:
        """Waits for them, as far as the end of the program must; after everything has left."""


def told_to_leave(thing: Leaves) -> None:
    """Has ``thing`` leave at the end of the program, if it lives then: at once if this is it."""
    _at_the_end()
    _leaving[id(thing)] = thing
    # In this order, as the end may come in between.
    if _ends.is_set():
        thing.leave()


def waited_for(thing: Joins) -> None:
    """Has the end of the program wait for the threads of ``thing``, if it lives then."""
    _at_the_end()
    _joined[id(thing)] = thing


def the_end() -> SystemExit:
    """What is raised instead of a further element; a thread that it ends says nothing of it."""
    return SystemExit("the program ends: its datasets make no further elements")


_ends = threading.Event()
# Unlike a WeakSet, one of these may be read while other threads add to it.
_leaving: weakref.WeakValueDictionary[int, Leaves] = weakref.WeakValueDictionary()
_joined: weakref.WeakValueDictionary[int, Joins] = weakref.WeakValueDictionary()


@functools.cache
def _at_the_end() -> None:
    # With the first thread: the later it is registered, the sooner it is called.
    atexit.register(_leave)


def _leave() -> None:
    _ends.set()
    for leaves in _leaving.valuerefs():
        if (thing := leaves()) is not None:
            thing.leave()
    for joins in _joined.valuerefs():
        if (threads := joins()) is not None:
            threads.join()
    _let_out()


def _let_out() -> None:
    """Waits until the user's threads are back that waited for an element.

    They too would be ended on the way; what is compiled and called them does not survive that.
    """
    deadline = time.monotonic() + GRACE_SECONDS
    for thread in threading.enumerate():
        if thread.daemon and thread is not threading.current_thread():
            while _is_waiting(thread) and time.monotonic() < deadline:
                time.sleep(_SHORT_STEP_SECONDS)


def _forget() -> None:
    """The child of a fork has none of the threads; their locks may be locked forever."""
    _leaving.clear()
    _joined.clear()


os.register_at_fork(after_in_child=_forget)


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
    return _module(_frame(thread)).split(".")[0] in _NATIVE


def _is_waiting(thread: threading.Thread) -> bool:
    """Whether a thread is in a dataset's own code, and not in a function that this called."""
    frame = _frame(thread)
    while frame is not None and _module(frame) == "threading":
        frame = frame.f_back
    return _module(frame).startswith("drumline.data.")


def _frame(thread: threading.Thread) -> FrameType | None:
    """What a thread executes, if it lives."""
    return None if thread.ident is None else sys._current_frames().get(thread.ident)


def _module(frame: FrameType | None) -> str:
    return "" if frame is None else str(frame.f_globals.get("__name__", ""))
