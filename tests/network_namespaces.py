"""Two hosts on one machine: network namespaces with an address each, joined by a cable.

Processes in them reach each other over the cable and nothing else, as on two machines that share
a switch; files and process numbers are shared. It takes root (or CAP_NET_ADMIN and CAP_SYS_ADMIN)
and iproute2; where they are missing `two_hosts` skips the test, with the reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.delaying_cable import forwarding, open_in

ADDRESSES = ("10.77.0.1", "10.77.0.2")
INTERFACE = "cable"

_counter = itertools.count()


@dataclasses.dataclass(frozen=True)
class TwoHosts:
    """Two namespaces, host 0 and host 1.

    Attributes:
        names: of the namespaces, as ``ip netns`` lists them.
        addresses: IPv4 addresses at the ends of the cable. Each host has its own 127.0.0.1 too.
    """

    names: tuple[str, str]
    addresses: tuple[str, str] = ADDRESSES

    def run(
        self, host: int, argv: Sequence[str], env: Mapping[str, str] | None = None, **popen: Any
    ) -> subprocess.Popen[Any]:
        """Start `argv` on `host`; its pid is that of the command itself.

        Args:
            host: 0 or 1.
            argv: the command and its arguments.
            env: the whole environment; by default this process's.
            popen: further arguments of `subprocess.Popen`.
        """
        command = ["ip", "netns", "exec", self.names[host], *argv]
        return subprocess.Popen(command, env=None if env is None else dict(env), **popen)

    def link_down(self, host: int) -> None:
        """Take the interface of `host` down: nothing passes either way."""
        _ip("-n", self.names[host], "link", "set", INTERFACE, "down")

    def link_up(self, host: int) -> None:
        """Take it up again."""
        _ip("-n", self.names[host], "link", "set", INTERFACE, "up")

    def pids(self, host: int) -> list[int]:
        """The processes that run on `host`."""
        return [int(pid) for pid in _ip("netns", "pids", self.names[host]).split()]


@contextlib.contextmanager
def two_hosts(
    delay_milliseconds: float | Callable[[], float] = 0, addresses: tuple[str, str] = ADDRESSES
) -> Iterator[TwoHosts]:
    """Two hosts for the length of the block; what still runs on them at its end is killed.

    Args:
        delay_milliseconds: how long a packet takes from one to the other; a function is asked at
            each packet.
        addresses: of the hosts, in one network of 24 bits.
    """
    if shutil.which("ip") is None:
        pytest.skip("network namespaces need the command ip (iproute2)")
    _remove_left_over()
    number = next(_counter)
    names = (f"drumline-{os.getpid()}-{number}-0", f"drumline-{os.getpid()}-{number}-1")
    hosts = TwoHosts(names, addresses)
    with contextlib.ExitStack() as stack:
        try:
            for name in names:
                _ip("netns", "add", name)
                stack.callback(_remove, name)
            if delay_milliseconds:
                ends = tuple(open_in(name, INTERFACE) for name in names)
                stack.enter_context(forwarding(ends, delay_milliseconds))
            else:
                _join_directly(hosts)
            _address(hosts)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"this machine forbids network namespaces: {_reason(error)}")
        yield hosts


def _join_directly(hosts: TwoHosts) -> None:
    first, second = hosts.names
    cable = ["link", "add", INTERFACE, "type", "veth", "peer", "name", INTERFACE, "netns", second]
    _ip("-n", first, *cable)


def _address(hosts: TwoHosts) -> None:
    for name, address in zip(hosts.names, hosts.addresses, strict=True):
        _ip("-n", name, "address", "add", f"{address}/24", "dev", INTERFACE)
        _ip("-n", name, "link", "set", INTERFACE, "up")
        _ip("-n", name, "link", "set", "lo", "up")


def _remove(name: str) -> None:
    """Delete a namespace. A process left in it would keep it alive unseen, so it is killed."""
    for pid in _ip("netns", "pids", name).split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _ip("netns", "del", name)


def _remove_left_over() -> None:
    """Delete the namespaces of test runs that were killed before they could."""
    for name in re.findall(r"^drumline-\d+-\d+-[01]\b", _ip("netns", "list"), re.MULTILINE):
        if not Path("/proc", name.split("-")[1]).exists():
            with contextlib.suppress(subprocess.CalledProcessError):  # another run was quicker
                _remove(name)


def _ip(*arguments: str) -> str:
    return _run(["ip", *arguments])


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _reason(error: OSError | subprocess.CalledProcessError) -> str:
    return str(getattr(error, "stderr", "") or error).strip()
