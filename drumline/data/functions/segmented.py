"""Traced functions run as native and compiled segments."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from drumline.data.elements.block import Block, estimated_nbytes
from drumline.data.elements.errors import at_element, with_strings
from drumline.data.elements.rows import stack
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.functions.call import OneByOne, Position
from drumline.data.functions.compiled import CompiledFunction, content
from drumline.data.functions.native.operation import BroadcastValue, run_native
from drumline.data.functions.programs import Constant
from drumline.data.functions.python_function import AdaptiveLimit, PythonFunction
from drumline.data.functions.segments import CompiledPart, NativeCall, Origin, cut, fused
from drumline.data.functions.trace import Trace, UserFunction

LONGEST = 256
"""Rows of strings, which may be whole files."""

MOST_ROWS = 4096
"""Rows of strings that turned out to be small and quickly done with."""

_QUICK = 0.001
_SMALL_BYTES = 1 << 20

MOST_PADDED = 1.25
"""How many rows a program may compute for each that is wanted, to save copying its results."""

TARGET_BYTES = 32 << 20
MOST_BYTES = 64 << 20


class SegmentedFunction:
    """Runs natives on whole columns of a block, and programs on blocks of their own lengths.

    An operation gives the same bits for any number of rows, and a program always runs at its own
    length: how many rows come at once does not show.

    Attributes:
        takes_packed: whether strings may come as ``PackedStrings``: nothing looks at them but
            operations that take these.
    """

    def __init__(self, function: UserFunction, spec: ElementSpec, trace: Trace):
        self._function = function
        self._spec = trace.spec
        self._trace = trace
        segments = fused(cut(trace))
        self._results = segments.results
        self.block_length = _block_length(trace)
        self._parts = [_ready(function, part, self.block_length) for part in segments.parts]
        self._repeated = {
            id(origin): BroadcastValue(origin.value)
            for part in self._parts
            for origin in part.takes
            if isinstance(origin, Constant)
        }
        self.ragged = any(_varies(leaf) for leaf in trace.spec.leaves)
        self.varying = any(None in leaf.shape[1:] for leaf in trace.spec.leaves if _varies(leaf))
        self._limit = self.block_length
        self._most = min(LONGEST, max(1, MOST_BYTES // _row_nbytes(trace)))
        self._lengths = [part.length for part in self._parts if isinstance(part, _Compiled)]
        strings = {i for i, leaf in enumerate(spec.leaves) if leaf.is_string}
        self.takes_packed = not strings.intersection(_slots(self._results)) and all(
            not strings.intersection(_slots(part.takes_objects)) for part in self._parts
        )

    def content(self) -> tuple[Any, ...]:
        """All that it computes, for fingerprints."""
        return content(self._trace)

    def for_single_rows(self) -> SegmentedFunction:
        """With its programs compiled for a row, where that cannot show."""
        alone = copy.copy(self)
        alone._parts = [part.for_single_rows() for part in self._parts]
        return alone

    @cached_property
    def one_by_one(self) -> OneByOne:
        return OneByOne(self, self.for_single_rows())

    def limit(self, wanted: int) -> int:
        return min(wanted, self._limit)

    def at_once(self, size: int) -> int:
        """Whole numbers of ``size`` rows, which then need not be copied, if memory allows."""
        rows = max(size, self._limit - self._limit % size)
        padded = max((-(-rows // length) * length for length in self._lengths), default=rows)
        return rows if rows <= self._most and padded <= MOST_PADDED * rows else self._limit

    def __call__(self, block: Block, position: Position) -> Block:
        out = self._run(block, position)
        if out.error is None:
            out.error = block.error
        return out

    def _run(self, block: Block, position: Position) -> Block:
        started = time.perf_counter()
        slots: dict[int, Any] = dict(enumerate(block.columns))
        n, error = block.n, None
        for part in self._parts:
            if n == 0:
                break
            columns = [self._column(origin, slots, n) for origin in part.takes]
            made, n, failure = part(columns, n, position)
            if failure is not None:
                with_strings(failure, block.columns, n)
            error = failure or error
            slots.update(zip(part.gives, made, strict=True))
        if n == 0:
            return Block(stack([], self._spec), 0, error)
        self._measure(block, slots, time.perf_counter() - started)
        return Block([self._result(origin, slots, n) for origin in self._results], n, error)

    def _column(self, origin: Origin, slots: dict[int, Any], n: int) -> Any:
        if isinstance(origin, Constant):
            return self._repeated[id(origin)](n)
        column = slots[origin]
        return column if len(column) == n else column[:n]

    def _result(self, origin: Origin, slots: dict[int, Any], n: int) -> Any:
        if isinstance(origin, Constant):
            return np.broadcast_to(origin.value, (n, *origin.value.shape))
        return self._column(origin, slots, n)

    def _measure(self, block: Block, slots: dict[int, Any], seconds: float) -> None:
        """Has more rows come at once where they turn out to be small, fewer where large."""
        nbytes = estimated_nbytes(Block(list(slots.values()), block.n))
        quick = seconds < _QUICK and nbytes < _SMALL_BYTES
        if quick and self.block_length <= block.n <= MOST_ROWS // 2:
            self.block_length *= 2
        row = nbytes / block.n
        self._most = max(1, int(MOST_BYTES / max(1.0, row)))
        self._limit = min(self.block_length, self._most)

    def describe(self) -> str:
        runs = itertools.groupby(self._parts, lambda part: isinstance(part, _Native))
        shown = (
            ("native " if native else "") + ", ".join(part.describe() for part in parts)
            for native, parts in runs
        )
        return f"{self._function.name}: {' | '.join(shown)}"


class PartlyPythonFunction:
    """A function whose calls of Python functions run row by row, and which is else compiled.

    Attributes:
        python: the whole function as Python, for processes of its own.
    """

    def __init__(self, compiled: SegmentedFunction, python: PythonFunction):
        self.python = python
        self.ragged = compiled.ragged
        self.varying = compiled.varying
        self.block_length = 1
        self._compiled = compiled
        # An element must not wait for many others, whose calls may be slow.
        self._rows = AdaptiveLimit()

    def limit(self, wanted: int) -> int:
        return self._compiled.limit(self._rows.limit(wanted))

    def __call__(self, block: Block, position: Position) -> Block:
        started = time.perf_counter()
        for column in block.columns:
            if isinstance(column, np.ndarray):
                column.flags.writeable = False
        out = self._compiled(block, position)
        self._rows.adapt(out.n, time.perf_counter() - started)
        return out

    def describe(self) -> str:
        return self._compiled.describe()


class _Native:
    """An operation, for any number of rows."""

    def __init__(self, function: UserFunction, call: NativeCall):
        self._where = function.where
        self._call = call
        self.takes = call.arguments
        self.takes_objects = call.arguments[1 if call.operation.takes_packed else 0 :]
        self.gives = call.gives

    def for_single_rows(self) -> _Native:
        return self

    def __call__(
        self, columns: list[Any], n: int, position: Position
    ) -> tuple[list[Any], int, Exception | None]:
        call = self._call
        made, rows, error = run_native(call.operation, columns, call.specs, call.results, n)
        if error is not None:
            error = at_element(error, position(rows), self._where)
        return made, rows, error

    def describe(self) -> str:
        operation = self._call.operation
        return f"{operation.name} (Python, row by row)" if operation.row_by_row else operation.name


class _Compiled:
    def __init__(self, function: UserFunction, part: CompiledPart, most: int):
        self._run = CompiledFunction(function, part.element, part.trace, most)
        self.length = self._run.block_length
        self.takes: tuple[Origin, ...] = part.takes
        self.takes_objects = self.takes
        self.gives = part.gives

    def for_single_rows(self) -> _Compiled:
        alone = copy.copy(self)
        alone._run = self._run.for_single_rows()
        return alone

    def __call__(
        self, columns: list[Any], n: int, position: Position
    ) -> tuple[list[Any], int, Exception | None]:
        out = self._run(Block(columns, n), position)
        return list(out.columns), out.n, out.error

    def describe(self) -> str:
        return self._run.how()


def _ready(
    function: UserFunction, part: NativeCall | CompiledPart, most: int
) -> _Native | _Compiled:
    if isinstance(part, NativeCall):
        return _Native(function, part)
    return _Compiled(function, part, most)


def _slots(origins: Iterable[Origin]) -> set[int]:
    return {origin for origin in origins if not isinstance(origin, Constant)}


def _varies(leaf: TensorSpec) -> bool:
    return not leaf.is_static and type(leaf) is TensorSpec


def _block_length(trace: Trace) -> int:
    """Return how many rows to take at once: some megabytes of all values of known size."""
    return min(LONGEST, 1 << max(3, int(np.log2(TARGET_BYTES / _row_nbytes(trace)))))


def _row_nbytes(trace: Trace) -> int:
    return max(1, sum(_nbytes(leaf) for leaf in (*trace.values, *trace.spec.leaves)))


def _nbytes(leaf: TensorSpec) -> int:
    """A guess where shapes vary: an image of three, a row of numbers of one dimension."""
    if leaf.nbytes is not None:
        return leaf.nbytes
    return 1 << 19 if len(leaf.shape) > 1 else 1 << 10
