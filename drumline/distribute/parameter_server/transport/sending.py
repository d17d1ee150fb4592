"""Messages on their way into a stream, several small ones in one frame."""

from __future__ import annotations

import collections

from drumline.distribute.parameter_server.transport.codec import RECORDS, Encoded
from drumline.distribute.parameter_server.transport.flight import FrameStream

_FRAME_BYTES = 256 * 1024


class Sender:
    """Sends what any thread adds, in that order.

    Whoever adds also sends, unless another thread is sending already: then that one sends it too.

    Args:
        stream: to send on; its lock is held meanwhile.
    """

    def __init__(self, stream: FrameStream) -> None:
        self._stream = stream
        self._waiting: collections.deque[tuple[int, int, Encoded]] = collections.deque()

    def add(self, seq: int, kind: int, encoded: Encoded) -> None:
        """Let the message be sent by the next `flush`."""
        self._waiting.append((seq, kind, encoded))

    def flush(self) -> None:
        """Send what waits, unless another thread does. Nothing is left behind.

        Raises:
            OSError, or what else Flight raises: if the stream is broken.
        """
        while self._waiting and self._stream.lock.acquire(blocking=False):
            try:
                while frame := self._next_frame():
                    self._stream.write(RECORDS + frame)
            except BaseException:
                self._waiting.clear()
                raise
            finally:
                self._stream.lock.release()

    def _next_frame(self) -> bytes:
        """The next records. Chunks that belong to them are sent right away."""
        records: list[bytes] = []
        size = 0
        while self._waiting and size < _FRAME_BYTES:
            if records and self._waiting[0][2].chunked:
                break
            seq, kind, encoded = self._waiting.popleft()
            self._stream.write_chunks(encoded, seq)
            records.append(encoded.record(seq, kind))
            size += len(records[-1])
        return records[0] if len(records) == 1 else b"".join(records)
