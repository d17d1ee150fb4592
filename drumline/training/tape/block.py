"""Entering and leaving a tape's block: JAX's current trace, and how functions are compiled."""

from __future__ import annotations

import contextlib

import jax

from drumline.training import jax_internals
from drumline.training.tape.trace import RecordingTrace

# Programs that JAX cached from a function hold the values that the function closed over. Within a
# block they must hold those that the tape knows.
_cached_for = jax.make_user_context(None)


class Block:
    """JAX's state while operations are interpreted by `trace`.

    Where values are arrays, compiled functions run operation by operation: a function that JAX
    compiles takes what it closes over as constant, which would lose its gradient.
    """

    def __init__(self, trace: RecordingTrace) -> None:
        self.trace = trace
        self._contexts = contextlib.ExitStack()

    def open(self) -> None:
        """Let the block begin."""
        if jax_internals.is_staged(self.trace.parent_trace):
            self._contexts.enter_context(_cached_for(self))
        else:
            self._contexts.enter_context(jax.disable_jit())
        jax_internals.set_trace(self.trace)

    def close(self) -> bool:
        """Let the block end. False if some trace begun within it is still current."""
        is_innermost = jax_internals.current_trace() is self.trace
        jax_internals.set_trace(self.trace.parent_trace)
        self._contexts.close()
        return is_innermost
