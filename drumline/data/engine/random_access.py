"""Elements by position and the number of elements, where a plan allows it."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.data.elements.block import splitter
from drumline.data.elements.spec import INFINITE
from drumline.data.engine.lowering import Lowering
from drumline.data.operations.cache import Cache
from drumline.data.operations.ordering.order import resolve_shard_hints
from drumline.data.plan.node import Node


def obstacle(plan: Node) -> Node | None:
    """Return the operation that prevents random access; ``None`` if there is none."""
    plan = resolve_shard_hints(plan, 1, 0)
    lowering = _lowering(plan)

    def visit(node: Node, trail: tuple[int, ...]) -> Node | None:
        if lowering.indexed(node, trail, (0,)) is not None:
            return None
        below = (visit(item, (*trail, which)) for which, item in enumerate(node.inputs))
        return next((found for found in below if found is not None), node)

    return visit(plan, ())


def element_at(plan: Node, position: int, epoch: int) -> Any:
    """Return the element at a position of an epoch.

    Raises:
        TypeError: the plan has no random access; it names the operation that prevents it.
        IndexError: there is no such position.
        Exception: what making the element raised.
    """
    plan = resolve_shard_hints(plan, 1, 0)
    indexed = _lowering(plan).indexed(plan, (), (epoch,))
    if indexed is None:
        raise TypeError(f"index: {no_access(plan)}")
    if position < 0 and plan.cardinality == INFINITE:
        raise IndexError(f"index: there is no element {position}, the dataset never ends")
    if not -indexed.length <= position < indexed.length:
        raise IndexError(f"index: there is no element {position}, the dataset has {indexed.length}")
    where = range(indexed.length)[position]
    block = indexed.rows(np.array([where], np.int64))
    if block.error is not None:
        raise block.error
    for column in block.columns:
        column.flags.writeable = False
    return splitter(plan.spec.structure)(block.columns)[0]


def no_access(plan: Node) -> str:
    """Return why there is no random access, and what there may be before it."""
    node = obstacle(plan)
    name = "this plan" if node is None else f"{node.name}({node.arguments()})"
    return (
        f"elements of {name} cannot be reached by position; those of from_tensor_slices and range "
        "can, and of compiled maps, zip, enumerate, take, skip, shard, concatenate, batch, repeat, "
        "shuffle, prefetch, cache and assert_cardinality over them"
    )


def _lowering(plan: Node) -> Lowering:
    full = {node.store for node in plan.walk() if isinstance(node, Cache) and node.store.full}
    return Lowering(plan, full).by_position()


def length_up_to(plan: Node, most: int) -> int:
    """Return the number of elements; an infinite or unknown one is counted, up to ``most``."""
    if plan.cardinality >= 0:
        return plan.cardinality
    stage = Lowering(resolve_shard_hints(plan, 1, 0), set()).stage(0)
    count = 0
    while count < most and (block := stage.next(most - count)) is not None:
        count += block.n
    stage.close()
    return count
