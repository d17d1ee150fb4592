"""Addresses of processes, ``host:port``, and listening at one."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable

_BACKLOG = 1024


def split(address: str) -> tuple[str, int]:
    """Return the host, without an IPv6 address's brackets, and the port.

    Raises:
        ValueError: if `address` is not ``host:port``, or an IPv6 address stands without brackets.
    """
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]]+)):(\d{1,5})", address, re.ASCII)
    if not found or not 0 < int(found[3]) < 65536:
        raise ValueError(
            f"{address!r} is not an address: write host:port, as in '10.0.0.1:2222' or "
            f"'[fd00::1]:2222'"
        )
    return found[1] or found[2], int(found[3])


def on_host_of(address: str, others: Iterable[str]) -> int:
    """Return how many of the addresses have the same host as `address`."""
    host = split(address)[0]
    return sum(split(other)[0] == host for other in others)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at this address of this machine and nowhere else.

    Raises:
        OSError: if the port is taken, the address is another machine's, or the name is unknown.
    """
    family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
