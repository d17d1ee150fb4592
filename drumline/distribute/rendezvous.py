"""Replicas that run as plain Python, one at a time, and wait for each other where they meet."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from drumline.training.jax_internals import current_trace, under
from drumline.training.keras_internals import thread_state

Combine = Callable[[list[Any]], Any]

END = "the end of the step"
"""The call by which a replica says that it has made its last."""


@dataclass
class Meeting:
    """Why a replica waits.

    Attributes:
        call: what it called; the others must call the same.
        value: what it brings.
        combine: makes one result of what all bring.
    """

    call: str
    value: Any
    combine: Combine


class _Abandoned(BaseException):
    """Unwinds a replica that nobody will meet any more."""


class _Replica:
    def __init__(self, rendezvous: Rendezvous, index: int, step: Callable[[], Any]) -> None:
        self.index = index
        self.meeting: Meeting | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self._step = step
        self._rendezvous = rendezvous
        self._baton = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        state = dict(thread_state())
        trace = current_trace()
        context = contextvars.copy_context()

        def run() -> None:
            self._baton.acquire()
            thread_state().update(state)
            try:
                if not rendezvous.abandoned:
                    with under(trace):
                        self.result = context.run(step)
            except BaseException as error:
                self.error = error
            finally:
                self.done = True
                self._back.release()

        self._thread = threading.Thread(target=run, name=f"replica {index}", daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """Let it run to where it meets the others, or to its end."""
        self._baton.release()
        self._back.acquire()

    def wait(self, meeting: Meeting) -> Any:
        """Called in its own thread: wait for the others, and return the combined result."""
        self.meeting = meeting
        self._back.release()
        self._baton.acquire()
        if self._rendezvous.abandoned:
            raise _Abandoned()
        self.meeting = None
        return self._rendezvous.outcome

    def end(self) -> None:
        """Unwind it if it has not ended, and wait for its thread."""
        if not self.done:
            self.resume()
        self._thread.join()


class Rendezvous:
    """Runs one function for each replica, in turns.

    Replica 0 runs until it meets the others (`meet`) or ends, then replica 1, and so on; when all
    have come to the meeting its result is made and they go on. So a run is the same every time.

    Attributes:
        trace: JAX's current one; the replicas share the values of no other.
    """

    def __init__(self) -> None:
        self.trace = current_trace()
        self.abandoned = False
        self.outcome: Any = None
        self._replicas: list[_Replica] = []
        self._running: _Replica | None = None

    def run(self, steps: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run the steps, one for each replica, and return what they return.

        Raises:
            RuntimeError: if the replicas do not make the same calls.
        """
        self._replicas = [_Replica(self, index, step) for index, step in enumerate(steps)]
        try:
            while not self._advance():
                self._meet()
        finally:
            self.abandoned = True
            for replica in self._replicas:
                replica.end()
        return [replica.result for replica in self._replicas]

    def meet(self, call: str, value: Any, combine: Combine) -> Any:
        """Called by a replica: bring `value`, wait for all, and return what `combine` made."""
        if self.abandoned:
            raise _Abandoned()
        assert self._running is not None
        return self._running.wait(Meeting(call, value, combine))

    def _advance(self) -> bool:
        for replica in self._replicas:
            self._running = replica
            replica.resume()
            if replica.error is not None:
                raise replica.error
        ended = [replica for replica in self._replicas if replica.done]
        if ended and len(ended) < len(self._replicas):
            waiting = next(replica for replica in self._replicas if not replica.done)
            assert waiting.meeting is not None
            raise RuntimeError(
                f"Replica {ended[0].index} ended its step, but replica {waiting.index} waits for "
                f"it in {waiting.meeting.call}. All replicas must make the same calls."
            )
        return bool(ended)

    def _meet(self) -> None:
        meetings = [replica.meeting for replica in self._replicas]
        calls = [meeting.call for meeting in meetings if meeting is not None]
        for index, call in enumerate(calls):
            if END in (call, calls[0]) and call != calls[0]:
                ended, other = (0, index) if calls[0] == END else (index, 0)
                raise RuntimeError(
                    f"Replica {ended} ended its step, but replica {other} waits for it in "
                    f"{calls[other]}. All replicas must make the same calls."
                )
            if call != calls[0]:
                raise RuntimeError(
                    f"Replica 0 called {calls[0]}, but replica {index} called {call}. All replicas "
                    "must make the same calls, in the same order."
                )
        first = meetings[0]
        assert first is not None
        self.outcome = first.combine([m.value for m in meetings if m is not None])
