"""Entering and leaving a tape's block: JAX's current trace, and how functions are compiled."""

from __future__ import annotations

import contextlib
import itertools

import jax

from drumline.training import jax_internals
from drumline.training.tape.trace import RecordingTrace

# A program that JAX cached from a function holds what the function closed over, such as the values
# of variables it read. Each block has programs of its own, which hold what its tape watches.
_block_number = jax.make_user_context(0)
_numbers = itertools.count(1)


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
            self._contexts.enter_context(_block_number(next(_numbers)))
        else:
            self._contexts.enter_context(jax.disable_jit())
        jax_internals.set_trace(self.trace)

    def close(self) -> bool:
        """Let the block end. False if some trace begun within it is still current."""
        is_innermost = jax_internals.current_trace() is self.trace
        jax_internals.set_trace(self.trace.parent_trace)
        self._contexts.close()
        return is_innermost
