"""Requests and replies that are on their way, and connections within one process.

`RequestTable` has a client's requests whose replies have not come, limited by their bytes; it
fails once for all. `Replies` sends a server's replies, each as soon as it is ready and several
together, in a thread of its own where one has to be waited for. `answer` is the way from a request
to its handler's outcome.

`LocalLink` is a connection within one process: a thread runs the handlers, headers go through JSON
as they would on the network, and arrays are handed over as they are, read-only.
"""

from __future__ import annotations

import collections
import functools
import json
import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np

from drumline._authentication import same_token
from drumline._lost_process import CLOSED
from drumline._memory import aligned_empty
from drumline.distribute.parameter_server.errors import (
    AuthenticationError,
    PeerUnavailableError,
    ProtocolError,
    RemoteError,
)
from drumline.distribute.parameter_server.wire.codec import (
    ArrayForm,
    Handlers,
    Message,
    Request,
    as_array,
)

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.wire.server import TransportServer

LEFT = f"it {CLOSED}"
"""Why a connection ended that its client has closed."""

_MOST_REQUESTS = 100_000


class RequestTable:
    """The requests in flight on one lane, limited by their bytes.

    Args:
        most_bytes: how many may be in flight; a single larger request may be alone.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._changed = threading.Condition()
        self._futures: dict[int, tuple[int, Future[Message]]] = {}
        self._bytes = 0
        self._failure: Exception | None = None

    def __len__(self) -> int:
        return len(self._futures)

    @property
    def has_failed(self) -> bool:
        """Whether `fail` was called."""
        return self._failure is not None

    def wait_for_room(self, nbytes: int) -> None:
        """Wait until a request of `nbytes` may be sent.

        Raises:
            Exception: what `fail` was given, as `add` does.
        """
        with self._changed:
            if not self._has_room(nbytes):
                self._changed.wait_for(lambda: self._failure or self._has_room(nbytes))
            if self._failure is not None:
                raise self._failure
            self._bytes += nbytes

    def add(self, seq: int, nbytes: int) -> Future[Message]:
        """The reply to request number `seq`, for which there was room."""
        future: Future[Message] = Future()
        future.set_running_or_notify_cancel()
        with self._changed:
            if self._failure is not None:
                raise self._failure
            self._futures[seq] = (nbytes, future)
        return future

    def pop(self, seq: int) -> Future[Message] | None:
        """The request to which the reply has come; None after `fail`, which has answered it.

        Raises:
            ProtocolError: if none with this number is in flight.
        """
        with self._changed:
            if self._failure is not None:
                return None
            if seq not in self._futures:
                raise ProtocolError("a reply does not follow its request")
            nbytes, future = self._futures.pop(seq)
            self._bytes -= nbytes
            self._changed.notify_all()
        return future

    def fail(self, error: Exception) -> bool:
        """Let all requests fail, and those to come. Returns whether it was the first failure."""
        with self._changed:
            if self._failure is not None:
                return False
            self._failure = error
            futures = [future for _, future in self._futures.values()]
            self._futures.clear()
            self._changed.notify_all()
        for future in futures:
            future.set_exception(error)
        return True

    def _has_room(self, nbytes: int) -> bool:
        if not self._futures:
            return True
        return len(self._futures) < _MOST_REQUESTS and self._bytes + nbytes <= self._most_bytes


Outcome = Message | BaseException
Numbered = tuple[int, Outcome]
_MOST_WAITING = 1024
_MOST_TOGETHER = 64


class Replies:
    """Sends a lane's replies.

    A reply that is ready at once, with no others to come, is sent by the thread that brings it. All
    else is left to a thread, which sends several together. One that takes long keeps none of the
    later ones waiting: what it waits for may depend on them.

    Args:
        send: sends replies, each with the number of its request. It raises if the lane is broken.
        broken: called if that happens in this object's own thread.
    """

    def __init__(
        self, send: Callable[[Sequence[Numbered]], None], broken: Callable[[Exception], None]
    ) -> None:
        self._send = send
        self._broken = broken
        self._changed = threading.Condition()
        self._to_come = 0
        self._ready: collections.deque[Numbered] = collections.deque()
        self._sending = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def add(self, seq: int, reply: Future[Message] | Outcome, more: bool = False) -> None:
        """Send `reply` when it is ready.

        It returns at once, but for a lane that has very many replies waiting. After `close` the
        reply is dropped.

        Args:
            seq: the number of its request.
            reply: perhaps to come.
            more: whether others will follow at once.
        """
        with self._changed:
            if self._closed:  # no thread that starts now would be waited for
                return
            later = more or isinstance(reply, Future) or self._waiting or self._sending
            if isinstance(reply, Future):
                self._to_come += 1
            elif later:
                self._ready.append((seq, reply))
            if later:
                self._start()
                self._changed.notify_all()
        if isinstance(reply, Future):
            reply.add_done_callback(functools.partial(self._came, seq))
        elif not later:
            self._send([(seq, reply)])
        if later:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting < _MOST_WAITING)

    def drain(self, seconds: float) -> bool:
        """Wait for all to be sent. Returns whether they were."""
        with self._changed:
            return self._changed.wait_for(self._idle, seconds)

    def close(self) -> None:
        """Send no more."""
        with self._changed:
            self._closed = True
            self._to_come = 0
            self._ready.clear()
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def _waiting(self) -> int:
        return self._to_come + len(self._ready)

    def _idle(self) -> bool:
        return self._closed or not (self._waiting or self._sending)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="drumline-replies", daemon=True)
            self._thread.start()

    def _came(self, seq: int, reply: Future[Message]) -> None:
        with self._changed:
            if not self._closed:
                self._to_come -= 1
                self._ready.append((seq, _outcome(reply)))
                self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._ready)
                if self._closed:
                    return
                count = min(len(self._ready), _MOST_TOGETHER)
                ready = [self._ready.popleft() for _ in range(count)]
                self._sending = True
            try:
                self._send(ready)
            except Exception as error:
                self._broken(error)
            with self._changed:
                self._sending = False
                self._changed.notify_all()


def _outcome(reply: Future[Message]) -> Outcome:
    if reply.cancelled():
        return RuntimeError("the request was cancelled by the server")
    return reply.exception() or reply.result()


_LONGEST_TRACEBACK = 20_000


def answer(handlers: Handlers, op: str, request: Message) -> Message | Future[Message] | Exception:
    """What the handler of `op` returns or raises."""
    handler = handlers.get(op)
    if handler is None:
        return ValueError(f"there is no operation {op[:100]!r} here; there are {sorted(handlers)}")
    try:
        result = handler(request)
    except Exception as error:
        return error
    if isinstance(result, Message | Future):
        return result
    return TypeError(f"the handler of {op!r} returned {type(result).__name__}, not a Message")


def error_header(error: BaseException) -> dict[str, Any]:
    """An exception in words that JSON has."""
    lines = "".join(traceback.format_exception(error))
    return {
        "type": type(error).__name__,
        "message": str(error)[:_LONGEST_TRACEBACK],
        "traceback": lines[-_LONGEST_TRACEBACK:],
    }


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
        deadline = time.monotonic() + seconds
        self._queue.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(seconds)
        self._replies.drain(max(0.0, deadline - time.monotonic()))
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
