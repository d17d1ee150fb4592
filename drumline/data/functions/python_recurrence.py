"""A function of a state and an element that runs as Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.elements.block import Block, splitter
from drumline.data.elements.errors import at_element
from drumline.data.elements.rows import conform, owned, stack
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.functions.as_python import as_python
from drumline.data.functions.call import Position
from drumline.data.functions.user_function import UserFunction

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
