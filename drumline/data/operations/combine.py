"""Operations over several datasets, and ``enumerate``."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from drumline.data.cardinality import INFINITE, UNKNOWN, is_known
from drumline.data.plan.node import Node, Specified
from drumline.data.spec import ElementSpec, merge_leaf
from drumline.data.structure import LEAF_STRUCTURE, Structure


@dataclasses.dataclass(frozen=True, eq=False)
class Zip(Node):
    """Elements at the same position side by side, in the structure the datasets were given in."""

    outer: Structure
    name: ClassVar[str] = "zip"

    @property
    def spec(self) -> ElementSpec:
        specs = [node.spec for node in self.inputs]
        leaves = tuple(leaf for spec in specs for leaf in spec.leaves)
        return ElementSpec(_grafted(self.outer, [spec.structure for spec in specs]), leaves)

    @property
    def cardinality(self) -> int:
        inner = [node.cardinality for node in self.inputs]
        if 0 in inner:
            return 0
        if UNKNOWN in inner:
            return UNKNOWN
        return min((n for n in inner if n != INFINITE), default=INFINITE)

    def arguments(self) -> str:
        return str(self.outer)


@dataclasses.dataclass(frozen=True, eq=False)
class Concatenate(Specified):
    """The first input, then the second; ``element`` describes the elements of both."""

    name: ClassVar[str] = "concatenate"

    @property
    def cardinality(self) -> int:
        first, second = (node.cardinality for node in self.inputs)
        if INFINITE in (first, second):
            return INFINITE
        return first + second if is_known(first) and is_known(second) else UNKNOWN


def _grafted(outer: Structure, inner: list[Structure]) -> Structure:
    """``outer`` with its leaves, in order, replaced by the structures ``inner``."""
    remaining = iter(inner)

    def graft(structure: Structure) -> Structure:
        if structure == LEAF_STRUCTURE:
            return next(remaining)
        children = tuple(graft(child) for child in structure.children)
        return dataclasses.replace(structure, children=children)

    return graft(outer)


def concatenated_spec(first: ElementSpec, second: ElementSpec) -> ElementSpec:
    """Return the narrowest spec of the elements of both.

    Raises:
        TypeError: if structures, dtypes or ranks differ.
    """
    if first.structure == second.structure:
        leaves = [merge_leaf(a, b) for a, b in zip(first.leaves, second.leaves, strict=True)]
        found = [leaf for leaf in leaves if leaf is not None]
        if len(found) == len(leaves):
            return first.with_leaves(found)
    raise TypeError(
        f"concatenate: elements must have the same structure, dtypes and ranks; the first has "
        f"{first.tree()}, the second {second.tree()}"
    )
