"""Ports for the processes of a job, which no other job on this host is given."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from collections.abc import Iterator
from pathlib import Path

from drumline.jobs.launch.errors import LaunchError

_LOWEST, _HIGHEST = 10_000, 65_535
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


class Ports:
    """Free ports at one address of this host, kept from other launchers until `close`.

    They lie outside the range that the system gives to outgoing connections, so that none of these
    takes one before its process listens. Each is claimed by an abstract Unix socket: the kernel
    keeps those unique and frees them when the launcher ends, however it ends.

    Args:
        host: the address the processes listen at.
        count: how many.

    Raises:
        LaunchError: if `host` is no address of this machine, or too few ports are free.
    """

    def __init__(self, host: str, count: int) -> None:
        self._claims: list[socket.socket] = []
        self.addresses: list[str] = []
        family, address = _resolved(host)
        shown = f"[{host}]" if ":" in host else host
        for port in _candidates():
            if len(self.addresses) == count:
                break
            claim = _claim(address, port)
            if claim is None:
                continue
            if _is_free(family, address, port):
                self._claims.append(claim)
                self.addresses.append(f"{shown}:{port}")
            else:
                claim.close()
        if len(self.addresses) < count:
            self.close()
            raise LaunchError(f"{count} free ports are needed at {host}, and there are too few.")

    def close(self) -> None:
        """Give the ports back."""
        for claim in self._claims:
            claim.close()
        self._claims.clear()


def resolve(host: str, port: int) -> tuple[int, tuple[str, int]]:
    """The address family and numeric address of `host`.

    Raises:
        LaunchError: if the name is unknown.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise LaunchError(
            f"the address {host!r} is unknown: {error}. Give an IP address or a name that "
            f"resolves here."
        ) from None
    return found[0], (str(found[4][0]), int(found[4][1]))


def _resolved(host: str) -> tuple[int, str]:
    family, (address, _) = resolve(host, 0)
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError as error:
            raise LaunchError(
                f"processes cannot listen at {host!r}: {error.strerror}. --host takes an address "
                f"of this machine ('ip address' lists them)."
            ) from None
    return family, address


def _candidates() -> Iterator[int]:
    ports = set(range(_LOWEST, _HIGHEST + 1))
    with contextlib.suppress(OSError, ValueError):  # not there: all ports may be tried
        low, high = map(int, _EPHEMERAL.read_text().split())
        outside = ports - set(range(low, high + 1))
        ports = outside if len(outside) > 1000 else ports
    yield from random.SystemRandom().sample(sorted(ports), len(ports))


def _claim(address: str, port: int) -> socket.socket | None:
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0drumline-launch-{address}-{port}")
    except OSError as error:
        claim.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return claim


def _is_free(family: int, address: str, port: int) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
