"""Windows that are batched or taken apart are stacked as they are, without a dataset for each."""

from __future__ import annotations

from drumline.data.functions.batched_windows import Batched
from drumline.data.operations.map import Map
from drumline.data.operations.nested.nesting import FlatMap, Interleave
from drumline.data.operations.nested.windows import Window
from drumline.data.plan.node import Node
from drumline.data.plan.stacked_windows import StackedWindows
from drumline.data.plan.window_pieces import WindowPieces
from drumline.data.rewrite.transform import bottom_up
from drumline.data.spec import ElementSpec, TensorSpec


def stack_windows(plan: Node) -> Node:
    """``window`` and a ``flat_map`` or ``interleave`` whose function batches them or gives them.

    Or a ``map`` whose function gives each window as one array.

    Datasets that are visited by turns come in their order, too, if each is done within its turn.
    """
    return bottom_up(plan, _stacked)


def _stacked(node: Node) -> Node:
    match node:
        case FlatMap(inputs=(Window() as window,)) | Interleave(inputs=(Window() as window,)):
            batched = node.function.batched
            if batched and _all_alike(window.input.spec):
                return _one_each(node, window, batched) or _several(node, window, batched) or node
        case Map(inputs=(Window() as window,)):
            batched = node.function.batched
            if batched and _all_alike(window.input.spec) and _may_be_short(node.spec, window):
                return _one_each(node, window, batched) or node
    return node


def _one_each(
    node: FlatMap | Interleave | Map, window: Window, batched: tuple[Batched, ...]
) -> Node | None:
    """If full windows make one batch each."""
    for part in batched:
        size = part.size or 0
        if size != window.size if part.drop_remainder else size < window.size:
            return None
    short = any(part.drop_remainder for part in batched)
    return _stack(window, batched, node.spec, short, node.title)


def _several(
    node: FlatMap | Interleave, window: Window, batched: tuple[Batched, ...]
) -> Node | None:
    """If all leaves are taken apart alike, and datasets are not visited by turns."""
    size, drop = batched[0].size, any(part.drop_remainder for part in batched)
    if any(part.size != size for part in batched) or (size or 0) > window.size:
        return None
    most = window.size // (size or 1) + (not drop and window.size % (size or 1) > 0)
    if isinstance(node, Interleave) and node.cycle_length > 1 and most > node.block_length:
        return None
    leaves = window.input.spec.leaves
    rows = node.spec.with_leaves([leaves[part.leaf].batched(None) for part in batched])
    stacked = _stack(window, batched, rows, False)
    return WindowPieces((stacked,), node.spec, size, drop, most, title=node.title)


def _stack(
    window: Window,
    batched: tuple[Batched, ...],
    spec: ElementSpec,
    drop_short: bool,
    title: str | None = None,
) -> Node:
    return StackedWindows(
        window.inputs,
        window.size,
        window.shift,
        window.stride,
        window.drop_remainder,
        tuple(part.leaf for part in batched),
        spec,
        drop_short,
        title=title,
    )


def _may_be_short(spec: ElementSpec, window: Window) -> bool:
    """Whether the last windows are no errors: results of fewer rows than the first may be."""
    return window.drop_remainder or all(leaf.shape[0] is None for leaf in spec.leaves)


def _all_alike(spec: ElementSpec) -> bool:
    """Whether elements cannot differ in shape, so that any of them can be stacked."""
    return all(type(leaf) is TensorSpec and leaf.is_static for leaf in spec.leaves)
