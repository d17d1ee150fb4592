"""A tape's recording, and its place among the open blocks of the thread."""

from __future__ import annotations

import threading
from typing import Any

import jax.numpy as jnp

from drumline.training import jax_internals
from drumline.training.tape.block import Block
from drumline.training.tape.reads import Reads
from drumline.training.tape.recording import Recording
from drumline.training.tape.trace import RecordingTrace


class Session:
    """What a tape has recorded and watched, and the block in which it does.

    Args:
        keep_operations: as for `Recording`.
        automatic: watch trainable variables when they are read.

    Attributes:
        outer_traces: the traces in which the block was opened, innermost first.
    """

    def __init__(self, keep_operations: bool, automatic: bool) -> None:
        self._keep_operations = keep_operations
        self._automatic = automatic
        self._block: Block | None = None
        self.outer_traces: list[Any] = []
        self.forget()

    @property
    def is_open(self) -> bool:
        """Whether the tape's block is being run."""
        return self._block is not None

    @property
    def is_recording(self) -> bool:
        """Whether operations are being recorded."""
        return self.is_open and self.recording.on

    def forget(self) -> None:
        """Start from nothing; an open block goes on."""
        self.recording = Recording(self._keep_operations)
        self.reads = Reads(self.recording)
        self.asked: dict[int, Any] = {}
        if self._block is not None:
            self._block.trace.start(self.recording)

    def open(self) -> None:
        """Begin the block."""
        parent = jax_internals.current_trace()
        self.outer_traces = jax_internals.ancestors(parent)
        self.recording.on = True
        self._block = Block(RecordingTrace(self.recording, parent))
        self._block.open()
        open_sessions().append(self)

    def close(self) -> bool:
        """End the block, and those begun within it. False if there were any, or it was closed."""
        stack = open_sessions()
        in_order = bool(stack) and stack[-1] is self
        while self in stack:
            in_order &= stack.pop()._close_block()
        return in_order

    def watches(self, variable: Any) -> bool:
        """Whether a read of `variable` is to be watched now."""
        wanted = (self._automatic and variable.trainable) or id(variable) in self.asked
        return self.recording.on and wanted and bool(jnp.issubdtype(variable.dtype, jnp.inexact))

    def sees(self, value: Any) -> bool:
        """False for the symbols of a trace begun within the block, as of an inner ``jax.grad``."""
        if not isinstance(value, jax_internals.Tracer):
            return True
        return any(value._trace is trace for trace in self.outer_traces)

    def trace_outside_tapes(self) -> Any:
        """The innermost trace around the block that is not another tape's."""
        return next(t for t in self.outer_traces if not isinstance(t, RecordingTrace))

    def _close_block(self) -> bool:
        block, self._block = self._block, None
        self.recording.on = False
        return block is not None and block.close()


class _OpenSessions(threading.local):
    def __init__(self) -> None:
        self.stack: list[Session] = []


_open = _OpenSessions()


def open_sessions() -> list[Session]:
    """Those of this thread whose blocks are open, innermost last."""
    return _open.stack
