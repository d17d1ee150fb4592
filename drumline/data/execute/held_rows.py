"""Rows at hand as a plan: the content of a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drumline.data.execute.block import Block, concat
from drumline.data.execute.columns import concatenated
from drumline.data.operations.nested.windows import Rows
from drumline.data.operations.sources import Slices
from drumline.data.plan.node import Node
from drumline.data.ragged import RaggedArray, joined, uniform
from drumline.data.rows import stack
from drumline.data.spec import STRING, ElementSpec


def held_rows(blocks: Sequence[Block], element: ElementSpec) -> Node:
    """A plan of rows at hand, without errors; rows that differ in length alone become ragged."""
    blocks = [block for block in blocks if block.n]
    if not blocks:
        return Slices((), element, tuple(stack([], element)), 0)
    if all(block.same_shapes(blocks[0]) for block in blocks[1:]):
        whole = concat(blocks)
        return Slices((), element, tuple(whole.columns), whole.n)
    leaves = list(zip(*(block.columns for block in blocks), strict=True))
    if all(_differ_in_length_alone(parts) for parts in leaves):
        count = sum(block.n for block in blocks)
        return Slices((), element, tuple(_joined(parts) for parts in leaves), count)
    return Rows((), element, tuple(blocks))


def _differ_in_length_alone(parts: Sequence[Any]) -> bool:
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) == 1:
        return True
    return parts[0].dtype != STRING and len({(len(shape), shape[1:]) for shape in shapes}) == 1


def _joined(parts: Sequence[Any]) -> Any:
    if len({part.shape[1:] for part in parts}) == 1:
        return concatenated(parts)
    return joined([part if isinstance(part, RaggedArray) else uniform(part) for part in parts])
