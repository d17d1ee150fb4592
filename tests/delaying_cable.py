"""A cable between two network namespaces that delays every packet: two TUN devices and a thread.

``tc netem`` does the same, but needs a kernel module that small machines lack.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import os
import select
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000
_MOST_BYTES = 65_536


def open_in(namespace: str, interface: str) -> int:
    """Create a TUN device in a namespace, and return the file that its packets pass through.

    Raises:
        OSError: if this machine has no ``/dev/net/tun``, or forbids it.
    """
    opened: list[int | OSError] = []

    def enter_and_open() -> None:  # a thread of its own stays in the namespace to its end
        try:
            with Path("/var/run/netns", namespace).open() as place:
                if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            request = struct.pack("16sH", interface.encode(), _IFF_TUN | _IFF_NO_PI)
            fcntl.ioctl(device, _TUNSETIFF, request)
            opened.append(device)
        except OSError as error:
            opened.append(error)

    thread = threading.Thread(target=enter_and_open)
    thread.start()
    thread.join()
    (result,) = opened
    if isinstance(result, OSError):
        raise result
    return result


@contextlib.contextmanager
def forwarding(ends: tuple[int, int], milliseconds: float | Callable[[], float]) -> Iterator[None]:
    """Carry packets between two TUN devices, each `milliseconds` late; closes them at the end.

    A function is asked at each packet.
    """
    stop_reader, stop_writer = os.pipe()
    delay = milliseconds if callable(milliseconds) else lambda: milliseconds
    carrier = threading.Thread(target=_carry, args=(ends, delay, stop_reader))
    carrier.start()
    try:
        yield
    finally:
        os.close(stop_writer)
        carrier.join()
        for file in (*ends, stop_reader):
            os.close(file)


def _carry(ends: tuple[int, int], milliseconds: Callable[[], float], stop: int) -> None:
    to = dict(zip(ends, reversed(ends), strict=True))
    under_way: list[tuple[float, int, int, bytes]] = []
    number = 0
    while True:
        wait = None if not under_way else max(0.0, under_way[0][0] - time.monotonic())
        readable, _, _ = select.select([*ends, stop], [], [], wait)
        if stop in readable:
            return
        for end in readable:
            with contextlib.suppress(OSError):  # the interface is down
                packet = os.read(end, _MOST_BYTES)
                number += 1
                due = time.monotonic() + milliseconds() / 1000
                heapq.heappush(under_way, (due, number, to[end], packet))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, end, packet = heapq.heappop(under_way)
            with contextlib.suppress(OSError):
                os.write(end, packet)
