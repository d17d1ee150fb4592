"""A function over elements whose shapes vary: one compiled program for each shape met."""

from __future__ import annotations

import copy
import dataclasses
import threading
import warnings
from functools import cached_property

from drumline.data.elements.block import Block
from drumline.data.elements.errors import at_element
from drumline.data.elements.rows import stack
from drumline.data.elements.spec import ElementSpec, TensorSpec, merge_leaf
from drumline.data.functions.call import Position
from drumline.data.functions.compiled import CompiledFunction
from drumline.data.functions.frozen import frozen
from drumline.data.functions.one_by_one import OneByOne
from drumline.data.functions.raw_trace import NotTraceable
from drumline.data.functions.segmented import SegmentedFunction, compiled
from drumline.data.functions.trace import trace
from drumline.data.functions.user_function import UserFunction

_PROBES = (7, 11)
_MANY_SHAPES = 16

Shapes = tuple[tuple[int, ...], ...]


class ShapedFunction:
    """Compiles the function, as it was when given, for each combination of shapes that comes."""

    ragged: bool | None = None
    varying: bool | None = None

    def __init__(self, function: UserFunction, source: ElementSpec):
        held = dataclasses.replace(function, function=frozen(function.function))
        self._function = held
        self._source = source
        self._compiled: dict[Shapes, CompiledFunction | SegmentedFunction] = {}
        self._lock = threading.Lock()
        self._single_rows = False
        self.spec = self._inferred()
        self.block_length = 1

    def _inferred(self) -> ElementSpec:
        """The result's spec: what agrees between two stand-ins for the unknown dimensions."""
        probes = [trace(self._function, with_unknown(self._source, p)) for p in _PROBES]
        self._natives = ", ".join(step.operation.name for step in probes[0].natives)
        if self._natives:
            self.ragged = self.varying = True
        low, high = (probe.spec for probe in probes)
        if low.structure != high.structure:
            raise NotTraceable("the structure it returns depends on the shape of its argument")
        leaves = [merge_leaf(a, b) for a, b in zip(low.leaves, high.leaves, strict=True)]
        if any(leaf is None for leaf in leaves):
            raise NotTraceable("the dtype or rank it returns depends on the shape of its argument")
        return self._loosened(low.with_leaves([leaf for leaf in leaves if leaf is not None]))

    def _loosened(self, spec: ElementSpec) -> ElementSpec:
        """Without what does not hold for the shortest argument: ``x[:5]`` may give one row."""
        try:
            short = trace(self._function, with_unknown(self._source, 1)).spec
        except (NotTraceable, ValueError):
            return spec
        if short.structure != spec.structure:
            return spec
        pairs = zip(spec.leaves, short.leaves, strict=True)
        return spec.with_leaves([merge_leaf(a, b) or a for a, b in pairs])

    @cached_property
    def one_by_one(self) -> OneByOne:
        alone = copy.copy(self)
        alone._compiled = {}
        alone._single_rows = True
        return OneByOne(self, alone)

    def limit(self, wanted: int) -> int:
        return wanted

    def __call__(self, block: Block, position: Position) -> Block:
        if not block.n:  # An error alone: its columns' shapes are no element's.
            return Block(stack([], self.spec), 0, block.error)
        try:
            function = self._for_shapes(tuple(column.shape[1:] for column in block.columns))
        except (NotTraceable, ValueError) as error:
            at_element(error, position(0), self._function.where)
            return Block(stack([], self.spec), 0, error)
        self.block_length = max(self.block_length, function.block_length)
        return function(block, position)

    def _for_shapes(self, shapes: Shapes) -> CompiledFunction | SegmentedFunction:
        with self._lock:
            if shapes not in self._compiled:
                pairs = zip(shapes, self._source.leaves, strict=True)
                spec = self._source.with_leaves([TensorSpec(s, leaf.dtype) for s, leaf in pairs])
                traced = trace(self._function, spec)
                self._check(traced.spec, spec)
                made = compiled(self._function, spec, traced)
                self._compiled[shapes] = made.for_single_rows() if self._single_rows else made
                if len(self._compiled) == _MANY_SHAPES:
                    warnings.warn(
                        f"{self._function.where} has been compiled for {_MANY_SHAPES} shapes, "
                        "which is slow; pad or resize to few shapes before it",
                        stacklevel=2,
                    )
            return self._compiled[shapes]

    def _check(self, found: ElementSpec, argument: ElementSpec) -> None:
        for i, (mine, promised) in enumerate(zip(found.leaves, self.spec.leaves, strict=False)):
            if found.structure == self.spec.structure and merge_leaf(mine, promised) == promised:
                continue
            raise ValueError(
                f"{self._function.where} returns leaf {i} as {mine} for {argument.tree()}, but the "
                f"dataset's element_spec says {promised}"
            )

    def describe(self) -> str:
        shapes = f"compiled for each shape ({len(self._compiled)} so far)"
        native = f"native {self._natives} | " if self._natives else ""
        return f"{self._function.name}: {native}{shapes}"


def with_unknown(spec: ElementSpec, size: int) -> ElementSpec:
    leaves = [
        TensorSpec([size if dim is None else dim for dim in leaf.shape], leaf.dtype)
        for leaf in spec.leaves
    ]
    return spec.with_leaves(leaves)
