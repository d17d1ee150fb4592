"""Threads that learn of other processes' ends while this one computes, waits or idles."""

from __future__ import annotations

import sys
import threading
import time
from typing import NoReturn

import jax

from drumline.distribute.processes.coordination import Failure
from drumline.distribute.processes.lines import Lines, silence_seconds
from drumline.distribute.processes.peers import Blame, Membership
from drumline.distribute.processes.shutdown import STUCK_EXIT_CODE, Ending
from drumline.distribute.processes.stacks import main_thread_stands, stacks_of_all_threads
from drumline.distribute.processes.watchdog import Watchdog

_ASK_SECONDS = 1.0
_LEFT_BEHIND_SECONDS = 8.0
_LISTEN_SECONDS = 3600
_OWN_ERROR_SECONDS = 0.3


class Monitor:
    """Ends this process when another has failed or has fallen silent."""

    def __init__(
        self, membership: Membership, lines: Lines, ending: Ending, watchdog: Watchdog
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
                self._lost(self._membership.told(failure))

    def _watch(self) -> None:
        expected = set(self._membership.others)
        while not self._stopped.wait(_ASK_SECONDS) and expected:
            try:
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
        if index != 0:  # it may have done its work, or told of a failure
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
            self._lost(Blame(self._membership.group.tasks[0], "is stopped (SIGSTOP, a debugger)"))

    def _stuck(self, failure: Failure) -> None:
        """Say where this process stands when a step of another's does not end."""
        own = self._membership.group.task
        stacks = stacks_of_all_threads()
        print(f"drumline: {own} stands here while {failure.task} waits:\n{stacks}", file=sys.stderr)
        if self._watchdog.in_step:
            waits = Blame(failure.task, f"failed: {failure.message}")
            self._lost(self._membership.who_stands_still() or waits, stacks)
        where = main_thread_stands()
        self._membership.coordination.tell_standing(where)
        message = f"Did not come to the step that {failure.task} waits in: it is {where}"
        self._ending.fail("stuck", message, trace=stacks, exit_code=STUCK_EXIT_CODE)

    def _lost(self, blame: Blame, trace: str = "") -> NoReturn:
        task = self._membership.group.task
        self._ending.lost(self._ending.because(blame, f"{task} ends"), trace, say=True)
