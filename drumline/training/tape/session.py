"""A tape's open block: its place among those of the thread, and the variables it watches.

Entering a block makes its trace JAX's current one (`InterpretedBlock`). Keras variables report
their reads to the open sessions by a hook that this module installs (`read_unconverted`), and
`Reads` remembers as which value each was read.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from typing import Any

import jax
import jax.numpy as jnp

from drumline._changes import full_name, note
from drumline.training import jax_internals, keras_internals
from drumline.training.tape.compiled_operation import ComputingTrace
from drumline.training.tape.recording import Recording, RecordingTrace

# A program that JAX cached from a function holds what the function closed over, such as the values
# of variables it read. Each block has programs of its own, which hold what its tape watches.
_block_number = jax.make_user_context(0)
_numbers = itertools.count(1)


class InterpretedBlock:
    """JAX's state while operations are interpreted by `trace`.

    Where values are arrays, compiled functions run operation by operation: a function that JAX
    compiles takes what it closes over as constant, which would lose its gradient.
    """

    def __init__(self, trace: RecordingTrace) -> None:
        self.trace = trace
        self.compiles = not jax.config.jax_disable_jit  # type: ignore[attr-defined]
        if open_sessions() and trace.parent_trace is open_sessions()[-1].trace:
            self.compiles = open_sessions()[-1].compiles
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


class Reads:
    """The values that one tape's watched variables were read as.

    A variable may be assigned between reads, so it can have several. Each is an object of its
    own, which no other variable and no constant shares.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._variables: dict[int, Any] = {}
        self._values: dict[int, list[Any]] = {}
        self._known: dict[tuple[int, int], tuple[Any, Any]] = {}

    def known(self, variable: Any, stored: Any) -> Any:
        """What `variable` was read as when it held the object `stored`; None if never."""
        return self._known.get((id(variable), id(stored)), (None, None))[1]

    def remember(self, variable: Any, stored: Any, value: Any) -> None:
        """Let later reads of the same object give the same `value`."""
        self._known[id(variable), id(stored)] = (stored, value)

    def add(self, variable: Any, value: Any) -> None:
        """Watch `value` as one of `variable`."""
        self._recording.watch(value)
        self._variables[id(variable)] = variable
        self._values.setdefault(id(variable), []).append(value)

    def of(self, variable: Any) -> list[Any]:
        """The values of `variable`, oldest first."""
        return self._values.get(id(variable), [])

    def variables(self) -> dict[int, Any]:
        """The variables that were read, by their identity."""
        return self._variables


class TapeSession:
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
        self._block: InterpretedBlock | None = None
        self.outer_traces: list[Any] = []
        self.forget()

    @property
    def is_open(self) -> bool:
        """Whether the tape's block is being run."""
        return self._block is not None

    @property
    def trace(self) -> Any:
        """The trace of the open block; None if the tape is closed."""
        return None if self._block is None else self._block.trace

    @property
    def compiles(self) -> bool:
        """Whether the tape interprets operations on arrays, and functions may be compiled in it."""
        return (
            self._block is not None
            and self._block.compiles
            and not jax_internals.is_staged(self._block.trace.parent_trace)
        )

    @property
    def is_recording(self) -> bool:
        """Whether operations are being recorded."""
        return self.is_open and self.recording.on

    def forget(self) -> None:
        """Discard the recording; an open block continues."""
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
        computes = isinstance(parent, ComputingTrace) or jax_internals.is_evaluating()
        kind = ComputingTrace if computes else RecordingTrace
        self._block = InterpretedBlock(kind(self.recording, parent))
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
        self.stack: list[TapeSession] = []


_open = _OpenSessions()


def open_sessions() -> list[TapeSession]:
    """Those of this thread whose blocks are open, innermost last."""
    return _open.stack


def compiles_functions() -> bool:
    """Whether an open tape is interpreting operations on arrays, and would compile a function."""
    sessions = open_sessions()
    return (
        bool(sessions)
        and sessions[-1].compiles
        and jax_internals.current_trace() is sessions[-1].trace
    )


def read_unconverted(variable: Any) -> Any:
    """The value of `variable` without autocast, watched by the open tapes; None if it has none."""
    value = _stored(variable)
    if value is None:
        return None
    watching = [each for each in open_sessions() if each.watches(variable) and each.sees(value)]
    if not watching:
        return value
    innermost = watching[-1]
    read = innermost.reads.known(variable, value)
    if read is None:
        read = jax_internals.same_value(value, innermost.trace_outside_tapes())
        innermost.reads.remember(variable, value, read)
        for session in watching:
            session.reads.add(variable, read)
    return read


def _stored(variable: Any) -> Any:
    scope = keras_internals.get_stateless_scope()
    value = None if scope is None else scope.get_current_value(variable)
    return variable._value if value is None else value


def _install() -> None:
    """Let every read of a Keras variable's ``value`` be seen by the open tapes."""
    plain = keras_internals.Variable.value

    def value(variable: Any) -> Any:
        if open_sessions():
            read = read_unconverted(variable)
            if read is not None:
                return variable._maybe_autocast(read)
        return plain.fget(variable)

    keras_internals.Variable.value = property(value, doc=plain.__doc__)
    note(
        "Keras",
        full_name(keras_internals.Variable, "value"),
        "a GradientTape sees which variables are read; without one the value is Keras's",
        "no setting",
    )


_install()
