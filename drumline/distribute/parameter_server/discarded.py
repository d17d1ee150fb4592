"""Names of what nobody can use any more, noted as it dies."""

from __future__ import annotations

import collections
from typing import Any

from drumline._forks import finalize


class Discarded:
    """What died since it was last asked.

    An object can die at any point of any thread, also where locks are held. So its name is only
    noted then; others are told of it later.
    """

    def __init__(self) -> None:
        self._names: collections.deque[Any] = collections.deque()

    def watch(self, thing: Any, name: Any) -> None:
        """Note `name` when `thing` dies."""
        finalize(thing, self._names.append, name).atexit = False

    def take(self) -> list[Any]:
        """The names that were noted, each once."""
        taken = []
        while self._names:
            taken.append(self._names.popleft())
        return taken
