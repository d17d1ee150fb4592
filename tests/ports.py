"""Ports for the processes that tests start."""

from __future__ import annotations

from drumline.jobs.launch.environment import LaunchError, Ports

_claims: list[Ports] = []  # until this process ends: no other test is given the same port


def free_addresses(count: int, host: str = "127.0.0.1") -> list[str]:
    """Addresses of `host` that nobody takes before the test's processes listen there.

    A port that the system chose (``bind`` to port 0) would not do: once the socket that found it is
    closed, the next outgoing connection of any process may be given it.
    """
    claim = Ports(host, count)
    _claims.append(claim)
    return claim.addresses


def free_port(host: str = "127.0.0.1") -> int:
    """A port of `host` as `free_addresses` finds one; of 127.0.0.1 if `host` is not here."""
    try:
        (address,) = free_addresses(1, host)
    except LaunchError:
        (address,) = free_addresses(1)
    return int(address.rpartition(":")[2])
