"""Elements from a Python generator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.pool import BufferPool
from drumline.data.execute.stage import Stage, State
from drumline.data.functions.notes import at_element, raised_for_good
from drumline.data.functions.user_function import place_of
from drumline.data.rows import conform, owned, stack
from drumline.data.spec import ElementSpec
from drumline.data.structure import StructureError

_PATIENCE = 0.005


class GeneratorStage(Stage):
    """Calls ``factory`` and checks each element it yields against ``spec``.

    Its state is the number of elements delivered: restoring runs the generator again up to there.
    """

    eager = False

    def __init__(
        self,
        factory: Callable[[], Iterable[Any]],
        spec: ElementSpec,
        name: str,
        pool: BufferPool,
    ):
        self.factory = factory
        self.spec = spec
        self.name = f"{name}{place_of(factory)}"
        self._pool = pool
        self._iterator: Iterator[Any] | None = None
        self._position = 0
        self._ended = False
        self._held: list[np.ndarray] | None = None

    def next(self, limit: int) -> Block | None:
        rows: list[list[np.ndarray]] = []
        error: Exception | None = None
        deadline = time.perf_counter() + _PATIENCE
        while len(rows) < limit and error is None:
            try:
                row = self._row()
            except Exception as raised:
                error = at_element(raised, self._position, f"from_generator({self.name})")
                self._position += 1
                break
            if row is None:
                break
            if rows and any(a.shape != b.shape for a, b in zip(row, rows[0], strict=True)):
                self._held = row
                break
            rows.append(owned(row) if limit > 1 else row)
            self._position += 1
            if time.perf_counter() > deadline:
                break
        if not rows and error is None:
            return None
        return Block(stack(rows, self.spec, self._pool.empty), len(rows), error)

    def _row(self) -> list[np.ndarray] | None:
        if self._held is not None:
            row, self._held = self._held, None
            return row
        if self._ended:
            return None
        try:
            if self._iterator is None:
                self._iterator = self._started()
            value = next(self._iterator)
        except StopIteration:
            self._ended = True
            return None
        except Exception:
            # A generator that raised is finished; asking it again would only say so. So is one
            # that could not be started: it would raise for ever.
            self._ended = True
            raise
        return conform(self._leaves(value), self.spec, "output_signature")

    def _started(self) -> Iterator[Any]:
        try:
            return iter(self.factory())
        except StopIteration as stop:
            raise raised_for_good(stop) from stop

    def _leaves(self, value: Any) -> list[Any]:
        """Those of a value, in which a tuple may stand for an array, as guides write it."""
        try:
            return self.spec.structure.flatten(value)
        except StructureError:
            leaves = self.spec.structure.flatten(value, arrays=True)
            pairs = zip(leaves, self.spec.leaves, strict=True)
            if any(isinstance(leaf, tuple) and not spec.shape for leaf, spec in pairs):
                raise
            return leaves

    def state(self) -> State:
        return {"position": self._position}

    def restore(self, state: State) -> None:
        self.advance(state["position"])

    def describe(self) -> str:
        return f"generator {self.name} (in order, no reading ahead; restoring runs it again)"

    def close(self) -> None:
        if self._iterator is not None and hasattr(self._iterator, "close"):
            self._iterator.close()
