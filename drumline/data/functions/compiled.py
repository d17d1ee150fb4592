"""A traced function compiled for blocks of one length."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
from jax.extend import core as jex

from drumline._core import want_results_at
from drumline.data.elements import precision
from drumline.data.elements.block import Block
from drumline.data.elements.errors import at_element
from drumline.data.elements.spec import ElementSpec
from drumline.data.functions.block_length import (
    block_length,
    gathered_rows,
    same_at_any_length,
    subjaxprs,
)
from drumline.data.functions.call import Position
from drumline.data.functions.elementwise import (
    ElementwiseResult,
    elementwise_results,
    left_to_xla,
)
from drumline.data.functions.fingerprint import content
from drumline.data.functions.guards import Guards, as_traced, guarded, row_error
from drumline.data.functions.one_by_one import OneByOne
from drumline.data.functions.routes import Computed, Constant, Passed, Route
from drumline.data.functions.trace import Trace
from drumline.data.functions.user_function import UserFunction
from drumline.data.runtime.buffers import ALIGNMENT, BufferPool

Key = tuple[bool, int]
"""Of a result: whether the program with 64-bit types computes it, and which of its outputs."""

_MOST_BUFFERS = 8
"""Of a size, kept for results: about what a pipeline has under way, and no rare peak of it."""

_WORTH_ALIGNING = 1 << 14
"""JAX copies smaller inputs as quickly."""


class CompiledFunction:
    """Runs a trace on the CPU, always on blocks of ``block_length`` rows.

    Shorter blocks are padded with their first row (a row that the function can handle): the length
    a program is compiled for can show in the last bits of its results, so it never varies.
    """

    ragged: bool | None = None
    varying: bool | None = None

    def __init__(
        self,
        function: UserFunction,
        spec: ElementSpec,
        trace: Trace,
        most: int = 1 << 30,
        elementwise: Mapping[Key, ElementwiseResult] = MappingProxyType({}),
    ):
        """Compiles a trace over elements of ``spec`` for at most ``most`` rows at once.

        The results in ``elementwise`` are computed without XLA.
        """
        self._function = function
        self._spec = spec
        self._trace = trace
        self._pool = BufferPool(_MOST_BUFFERS)
        programs = _programs(trace)
        leaves = [*spec.leaves, *trace.spec.leaves]
        lengths = (block_length(leaves, program.jaxpr) for program in programs)
        self.block_length = min(most, min(lengths, default=1024))
        self._row_nbytes = max(1, sum(leaf.nbytes or 0 for leaf in leaves))
        self._elementwise = elementwise
        self._programs = [
            _Program(trace, wide, self.block_length, elementwise)
            for wide, program in ((False, trace.narrow), (True, trace.wide))
            if program is not None and _needs_xla(trace, wide, program, elementwise)
        ]

    def content(self) -> tuple[Any, ...]:
        """All that it computes, for fingerprints."""
        return content(self._trace)

    def for_single_rows(self) -> CompiledFunction:
        """Compiled for a row, or itself where the length it is compiled for may show."""
        exact = all(same_at_any_length(program.jaxpr) for program in _programs(self._trace))
        return CompiledFunction(self._function, self._spec, self._trace, 1) if exact else self

    @cached_property
    def with_native_arithmetic(self) -> CompiledFunction:
        """The same, and the same bits, with what the Rust core can compute computed by it."""
        found = elementwise_results(self._trace)
        if not found:
            return self
        length = self.block_length
        return CompiledFunction(self._function, self._spec, self._trace, length, found)

    @cached_property
    def one_by_one(self) -> OneByOne:
        return OneByOne(self, self.for_single_rows())

    def limit(self, wanted: int) -> int:
        return wanted

    def at_once(self, size: int) -> int:
        """Whole numbers of ``size`` rows, which then need not be copied, if memory allows."""
        if not self._programs:
            # Nothing is padded.
            rows = gathered_rows(size, 1, self._row_nbytes)
            if rows >= self.block_length // 2:
                return rows
        return gathered_rows(size, self.block_length, self._row_nbytes)

    def __call__(self, block: Block, position: Position) -> Block:
        n, failure = block.n, None
        results = self._memory(n)
        if n and self._programs:
            n, failure = self._compute(block, results)
        for key, result in self._elementwise.items():
            result(block.columns[result.leaf][:n], results[key][:n])
        columns = [self._column(route, block, results, n) for route in self._trace.routes]
        if failure is None:
            return Block(columns, n, block.error)
        return Block(columns, n, at_element(failure, position(n), self._function.where))

    def _memory(self, n: int) -> dict[Key, np.ndarray]:
        """Where results go: recycled memory of whole blocks, so that its sizes are few."""
        rows = -(-n // self.block_length) * self.block_length
        return {
            (route.wide, route.output): self._pool.empty((rows, *route.shape), route.dtype)
            for route in self._trace.routes
            if isinstance(route, Computed)
        }

    def _compute(
        self, block: Block, results: dict[Key, np.ndarray]
    ) -> tuple[int, Exception | None]:
        """How many rows were computed before the first that failed, and its error."""
        failed = np.zeros(block.n, np.int32)
        for program in self._programs:
            with program.mode():
                for start in range(0, block.n, self.block_length):
                    rows = slice(start, min(start + self.block_length, block.n))
                    inputs = [
                        self._padded(block.columns[i], rows, used)
                        for i, used in zip(self._trace.inputs, program.uses, strict=True)
                    ]
                    flags = program(inputs, results, start)[: rows.stop - start]
                    np.maximum(failed[rows], flags, out=failed[rows])
        if not failed.any():
            return block.n, None
        row = int(np.argmax(failed != 0))
        return row, row_error(self._guards(), int(failed[row]))

    def _guards(self) -> Guards:
        return next(program.guards for program in self._programs if program.guards.messages)

    def _padded(self, column: np.ndarray, which: slice, used: bool = True) -> np.ndarray:
        """Rows of a column, filled up to a block, where XLA can read them in place."""
        rows = column[which]
        whole = len(rows) == self.block_length
        if whole and (not used or rows.nbytes < _WORTH_ALIGNING or _is_aligned(rows)):
            return rows
        if not used:
            return np.broadcast_to(rows[:1], (self.block_length, *rows.shape[1:]))
        out = self._pool.empty((self.block_length, *column.shape[1:]), column.dtype)
        out[: len(rows)] = rows
        if not whole:
            out[len(rows) :] = rows[0]
        return out

    def _column(
        self, route: Route, block: Block, results: dict[Key, np.ndarray], n: int
    ) -> np.ndarray:
        if isinstance(route, Passed):
            return block.columns[route.leaf][:n]
        if isinstance(route, Constant):
            return np.broadcast_to(route.value, (n, *route.value.shape))
        column = results[route.wide, route.output][:n]
        if 4 * n <= self.block_length:
            # A view of few rows would keep a whole block's memory.
            column = column.copy()
        column.flags.writeable = False
        return column

    def how(self) -> str:
        """How it runs, without its name."""
        kinds = " and ".join(
            "64-bit" if program.wide else "default types" for program in self._programs
        )
        found = [f"compiled for blocks of {self.block_length} ({kinds})"] if kinds else []
        if self._elementwise:
            found.append(f"native arithmetic ({len(self._elementwise)} of its results)")
        return ", ".join(found) or "no computation"

    def describe(self) -> str:
        return f"{self._function.name}: {self.how()}"


def _needs_xla(
    trace: Trace, wide: bool, program: jex.ClosedJaxpr, elementwise: Mapping[Key, ElementwiseResult]
) -> bool:
    """Whether a program computes or checks something that ``elementwise`` does not."""
    done = [result for key, result in elementwise.items() if key[0] == wide]
    routes = [route for route in trace.routes if isinstance(route, Computed) and route.wide == wide]
    others = any((wide, route.output) not in elementwise for route in routes)
    return not done or others or bool(left_to_xla(program, done, []))


def _programs(trace: Trace) -> list[jex.ClosedJaxpr]:
    return [program for program in (trace.narrow, trace.wide) if program is not None]


class _Program:
    """One compiled program: from whole input columns to the outputs that routes refer to."""

    def __init__(
        self, trace: Trace, wide: bool, length: int, elementwise: Mapping[Key, ElementwiseResult]
    ):
        self.wide = wide
        self.guards = Guards()
        closed = trace.wide if wide else trace.narrow
        assert closed is not None
        self._mode = precision.wide if wide else precision.narrow
        self._length = length
        self._outputs = sorted(
            {
                (r.output, r.dtype)
                for r in trace.routes
                if isinstance(r, Computed) and r.wide == wide
                if (r.wide, r.output) not in elementwise
            },
            key=lambda pair: pair[0],
        )
        run = _with_outputs(closed, self._outputs, self.guards)
        self._compiled = jax.jit(jax.vmap(run, axis_size=length))
        # JAX copies none to the device that is not used.
        outvars = [closed.jaxpr.outvars[output] for output, _ in self._outputs]
        done = [result for key, result in elementwise.items() if key[0] == wide]
        left = left_to_xla(closed, done, outvars)
        used = {var for eqn in left for var in eqn.invars if isinstance(var, jex.Var)}
        used.update(var for var in outvars if isinstance(var, jex.Var))
        self.uses = [var in used for var in closed.jaxpr.invars]
        # A callback in the thread that calls waits for itself in older releases of JAX.
        self._device = None if _calls_back(closed.jaxpr) else precision.calling_thread()
        self._has_run = False

    def mode(self) -> contextlib.AbstractContextManager[None]:
        """In which it is called."""
        return self._mode(self._device)

    def __call__(
        self, inputs: Sequence[np.ndarray], results: dict[Key, np.ndarray], start: int
    ) -> np.ndarray:
        """Puts the results for a block into rows ``start`` and following, as far as these go.

        Returns:
            Which check failed, int32, for each row.
        """
        whole = [results[self.wide, output] for output, _ in self._outputs]
        rows = [column[start : start + self._length] for column in whole]
        fits = all(len(part) == self._length for part in rows)
        places = [part.reshape(-1).view(np.uint8) for part in rows] if fits else []
        values, failed = self._run(inputs, places)
        found, wanted = [*map(_address, values)], [*map(_address, places)]
        if found == wanted:
            return failed
        if not set(wanted).isdisjoint(found):
            # Some lie in each other's place: nothing is written before all is read.
            values = [np.array(value) for value in values]
        for part, value in zip(rows, values, strict=True):
            part[...] = value[: len(part)]
        return failed

    def _run(
        self, inputs: Sequence[np.ndarray], places: list[np.ndarray]
    ) -> tuple[list[np.ndarray], np.ndarray]:
        try:
            want_results_at(places)
            try:
                outputs, failed = self._compiled(*inputs)
            finally:
                want_results_at([])
            found = [np.asarray(value) for value in outputs], np.asarray(failed)
        except BaseException as error:
            # It may not be over, if an interrupt came: nobody else must get this memory.
            _abandoned.extend(places)
            if self._has_run or self._device is None or not isinstance(error, Exception):
                raise
            # A constant that lies on a device, for example: the program cannot have another.
            self._device = None
            with self.mode():
                return self._run(inputs, [])
        self._has_run = True
        return found


_abandoned: list[np.ndarray] = []


def _calls_back(jaxpr: jex.Jaxpr) -> bool:
    """Whether a program calls Python, at any depth."""
    return any(
        eqn.primitive.name.endswith("callback") or any(map(_calls_back, subjaxprs(eqn.params)))
        for eqn in jaxpr.eqns
    )


def _is_aligned(array: np.ndarray) -> bool:
    return _address(array) % ALIGNMENT == 0 and array.flags.c_contiguous


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _with_outputs(
    closed: jex.ClosedJaxpr, outputs: Sequence[tuple[int, np.dtype]], guards: Guards
) -> Any:
    def run(*inputs: Any) -> tuple[list[Any], Any]:
        values, failed = guarded(closed, as_traced(closed, inputs), guards)
        return [jax.lax.convert_element_type(values[i], dtype) for i, dtype in outputs], failed

    return run
