"""Windows whose leaves are batched are stacked as they are, without a dataset for each."""

from __future__ import annotations

from drumline.data.functions.batched_windows import Batched
from drumline.data.plan.nesting import FlatMap, Interleave, Window
from drumline.data.plan.node import Node
from drumline.data.plan.stacked_windows import StackedWindows
from drumline.data.rewrite.transform import bottom_up
from drumline.data.spec import ElementSpec, TensorSpec


def stack_windows(plan: Node) -> Node:
    """``window(n)`` and a ``flat_map`` or ``interleave`` whose function batches ``n`` or more.

    As each window gives one element at most, datasets visited by turns come in their order, too.
    """
    return bottom_up(plan, _stacked)


def _stacked(node: Node) -> Node:
    match node:
        case FlatMap(inputs=(Window() as window,)) | Interleave(inputs=(Window() as window,)):
            batched = node.function.batched
            if batched and _one_each(batched, window.size) and _all_alike(window.input.spec):
                return StackedWindows(
                    window.inputs,
                    window.size,
                    window.shift,
                    window.stride,
                    window.drop_remainder,
                    tuple(part.leaf for part in batched),
                    node.spec,
                    any(part.drop_remainder for part in batched),
                    title=node.title,
                )
    return node


def _one_each(batched: tuple[Batched, ...], size: int) -> bool:
    """Whether full windows of that size make one batch each."""
    return all(part.size == size if part.drop_remainder else part.size >= size for part in batched)


def _all_alike(spec: ElementSpec) -> bool:
    """Whether elements cannot differ in shape, so that any of them can be stacked."""
    return all(type(leaf) is TensorSpec and leaf.is_static for leaf in spec.leaves)
