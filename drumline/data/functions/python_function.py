"""Functions that run as Python, element by element, and what they return.

The specs of results are found by calling the function with an element. numpy and JAX differ in the
types of results: ``uint8 / 255`` is float64 by numpy's rules, float32 by JAX's. A function is to
have the same types whether it could be compiled or not. So where numpy's result has a 64-bit type,
the function is called again with JAX's arrays in place of numpy's, and what is narrower then is
narrowed. What has 64 bits then too was asked for by name, comes from 64-bit columns, or is computed
with arrays that the function got from numpy itself.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline._memory import BufferPool
from drumline.data.elements import precision
from drumline.data.elements.block import Block, splitter
from drumline.data.elements.errors import at_element, with_strings
from drumline.data.elements.rows import ShapeMismatch, conform, owned, put, specs_of_leaves, stack
from drumline.data.elements.spec import ElementSpec, TensorSpec, flatten, is_array_literal
from drumline.data.functions.call import Position
from drumline.data.functions.closures import Reuse
from drumline.data.functions.programs import random_states_kept
from drumline.data.functions.trace import UserFunction, as_python, keras_writes_held, kind_of

_PATIENCE = 0.02
"""Seconds that a task may take: each change of threads between the workers and who waits for them
costs a processor tens of microseconds."""

_SEEN = (
    ", as the results for the first elements were; pad all to one shape, or make elements by "
    "from_generator, whose output_signature can have None"
)


class AdaptiveLimit:
    """How many elements to take at once, so that a task takes some milliseconds."""

    def __init__(self) -> None:
        self._limit = 1

    def limit(self, wanted: int) -> int:
        """How many of those that are wanted."""
        return min(wanted, self._limit)

    def adapt(self, rows: int, elapsed: float) -> None:
        """Adapt the limit: ``rows`` elements took ``elapsed`` seconds."""
        if rows:
            self._limit = max(1, min(2 * self._limit, int(rows * _PATIENCE / max(elapsed, 1e-9))))


class PythonFunction:
    """Calls the user's function with numpy leaves; several threads may do so at once.

    Attributes:
        rows: how many elements are taken at once.
    """

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
        self.rows = AdaptiveLimit()
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
        return self.rows.limit(wanted) if self._static else 1

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
        self.rows.adapt(done, time.perf_counter() - started)
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

    def describe(self) -> str:
        return f"{self._function.name}: runs as Python, since {self._why}"


_PROMISE = "the initial state"


class AnyShape(TensorSpec):
    """Of a state whose rank changes; it is no part of an element."""

    def accepts(self, shape: Sequence[int], dtype: np.dtype) -> bool:
        return dtype == self.dtype


class PythonRecurrence:
    """Calls the user's function element by element."""

    block_length = 1

    def __init__(
        self,
        function: UserFunction,
        source: ElementSpec,
        state_spec: ElementSpec,
        spec: ElementSpec,
        state: list[np.ndarray],
        why: str,
    ):
        self.state = state
        self._function = function
        self._split = splitter(source.structure)
        self._numbers = (*state_spec.leaves, *source.leaves)
        self._state_spec = state_spec
        self._spec = spec
        self._why = why

    def limit(self, wanted: int) -> int:
        return wanted if all(leaf.is_static for leaf in self._spec.leaves) else 1

    def __call__(self, block: Block, position: Position) -> Block:
        for column in block.columns:
            column.flags.writeable = False
        rows: list[list[np.ndarray]] = []
        error = block.error
        with as_python(self._numbers):
            for row, element in enumerate(self._split(block.columns)):
                try:
                    rows.append(self._step(element))
                except Exception as raised:
                    error = at_element(raised, position(row), self._function.where)
                    break
        return Block(stack(rows, self._spec), len(rows), error)

    def _step(self, element: Any) -> list[np.ndarray]:
        before = self._state_spec.structure.unflatten([leaf[()] for leaf in self.state])
        result = self._function((before, element))
        after, beside = (result, ()) if self._function.operation == "reduce" else result
        state = self._leaves(after, self._state_spec, _PROMISE)
        row = self._leaves(beside, self._spec, "the dataset's element_spec")
        self.state = state
        return row

    def _leaves(self, value: Any, spec: ElementSpec, promise: str) -> list[np.ndarray]:
        leaves: Sequence[Any] = spec.structure.flatten(value)
        return owned(conform(leaves, spec, promise))

    def describe(self) -> str:
        return f"{self._function.name}: runs as Python in order, since {self._why}"


def spec_from_example(
    user: UserFunction, source: ElementSpec, element: Any, static: bool
) -> ElementSpec:
    """The spec of what the function returns.

    Args:
        user: the function.
        source: the spec of its argument.
        element: its argument.
        static: whether the result's shape is that of all results.

    Raises:
        Exception: what the function raises, with a note that it was the first element.
    """
    with random_states_kept():
        try:
            with as_python(source.leaves):
                found = _spec_of(user(element), user, static)
        except Exception as error:
            at_element(error, 0, user.where)
            if isinstance(error, TypeError) and "JAX" in str(error):
                error.add_note(
                    "drumline: JAX has no strings; use numpy, dl.strings, or the element's own "
                    "operators ([], ==, !=)"
                )
            raise
        arrays = any(type(leaf) is TensorSpec for leaf in source.leaves)
        if not arrays or not any(leaf.dtype in precision.WIDE for leaf in found.leaves):
            return found
        return _narrowed(found, user, source, element)


def _spec_of(result: Any, user: UserFunction, static: bool) -> ElementSpec:
    """The spec of what a function returned for one element.

    Unless its argument has a ``static`` shape, one result says nothing of the others' dimensions:
    the last batch may be shorter.
    """
    leaves, structure = flatten(result, is_array_literal)
    if not leaves:
        raise ValueError(f"{user.where} returned nothing; it must return the new element")
    return specs_of_leaves(leaves, structure, static, f"what {user.where} returned")


def _narrowed(
    found: ElementSpec, user: UserFunction, source: ElementSpec, element: Any
) -> ElementSpec:
    """``found`` with the types that a compiled function would have, as `Choice` has them."""
    kinds = {kind_of(leaf.dtype) for leaf in source.leaves if leaf.dtype in precision.WIDE}
    narrow = _with_arrays_of_jax(user, source, element, wide=False)
    wide = narrow
    if kinds:
        wide = _with_arrays_of_jax(user, source, element, wide=True)
        if wide is None:
            # Some of JAX's functions, such as max, take 64-bit arrays in this mode alone.
            wide = _with_arrays_of_jax(user, source, element, wide=True, x64=True)
    if narrow is None or wide is None or not narrow.structure == wide.structure == found.structure:
        return found
    return found.with_leaves(
        [
            _narrower(mine, b if kind_of(b.dtype) in kinds else a)
            for mine, a, b in zip(found.leaves, narrow.leaves, wide.leaves, strict=True)
        ]
    )


def _with_arrays_of_jax(
    user: UserFunction, source: ElementSpec, element: Any, wide: bool, x64: bool = False
) -> ElementSpec | None:
    """What it returns for JAX's arrays; ``None`` if it is not for them.

    Args:
        user: the function.
        source: the spec of its argument.
        element: its argument.
        wide: whether 64-bit columns have 64 bits.
        x64: whether all else has, too.
    """
    try:
        with warnings.catch_warnings(), keras_writes_held(), precision.arrays_of_jax(x64):
            warnings.simplefilter("ignore")
            leaves = [_of_jax(leaf, wide) for leaf in source.structure.flatten(element)]
            return _spec_of(user(source.structure.unflatten(leaves)), user, static=True)
    except Exception:
        # It looks at its argument as numpy alone allows: numpy's rules hold.
        return None


def _of_jax(leaf: Any, wide: bool) -> Any:
    dtype = getattr(leaf, "dtype", None)
    if dtype in precision.WIDE and not wide:
        leaf = leaf.astype(precision.narrowed(dtype))
    return precision.given(leaf)


def _narrower(mine: TensorSpec, theirs: TensorSpec) -> TensorSpec:
    smaller = theirs.dtype.itemsize < mine.dtype.itemsize and theirs.dtype.kind == mine.dtype.kind
    return (
        TensorSpec(mine.shape, theirs.dtype) if mine.dtype in precision.WIDE and smaller else mine
    )
