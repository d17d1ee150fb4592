"""Addresses of tasks, ``host:port``, and listening on one."""

from __future__ import annotations

import socket
from collections.abc import Iterable


def split(address: str) -> tuple[str, int]:
    """The host, without an IPv6 address's brackets, and the port.

    Raises:
        ValueError: if `address` is not ``host:port``.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{address!r} is not an address: write host:port, as in '10.0.0.1:2222'")
    return host.removeprefix("[").removesuffix("]"), int(port)


def on_host_of(address: str, others: Iterable[str]) -> int:
    """How many of the addresses have the same host as `address`."""
    host = split(address)[0]
    return sum(split(other)[0] == host for other in others)


def listen(address: str, task: str) -> socket.socket:
    """A socket that listens on `address`, the one that the cluster gives to `task`.

    Raises:
        RuntimeError: if the port is taken, the address is another machine's, or the host's name
            is unknown.
    """
    host, port = split(address)
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen(1024)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise RuntimeError(
            f"{task} cannot listen on its address in the cluster, {address}: {error}. The address "
            f"must be one of this machine and its port free; check that this is the machine of "
            f"{task}, and that no process of an earlier run is left."
        ) from error
    return listener
