"""Noticing lost peers and steps that never end.

* `Monitor`: threads that learn of other processes' ends while this one computes, waits or idles.
* `Watchdog`: ends this process when a step takes too long or fails because a peer is lost.
* `PendingSteps`: steps that were started and whose results no thread may be waiting for yet.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

import jax

from drumline._lost_process import STOPPED
from drumline.distribute.process_group.control_channel import ControlChannel, silence_seconds
from drumline.distribute.process_group.coordination import Failure
from drumline.distribute.process_group.peers import FailureCause, Membership, is_about_a_peer
from drumline.distribute.process_group.shutdown import STUCK_EXIT_CODE, Ending


def stacks_of_all_threads() -> str:
    """The calls that each thread is in, the latest first."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read()


def main_thread_stands() -> str:
    """The main thread's latest call, as ``"in load at input.py:12"``."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None:
        return "in no Python code"
    place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
    return f"in {frame.f_code.co_name} at {place}"


Pending = Callable[[], "tuple[float, int] | None"]
"""Gives the oldest step that has not ended: when it started (`time.monotonic`), and its number."""

_LOOKS = 8
"""How often to look within the time that a step may take."""


class PendingSteps:
    """Looks whether steps end in time, wherever the program is meanwhile.

    Args:
        bark: called with a step's number and its time when it took longer.
    """

    def __init__(self, bark: Callable[[int, float], object]) -> None:
        self._bark = bark
        self._sources: list[Pending] = []

    def any(self) -> bool:
        """Whether a step is under way."""
        return any(source() is not None for source in self._sources)

    def longer_than(self, seconds: float) -> int:
        """The highest number of a step that is under way for longer than that; 0 if none is."""
        found = [oldest for source in self._sources if (oldest := source()) is not None]
        now = time.monotonic()
        return max((number for since, number in found if now - since > seconds), default=0)

    def add(self, source: Pending, timeout_seconds: float | None) -> None:
        """Watch the steps of `source`; without a limit they only count as under way."""
        self._sources.append(source)
        if timeout_seconds is not None:
            threading.Thread(
                target=self._watch,
                args=(source, timeout_seconds),
                name="drumline-steps",
                daemon=True,
            ).start()

    def _watch(self, source: Pending, seconds: float) -> None:
        while True:
            time.sleep(seconds / _LOOKS)
            oldest = source()
            if oldest is not None and time.monotonic() - oldest[0] > seconds:
                self._bark(oldest[1], seconds)


class Watchdog:
    """Watches one step at a time; a step within another is part of the outer one.

    Attributes:
        pending: steps that are watched although the program does not wait for them.
    """

    def __init__(self, ending: Ending) -> None:
        self._ending = ending
        self._changed = threading.Condition()
        self._steps = 0
        self._deadline: float | None = None
        self._on_time_out: Callable[[], None] | None = None
        self._thread: threading.Thread | None = None
        self.pending = PendingSteps(self._bark)

    @property
    def in_step(self) -> bool:
        """Whether a step is under way."""
        return self._steps > 0 or self.pending.any()

    @contextlib.contextmanager
    def step(self, step: int | None, timeout_seconds: float | None) -> Iterator[None]:
        """End the process if the block takes longer, and name a lost peer if it fails for one."""
        outermost = not self._steps
        self._steps += 1
        if outermost and timeout_seconds is not None:
            self._arm(step, timeout_seconds)
        try:
            yield
        except Exception as error:
            if not is_about_a_peer(error):
                raise
            raise self._ending.peer_lost(error, step) from error
        finally:
            self._steps -= 1
            if outermost:
                self._deadline = None

    def _arm(self, step: int | None, seconds: float) -> None:
        self._on_time_out = lambda: self._bark(step, seconds)
        self._deadline = time.monotonic() + seconds
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._watch, name="drumline-watchdog", daemon=True
            )
            self._thread.start()
        with self._changed:
            self._changed.notify()

    def _watch(self) -> None:
        while True:
            deadline = self._deadline
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0 and self._on_time_out:
                self._on_time_out()
            with self._changed:
                self._changed.wait(left)

    def _bark(self, step: int | None, seconds: float) -> NoReturn:
        which = "A step" if step is None else f"Step {step}"
        message = f"{which} has not ended within {seconds:g} s (timeout_seconds)"
        stacks = stacks_of_all_threads()
        print(f"drumline: {message}; the stacks of all threads:\n{stacks}", file=sys.stderr)
        blame = self._ending.who_stands_still(message)
        if blame is not None:
            self._ending.lost(self._ending.because(blame, message, step), stacks, say=True)
        self._ending.fail("stuck", message, trace=stacks, step=step, exit_code=STUCK_EXIT_CODE)


_ASK_SECONDS = 1.0
_LONG_SECONDS = 2.0
"""How long a step takes until the others are notified, which may wait outside of it."""
_LEFT_BEHIND_SECONDS = 8.0
_LISTEN_SECONDS = 3600
_OWN_ERROR_SECONDS = 0.3


class Monitor:
    """Ends this process when another has failed or has fallen silent."""

    def __init__(
        self, membership: Membership, lines: ControlChannel, ending: Ending, watchdog: Watchdog
    ) -> None:
        self._membership = membership
        self._lines = lines
        self._ending = ending
        self._watchdog = watchdog
        self._stopped = threading.Event()
        self._coordinator_stopped = 0
        self._left_behind = 0
        self._threads = [
            threading.Thread(target=target, name=f"drumline-{target.__name__}", daemon=True)
            for target in (self._listen, self._watch, self._hold)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let the threads end; they do so once this process is no longer part of the group."""
        self._stopped.set()
        self._lines.stop()

    def join(self) -> None:
        """Wait for the threads, which after the end of the group takes no time."""
        self._lines.close()
        for thread in self._threads:
            thread.join(1.0)

    def _listen(self) -> None:
        while not self._stopped.is_set():
            try:
                failure = self._membership.coordination.wait_for_failure(_LISTEN_SECONDS)
            except jax.errors.JaxRuntimeError:  # process 0 is gone, or this process has left
                return
            own = failure is not None and failure.task == self._membership.group.task
            if failure is not None and not own and not self._stopped.is_set():
                if failure.kind == "stuck":
                    self._stuck(failure)
                time.sleep(_OWN_ERROR_SECONDS)  # the same error may be about to end this one, too
                self._lost(self._membership.reported(failure))

    def _watch(self) -> None:
        expected = set(self._membership.others)
        said = 0
        while not self._stopped.wait(_ASK_SECONDS) and expected:
            try:
                number = self._watchdog.pending.longer_than(_LONG_SECONDS)
                if number > said:
                    said = number
                    self._membership.coordination.tell_under_way(number)
                missing = expected - self._membership.coordination.live()
                left = self._membership.coordination.left() & set(self._membership.others)
            except jax.errors.JaxRuntimeError:
                continue
            done = missing & left
            self._left_behind = self._left_behind + 1 if left and self._watchdog.in_step else 0
            if self._left_behind * _ASK_SECONDS > _LEFT_BEHIND_SECONDS:
                self._lost(self._membership.ended_early(min(left)))
            if missing - done and not self._stopped.is_set():
                self._lost(self._membership.silent(min(missing - done)))
            expected -= done

    def _hold(self) -> None:
        self._lines.watch(self._line_ended, self._glance)

    def _line_ended(self, index: int, silent: bool) -> None:
        if index != 0:  # it may have done its work, or reported a failure
            time.sleep(_OWN_ERROR_SECONDS)
            if self._is_accounted_for(index):
                return
        self._lost(self._membership.line_ended(index, silent))

    def _is_accounted_for(self, index: int) -> bool:
        coordination = self._membership.coordination
        try:
            known = index in coordination.left() or coordination.failure() is not None
        except jax.errors.JaxRuntimeError:
            if not self._stopped.is_set():
                raise
            return True  # this process has left meanwhile
        return known or self._stopped.is_set()

    def _glance(self) -> None:
        """A stopped process 0 keeps its connections, and JAX would end this one without a word."""
        if self._membership.group.process_index == 0:
            return
        stopped = self._membership.processes[0].condition() == "stopped"
        self._coordinator_stopped = self._coordinator_stopped + 1 if stopped else 0
        if self._coordinator_stopped > silence_seconds(self._membership.heartbeat_timeout_seconds):
            self._lost(FailureCause(self._membership.group.tasks[0], STOPPED))

    def _stuck(self, failure: Failure) -> None:
        """Say where this process stands when a step of another's does not end."""
        own = self._membership.group.task
        stacks = stacks_of_all_threads()
        print(f"drumline: {own} stands here while {failure.task} waits:\n{stacks}", file=sys.stderr)
        if self._watchdog.in_step:
            waits = FailureCause(failure.task, f"failed: {failure.message}")
            self._lost(self._membership.who_stands_still() or waits, stacks)
        where = main_thread_stands()
        self._membership.coordination.tell_standing(where)
        message = f"Did not come to the step that {failure.task} waits in: it is {where}"
        self._ending.fail("stuck", message, trace=stacks, exit_code=STUCK_EXIT_CODE)

    def _lost(self, blame: FailureCause, trace: str = "") -> NoReturn:
        task = self._membership.group.task
        self._ending.lost(self._ending.because(blame, f"{task} ends"), trace, say=True)
