"""How datasets inside datasets run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumline.data.autotune.number import AUTOTUNE
from drumline.data.execute.flat_map_stage import FlatMapStage
from drumline.data.execute.interleave_stage import InterleaveStage
from drumline.data.execute.openings import Openings, opener
from drumline.data.execute.reading import Reading
from drumline.data.execute.stage import Stage
from drumline.data.execute.workers import MOST_THREADS
from drumline.data.operations.nested.nesting import FlatMap, Interleave, Nested
from drumline.data.plan.node import Pass, Trail

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


def lower_flat_map(lowering: Lowering, node: FlatMap, trail: Trail, run: Pass) -> Stage:
    openings = _openings(lowering, node, trail, run)
    return FlatMapStage(openings, node.spec, _label(node), node.function.eager)


def lower_interleave(lowering: Lowering, node: Interleave, trail: Trail, run: Pass) -> Stage:
    ahead = min(node.cycle_length if node.workers == AUTOTUNE else node.workers, MOST_THREADS)
    return InterleaveStage(
        _openings(lowering, node, trail, run, ahead, lowering.runtime.reading(node)),
        node.cycle_length,
        node.block_length,
        node.spec,
        _label(node),
        node.function.eager,
        lowering.pool,
    )


def _openings(
    lowering: Lowering,
    node: Nested,
    trail: Trail,
    run: Pass,
    ahead: int = 0,
    reading: Reading | None = None,
) -> Openings:
    source = lowering.input(node, trail, run)
    return Openings(source, node.input.spec, node.function, opener(lowering), run, ahead, reading)


def _label(node: Nested) -> str:
    return f"the datasets that {node.function.label} makes, called as Python"
