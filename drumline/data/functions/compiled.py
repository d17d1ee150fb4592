"""A traced function compiled for blocks of one length."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np
from jax.extend import core as jex

from drumline.data.execute.block import Block
from drumline.data.execute.pool import BufferPool
from drumline.data.functions import modes
from drumline.data.functions.any_length import same_at_any_length
from drumline.data.functions.block_length import block_length
from drumline.data.functions.call import Position
from drumline.data.functions.fingerprint import content
from drumline.data.functions.guards import Guards, as_traced, guarded, row_error
from drumline.data.functions.notes import at_element
from drumline.data.functions.one_by_one import OneByOne
from drumline.data.functions.routes import Computed, Constant, Passed
from drumline.data.functions.trace import Trace
from drumline.data.functions.user_function import UserFunction
from drumline.data.spec import ElementSpec


class CompiledFunction:
    """Runs a trace on the CPU, always on blocks of ``block_length`` rows.

    Shorter blocks are padded with their first row (a row that the function can handle): the length
    a program is compiled for can show in the last bits of its results, so it never varies.
    """

    ragged: bool | None = None
    varying: bool | None = None

    def __init__(
        self, function: UserFunction, spec: ElementSpec, trace: Trace, most: int = 1 << 30
    ):
        """Compiles a trace over elements of ``spec`` for at most ``most`` rows at once."""
        self._function = function
        self._spec = spec
        self._trace = trace
        self._pool = BufferPool()
        programs = _programs(trace)
        leaves = [*spec.leaves, *trace.spec.leaves]
        lengths = (block_length(leaves, program.jaxpr) for program in programs)
        self.block_length = min(most, min(lengths, default=1024))
        self._programs = [
            _Program(trace, wide, self.block_length)
            for wide, program in ((False, trace.narrow), (True, trace.wide))
            if program is not None
        ]

    def content(self) -> tuple[Any, ...]:
        """All that it computes, for fingerprints."""
        return content(self._trace)

    def for_single_rows(self) -> CompiledFunction:
        """Compiled for a row, or itself where the length it is compiled for may show."""
        exact = all(same_at_any_length(program.jaxpr) for program in _programs(self._trace))
        return CompiledFunction(self._function, self._spec, self._trace, 1) if exact else self

    @cached_property
    def one_by_one(self) -> OneByOne:
        return OneByOne(self, self.for_single_rows())

    def limit(self, wanted: int) -> int:
        return wanted

    def __call__(self, block: Block, position: Position) -> Block:
        out = (
            self._run(block, position)
            if block.n <= self.block_length
            else self._pieces(block, position)
        )
        if out.error is None:
            out.error = block.error
        return out

    def _pieces(self, block: Block, position: Position) -> Block:
        columns = [
            self._pool.empty((block.n, *route.shape), route.dtype)
            if isinstance(route, Computed)
            else None
            for route in self._trace.routes
        ]
        n, error = 0, None
        for start in range(0, block.n, self.block_length):
            made, error = self._piece(block, start, position, columns)
            n += made
            if error is not None:
                break
        return Block(
            [self._whole(i, column, block, n) for i, column in enumerate(columns)], n, error
        )

    def _piece(
        self, block: Block, start: int, position: Position, columns: Sequence[np.ndarray | None]
    ) -> tuple[int, Exception | None]:
        """Results of some rows, copied while they are in the cache, and their memory free again."""
        rows = block.slice(start, min(start + self.block_length, block.n))
        part = self._run(rows, partial(_moved, position, start))
        for column, made in zip(columns, part.columns, strict=True):
            if column is not None:
                column[start : start + part.n] = made
        return part.n, part.error

    def _whole(self, leaf: int, column: np.ndarray | None, block: Block, n: int) -> np.ndarray:
        if column is None:
            return self._column(leaf, Block(block.columns, n), {})
        column.flags.writeable = False
        return column[:n]

    def _run(self, block: Block, position: Position) -> Block:
        n = block.n
        results: dict[tuple[bool, int], np.ndarray] = {}
        failed = np.zeros(n, np.int32)
        if n and self._programs:
            inputs = [self._padded(block.columns[i], n) for i in self._trace.inputs]
            for program in self._programs:
                failed = np.maximum(failed, program(inputs, results)[:n])
        columns = [self._column(i, block, results) for i in range(len(self._trace.routes))]
        if failed.any():
            row = int(np.argmax(failed != 0))
            error = row_error(self._guards(), int(failed[row]))
            at_element(error, position(row), self._function.where)
            return Block([column[:row] for column in columns], row, error)
        return Block(columns, n)

    def _guards(self) -> Guards:
        return next(program.guards for program in self._programs if program.guards.messages)

    def _padded(self, column: np.ndarray, n: int) -> np.ndarray:
        if n == self.block_length:
            return column
        out = self._pool.empty((self.block_length, *column.shape[1:]), column.dtype)
        out[:n] = column
        out[n:] = column[0]
        return out

    def _column(
        self, leaf: int, block: Block, results: dict[tuple[bool, int], np.ndarray]
    ) -> np.ndarray:
        route = self._trace.routes[leaf]
        if isinstance(route, Passed):
            return block.columns[route.leaf][: block.n]
        if isinstance(route, Constant):
            return np.broadcast_to(route.value, (block.n, *route.value.shape))
        if block.n == 0:
            return np.empty((0, *route.shape), route.dtype)
        rows = results[(route.wide, route.output)][: block.n]
        # A view of few rows would keep a whole block's memory.
        return rows.copy() if 4 * block.n <= self.block_length else rows

    def how(self) -> str:
        """How it runs, without its name."""
        kinds = " and ".join(
            "64-bit" if program.wide else "default types" for program in self._programs
        )
        if not kinds:
            return "no computation"
        return f"compiled for blocks of {self.block_length} ({kinds})"

    def describe(self) -> str:
        return f"{self._function.name}: {self.how()}"


def _programs(trace: Trace) -> list[jex.ClosedJaxpr]:
    return [program for program in (trace.narrow, trace.wide) if program is not None]


def _moved(position: Position, start: int, row: int) -> int:
    return position(start + row)


class _Program:
    """One compiled program: from whole input columns to the outputs that routes refer to."""

    def __init__(self, trace: Trace, wide: bool, length: int):
        self.wide = wide
        self.guards = Guards()
        closed = trace.wide if wide else trace.narrow
        assert closed is not None
        self._mode = modes.wide if wide else modes.narrow
        self._outputs = sorted(
            {
                (r.output, r.dtype)
                for r in trace.routes
                if isinstance(r, Computed) and r.wide == wide
            },
            key=lambda pair: pair[0],
        )
        run = _with_outputs(closed, self._outputs, self.guards)
        self._compiled = jax.jit(jax.vmap(run, axis_size=length))

    def __call__(
        self, inputs: Sequence[np.ndarray], results: dict[tuple[bool, int], np.ndarray]
    ) -> np.ndarray:
        with self._mode():
            outputs, failed = self._compiled(*inputs)
        for (output, _), value in zip(self._outputs, outputs, strict=True):
            results[(self.wide, output)] = np.asarray(value)
        return np.asarray(failed)


def _with_outputs(
    closed: jex.ClosedJaxpr, outputs: Sequence[tuple[int, np.dtype]], guards: Guards
) -> Any:
    def run(*inputs: Any) -> tuple[list[Any], Any]:
        values, failed = guarded(closed, as_traced(closed, inputs), guards)
        return [jax.lax.convert_element_type(values[i], dtype) for i, dtype in outputs], failed

    return run
