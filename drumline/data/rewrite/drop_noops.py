"""Operations that change nothing are left out."""

from __future__ import annotations

from drumline.data.operations.order import Repeat, Shard, Shuffle, Skip, Take
from drumline.data.operations.prefetch import Prefetch
from drumline.data.plan.node import Node
from drumline.data.rewrite.transform import bottom_up


def drop_noops(plan: Node) -> Node:
    """``repeat(1)``, ``skip(0)``, ``shard(1, 0)``, a ``take`` of all there is, prefetch twice."""
    return bottom_up(plan, _without)


def _without(node: Node) -> Node:
    match node:
        case Skip(count=0) | Shard(num_shards=1):
            return node.input
        case Take() if 0 <= node.input.cardinality <= node.count:
            return node.input
        case Prefetch(inputs=(Prefetch() as inner,)) if (
            node.size is not None and inner.size is not None
        ):
            return Prefetch(inner.inputs, max(node.size, inner.size))
        case Repeat(count=1) if not _reshuffles(node.input):
            return node.input
    return node


def _reshuffles(plan: Node) -> bool:
    """Whether a shuffle's key takes in the pass number, so that ``repeat(1)`` shows."""
    return any(isinstance(node, Shuffle) for node in plan.walk())
