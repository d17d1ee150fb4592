"""Functions known again that a user's function defines anew for each element.

``interleave(lambda path: TFRecordDataset(path).map(parse))`` gives ``parse`` to a new ``map`` for
every file, and ``flat_map(lambda x: Dataset.range(9).map(lambda y: y + x))`` another function for
every ``x``. Tracing and compiling it each time would cost far more than the work itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextvars import ContextVar, Token
from typing import Any

from drumline.data.functions.closures import Closure, Closures, Unknown

_MOST_KEPT = 256


class Reuse:
    """Results kept for functions that are the same.

    Two functions are the same if their code is, and all that it can read: closures, defaults and
    globals are compared by value. One that reads an object whose value cannot be compared is never
    known again.

    Args:
        outer: the user's function that defines the others.
    """

    def __init__(self, outer: Callable[..., Any]) -> None:
        self._outer = outer
        self._closures: Closures | None = None
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What was kept under ``key``, or else what ``make`` makes now."""
        try:
            self._kept.move_to_end(key)
            return self._kept[key]
        except KeyError:
            made = self._kept[key] = make()
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return made

    def closure(self, function: Callable[..., Any]) -> Closure | None:
        """All that a function reads, taken apart; ``None`` if it cannot be compared."""
        if self._closures is None:
            self._closures = Closures(self._outer)
        try:
            return self._closures.taken_apart(function)
        except Unknown:
            return None

    def in_force(self) -> InForce:
        """Lets ``reuse_in_force`` find it, in this thread."""
        return InForce(self)


class InForce:
    """A context in which a ``Reuse`` is in force: entered for each element, hence no generator."""

    __slots__ = ("_reuse", "_token")

    def __init__(self, reuse: Reuse):
        self._reuse = reuse

    def __enter__(self) -> None:
        self._token: Token[Reuse | None] = _current.set(self._reuse)

    def __exit__(self, *error: object) -> None:
        _current.reset(self._token)


_current: ContextVar[Reuse | None] = ContextVar("drumline_reuse", default=None)


def reuse_in_force() -> Reuse | None:
    """The ``Reuse`` of the user's function that runs in this thread, if one does."""
    return _current.get()


def reused(function: Callable[..., Any], others: Hashable, make: Callable[[], Any]) -> Any:
    """What ``make`` makes of a function, kept in the ``Reuse`` in force, if there is one.

    Args:
        function: a user's.
        others: what else the result depends on.
        make: makes it.
    """
    reuse = _current.get()
    closure = None if reuse is None else reuse.closure(function)
    if reuse is None or closure is None:
        return make()
    return reuse.get((closure.key(), others), make)
