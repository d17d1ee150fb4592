"""How many elements a plan has."""

from __future__ import annotations

from drumline.data.execute.lowering import Lowering
from drumline.data.operations.order import resolve_shard_hints
from drumline.data.plan.node import Node


def length_up_to(plan: Node, most: int) -> int:
    """The number of elements; an infinite or unknown one is counted, up to ``most``."""
    if plan.cardinality >= 0:
        return plan.cardinality
    stage = Lowering(resolve_shard_hints(plan, 1, 0), set()).stage(0)
    count = 0
    while count < most and (block := stage.next(most - count)) is not None:
        count += block.n
    stage.close()
    return count
