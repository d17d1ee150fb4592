"""Messages on their way into a stream, several small ones at once."""

from __future__ import annotations

import collections
import threading

from drumline.distribute.parameter_server.wire.codec import Encoded
from drumline.distribute.parameter_server.wire.stream import Buffer, Stream

_TOGETHER = 256 * 1024


class Sender:
    """Sends what any thread adds, in that order.

    Whoever adds also sends, unless another thread is sending already: then that one sends it too.
    Whose turn it is has nothing to do with the stream's lock, which others may hold for a moment:
    nobody would send what is added then.

    Args:
        stream: to send on.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._turn = threading.Lock()
        self._waiting: collections.deque[tuple[int, int, Encoded]] = collections.deque()

    def add(self, seq: int, kind: int, encoded: Encoded) -> None:
        """Let the message be sent by the next `flush`."""
        self._waiting.append((seq, kind, encoded))

    def flush(self) -> None:
        """Send what waits, unless another thread does. Nothing is left behind.

        Raises:
            OSError: if the stream is broken.
        """
        while self._waiting and self._turn.acquire(blocking=False):
            try:
                while parts := self._next_parts():
                    with self._stream.lock:
                        self._stream.write(parts)
            except BaseException:  # a message may have been sent in part: nothing can follow it
                self._waiting.clear()
                self._stream.end()
                raise
            finally:
                self._turn.release()

    def _next_parts(self) -> list[Buffer]:
        parts: list[Buffer] = []
        small: list[bytes] = []
        size = 0
        while self._waiting and size < _TOGETHER:
            seq, kind, encoded = self._waiting.popleft()
            small.append(encoded.record(seq, kind))
            size += len(small[-1])
            for data in encoded.behind:
                if small:
                    parts.append(b"".join(small))
                    small = []
                parts.append(data)
                size += data.nbytes
        if small:
            parts.append(b"".join(small))
        return parts
