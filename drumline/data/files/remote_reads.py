"""How files behind a scheme are read, and how often a request is made again."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_log = logging.getLogger("drumline.data")

_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


@dataclasses.dataclass(frozen=True)
class RemoteReads:
    """How remote files are read; see ``set_remote_reads``.

    Attributes:
        attempts: how often a request is made in all, if it fails for a reason that may pass: an
            ``OSError`` other than a missing or forbidden file, which time-outs are as well.
        pause: seconds before the second attempt; each further pause is four times as long.
        range_bytes: how much one request asks for: enough that its latency does not matter.
        at_once: how many requests of a file are under way.

    Raises:
        ValueError: a number is out of range.
    """

    attempts: int = 4
    pause: float = 0.4
    range_bytes: int = 4 << 20
    at_once: int = 2

    def __post_init__(self) -> None:
        for name, least in (("attempts", 1), ("pause", 0), ("range_bytes", 1), ("at_once", 1)):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"RemoteReads: {name} must be at least {least}, got {value}")


class _State:
    def __init__(self) -> None:
        self.reads = RemoteReads()
        self.retries = 0
        self.lock = threading.Lock()


_state = _State()


def remote_reads() -> RemoteReads:
    """How remote files are read at present."""
    return _state.reads


def set_remote_reads(reads: RemoteReads) -> RemoteReads:
    """Has files that are opened from now on read so; returns how they were before."""
    if not isinstance(reads, RemoteReads):
        raise TypeError(f"set_remote_reads takes RemoteReads, got {type(reads).__name__}")
    before, _state.reads = _state.reads, reads
    return before


def remote_retries() -> int:
    """How many requests for remote files this process has made again so far."""
    return _state.retries


def asked_again(
    request: Callable[[], T],
    url: str,
    reads: RemoteReads,
    wait: Callable[[float], object] = time.sleep,
) -> T:
    """What ``request`` returns, made again with growing pauses while it fails.

    Args:
        request: reads from the file.
        url: of the file, for the log and errors.
        reads: how often and after which pauses.
        wait: is called with the seconds to let pass.

    Raises:
        OSError: the last attempt's, with a note that names the file.
    """
    for attempt in range(1, reads.attempts + 1):
        try:
            return request()
        except OSError as error:
            if attempt == reads.attempts or isinstance(error, _LASTING):
                error.add_note(f"drumline: attempt {attempt} of {reads.attempts} to read {url}")
                raise
            pause = reads.pause * 4 ** (attempt - 1)
            with _state.lock:
                _state.retries += 1
            _log.warning(
                "%s: attempt %d of %d failed (%r); the next follows in %.1f s",
                url,
                attempt,
                reads.attempts,
                error,
                pause,
            )
            wait(pause)
    raise AssertionError("there is at least one attempt")
