"""How parts of a plan run on workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec
from drumline.data.elements.structure import LEAF_STRUCTURE
from drumline.data.operations.nested.nesting import FlatMapStage, InterleaveStage
from drumline.data.operations.nested.openings import Openings, opener
from drumline.data.plan.distributing import Distribute, Elsewhere, Piece, Remote, Shards
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.runtime.indexed import Indexed, SlicedRows
from drumline.data.runtime.stage import Stage
from drumline.data.service.cluster import Split
from drumline.data.service.packing import Packed, packed
from drumline.data.service.part import Part, for_workers, options_for_workers
from drumline.data.service.remote_run import RemoteRun
from drumline.data.service.remote_stage import RemoteStage
from drumline.data.service.session import Session
from drumline.data.service.splits import RowsStage, ShardsStage, SpanStage, SplitSize, SplitStage

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


_SPLITS = ElementSpec(LEAF_STRUCTURE, (TensorSpec((), STRING),))
_FEW, _MANY = 2, 32
"""How many portions of a split are asked for ahead; many of a file's, which may have any size."""


def piece(lowering: Lowering, node: Piece, trail: Trail, run: Pass) -> Indexed | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is None or node.stop is None:
        return None
    return SlicedRows(inner, node.start, node.stop - node.start)


def here(lowering: Lowering, node: Distribute, trail: Trail, run: Pass) -> Stage:
    """In a plan that was not placed: one whose first elements alone are looked at."""
    return lowering.input(node, trail, run, ragged=True)


def elsewhere(lowering: Lowering, node: Elsewhere, trail: Trail, run: Pass) -> Stage:
    return cast(Stage, node.stage)


def remote(lowering: Lowering, node: Remote, trail: Trail, run: Pass) -> Stage:
    found, below = _piece(node.input, (*trail, 0))
    nbytes = max(node.spec.row_nbytes(), found.spec.row_nbytes())
    size = SplitSize(nbytes, fixed=1 if found.one else None)
    source: SplitStage
    if found.by_position:
        indexed = lowering.indexed(found.input, (*below, 0), run)
        assert indexed is not None
        source = SpanStage(indexed.length, size)
    else:
        source = RowsStage(lowering.input(found, below, run), size)
    session = lowering.runtime.session(node.service)
    made = _Made(lowering, session, node, trail, run, size, _MANY if found.one else _FEW)
    return _stage(made, source, node.cycle_length, node.block_length)


def shards(lowering: Lowering, node: Shards, trail: Trail, run: Pass) -> Stage:
    source = ShardsStage(node.shards)
    session = lowering.runtime.session(node.service)
    made = _Made(lowering, session, node, trail, run, source.size, _FEW)
    return _stage(made, source, node.shards, 1)


class _Made:
    """Makes the plan of a split: the stage that receives it."""

    def __init__(
        self,
        lowering: Lowering,
        session: Session,
        node: Remote | Shards,
        trail: Trail,
        run: Pass,
        size: SplitSize,
        credit: int,
    ):
        self.lowering, self.session, self.node, self.run = lowering, session, node, run
        self._size, self._credit = size, credit
        self._exact = isinstance(node, Remote) and node.exact
        self._number = session.part(node, lambda: _packed(lowering, node, trail))

    def __call__(self, split: Any, place: Sequence[int]) -> Node:
        assert isinstance(split, Split)
        spec = self.node.spec
        run = RemoteRun(
            self.session, self._number, split, self.run, spec, self._credit, self._exact
        )
        stage = RemoteStage(
            self.session, run, split.describe(), self._size, split.stop - split.start
        )
        return Elsewhere((), spec, stage)


def _stage(made: _Made, source: SplitStage, cycle_length: int, block_length: int) -> Stage:
    start: Callable[..., Any] = opener(made.lowering)
    openings = Openings(source, _SPLITS, made, start, made.run, lambda: 2 * made.session.width)
    spec, label = made.node.spec, "splits made by workers"
    if cycle_length == 1:
        return FlatMapStage(openings, spec, label, True)
    pool = made.lowering.pool
    return InterleaveStage(openings, cycle_length, block_length, spec, label, True, pool)


def _piece(node: Node, trail: Trail) -> tuple[Piece, Trail]:
    while not isinstance(node, Piece):
        node, trail = node.input, (*trail, 0)
    return node, trail


def _packed(lowering: Lowering, node: Node, trail: Trail) -> Packed:
    options = options_for_workers(lowering.runtime.options)
    if isinstance(node, Shards):
        plan = for_workers(node.shared)
        return packed(Part(plan, {}, options, node.policy, node.shards), plan)
    plan, below = for_workers(node.input), (*trail, 0)
    occurrences = {
        where[len(below) :]: count
        for where, count in lowering.occurrences.items()
        if where[: len(below)] == below
    }
    return packed(Part(plan, occurrences, options), plan)
