"""What follows from closures having run: counters, and what servers may forget."""

from __future__ import annotations

import threading
from typing import Any

from drumline.distribute.parameter_server.coordinator.closure import Closure
from drumline.distribute.parameter_server.servers import Servers

_AT_A_TIME = 4096


class Applied:
    """The closures that have run since the last `forget`, whose pushes servers still remember.

    Args:
        servers: all parameter servers.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._names: list[str] = []
        self._updates: dict[int, tuple[Any, int]] = {}
        self._lock = threading.Lock()

    def ended(self, closure: Closure) -> None:
        """A closure has run; now and then the servers are told."""
        if not closure.function.writes:
            return
        with self._lock:
            for reference, times in closure.function.applied:
                optimizer = reference()
                if optimizer is None:
                    continue
                _, before = self._updates.get(id(optimizer), (optimizer, 0))
                self._updates[id(optimizer)] = (optimizer, before + times)
            self._names.append(closure.name)
            due = len(self._names) >= _AT_A_TIME
        if due:
            self.forget(wait=False)

    def failed(self, closure: Closure) -> None:
        """A closure has failed: what it may have pushed is all that it pushes."""
        with self._lock:
            self._names.append(closure.name)

    def count_updates(self) -> None:
        """Let each optimizer's ``iterations`` on the chief count what the servers have applied."""
        with self._lock:
            updates, self._updates = self._updates, {}
        for optimizer, times in updates.values():
            optimizer.iterations.assign_add(times)

    def forget(self, wait: bool = True) -> None:
        """Let the servers forget the closures that have run."""
        with self._lock:
            names, self._names = self._names, []
        if not names:
            return
        for server in range(len(self._servers)):
            answer = self._servers.submit(server, "finished", {"closures": names})
            if wait:
                self._servers.result(server, answer)
