"""A function that runs as Python, element by element."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from drumline.data.elements.block import Block, splitter
from drumline.data.elements.errors import at_element, with_strings
from drumline.data.elements.rows import ShapeMismatch, conform, put, stack
from drumline.data.elements.spec import ElementSpec, is_array_literal
from drumline.data.elements.structure import flatten
from drumline.data.functions.as_python import as_python
from drumline.data.functions.call import Position
from drumline.data.functions.reuse import Reuse
from drumline.data.functions.user_function import UserFunction
from drumline.data.runtime.buffers import BufferPool

_PATIENCE = 0.02
"""Seconds that a task may take: each change of threads between the workers and who waits for them
costs a processor tens of microseconds."""

_SEEN = (
    ", as the results for the first elements were; pad all to one shape, or make elements by "
    "from_generator, whose output_signature can have None"
)


class PythonFunction:
    """Calls the user's function with numpy leaves; several threads may do so at once."""

    block_length = 1
    ragged: bool | None = None
    varying: bool | None = None

    def __init__(self, function: UserFunction, source: ElementSpec, spec: ElementSpec, why: str):
        self._function = function
        self._source = source
        self._split = splitter(source.structure)
        self._spec = spec
        self._static = all(leaf.is_static for leaf in spec.leaves)
        self._why = why
        self._limit = 1
        self._pool = BufferPool()
        # A function of windows may call reduce, map and the like of each.
        self._reuse = Reuse(function.function)

    @property
    def user(self) -> Callable[..., Any]:
        """The user's function."""
        return self._function.function

    @property
    def where(self) -> str:
        """The operation with the function, for messages."""
        return self._function.where

    def arguments(self) -> tuple[UserFunction, ElementSpec, ElementSpec, str]:
        """What makes an equal one, in another process perhaps."""
        return self._function, self._source, self._spec, self._why

    def limit(self, wanted: int) -> int:
        return min(wanted, self._limit) if self._static else 1

    def __call__(self, block: Block, position: Position) -> Block:
        started = time.perf_counter()
        for column in block.columns:
            column.flags.writeable = False
        elements = self._split(block.columns)
        columns: list[np.ndarray] = []
        done, error = 0, block.error
        with as_python(self._source.leaves):
            for outcome in map(self._outcome, elements):
                if isinstance(outcome, Exception):
                    error = at_element(outcome, position(done), self._function.where)
                    with_strings(error, block.columns, done)
                    break
                if not done:
                    columns = [self._pool.empty((block.n, *x.shape), x.dtype) for x in outcome]
                put(columns, done, outcome)
                done += 1
        self.adapt(done, time.perf_counter() - started)
        if not done:
            columns = stack([], self._spec)
        return Block([column[:done] for column in columns], done, error)

    def _outcome(self, element: Any) -> list[np.ndarray] | Exception:
        try:
            with self._reuse.in_force():
                return self._leaves(self._function(element))
        except Exception as error:
            return error

    def _leaves(self, result: Any) -> list[np.ndarray]:
        leaves, structure = flatten(result, is_array_literal)
        if structure != self._spec.structure:
            leaves = self._spec.structure.flatten(result)
        try:
            return conform(leaves, self._spec, "the dataset's element_spec")
        except ShapeMismatch as error:
            raise ShapeMismatch(f"{error}{_SEEN if self._static else ''}") from None

    def adapt(self, rows: int, elapsed: float) -> None:
        """Hears that so many elements took so many seconds."""
        if rows:
            self._limit = max(1, min(2 * self._limit, int(rows * _PATIENCE / max(elapsed, 1e-9))))

    def describe(self) -> str:
        return f"{self._function.name}: runs as Python, since {self._why}"
