"""Operations on strings that run as one: no strings are made in between."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Sequence

import numpy as np

from drumline._core import StringChain, StringPattern, StringTable
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.native.flat import flat
from drumline.data.native.operation import Column, NativeOperation, Rows

Change = str | tuple[StringPattern, bytes, bool]
"""As ``StringChain`` takes it."""

Cut = tuple[bytes, int]
"""At what strings are cut, and how often at most."""

Numbering = tuple[StringTable, tuple[int, int, int]]
"""How ``StringChain.numbers`` numbers strings."""


class Link(NativeOperation):
    """An operation on each string alone: changes it, cuts it into parts or gives its number."""

    @property
    def links(self) -> tuple[Link, ...]:
        """Those that this one is made of."""
        return (self,)

    @property
    def changes(self) -> tuple[Change, ...]:
        """How strings change."""
        return ()

    @property
    def cut(self) -> Cut | None:
        """How they are cut, if they are."""
        return None

    @property
    def numbering(self) -> Numbering | None:
        """What numbers they get, if they do and none fails."""
        return None

    def after(self, before: NativeOperation) -> NativeOperation | None:
        if not isinstance(before, Link) or before.numbering is not None:
            return None
        if self.numbering is None and (before.cut is not None or not (self.changes or self.cut)):
            return None
        return Chain((*before.links, *self.links))


@dataclasses.dataclass(frozen=True)
class Chain(Link):
    """Changes, then perhaps a cut, then perhaps numbers."""

    steps: tuple[Link, ...]

    @property
    def name(self) -> str:
        return " + ".join(step.name for step in self.steps)

    @property
    def links(self) -> tuple[Link, ...]:
        return self.steps

    @property
    def changes(self) -> tuple[Change, ...]:
        return functools.reduce(operator.add, (step.changes for step in self.steps))

    @property
    def cut(self) -> Cut | None:
        return next((step.cut for step in self.steps if step.cut is not None), None)

    @property
    def numbering(self) -> Numbering | None:
        return self.steps[-1].numbering

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        results = self.steps[0].results(*arguments)
        for step in self.steps[1:]:
            results = step.results(*results.leaves)
        return results

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        given = flat(columns[0])
        chain = _chain(self.changes, self.cut)
        values: np.ndarray
        if self.numbering is None:
            values, splits = chain.parts(given.values)
        else:
            values, splits = chain.numbers(given.values, *self.numbering)
        return Rows([given.put(values) if self.cut is None else given.expand(values, splits)])


@functools.lru_cache(64)
def _chain(changes: tuple[Change, ...], cut: Cut | None) -> StringChain:
    return StringChain(list(changes), cut)
