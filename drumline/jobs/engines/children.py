"""Programs that an engine starts, and that may outlive it and this process."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import IO

_running: list[subprocess.Popen[bytes]] = []


def start_child(
    argv: Sequence[str],
    lock: int,
    *,
    output: IO[bytes] | None = None,
    env: dict[str, str] | None = None,
) -> None:
    """Start a program in a session of its own, which holds a lock from now on.

    Args:
        argv: its command line.
        lock: a descriptor, which it inherits under the same number.
        output: where it writes what it says; nowhere by default.
        env: its environment; this process's by default.

    Raises:
        OSError: it cannot be started.
    """
    _running.append(
        subprocess.Popen(
            argv,
            cwd="/",
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output or subprocess.DEVNULL,
            stderr=output or subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[lock],
        )
    )


def collect_children(timeout: float | None = 0) -> None:
    """Let go of those that have ended.

    Args:
        timeout: how long each is waited for, in seconds; None without a limit.
    """
    for child in list(_running):
        try:
            child.wait(timeout)
        except subprocess.TimeoutExpired:
            continue
        _running.remove(child)


class SignalRelay:
    """Keeps the signals of this process, and passes them on once there is someone to get them.

    Args:
        signals: their numbers.
    """

    def __init__(self, signals: Iterable[int]) -> None:
        self._send: Callable[[int], None] | None = None
        self._early: list[int] = []
        for signum in signals:
            signal.signal(signum, self._take)

    def _take(self, signum: int, frame: FrameType | None) -> None:
        if self._send is None:
            self._early.append(signum)
        else:
            self._send(signum)

    def begin(self, send: Callable[[int], None]) -> None:
        """Pass them on from now on, those that have come before first, each once."""
        self._send = send
        for signum in dict.fromkeys(self._early):
            send(signum)
