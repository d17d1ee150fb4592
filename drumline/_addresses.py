"""Addresses of processes, ``host:port``: looking names up, connecting, and listening.

All lookups of names are bounded in time (`resolve`): the system's resolver knows no limit of ours,
and cannot be interrupted, so it is asked in a thread.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from drumline._changes import in_forked_child
from drumline._forks import ForkSafeLock

if TYPE_CHECKING:
    from concurrent.futures import Future

LOOKUP_SECONDS = 10.0
"""How long to wait for a name server where nothing else limits the time."""

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


class ResolvedAddress(NamedTuple):
    """One address of a host and a port, as ``socket.getaddrinfo`` finds it for TCP."""

    family: socket.AddressFamily
    kind: socket.SocketKind
    protocol: int
    canonical_name: str
    place: Any


def resolve(host: str, port: int | str, seconds: float = LOOKUP_SECONDS) -> list[ResolvedAddress]:
    """Look up the addresses of a host, as ``socket.getaddrinfo`` does, for at most `seconds`.

    A number is no name, and is never looked up. A lookup that hangs is shared by all who ask for
    the same name, so that those who try again and again have one thread.

    Raises:
        OSError: if the name is unknown, or no answer comes in time.
        UnicodeError: if the name cannot be one.
    """
    with contextlib.suppress(OSError, UnicodeError):
        return _found(host, port, socket.AI_NUMERICHOST)
    from concurrent.futures import TimeoutError as FutureTimeoutError

    lookup = _lookup(host, port)
    try:
        return lookup.result(max(0.0, seconds))
    except FutureTimeoutError:
        if lookup.done():
            raise
        raise OSError(
            f"the name {host!r} was not resolved within {seconds:.3g} s. Is the name server "
            f"reachable?"
        ) from None


def connect(host: str, port: int | str, seconds: float) -> socket.socket:
    """Connect by TCP to the first of the host's addresses that answers, within `seconds` in all.

    Returns:
        The socket, which has a timeout.

    Raises:
        TimeoutError: if none answers in time.
        OSError: if the name is not resolved, or that of the last address.
        UnicodeError: if the name cannot be one.
    """
    deadline = time.monotonic() + seconds
    problem: OSError = TimeoutError("timed out")
    for family, kind, protocol, _, place in resolve(host, port, seconds):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        connecting = socket.socket(family, kind, protocol)
        try:
            connecting.settimeout(left)
            connecting.connect(place)
            return connecting
        except OSError as error:
            problem = error
            connecting.close()
        except BaseException:
            connecting.close()
            raise
    raise problem


def listen(host: str, port: int, seconds: float = LOOKUP_SECONDS) -> socket.socket:
    """Return a socket that listens at this address of this machine and nowhere else.

    Args:
        host: an address of this machine, or its name.
        port: the port; 0 for a free one.
        seconds: for looking the name up.

    Raises:
        OSError: if the port is taken, the address is another machine's, or the name is unknown.
    """
    family, kind, protocol, _, place = resolve(host, port, seconds)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _found(host: str, port: int | str, flags: int = 0) -> list[ResolvedAddress]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [ResolvedAddress(*each) for each in found]


_lookups: dict[tuple[str, int | str], Future[list[ResolvedAddress]]] = {}
_lookups_lock = ForkSafeLock()


def _lookup(host: str, port: int | str) -> Future[list[ResolvedAddress]]:
    from concurrent.futures import Future  # which takes long to import, for names alone

    with _lookups_lock:
        lookup = _lookups.get((host, port))
        if lookup is None:
            lookup = _lookups[host, port] = Future()
            threading.Thread(
                target=_look_up, args=(host, port, lookup), name="drumline-resolver", daemon=True
            ).start()
    return lookup


def _look_up(host: str, port: int | str, lookup: Future[list[ResolvedAddress]]) -> None:
    found: list[ResolvedAddress] = []
    problem: BaseException | None = None
    try:
        found = _found(host, port)
    except BaseException as error:
        problem = error
    with _lookups_lock:  # the next one asks again
        _lookups.pop((host, port), None)
    if problem is None:
        lookup.set_result(found)
    else:
        lookup.set_exception(problem)


def _forget_lookups() -> None:
    _lookups.clear()


in_forked_child(_forget_lookups, "a child has none of the threads that look names up")
