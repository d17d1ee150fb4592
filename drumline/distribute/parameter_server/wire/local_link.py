"""A connection within one process: messages are handed over as they are."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from drumline._authentication import same_token
from drumline._memory import aligned_empty
from drumline.distribute.parameter_server.errors import (
    AuthenticationError,
    PeerUnavailableError,
    RemoteError,
)
from drumline.distribute.parameter_server.wire.codec import ArrayForm, Message, Request, as_array
from drumline.distribute.parameter_server.wire.in_flight import (
    Outcome,
    Replies,
    RequestTable,
    answer,
    error_header,
)
from drumline.distribute.parameter_server.wire.lane import LEFT
from drumline.distribute.parameter_server.wire.server import TransportServer

_Queued = tuple[int, str, dict[str, Any], list[np.ndarray]]


class LocalLink:
    """Runs a server's handlers in a thread of the connection, with the sender's own arrays.

    Args:
        address: of the server.
        server: of this process.
        token: as the other process would have to know it.
        most_bytes: that may be in flight.

    Attributes:
        number: of the lane.
        peer: what handlers see as the client's address.

    Raises:
        AuthenticationError: if `token` is not the server's.
        PeerUnavailableError: if the server was closed.
    """

    def __init__(self, address: str, server: TransportServer, token: str, most_bytes: int) -> None:
        if not same_token(server.token, token):
            raise AuthenticationError(
                f"{address} refuses the connection: the token is not that server's."
            )
        self.peer = "this process"
        self._address = address
        self._server = server
        self._pending = RequestTable(most_bytes)
        self._replies = Replies(self._deliver, self._broken)
        self._queue: queue.SimpleQueue[_Queued | None] = queue.SimpleQueue()
        self._order = threading.Lock()
        self._next_seq = 0
        self._closed = False
        try:
            self.number = server.attach(self)
        except ConnectionRefusedError as error:
            raise PeerUnavailableError(address, str(error)) from None
        self._thread = threading.Thread(target=self._serve, name="drumline-lane", daemon=True)
        self._thread.start()

    def submit_many(self, requests: Sequence[Request]) -> list[Future[Message]]:
        """See `Connection.submit_many`."""
        ready = [
            (op, _as_received(op, header), _handed_over(op, arrays))
            for op, header, arrays in requests
        ]
        return [self._submit(*each) for each in ready]

    def _submit(self, op: str, header: dict[str, Any], arrays: list[np.ndarray]) -> Future[Message]:
        nbytes = sum(array.nbytes for array in arrays)
        self._pending.wait_for_room(nbytes)
        with self._order:
            future = self._pending.add(self._next_seq, nbytes)
            self._queue.put((self._next_seq, op, header, arrays))
            self._next_seq += 1
        return future

    @property
    def is_lost(self) -> bool:
        """See `Connection.is_lost`."""
        return self._pending.has_failed

    def empties(self, forms: Sequence[ArrayForm]) -> list[np.ndarray]:
        """See `Connection.empties`."""
        return [aligned_empty(*form) for form in forms]

    def shared(self, shape: Sequence[int], dtype: Any) -> np.ndarray | None:
        """See `Lane.shared`: arrays are handed over as they are."""
        return None

    def close(self) -> None:
        """See `Connection.close`."""
        self._end("this side has closed the connection", LEFT)

    def server_closes(self, seconds: float) -> None:
        """Let what was asked be answered, for a while, and end."""
        self._queue.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(seconds)
        self._replies.drain(seconds)
        self._end("it has shut down", "the server has shut down")

    def _end(self, reason: str, told: str) -> None:
        if self._pending.fail(PeerUnavailableError(self._address, reason)):
            self._queue.put(None)
            self._replies.close()
            self._server.detach(self, self.number, told)

    def _serve(self) -> None:
        while (request := self._queue.get()) is not None:
            seq, op, header, arrays = request
            self._replies.add(seq, answer(self._server.handlers, op, Message(header, arrays, self)))
            del request, arrays

    def _deliver(self, replies: Sequence[tuple[int, Outcome]]) -> None:
        for seq, outcome in replies:
            try:
                reply = self._reply(outcome)
            except TypeError as error:
                reply = self._reply(error)
            future = self._pending.pop(seq)
            if future is None:
                continue
            if isinstance(reply, Message):
                future.set_result(reply)
            else:
                future.set_exception(reply)

    def _reply(self, outcome: Outcome) -> Message | RemoteError:
        if isinstance(outcome, Message):
            arrays = _handed_over("", outcome.arrays)
            return Message(_as_received("", outcome.header), arrays)
        words = error_header(outcome)
        return RemoteError(self._address, words["type"], words["message"], words["traceback"])

    def _broken(self, error: Exception) -> None:
        self._end(str(error), str(error))


def _as_received(op: str, header: dict[str, Any]) -> dict[str, Any]:
    """What another process would see, so that nothing works in one process only."""
    try:
        copied: dict[str, Any] = json.loads(json.dumps(header))
    except (TypeError, ValueError) as error:
        raise TypeError(f"The header of the message {op!r} is not for JSON: {error}") from None
    return copied


def _handed_over(op: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    handed = []
    for index, array in enumerate(arrays):
        view = as_array(op, index, array).view()
        view.flags.writeable = False
        handed.append(view)
    return handed
