"""Signals that wait until a step has put its results where they belong.

A compiled step is given the buffers of the variables and brings new ones. Python runs a signal's
handler between any two of its instructions, and Ctrl-C's raises: between the step's return and the
assignment of its results that would leave variables without values. `signals_held_back` surrounds
the two.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal's functions but for its enums: quicker
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from drumline._jax_start import traces

_SIGNALS = tuple(
    int(getattr(signal, name))
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGVTALRM")
    if hasattr(signal, name)
)

_PATIENCE = 1.0
"""Seconds after which a signal that comes again is handled at once."""

_Handler = Callable[[int, FrameType | None], Any]


class _HeldBack:
    """A context in the main thread in which handlers of signals wait for its end.

    Only handlers that are Python functions wait. While JAX traces they run at once: a trace runs
    the user's code, which may not end, and nothing has been given away yet. A signal that comes
    again after a second is handled at once, too.

    Entering it twice is like once. In other threads it does nothing: there no handlers run. It
    takes 2 to 3 us.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._handlers: dict[int, _Handler] = {}
        self._came: dict[int, tuple[float, FrameType | None]] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if not self._depth:
            for number in _SIGNALS:
                handler = _signal.getsignal(number)
                if callable(handler) and handler != self._hold:
                    self._handlers[number] = handler
                    _signal.signal(number, self._hold)
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth -= 1
        if self._depth:
            return
        for number in self._handlers:
            self._restore(number)
        while self._came:
            number, (_, frame) = self._came.popitem()
            self._handlers[number](number, frame)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self._depth and not traces():
            first, _ = self._came.setdefault(number, (time.monotonic(), frame))
            if time.monotonic() - first < _PATIENCE:
                return
        self._came.pop(number, None)
        if not self._depth:  # left behind, as another handler raised while they were put back
            self._restore(number)
        self._handlers[number](number, frame)

    def _restore(self, number: int) -> None:
        if _signal.getsignal(number) == self._hold:
            _signal.signal(number, self._handlers[number])


signals_held_back = _HeldBack()
"""See `_HeldBack`."""
