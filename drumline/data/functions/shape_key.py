"""Functions whose result depends on the shapes of their argument alone."""

from __future__ import annotations

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.elements import splitter
from drumline.data.functions.build import BuiltFunction
from drumline.data.functions.call import Position
from drumline.data.functions.notes import at_element
from drumline.data.functions.routes import Constant
from drumline.data.functions.shaped import Shapes, with_unknown
from drumline.data.functions.trace import NotTraceable, trace
from drumline.data.functions.user_function import UserFunction
from drumline.data.rows import spec_of_leaf, stack
from drumline.data.spec import ElementSpec
from drumline.data.structure import LEAF_STRUCTURE

_PROBE = 7


class ShapeFunction:
    """Calls the function once for each combination of shapes that comes."""

    block_length = 1

    def __init__(self, function: UserFunction, source: ElementSpec, spec: ElementSpec):
        self._function = function
        self._split = splitter(source.structure)
        self._spec = spec
        self._known: dict[Shapes, np.ndarray] = {}

    def limit(self, wanted: int) -> int:
        return wanted

    def __call__(self, block: Block, position: Position) -> Block:
        shapes = tuple(column.shape[1:] for column in block.columns)
        value = self._known.get(shapes)
        if value is None and block.n:
            try:
                value = self._first(block)
            except Exception as error:
                at_element(error, position(0), self._function.where)
                return Block(stack([], self._spec), 0, error)
            self._known[shapes] = value
        if value is None:
            return Block(stack([], self._spec), 0, block.error)
        return Block([np.full(block.n, value)], block.n, block.error)

    def _first(self, block: Block) -> np.ndarray:
        (element,) = self._split([column[:1] for column in block.columns])
        return np.asarray(self._function(element), self._spec.leaves[0].dtype)

    def describe(self) -> str:
        return f"{self._function.name}: by shape ({len(self._known)} so far)"


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
