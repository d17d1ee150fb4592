"""A function over elements whose shapes vary: one compiled program for each shape met."""

from __future__ import annotations

import threading
import warnings

from drumline.data.execute.block import Block
from drumline.data.functions.call import Position
from drumline.data.functions.compiled import CompiledFunction
from drumline.data.functions.frozen import frozen
from drumline.data.functions.trace import NotTraceable, trace
from drumline.data.functions.user_function import UserFunction
from drumline.data.spec import ElementSpec, TensorSpec, merge_leaf

_PROBES = (7, 11)
_MANY_SHAPES = 16

Shapes = tuple[tuple[int, ...], ...]


class ShapedFunction:
    """Compiles the function, as it was when given, for each combination of shapes that comes."""

    def __init__(self, function: UserFunction, source: ElementSpec):
        held = UserFunction(frozen(function.function), function.operation)
        self._function = held
        self._source = source
        self._compiled: dict[Shapes, CompiledFunction] = {}
        self._lock = threading.Lock()
        self.spec = self._inferred()
        self.block_length = 1

    def _inferred(self) -> ElementSpec:
        """The result's spec: what agrees between two stand-ins for the unknown dimensions."""
        low, high = (trace(self._function, _with_unknown(self._source, p)).spec for p in _PROBES)
        if low.structure != high.structure:
            raise NotTraceable("the structure it returns depends on the shape of its argument")
        leaves = [merge_leaf(a, b) for a, b in zip(low.leaves, high.leaves, strict=True)]
        if any(leaf is None for leaf in leaves):
            raise NotTraceable("the dtype or rank it returns depends on the shape of its argument")
        return low.with_leaves([leaf for leaf in leaves if leaf is not None])

    def limit(self, wanted: int) -> int:
        return wanted

    def __call__(self, block: Block, position: Position) -> Block:
        compiled = self._for_shapes(tuple(column.shape[1:] for column in block.columns))
        self.block_length = max(self.block_length, compiled.block_length)
        return compiled(block, position)

    def _for_shapes(self, shapes: Shapes) -> CompiledFunction:
        with self._lock:
            if shapes not in self._compiled:
                pairs = zip(shapes, self._source.leaves, strict=True)
                spec = self._source.with_leaves([TensorSpec(s, leaf.dtype) for s, leaf in pairs])
                self._compiled[shapes] = CompiledFunction(
                    self._function, spec, trace(self._function, spec)
                )
                if len(self._compiled) == _MANY_SHAPES:
                    warnings.warn(
                        f"{self._function.where} has been compiled for {_MANY_SHAPES} shapes, "
                        "which is slow; pad or resize to few shapes before it",
                        stacklevel=2,
                    )
            return self._compiled[shapes]

    def describe(self) -> str:
        return f"{self._function.name}: compiled for each shape ({len(self._compiled)} so far)"


def _with_unknown(spec: ElementSpec, size: int) -> ElementSpec:
    leaves = [
        TensorSpec([size if dim is None else dim for dim in leaf.shape], leaf.dtype)
        for leaf in spec.leaves
    ]
    return spec.with_leaves(leaves)
