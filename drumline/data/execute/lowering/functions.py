"""How users' functions run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumline.data.elements.spec import TensorSpec
from drumline.data.execute.map_stage import MapStage
from drumline.data.execute.parallel_map_stage import FEW_EACH, MANY_EACH, ParallelMapStage
from drumline.data.functions.call import BlockFunction
from drumline.data.functions.compiled import CompiledFunction
from drumline.data.functions.one_by_one import Vectorized
from drumline.data.operations.map import Map, Mapped, own_input
from drumline.data.operations.ordering.walk import ParallelWalkStage, WalkStage
from drumline.data.plan.node import Pass, Trail
from drumline.data.runtime.indexed import Indexed
from drumline.data.runtime.stage import Stage

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


_LIGHT_NBYTES = 64


def index_map(lowering: Lowering, node: Map, trail: Trail, run: Pass) -> Indexed | None:
    if not node.function.reorderable:
        return None
    inner = lowering.indexed_input(node, trail, run)
    return None if inner is None else Mapped(inner, _applied(lowering, node))


def lower_map(lowering: Lowering, node: Map, trail: Trail, run: Pass) -> Stage:
    source = own_input(lowering, node, trail, run)
    function = _applied(lowering, node)
    row_nbytes = node.input.spec.row_nbytes() + node.spec.row_nbytes()
    if node.function.reorderable and isinstance(source, WalkStage | ParallelWalkStage):
        walk = source if isinstance(source, WalkStage) else source.walk
        source.close()
        return lowering.shared(walk.then(function, row_nbytes), node)
    memory = (row_nbytes, lowering.runtime.nbytes // 2)
    each = _tasks_each(lowering, node)
    leaves = (*node.input.spec.leaves, *node.spec.leaves)
    ahead = (each, all(leaf.nbytes is not None for leaf in leaves))
    if processes := lowering.runtime.processes(node):
        return ParallelMapStage(source, *processes, True, *memory, False, *ahead)
    # A function that is compiled is padded to whole blocks: where the input must not be read ahead,
    # there are none to share.
    if node.workers in (None, 1) or not (node.function.is_python or source.eager):
        return MapStage(source, function, lowering.runtime.left_in_turn(node))
    workers = lowering.runtime.workers(node.workers, node.unbounded)
    light = all(_is_light(leaf) for leaf in node.input.spec.leaves)
    may_wait = node.function.is_python
    return ParallelMapStage(source, function, workers, may_wait, *memory, light, *ahead)


def _applied(lowering: Lowering, node: Map) -> BlockFunction:
    """The map's function, on whole blocks unless the options say otherwise."""
    function: BlockFunction = node.function.run
    options = lowering.runtime.options.experimental_optimization
    if options.map_vectorization is False and isinstance(function, Vectorized):
        return function.one_by_one
    if isinstance(function, CompiledFunction) and options.applies("native_arithmetic"):
        return function.with_native_arithmetic
    return function


def _tasks_each(lowering: Lowering, node: Map) -> int:
    """How many tasks a worker may be ahead."""
    chosen = node.deterministic
    if chosen is None:
        chosen = lowering.runtime.options.deterministic
    return MANY_EACH if chosen is False else FEW_EACH


def _is_light(leaf: TensorSpec) -> bool:
    """Whether it costs next to nothing to copy: strings are objects or parts of a file."""
    if leaf.is_string:
        return leaf.shape == ()
    return leaf.is_static and (leaf.nbytes or 0) <= _LIGHT_NBYTES
