"""Joining the other hosts of a job, as host 0 or as another, at the address of ``--rendezvous``."""

from __future__ import annotations

from collections.abc import Callable

from drumline import _addresses
from drumline.jobs.launch.environment import resolve
from drumline.jobs.launch.errors import LaunchError
from drumline.jobs.launch.loop import Loop
from drumline.jobs.launch.options import LaunchOptions
from drumline.jobs.launch.rendezvous.leader import HostRendezvous, Leader
from drumline.jobs.launch.rendezvous.member import Member, join
from drumline.jobs.launch.rendezvous.messages import hello_of


def split_address(address: str) -> tuple[str, int]:
    """``("10.0.0.1", 4000)`` of ``"10.0.0.1:4000"``; IPv6 addresses stand in brackets.

    Raises:
        LaunchError: if it is not of this form.
    """
    try:
        return _addresses.split(address)
    except ValueError:
        raise LaunchError(
            f"--rendezvous takes HOST:PORT, as 10.0.0.1:4000 or [fd00::1]:4000, got {address!r}."
        ) from None


_ANYWHERE = ("0.0.0.0", "::")


def join_hosts(
    options: LaunchOptions, loop: Loop, say: Callable[[str], None]
) -> tuple[Leader | Member, str]:
    """Wait for all hosts.

    Returns:
        The others, and this host's address as they see it.

    Raises:
        LaunchError: if not all come in time, or one was started differently.
        Interrupted: at a signal.
    """
    assert options.rendezvous is not None
    host, port = split_address(options.rendezvous)
    if host in _ANYWHERE:
        raise LaunchError(
            f"--rendezvous {options.rendezvous} names no particular address. Give the one of "
            f"host 0 that the others can reach."
        )
    hello, token, seconds = hello_of(options), options.token, options.rendezvous_seconds
    if options.node_rank == 0:
        _, address = resolve(host, port)
        rendezvous = HostRendezvous(address, hello, token, loop, say)
        say(f"Waiting at {options.rendezvous} for {hello.nodes - 1} more of {hello.nodes} hosts.")
        return Leader(rendezvous.gather(seconds), loop), options.host or address[0]
    say(f"Joining host 0 at {options.rendezvous}.")
    # Its name may be unknown until host 0 has come: it is resolved at each try to connect.
    channel, heard = join((host, port), hello, token, loop, seconds)
    return Member(channel, loop, heard), options.host or channel.local_address
