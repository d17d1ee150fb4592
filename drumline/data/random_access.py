"""Elements by position, where a plan allows it."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.data.execute.elements import splitter
from drumline.data.execute.lowering import Lowering
from drumline.data.plan.buffering import Cache
from drumline.data.plan.node import Node
from drumline.data.rewrite.shard_hints import resolve_shard_hints


def obstacle(plan: Node) -> Node | None:
    """The operation on account of which there is no random access; ``None`` if there is."""
    plan = resolve_shard_hints(plan, 1, 0)
    lowering = Lowering(plan, set())

    def visit(node: Node, trail: tuple[int, ...]) -> Node | None:
        if lowering.indexed(node, trail, (0,)) is not None:
            return None
        below = (visit(item, (*trail, which)) for which, item in enumerate(node.inputs))
        return next((found for found in below if found is not None), node)

    return visit(plan, ())


def element_at(plan: Node, position: int, epoch: int) -> Any:
    """The element at a position of an epoch.

    Raises:
        TypeError: the plan has no random access; it names the operation that prevents it.
        IndexError: there is no such position.
        Exception: what making the element raised.
    """
    plan = resolve_shard_hints(plan, 1, 0)
    full = {n.store for n in plan.walk() if isinstance(n, Cache) and n.store.full}
    indexed = Lowering(plan, full).indexed(plan, (), (epoch,))
    if indexed is None:
        raise TypeError(f"index: {no_access(plan)}")
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
    """Why there is no random access, and what there may be before it."""
    node = obstacle(plan)
    name = "this plan" if node is None else f"{node.name}({node.arguments()})"
    return (
        f"elements of {name} cannot be reached by position; from_tensor_slices, range, compiled "
        "maps, zip, enumerate, take, skip, shard, concatenate and shuffle(GLOBAL) over them can"
    )
