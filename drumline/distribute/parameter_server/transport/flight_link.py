"""A connection to another process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np

from drumline.distribute.parameter_server.transport.assembly import Assembly
from drumline.distribute.parameter_server.transport.codec import (
    CHUNK,
    ERROR,
    GOODBYE,
    RECORDS,
    REPLY,
    REQUEST,
    Encoded,
    Record,
    encode,
)
from drumline.distribute.parameter_server.transport.errors import (
    PeerUnavailableError,
    ProtocolError,
    RemoteError,
)
from drumline.distribute.parameter_server.transport.flight import (
    STREAM_ERRORS,
    as_transport_error,
)
from drumline.distribute.parameter_server.transport.heartbeat import Heartbeat
from drumline.distribute.parameter_server.transport.message import Form, Message, Request
from drumline.distribute.parameter_server.transport.opening import Opened
from drumline.distribute.parameter_server.transport.pending import Pending
from drumline.distribute.parameter_server.transport.sending import Sender
from drumline.distribute.parameter_server.transport.watch import watch

_GOODBYE_SECONDS = 0.2


class FlightLink:
    """Sends requests on a stream that stays open, and matches the replies.

    Args:
        address: of the server.
        opened: the streams to it.
        silence_seconds: how long it may be silent before it is given up.
        most_bytes: that may be in flight.

    Attributes:
        last_heard: by the clock of `watch`.
    """

    def __init__(
        self, address: str, opened: Opened, silence_seconds: float, most_bytes: int
    ) -> None:
        self._address = address
        self._opened = opened
        self._stream = opened.requests
        self._silence_seconds = silence_seconds
        self._pending = Pending(most_bytes)
        self._sender = Sender(opened.requests)
        self._order = threading.Lock()
        self._next_seq = 0
        self._memory = opened.memory
        self._assembly = Assembly(opened.memory.arrays)
        self.last_heard = watch.now()
        self._heartbeat = Heartbeat(opened.heartbeats, silence_seconds, self._hear, self._lose)
        self._reader = threading.Thread(target=self._read, name="drumline-reader", daemon=True)
        self._reader.start()
        watch.add(self)

    def submit_many(self, requests: Sequence[Request]) -> list[Future[Message]]:
        """See `Connection.submit_many`."""
        ready = [encode(*request, self._memory.put) for request in requests]
        for encoded in ready:
            self._pending.wait_for_room(encoded.nbytes)
        with self._order:
            futures = [self._enqueued(encoded) for encoded in ready]
        self._flush()
        return futures

    @property
    def is_lost(self) -> bool:
        """See `Connection.is_lost`."""
        return self._pending.has_failed

    def empties(self, forms: Sequence[Form]) -> list[np.ndarray]:
        """See `Connection.empties`."""
        return self._memory.empties(forms)

    def close(self) -> None:
        """See `Connection.close`."""
        if self._fail(PeerUnavailableError(self._address, "this side has closed the connection")):
            self._say_goodbye()
            if self._reader is not threading.current_thread():
                self._reader.join(_GOODBYE_SECONDS)  # it ends when the server has heard it
        self._disconnect()
        if self._reader is not threading.current_thread():
            self._reader.join()

    def check(self, now: float) -> None:
        """Give the server up if it has been silent for too long."""
        self._memory.trim()
        silent = now - self.last_heard
        if silent > self._silence_seconds:
            self._lose(f"nothing was heard of it for {silent:.0f} s: it is stopped or cut off")

    def _enqueued(self, encoded: Encoded) -> Future[Message]:
        future = self._pending.add(self._next_seq, encoded.nbytes)
        self._sender.add(self._next_seq, REQUEST, encoded)
        self._next_seq += 1
        return future

    def _flush(self) -> None:
        try:
            self._sender.flush()
        except STREAM_ERRORS as error:
            self._fail(as_transport_error(self._address, error))

    def _read(self) -> None:
        try:
            self._lose(self._read_replies())
        except ProtocolError as error:
            self._lose(f"it broke the protocol: {error}")
        except MemoryError as error:
            self._lose(f"a reply does not fit into memory: {error}")
        except STREAM_ERRORS as error:
            self._fail(as_transport_error(self._address, error))
        finally:
            self._stream.close()
            self._disconnect()

    def _read_replies(self) -> str:
        reason = None
        while reason is None:
            reason = self._read_frame()
        return reason

    def _read_frame(self) -> str | None:
        """Returns why the stream is over, if it is. See `ServerLane` for why this is a call."""
        received = self._stream.read()
        if received is None:
            return "it ended the connection"
        self._hear()
        frame, data = received
        kind = frame[0] if frame else None
        if kind == RECORDS[0]:
            for record, arrays, _ in self._assembly.records(frame[1:]):
                self._deliver(record, arrays)
        elif kind == CHUNK[0] and data is not None:
            self._assembly.chunk(frame, data)
        elif kind == GOODBYE[0]:
            return "it has shut down"
        else:
            raise ProtocolError("there is no such frame")
        return None

    def _deliver(self, record: Record, arrays: list[np.ndarray]) -> None:
        future = self._pending.pop(record.seq)
        if record.kind == REPLY:
            future.set_result(Message(record.header, arrays))
        elif record.kind == ERROR:
            said = [str(record.header.get(key, "")) for key in ("type", "message", "traceback")]
            future.set_exception(RemoteError(self._address, said[0], said[1], said[2]))
        else:
            future.set_exception(ProtocolError("a server sent a request"))

    def _hear(self) -> None:
        self.last_heard = watch.now()

    def _lose(self, reason: str) -> None:
        if self._fail(PeerUnavailableError(self._address, reason)):
            self._stream.cancel()

    def _fail(self, error: Exception) -> bool:
        watch.remove(self)
        return self._pending.fail(error)

    def _say_goodbye(self) -> None:
        """So that the server knows this from a crash. A stream that is stuck says nothing."""
        with contextlib.suppress(*STREAM_ERRORS):  # it was gone already, which is just as well
            self._stream.write_within(_GOODBYE_SECONDS, GOODBYE)

    def _disconnect(self) -> None:
        self._stream.cancel()
        self._heartbeat.stop()
        self._memory.close()
