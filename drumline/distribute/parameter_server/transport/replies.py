"""Replies in the order of their requests, whenever they become ready."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from drumline.distribute.parameter_server.transport.message import Message

Outcome = Message | BaseException
Numbered = tuple[int, Outcome]
_MOST_WAITING = 1024
_MOST_TOGETHER = 64


class Replies:
    """Sends a lane's replies.

    A reply that is ready when its turn has come is sent by the thread that brings it. What is not,
    or is followed by others at once, is left to a thread, which sends several together.

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
        self._waiting: collections.deque[tuple[int, Future[Message] | Outcome]] = (
            collections.deque()
        )
        self._sending = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def add(self, seq: int, reply: Future[Message] | Outcome, more: bool = False) -> None:
        """Send `reply` when those before it have been sent and it is ready.

        It returns at once, but for a lane that has very many replies waiting. After `close` the
        reply is dropped.

        Args:
            seq: the number of its request.
            reply: perhaps to come.
            more: whether others will follow at once.
        """
        with self._changed:
            if self._closed:  # nobody would wait for a thread that starts now
                return
            later = more or isinstance(reply, Future) or self._waiting or self._sending
            if later:
                self._waiting.append((seq, reply))
                self._start()
        if not later:
            self._send([(seq, reply)])  # type: ignore[list-item]
            return
        if isinstance(reply, Future):
            reply.add_done_callback(self._wake)
        with self._changed:
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed or len(self._waiting) < _MOST_WAITING)

    def drain(self, seconds: float) -> bool:
        """Wait for all to be sent. Returns whether they were."""
        with self._changed:
            return self._changed.wait_for(self._idle, seconds)

    def close(self) -> None:
        """Send no more."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _idle(self) -> bool:
        return self._closed or not (self._waiting or self._sending)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="drumline-replies", daemon=True)
            self._thread.start()

    def _wake(self, _: Future[Message]) -> None:
        with self._changed:
            self._changed.notify_all()

    def _ready(self) -> bool:
        if self._closed:
            return True
        head = self._waiting[0][1] if self._waiting else None
        return head is not None and (not isinstance(head, Future) or head.done())

    def _take_ready(self) -> list[Numbered]:
        ready: list[Numbered] = []
        while self._waiting and self._ready() and len(ready) < _MOST_TOGETHER:
            seq, reply = self._waiting.popleft()
            ready.append((seq, _outcome(reply)))
        return ready

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._ready)
                if self._closed:
                    return
                ready = self._take_ready()
                self._sending = True
            try:
                self._send(ready)
            except Exception as error:
                self._broken(error)
            with self._changed:
                self._sending = False
                self._changed.notify_all()


def _outcome(reply: Future[Message] | Outcome) -> Outcome:
    if not isinstance(reply, Future):
        return reply
    if reply.cancelled():
        return RuntimeError("the request was cancelled by the server")
    return reply.exception() or reply.result()
