"""Catching a step that never ends, and one that a peer's end has made fail."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from drumline.distribute.processes.peer_lost import is_about_a_peer
from drumline.distribute.processes.pending import PendingSteps
from drumline.distribute.processes.shutdown import STUCK_EXIT_CODE, Ending
from drumline.distribute.processes.stacks import stacks_of_all_threads


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
