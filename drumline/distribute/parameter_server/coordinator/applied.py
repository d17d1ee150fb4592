"""Telling the servers which closures no worker will run again."""

from __future__ import annotations

import threading

from drumline.distribute.parameter_server.coordinator.closure import Closure
from drumline.distribute.parameter_server.servers import Servers

_AT_A_TIME = 4096


class Applied:
    """The closures of which servers still remember what they wrote.

    Args:
        servers: all parameter servers.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._names: list[str] = []
        self._lock = threading.Lock()

    def ended(self, closure: Closure) -> None:
        """A closure has run; now and then the servers are told."""
        if not closure.function.writes:
            return
        with self._lock:
            self._names.append(closure.name)
            due = len(self._names) >= _AT_A_TIME
        if due:
            self.forget(wait=False)

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
