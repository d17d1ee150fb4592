"""One client's requests, as its server sees them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline._lost_process import CLOSED, silent
from drumline.distribute.parameter_server.errors import ProtocolError
from drumline.distribute.parameter_server.wire.arena import SharedMemory
from drumline.distribute.parameter_server.wire.codec import (
    ERROR,
    GOODBYE,
    REPLY,
    REQUEST,
    ArrayForm,
    Handlers,
    Message,
    MessageReader,
    Record,
    Sender,
    encode,
)
from drumline.distribute.parameter_server.wire.in_flight import (
    LEFT,
    Outcome,
    Replies,
    answer,
    error_header,
)
from drumline.distribute.parameter_server.wire.stream import Beats, Stream
from drumline.distribute.parameter_server.wire.watch import watch

_LINGER_SECONDS = 0.2
_LARGE = 256 * 1024
"""Bytes; a larger reply is sent at once, and not together with those that follow."""


class ServerLane:
    """Reads requests, lets handlers answer them, and sends the replies.

    Args:
        number: the lane's.
        peer: the client's address.
        stream: the client's, which has said who it is.
        memory: set up already.
        handlers: by operation.
        silence_seconds: after which a client that sends nothing is given up.
        interval: seconds from one beat to the next.
        ended: called once with the reason, when the client has left or was given up.

    Attributes:
        number: as given.
        peer: as given.
        interval: as given.
    """

    def __init__(
        self,
        number: int,
        peer: str,
        stream: Stream,
        memory: SharedMemory,
        handlers: Handlers,
        silence_seconds: float,
        interval: float,
        ended: Callable[[ServerLane, str], None],
    ) -> None:
        self.number = number
        self.peer = peer
        self.interval = interval
        self._last_heard = watch.now()
        self._stream = stream
        self._handlers = handlers
        self._silence_seconds = silence_seconds
        self._ended = ended
        self._memory = memory
        self._messages = MessageReader(stream, memory.arrays)
        self._replies = Replies(self._send, self._broke)
        self._sender = Sender(stream)
        self._next_seq = 0
        self._state = threading.Condition()
        self._beats: Beats | None = None
        self._busy = False
        self._closing = False
        self._over = False
        self._is_done = False
        self._broken: str | None = None

    def empties(self, forms: Sequence[ArrayForm]) -> list[np.ndarray]:
        """See `Lane.empties`."""
        return self._memory.empties(forms)

    def shared(self, shape: Sequence[int], dtype: Any) -> np.ndarray | None:
        """See `Lane.shared`."""
        return self._memory.shared(shape, dtype)

    def beat_by(self, beats: Beats) -> None:
        """Tell the client by `beats` that this process lives, and hear it.

        Raises:
            ProtocolError: if it has a stream for that already, or is gone.
        """
        with self._state:
            if self._beats is not None or self._over:
                raise ProtocolError("a client's beats are for no lane")
            self._beats = beats

    def serve(self) -> None:
        """Serve the client until it leaves, is given up, or breaks the protocol."""
        self._stream.has_been_set_up()
        watch.add(self)
        try:
            while self._serve_message():
                pass
            self.end(LEFT)
        except EOFError:
            self.end(self._broken or _WITHOUT_GOODBYE)
        except ProtocolError as error:
            self.end(f"it broke the protocol: {error}")
        except OSError as error:
            self.end(self._broken or f"the connection broke: {error}")
        except MemoryError:
            self.end("it sent more than fits into memory")
        finally:
            self.end("the lane failed")  # nothing, unless something was raised that is not above
            watch.remove(self)  # it may have been ended before it began
            self._stream.close()
            self._replies.close()
            if self._beats is not None:
                self._beats.close()
            self._memory.close()
            with self._state:
                self._is_done = True
                self._state.notify_all()

    def check(self, now: float) -> None:
        """Say that this side lives, and give the client up if it has been silent for too long."""
        self._memory.trim()
        if self._beats is not None and self._beats.exchange():
            self._last_heard = now
        seconds = now - self._last_heard
        if seconds > self._silence_seconds:
            self.end(f"it {silent(seconds)}")

    def end(self, reason: str) -> None:
        """Answer the client no more."""
        with self._state:
            if self._over:
                return
            self._over = True
            self._state.notify_all()
        watch.remove(self)
        self._stream.end()
        self._ended(self, reason)

    def begin_closing(self) -> None:
        """Take no more requests."""
        with self._state:
            self._closing = True

    def close(self, seconds: float) -> None:
        """Take no more requests, send the replies to those that run, say goodbye, and end.

        Args:
            seconds: for all of that; a handler that takes longer is left behind.
        """
        self.begin_closing()
        deadline = time.monotonic() + seconds
        with self._state:
            self._state.wait_for(lambda: not self._busy or self._over, seconds)
        self._replies.drain(max(0.0, deadline - time.monotonic()))
        if not self._over:
            try:
                left = max(_LINGER_SECONDS, deadline - time.monotonic())
                if self._stream.write_within(left, GOODBYE):
                    self._stream.end_writing()
                    with self._state:  # the client ends when it has heard that
                        self._state.wait_for(lambda: self._is_done, _LINGER_SECONDS)
            except OSError as error:
                self.end(f"the connection broke: {error}")
        self.end("the server has shut down")
        with self._state:
            self._state.wait_for(lambda: self._is_done, _LINGER_SECONDS)

    def _serve_message(self) -> bool:
        """Returns whether others may follow.

        Nothing that was received outlives the call: memory that is free when the next message comes
        is used again, and need not be fetched from the system.
        """
        received = self._messages.read()
        if received is None:
            return False
        self._last_heard = watch.now()
        self._handle(*received)
        return True

    def _handle(self, record: Record, arrays: list[np.ndarray]) -> None:
        if record.kind != REQUEST or record.seq != self._next_seq:
            raise ProtocolError("requests are out of order")
        self._next_seq += 1
        if not self._begin():
            return  # the goodbye, which comes soon, answers it
        try:
            outcome = answer(self._handlers, record.op, Message(record.header, arrays, self))
            del arrays
            is_large = isinstance(outcome, Message) and _nbytes(outcome) > _LARGE
            self._replies.add(record.seq, outcome, more=self._stream.has_more and not is_large)
        finally:
            with self._state:
                self._busy = False
                self._state.notify_all()

    def _begin(self) -> bool:
        with self._state:
            self._busy = not (self._closing or self._over or self._broken)
            return self._busy

    def _send(self, replies: Sequence[tuple[int, Outcome]]) -> None:
        for seq, outcome in replies:
            kind, message = REPLY, outcome
            if isinstance(outcome, BaseException):
                kind, message = ERROR, Message(error_header(outcome))
            assert isinstance(message, Message)
            try:
                encoded = encode("", message.header, message.arrays, self._memory.put)
            except (TypeError, ValueError) as error:
                kind, encoded = ERROR, encode("", error_header(error), (), self._memory.put)
            self._sender.add(seq, kind, encoded)
            if _nbytes(message) > _LARGE:  # it need not wait until the next ones are ready
                self._flush()
        self._flush()

    def _flush(self) -> None:
        try:
            self._sender.flush()
        except OSError as error:
            self._broke(error)

    def _broke(self, error: Exception) -> None:
        """Nothing can be sent. Perhaps the client left: who reads finds that, or the end."""
        self._broken = self._broken or f"the connection broke: {error}"
        self._stream.end()


def _nbytes(message: Message) -> int:
    return sum(array.nbytes for array in message.arrays)


_WITHOUT_GOODBYE = f"it {CLOSED} without a goodbye, as when a process is killed"
