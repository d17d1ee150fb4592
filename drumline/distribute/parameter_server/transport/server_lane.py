"""One client's requests, as its server sees them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline.distribute.parameter_server.transport.assembly import Assembly
from drumline.distribute.parameter_server.transport.codec import (
    CHUNK,
    ERROR,
    GOODBYE,
    RECORDS,
    REPLY,
    REQUEST,
    Record,
    encode,
)
from drumline.distribute.parameter_server.transport.errors import ProtocolError
from drumline.distribute.parameter_server.transport.flight import STREAM_ERRORS, FrameStream
from drumline.distribute.parameter_server.transport.message import Form, Handlers, Message
from drumline.distribute.parameter_server.transport.replies import Outcome, Replies
from drumline.distribute.parameter_server.transport.requests import answer, error_header
from drumline.distribute.parameter_server.transport.sending import Sender
from drumline.distribute.parameter_server.transport.shared_memory import SharedMemory
from drumline.distribute.parameter_server.transport.watch import watch

LEFT = "it closed the connection"


class ServerLane:
    """Reads requests, lets handlers answer them, and sends the replies.

    Args:
        number: the lane's.
        peer: the client's address.
        stream: set up already.
        memory: set up already.
        handlers: by operation.
        silence_seconds: after which a client that sends nothing is given up.
        ended: called once with the reason, when the client has left or was given up.

    Attributes:
        number: as given.
        peer: as given.
        last_heard: by the clock of `watch`.
    """

    def __init__(
        self,
        number: int,
        peer: str,
        stream: FrameStream,
        memory: SharedMemory,
        handlers: Handlers,
        silence_seconds: float,
        ended: Callable[[ServerLane, str], None],
    ) -> None:
        self.number = number
        self.peer = peer
        self.last_heard = watch.now()
        self._stream = stream
        self._handlers = handlers
        self._silence_seconds = silence_seconds
        self._ended = ended
        self._memory = memory
        self._assembly = Assembly(memory.arrays)
        self._replies = Replies(self._send, lambda error: self.end(str(error)))
        self._sender = Sender(stream)
        self._next_seq = 0
        self._state = threading.Condition()
        self._busy = False
        self._closing = False
        self._over = False

    def empties(self, forms: Sequence[Form]) -> list[np.ndarray]:
        """See `Lane.empties`."""
        return self._memory.empties(forms)

    def shared(self, shape: Sequence[int], dtype: Any) -> np.ndarray | None:
        """See `Lane.shared`."""
        return self._memory.shared(shape, dtype)

    def serve(self) -> None:
        """Serve the client until it leaves, or breaks the protocol."""
        watch.add(self)
        try:
            self.end(self._serve())
        except ProtocolError as error:
            self.end(f"it broke the protocol: {error}")
            raise
        except STREAM_ERRORS as error:
            self.end(f"the connection broke: {error}")
        except MemoryError:
            self.end("it sent more than fits into memory")
            raise
        finally:
            self._replies.close()
            self._memory.close()

    def check(self, now: float) -> None:
        """Give the client up if it has been silent for too long."""
        self._memory.trim()
        silent = now - self.last_heard
        if silent > self._silence_seconds:
            self.end(f"nothing was heard of it for {silent:.0f} s")

    def heard(self) -> None:
        """The client lives."""
        self.last_heard = watch.now()

    def end(self, reason: str) -> None:
        """Answer the client no more."""
        with self._state:
            if self._over:
                return
            self._over = True
            self._state.notify_all()
        watch.remove(self)
        self._ended(self, reason)

    def close(self, seconds: float) -> None:
        """Take no more requests, send the replies to those that run, and say goodbye."""
        with self._state:
            self._closing = True
            self._state.wait_for(lambda: not self._busy or self._over, seconds)
        self._replies.drain(seconds)
        if self._over:
            return
        try:
            self._stream.write_within(seconds, GOODBYE)
        except STREAM_ERRORS as error:
            self.end(f"the connection broke: {error}")

    def _serve(self) -> str:
        reason = None
        while reason is None:
            reason = self._serve_frame()
        return reason

    def _serve_frame(self) -> str | None:
        """Returns why the stream is over, if it is.

        Nothing that was received outlives the call: memory that is free when the next frame comes
        is used again, and need not be fetched from the system.
        """
        received = self._stream.read()
        if received is None:
            return "its connection ended without a goodbye, as when a process is killed"
        self.heard()
        if self._over:
            raise ProtocolError("this client was silent for too long and was given up")
        frame, data = received
        kind = frame[0] if frame else None
        if kind == RECORDS[0]:
            for record, arrays, last in self._assembly.records(frame[1:]):
                self._handle(record, arrays, last)
        elif kind == CHUNK[0] and data is not None:
            self._assembly.chunk(frame, data)
        elif kind == GOODBYE[0]:
            return LEFT
        else:
            raise ProtocolError("there is no such frame")
        return None

    def _handle(self, record: Record, arrays: list[np.ndarray], last: bool) -> None:
        if record.kind != REQUEST or record.seq != self._next_seq:
            raise ProtocolError("requests are out of order")
        self._next_seq += 1
        if not self._begin():
            return  # the goodbye, which comes soon, answers it
        try:
            outcome = answer(self._handlers, record.op, Message(record.header, arrays, self))
            del arrays
            self._replies.add(record.seq, outcome, more=not last)
        finally:
            with self._state:
                self._busy = False
                self._state.notify_all()

    def _begin(self) -> bool:
        with self._state:
            self._busy = not self._closing
            return self._busy

    def _send(self, replies: Sequence[tuple[int, Outcome]]) -> None:
        for seq, outcome in replies:
            kind, message = REPLY, outcome
            if isinstance(outcome, BaseException):
                kind, message = ERROR, Message(error_header(outcome))
            assert isinstance(message, Message)
            try:
                encoded = encode("", message.header, message.arrays, self._memory.put)
            except TypeError as error:
                kind, encoded = ERROR, encode("", error_header(error), (), self._memory.put)
            self._sender.add(seq, kind, encoded)
        self._sender.flush()
