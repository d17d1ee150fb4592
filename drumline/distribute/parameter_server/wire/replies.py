"""Replies to requests, each as soon as it is ready."""

from __future__ import annotations

import collections
import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from drumline.distribute.parameter_server.wire.message import Message

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
            if self._closed:  # nobody would wait for a thread that starts now
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
