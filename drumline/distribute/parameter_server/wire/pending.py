"""Requests whose replies have not come yet."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from drumline.distribute.parameter_server.wire.errors import ProtocolError
from drumline.distribute.parameter_server.wire.message import Message

_MOST_REQUESTS = 100_000


class Pending:
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
