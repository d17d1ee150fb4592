"""Catching a step that never ends, and one that a peer's end has made fail."""

from __future__ import annotations

import contextlib
import faulthandler
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

import jax

from drumline.distribute.processes.ending import STUCK_EXIT_CODE, Ending
from drumline.distribute.processes.peer_lost import PeerLostError, is_about_a_peer

_PEER_SPEAKS_SECONDS = 1.5  # who is stuck in its own code barks as well: it is the one to blame


class Watchdog:
    """Watches one step at a time; a step within another is part of the outer one."""

    def __init__(self, ending: Ending) -> None:
        self._ending = ending
        self._changed = threading.Condition()
        self._deadline: float | None = None
        self._on_time_out: Callable[[], None] | None = None
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def step(self, step: int | None, timeout_seconds: float | None) -> Iterator[None]:
        """End the process if the block takes longer, and name a lost peer if it fails for one."""
        started = False
        if timeout_seconds is not None:
            started = self._arm(step, timeout_seconds)
        try:
            yield
        except PeerLostError:
            raise
        except Exception as error:
            if not is_about_a_peer(error):
                raise
            raise self._ending.peer_lost(error, step) from error
        finally:
            if started:
                self._deadline = None

    def _arm(self, step: int | None, seconds: float) -> bool:
        if self._deadline is not None:
            return False
        self._on_time_out = lambda: self._bark(step, seconds)
        self._deadline = time.monotonic() + seconds
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._watch, name="drumline-watchdog", daemon=True
            )
            self._thread.start()
        with self._changed:
            self._changed.notify()
        return True

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
        if _waits_for_devices():
            message += ": it waits for its devices, probably for a peer"
        print(f"drumline: {message}; the stacks of all threads:\n{stacks}", file=sys.stderr)
        if _waits_for_devices():
            time.sleep(_PEER_SPEAKS_SECONDS)
        self._ending.fail("stuck", message, trace=stacks, step=step, exit_code=STUCK_EXIT_CODE)


def _waits_for_devices() -> bool:
    return any(not (array.is_deleted() or array.is_ready()) for array in jax.live_arrays())


def stacks_of_all_threads() -> str:
    """Where each thread of this process stands, the latest call first."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read()
