"""A function of a state and an element compiled as a loop over a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.data.elements import precision
from drumline.data.elements.block import Block
from drumline.data.elements.errors import at_element
from drumline.data.elements.spec import ElementSpec
from drumline.data.functions.block_length import block_length, operations
from drumline.data.functions.call import Position
from drumline.data.functions.guards import Guards, as_traced, guarded, row_error
from drumline.data.functions.routes import Computed, Constant, Passed, Route
from drumline.data.functions.trace import Trace
from drumline.data.functions.user_function import UserFunction

_UNROLLED = 8
"""How many elements one turn of the loop takes where the function is small."""

_SMALL = 64
"""Operations."""


class LoopProgram:
    """The loop, compiled once for all iterators of a dataset.

    Rows past the block's end, and those after one that failed, leave the state as it is, so that it
    does not depend on how elements are grouped.
    """

    def __init__(
        self, function: UserFunction, trace: Trace, state: ElementSpec, source: ElementSpec
    ):
        self.function = function
        self.guards = Guards()
        self._trace = trace
        self._held = len(state.leaves)
        self._programs = [p for p in (trace.narrow, trace.wide) if p is not None]
        self.after = trace.routes[: self._held]
        self.results = trace.routes[self._held :]
        leaves = [*state.leaves, *source.leaves, *trace.spec.leaves]
        lengths = [block_length(leaves, program.jaxpr) for program in self._programs]
        self.block_length = min(lengths, default=1024)
        work = sum(operations(program.jaxpr) for program in self._programs)
        self._unroll = min(_UNROLLED if work <= _SMALL else 1, self.block_length)
        # Under JAX's default types a 64-bit column that only passes through would lose bits.
        self._mode = (
            precision.wide if any(leaf.dtype.itemsize >= 8 for leaf in leaves) else precision.narrow
        )
        # Columns that pass through untouched, strings among them, stay out of the loop.
        self.columns = [i - self._held for i in trace.inputs if i >= self._held]
        self._compiled = jax.jit(self._loop)

    def __call__(
        self, state: Sequence[np.ndarray], columns: Sequence[np.ndarray], n: int
    ) -> tuple[list[np.ndarray], dict[int, np.ndarray], np.ndarray]:
        """The state after ``n`` rows, results by their position and each row's flag."""
        with self._mode():
            after, results, failed = self._compiled(list(state), list(columns), np.int32(n))
        made = {i: np.asarray(value) for i, value in results.items()}
        return [np.asarray(leaf) for leaf in after], made, np.asarray(failed)

    def _loop(self, state: list[Any], columns: list[Any], n: Any) -> Any:
        rows = jnp.arange(self.block_length, dtype=jnp.int32)

        def turn(carry: Any, row: Any) -> Any:
            held, sound = carry
            number, leaves = row
            given = {self._held + i: leaf for i, leaf in zip(self.columns, leaves, strict=True)}
            given |= dict(enumerate(held))
            values, flag = self._evaluated(given)
            sound = sound & ((flag == 0) | (number >= n))
            counts = sound & (number < n)
            after = [self._value(route, values, given) for route in self.after]
            kept = [
                jnp.where(counts, new.astype(old.dtype), old)
                for new, old in zip(after, held, strict=True)
            ]
            results = {
                i: self._value(route, values, given)
                for i, route in enumerate(self.results)
                if self.in_loop(route)
            }
            return (kept, sound), (results, flag)

        (after, _), (results, failed) = jax.lax.scan(
            turn, (state, jnp.bool_(True)), (rows, columns), unroll=self._unroll
        )
        return after, results, failed

    def _evaluated(self, given: dict[int, Any]) -> tuple[dict[Any, Any], Any]:
        inputs = [given[i] for i in self._trace.inputs]
        values: dict[Any, Any] = {}
        flag: Any = jnp.int32(0)
        for wide, program in ((False, self._trace.narrow), (True, self._trace.wide)):
            if program is None:
                continue
            outputs, found = guarded(program, as_traced(program, inputs), self.guards)
            flag = jnp.maximum(flag, found)
            values.update({(wide, i): output for i, output in enumerate(outputs)})
        return values, flag

    def in_loop(self, route: Route) -> bool:
        """Whether a result is computed in the loop rather than copied or constant."""
        passes_state = isinstance(route, Passed) and route.leaf < self._held
        return isinstance(route, Computed) or passes_state

    def _value(self, route: Route, values: dict[Any, Any], given: dict[int, Any]) -> Any:
        if isinstance(route, Computed):
            return values[(route.wide, route.output)].astype(route.dtype)
        if isinstance(route, Constant):
            return jnp.asarray(route.value)
        return given[route.leaf]

    def column(self, leaf: int, block: Block) -> np.ndarray:
        """A result that no loop makes."""
        route = self.results[leaf]
        if isinstance(route, Passed):
            return np.asarray(block.columns[route.leaf - self._held][: block.n])
        assert isinstance(route, Constant)
        return np.broadcast_to(route.value, (block.n, *route.value.shape))


def compiled_program(
    function: UserFunction, trace: Trace, state: ElementSpec, source: ElementSpec
) -> LoopProgram:
    """The loop of a traced function of a state and an element."""
    return LoopProgram(function, trace, state, source)


class CompiledRecurrence:
    """Runs a loop, always on blocks of one length, and keeps the state between them."""

    def __init__(self, program: LoopProgram, state: list[np.ndarray]):
        self.state = state
        self._program = program
        self.block_length = program.block_length

    def limit(self, wanted: int) -> int:
        return min(wanted, self.block_length)

    def __call__(self, block: Block, position: Position) -> Block:
        program, n = self._program, block.n
        padded = [self._padded(block.columns[i], n) for i in program.columns]
        self.state, made, failed = program(self.state, padded, n)
        rows, error = n, block.error
        if failed[:n].any():
            rows = int(np.argmax(failed[:n] != 0))
            error = row_error(program.guards, int(failed[rows]))
            at_element(error, position(rows), program.function.where)
        columns = [
            made[i][:rows] if i in made else program.column(i, block)[:rows]
            for i in range(len(program.results))
        ]
        return Block(columns, rows, error)

    def _padded(self, column: np.ndarray, n: int) -> np.ndarray:
        if n == self.block_length:
            return column
        out = np.zeros((self.block_length, *column.shape[1:]), column.dtype)
        out[:n] = column[:n]
        if n:
            out[n:] = column[0]
        return out

    def describe(self) -> str:
        return f"{self._program.function.name}: compiled as a loop over {self.block_length}"
