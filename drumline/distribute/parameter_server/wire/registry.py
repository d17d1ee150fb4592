"""The servers of this process, which its own connections reach without the network."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from drumline._forks import at_exit

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.wire.server import TransportServer

_SECONDS_AT_EXIT = 1.0

_lock = threading.Lock()
_servers: dict[str, TransportServer] = {}


def register(address: str, server: TransportServer) -> None:
    """Let `find` know of a server that has started."""
    with _lock:
        _servers[address] = server


def forget(address: str, server: TransportServer) -> None:
    """The server at `address` has ended."""
    with _lock:
        if _servers.get(address) is server:
            del _servers[address]


def _close_all() -> None:
    """A process cannot end while its servers have clients."""
    with _lock:
        servers = list(_servers.values())
    for server in servers:
        server.close(_SECONDS_AT_EXIT)


def _forget_all() -> None:
    """A forked child reaches its parent's servers by the network, as everybody else does."""
    global _lock
    _lock = threading.Lock()
    _servers.clear()


at_exit(_close_all)
os.register_at_fork(after_in_child=_forget_all)


def find(address: str) -> TransportServer | None:
    """The server of this process that listens at `address`."""
    with _lock:
        return _servers.get(address)
