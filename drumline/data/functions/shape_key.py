"""Functions whose result depends on the shapes of their argument alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.data.elements.block import Block, splitter
from drumline.data.elements.errors import at_element
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.rows import spec_of_leaf, stack
from drumline.data.elements.spec import ElementSpec
from drumline.data.elements.structure import LEAF_STRUCTURE
from drumline.data.functions.build import BuiltFunction
from drumline.data.functions.call import Position
from drumline.data.functions.programs import Constant
from drumline.data.functions.segmented import with_unknown
from drumline.data.functions.trace import NotTraceable, trace
from drumline.data.functions.user_function import UserFunction

_PROBE = 7


class ShapeFunction:
    """Calls the function once for each combination of shapes that comes.

    Attributes:
        user: the function.
    """

    block_length = 1
    ragged: bool | None = None
    varying: bool | None = None

    def __init__(self, function: UserFunction, source: ElementSpec, spec: ElementSpec):
        self.user = function
        self._split = splitter(source.structure)
        self._spec = spec
        self._known: dict[Any, np.ndarray] = {}

    def limit(self, wanted: int) -> int:
        return wanted

    def __call__(self, block: Block, position: Position) -> Block:
        if not block.n:
            return Block(stack([], self._spec), 0, block.error)
        columns: list[Any] = list(block.columns)
        lengths = [column.row_lengths() for column in columns if isinstance(column, RaggedArray)]
        if not lengths:
            first, which = np.zeros(1, np.int64), np.zeros(block.n, np.int64)
        else:
            _, first, which = np.unique(
                np.stack(lengths, axis=1), axis=0, return_index=True, return_inverse=True
            )
        values = np.zeros(len(first), self._spec.leaves[0].dtype)
        for i in np.argsort(first).tolist():
            row = int(first[i])
            try:
                values[i] = self._value(block, row)
            except Exception as error:
                at_element(error, position(row), self.user.where)
                return Block([values[which[:row]]], row, error)
        return Block([values[which.reshape(-1)]], block.n, block.error)

    def _value(self, block: Block, row: int) -> np.ndarray:
        columns: list[Any] = [column[row : row + 1] for column in block.columns]
        (element,) = self._split(columns)
        shapes = tuple(
            tuple(column.row_lengths()) if isinstance(column, RaggedArray) else column.shape[1:]
            for column in columns
        )
        if shapes not in self._known:
            self._known[shapes] = np.asarray(self.user(element), self._spec.leaves[0].dtype)
        return self._known[shapes]

    def describe(self) -> str:
        return f"{self.user.name}: by shape ({len(self._known)} so far)"


def by_shape_alone(function: UserFunction, source: ElementSpec) -> BuiltFunction | None:
    """The function ready to run, if elements vary in shape and it looks at nothing else.

    Compiling it for each shape, as other functions are, would cost much for a constant.
    """
    if all(leaf.is_static for leaf in source.leaves):
        return None
    try:
        traced = trace(function, with_unknown(source, _PROBE))
    except NotTraceable:
        return None
    routes = traced.routes
    if len(routes) != 1 or not isinstance(routes[0], Constant):
        return None
    spec = ElementSpec(LEAF_STRUCTURE, (spec_of_leaf(routes[0].value, static=True),))
    return BuiltFunction(spec, ShapeFunction(function, source, spec), reorderable=True)
