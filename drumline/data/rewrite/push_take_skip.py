"""``take`` and ``skip`` move towards the source."""

from __future__ import annotations

from drumline.data.operations.combine import Zip
from drumline.data.operations.map import Map
from drumline.data.operations.order import Skip, Take
from drumline.data.plan.node import Node
from drumline.data.rewrite.transform import bottom_up


def push_take_skip(plan: Node) -> Node:
    """Below maps whose functions may be left out for elements nobody sees; runs of them merge."""
    return bottom_up(plan, _push)


def _push(node: Node) -> Node:
    match node:
        case Take(inputs=(Take() as inner,)):
            return _push(Take(inner.inputs, min(node.count, inner.count)))
        case Skip(inputs=(Skip() as inner,)):
            return _push(Skip(inner.inputs, node.count + inner.count))
        case Take(inputs=(Map() as inner,)) | Skip(inputs=(Map() as inner,)):
            if inner.function.reorderable:
                return inner.with_inputs(_push(node.with_inputs(inner.input)))
        case Take(inputs=(Zip() as inner,)):
            return inner.with_inputs(*(_push(node.with_inputs(part)) for part in inner.inputs))
    return node
