"""Compiled functions that take values of a closure as arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from drumline.data.elements.block import Block
from drumline.data.elements.columns import concatenated
from drumline.data.elements.spec import LEAF_STRUCTURE, ElementSpec, TensorSpec, tuple_of
from drumline.data.functions.call import BlockFunction, OneByOne, Position
from drumline.data.functions.closures import FlattenedClosure
from drumline.data.functions.compiled import CompiledFunction
from drumline.data.functions.segmented import SegmentedFunction

_NARROW = {np.dtype(np.int64): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.float32)}

Compiled = CompiledFunction | SegmentedFunction


@dataclasses.dataclass(frozen=True)
class LiftedValues:
    """Which values of a closure come with each element, and in what form.

    Attributes:
        closure: of the function that was traced.
        numbers: of these values.
        narrow: whether 64-bit values come as 32 bits, as JAX has constants by default.
        first: how many leaves come before them.
    """

    closure: FlattenedClosure
    numbers: tuple[int, ...]
    narrow: bool
    first: int

    @property
    def weak(self) -> frozenset[int]:
        """The leaves that are numbers of Python's."""
        values = self.closure.values
        return frozenset(
            self.first + i for i, number in enumerate(self.numbers) if values[number].weak
        )

    def bound(self, values: Sequence[Any]) -> Callable[..., Any]:
        """The function with these values."""
        return self.closure.bound(dict(zip(self.numbers, values, strict=True)))

    def specs(self) -> tuple[TensorSpec, ...]:
        """Of the values, in the form in which they come."""
        found = (self.closure.values[number].spec for number in self.numbers)
        return tuple(TensorSpec(leaf.shape, self._dtype(leaf.dtype)) for leaf in found)

    def arrays(self, closure: FlattenedClosure) -> tuple[np.ndarray, ...]:
        """The values of an equal function's closure, as they are now.

        The user may fill an array again for the next outer element, before these are used.
        """
        arrays = (closure.values[number] for number in self.numbers)
        return tuple(
            value.array.astype(
                self._dtype(value.array.dtype),
                copy=isinstance(value.given, np.ndarray) and value.given.flags.writeable,
            )
            for value in arrays
        )

    def _dtype(self, dtype: np.dtype) -> np.dtype:
        return _NARROW.get(dtype, dtype) if self.narrow else dtype


def with_values(source: ElementSpec, specs: Sequence[TensorSpec]) -> ElementSpec:
    """The spec of elements with values beside them."""
    beside = tuple_of([LEAF_STRUCTURE] * len(specs))
    return ElementSpec(tuple_of([source.structure, beside]), (*source.leaves, *specs))


class LiftedFunction:
    """A compiled function with values for the last of its arguments, the same for every row.

    Args:
        compiled: the function, which others with other values may share.
        values: for the arguments behind those that come with elements.
    """

    def __init__(self, compiled: Compiled | OneByOne, values: tuple[np.ndarray, ...]):
        self.compiled = compiled
        self.values = values

    @property
    def ragged(self) -> bool | None:
        return self.compiled.ragged

    @property
    def varying(self) -> bool | None:
        return self.compiled.varying

    @property
    def block_length(self) -> int:
        return self.compiled.block_length

    def limit(self, wanted: int) -> int:
        return self.compiled.limit(wanted)

    @cached_property
    def one_by_one(self) -> LiftedFunction:
        """The same with a call for each element."""
        return LiftedFunction(getattr(self.compiled, "one_by_one", self.compiled), self.values)

    def content(self) -> tuple[Any, ...]:
        """All that it computes, for fingerprints."""
        assert not isinstance(self.compiled, OneByOne)
        return (*self.compiled.content(), self.values)

    def __call__(self, block: Block, position: Position) -> Block:
        beside = [_repeated(value, block.n) for value in self.values]
        return self.compiled(Block([*block.columns, *beside], block.n, block.error), position)

    def describe(self) -> str:
        return self.compiled.describe()


def called_together(
    functions: Sequence[BlockFunction], blocks: Sequence[Block]
) -> list[Block] | None:
    """What functions give for a block each, by one call; ``None`` if they do not share a program.

    So it is where one of the results is an error.
    """
    kinds = {id(getattr(function, "compiled", function)) for function in functions}
    lengths = [block.n for block in blocks]
    if len(kinds) > 1 or any(block.error is not None for block in blocks):
        return None
    if not all(block.same_shapes(blocks[0]) for block in blocks[1:]):
        return None
    first = functions[0]
    columns: list[Any] = [
        concatenated(parts) for parts in zip(*(block.columns for block in blocks), strict=True)
    ]
    if isinstance(first, LiftedFunction):
        run: BlockFunction = first.compiled
        sets = [function.values for function in functions if isinstance(function, LiftedFunction)]
        columns += [_each(values, lengths) for values in zip(*sets, strict=True)]
    elif isinstance(first, CompiledFunction | SegmentedFunction):
        run = first
    else:
        return None
    total = sum(lengths)
    made = run(Block(columns, total), int) if run.limit(total) == total else None
    if made is None or made.error is not None:
        return None
    starts = np.cumsum([0, *lengths]).tolist()
    return [
        Block([column[start : start + n] for column in made.columns], n)
        for start, n in zip(starts, lengths, strict=False)
    ]


def _each(values: Sequence[np.ndarray], lengths: Sequence[int]) -> np.ndarray:
    whole = np.empty((len(values), *values[0].shape), values[0].dtype)
    for i, value in enumerate(values):
        whole[i] = value[()]
    return np.repeat(whole, lengths, axis=0)


def _repeated(value: np.ndarray, n: int) -> np.ndarray:
    return np.broadcast_to(value, (n, *value.shape))
