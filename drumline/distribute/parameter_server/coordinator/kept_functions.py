"""Functions as keys, and what runs of them need alive, without keeping either."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any


class WeakFunction:
    """A function that may die. Equal to another one if the functions are equal, and live.

    Args:
        fn: a function, a method, or another object that can be called.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._hash = hash(fn)
        self._get: Callable[[], Callable[..., Any] | None]
        try:
            self._get = weakref.WeakMethod(fn) if isinstance(fn, MethodType) else weakref.ref(fn)
        except TypeError:  # such as a builtin function, which keeps nothing alive
            self._get = lambda: fn

    def __call__(self) -> Callable[..., Any] | None:
        """The function, None if it died."""
        return self._get()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        own = self()
        return isinstance(other, WeakFunction) and own is not None and own == other()


class InUse:
    """What runs of a function need, alive for as long as one of them is under way.

    Args:
        things: among them the function and its variables.
    """

    def __init__(self, things: Sequence[Any]) -> None:
        self.things = things


class WhileUsed:
    """Gives all runs of a function the same `InUse`."""

    def __init__(self) -> None:
        self._in_use: weakref.ref[InUse] | None = None
        self._parts: list[weakref.ref[Any]] = []

    def needs(self, things: Sequence[Any]) -> None:
        """From now on runs need these, beside the function."""
        self._parts = [weakref.ref(thing) for thing in things]
        self._in_use = None

    def get(self, fn: Callable[..., Any]) -> InUse | None:
        """What a run of `fn` is to hold; None if something that it needs has died."""
        found = None if self._in_use is None else self._in_use()
        if found is None:
            things = [part() for part in self._parts]
            if any(thing is None for thing in things):
                return None
            found = InUse([fn, *things])
            self._in_use = weakref.ref(found)
        return found
