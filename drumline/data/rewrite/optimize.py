"""The rewrite rules of plans, and their order.

A rule concerns two operations or more, so rules stand together here and not with one operation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection

from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.functions.build import Batched
from drumline.data.operations.checks import Scan, TakeWhile
from drumline.data.operations.combine import Zip
from drumline.data.operations.filter import Filter
from drumline.data.operations.map import Map
from drumline.data.operations.nested.nesting import FlatMap, Interleave
from drumline.data.operations.nested.windows import StackedWindows, Window, WindowPieces
from drumline.data.operations.ordering.order import Repeat, Shard, Shuffle, Skip, Take
from drumline.data.operations.prefetch import Prefetch, PrefetchToDevice
from drumline.data.operations.reading.files import Files
from drumline.data.operations.reading.sources import Generator
from drumline.data.operations.reading.tables import TableFormat
from drumline.data.options import Options
from drumline.data.plan.node import Node, bottom_up
from drumline.data.runtime.threads import available_cores


def auto_prefetch(plan: Node) -> Node:
    """Adds a prefetch at the end of a plan that computes and runs no Python of the user's.

    A generator or a Python function must not be called before its element is asked for.
    """
    computes = any(isinstance(node, Map | Filter) or _decodes(node) for node in plan.walk())
    made_ahead = isinstance(plan, Prefetch | PrefetchToDevice)
    if made_ahead or not computes:
        return plan
    return plan if any(_runs_python(node) for node in plan.walk()) else Prefetch((plan,), None)


def _decodes(node: Node) -> bool:
    return isinstance(node, Files) and isinstance(node.form, TableFormat)


def _runs_python(node: Node) -> bool:
    match node:
        case Generator():
            return True
        case Map() | Filter() | TakeWhile() | Scan():
            return node.function.is_python
        case _:
            return False


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


def map_parallelization(plan: Node, threads: int | None) -> Node:
    """Gives maps for which the user named no ``num_parallel_calls`` as many workers as ``threads``.

    Without a number, all cores but one, which the consumer needs: with two cores, a second worker
    halved the throughput.

    Only functions that may be applied to elements in any order: results and their order stay.
    """
    workers = threads or max(1, available_cores() - 1)

    def widen(node: Node) -> Node:
        if isinstance(node, Map) and node.workers is None and node.function.reorderable:
            return dataclasses.replace(node, workers=workers)
        return node

    return bottom_up(plan, widen) if workers > 1 else plan


def push_shard(plan: Node) -> Node:
    """Push ``shard`` below maps whose functions may be skipped for elements that are dropped;
    adjacent ones merge.
    """
    return bottom_up(plan, _push_shard)


def _push_shard(node: Node) -> Node:
    match node:
        case Shard(inputs=(Shard() as inner,)):
            index = inner.index + inner.num_shards * node.index
            return _push_shard(Shard(inner.inputs, inner.num_shards * node.num_shards, index))
        case Shard(inputs=(Map() as inner,)) if inner.function.reorderable:
            return inner.with_inputs(_push_shard(node.with_inputs(inner.input)))
    return node


def push_take_skip(plan: Node) -> Node:
    """Push ``take`` and ``skip`` below maps whose functions may be skipped for elements that are
    dropped; adjacent ones merge.
    """
    return bottom_up(plan, _push_take_skip)


def _push_take_skip(node: Node) -> Node:
    match node:
        case Take(inputs=(Take() as inner,)):
            return _push_take_skip(Take(inner.inputs, min(node.count, inner.count)))
        case Skip(inputs=(Skip() as inner,)):
            return _push_take_skip(Skip(inner.inputs, node.count + inner.count))
        case Take(inputs=(Map() as inner,)) | Skip(inputs=(Map() as inner,)):
            if inner.function.reorderable:
                return inner.with_inputs(_push_take_skip(node.with_inputs(inner.input)))
        case Take(inputs=(Zip() as inner,)):
            return inner.with_inputs(
                *(_push_take_skip(node.with_inputs(part)) for part in inner.inputs)
            )
    return node


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
    """Rewrite if all leaves are split alike, and datasets are not interleaved."""
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


Rule = Callable[[Node, int | None], Node]

_RULES: tuple[tuple[str, Rule], ...] = (
    ("noop_elimination", lambda plan, _: drop_noops(plan)),
    ("take_skip_pushdown", lambda plan, _: push_take_skip(plan)),
    ("shard_pushdown", lambda plan, _: push_shard(plan)),
    ("noop_elimination", lambda plan, _: drop_noops(plan)),
    ("window_and_batch_fusion", lambda plan, _: stack_windows(plan)),
    ("map_parallelization", map_parallelization),
    ("inject_prefetch", lambda plan, _: auto_prefetch(plan)),
)


def rules_in_force(options: Options) -> list[str]:
    """The names of the rules that apply under ``options`` on this machine."""
    names = dict.fromkeys(name for name, _ in _RULES)
    if available_cores() < 2:
        # There is no core on which to make elements while the consumer works.
        del names["inject_prefetch"]
    return [name for name in names if options.experimental_optimization.applies(name)]


def optimize(plan: Node, rules: Collection[str], threads: int | None) -> Node:
    """The plan as it runs: the same elements, sooner.

    Every rule keeps the order in which shuffles occur in the tree, since their keys follow from it.

    Args:
        plan: what was asked for.
        rules: the names of those to apply. The states of stages depend on them.
        threads: that maps share, if the user gave a number.
    """
    for name, rule in _RULES:
        if name in rules:
            plan = rule(plan, threads)
    return plan
