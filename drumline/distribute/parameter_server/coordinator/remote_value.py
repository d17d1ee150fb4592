"""What a scheduled function will have returned."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax

from drumline.distribute.parameter_server.errors import ClosureCancelledError


class RemoteValue:
    """The result of one scheduled function, as ``tf.distribute.experimental.coordinator``'s.

    Attributes:
        hurry: called before the result is waited for.
    """

    def __init__(self) -> None:
        self.hurry: Callable[[], None] | None = None
        self._ready = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    @property
    def ready(self) -> bool:
        """Whether there is a result, or the reason why there is none."""
        return self._ready.is_set()

    def fetch(self) -> Any:
        """Wait for the result: a pytree of numpy arrays.

        Raises:
            ClosureError: if the function failed on its worker.
            ClosureCancelledError: if it was not run, because another one failed.
        """
        if self.hurry is not None and not self.ready:
            self.hurry()
        self._ready.wait()
        if self._error is not None:
            raise self._error
        return jax.tree.map(lambda leaf: leaf, self._value)

    def get(self) -> Any:
        """The same as `fetch`: results are sent to the chief."""
        return self.fetch()

    def set_value(self, value: Any) -> None:
        """Note the result."""
        self._value = value
        self._ready.set()

    def set_error(self, error: BaseException) -> None:
        """Note that there will be none."""
        self._error = error
        self._ready.set()

    def cancel(self, reason: str) -> None:
        """Note that the function will not run, unless it has."""
        if not self.ready:
            self.set_error(ClosureCancelledError(f"This function was not run to its end: {reason}"))

    def __repr__(self) -> str:
        state = "pending"
        if self._ready.is_set():
            state = "failed" if self._error is not None else "ready"
        return f"<RemoteValue: {state}>"
