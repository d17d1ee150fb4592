"""A forked child of the process, which inherits its objects, but neither its threads nor its work.

When such a child ends, Python runs the handlers it inherited and frees the objects: what waits for
a thread waits forever, what writes a buffer out writes it a second time, and what deletes a file
or tells other processes that the work is over does that for its parent, who still works. So
whatever of drumline does something when it is dropped or when the program ends is done by the
process that made it alone, and by no forked child of that. gRPC and XLA join threads of theirs when
their objects are freed; in a child these are not freed.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from drumline._changes import in_forked_child, note

T = TypeVar("T")


class Forked(Protocol):
    """What has something to do in a forked child, where all its threads are gone."""

    def forked(self) -> None:
        """Called in the child, first of all; takes no lock, since a lock may be held for good."""


def tell_in_child(thing: Forked) -> None:
    """Have ``thing.forked()`` called in every child that is forked while `thing` lives."""
    _told[id(thing)] = thing


def keep_in_child(thing: object) -> None:
    """Let no child that is forked while `thing` lives free it, or what it refers to."""
    _kept[id(thing)] = thing


class ForkSafeLock:
    """A ``threading.Lock`` of what a forked child uses, too: there it is a new one.

    The parent's may be locked for good in the child, which lacks the thread that would release it.
    What the lock guards must be as good as whole between any two statements of its holders.
    """

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self.forked()
        tell_in_child(self)

    def forked(self) -> None:
        """Begin unlocked in a child."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def never_freed(thing: object) -> None:
    """Let `thing`, and what it refers to, be there until the process has ended."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def finalize(
    thing: T, function: Callable[..., Any], *args: Any, **kwargs: Any
) -> weakref.finalize[..., T]:
    """As ``weakref.finalize``, but in a forked child `function` is not called."""
    return weakref.finalize(thing, _in_process, os.getpid(), function, args, kwargs)


def at_exit(function: Callable[..., Any], *args: Any) -> None:
    """As ``atexit.register``, but in a forked child `function` is not called."""
    atexit.register(_in_process, os.getpid(), function, args, {})
    name = getattr(function, "__qualname__", type(function).__name__)
    note("process", f"atexit: {name}", "it ends what this process has begun", "no setting", above=1)


def _in_process(
    pid: int, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    return function(*args, **kwargs) if os.getpid() == pid else None


def _tell() -> None:
    for kept in _kept.valuerefs():
        if (thing := kept()) is not None:
            never_freed(thing)
    for told in _told.valuerefs():
        if (hearer := told()) is not None:
            hearer.forked()


# Unlike a WeakSet, one of these may be read while other threads add to it.
_kept: weakref.WeakValueDictionary[int, object] = weakref.WeakValueDictionary()
_told: weakref.WeakValueDictionary[int, Forked] = weakref.WeakValueDictionary()
in_forked_child(_tell, "what waits for threads that a child lacks is not freed there")
