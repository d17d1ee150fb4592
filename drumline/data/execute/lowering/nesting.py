"""How datasets inside datasets run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from drumline.data.autotune.number import AUTOTUNE
from drumline.data.execute.at_hand import at_hand
from drumline.data.execute.cache_stages import ReplayStage
from drumline.data.execute.flat_map_stage import FlatMapStage
from drumline.data.execute.group_stage import GroupStage
from drumline.data.execute.interleave_stage import InterleaveStage
from drumline.data.execute.openings import Open, Openings
from drumline.data.execute.reading import Reading
from drumline.data.execute.stacked_window_stage import StackedWindowStage
from drumline.data.execute.stage import Stage
from drumline.data.execute.window_pieces_stage import WindowPiecesStage
from drumline.data.execute.window_stage import WindowStage
from drumline.data.execute.workers import MOST_THREADS
from drumline.data.functions.shape_key import ShapeFunction
from drumline.data.plan.buffering import Cache
from drumline.data.plan.nesting import FlatMap, GroupByWindow, Interleave, Nested, Rows, Window
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.plan.ordering import Shard
from drumline.data.plan.stacked_windows import StackedWindows
from drumline.data.plan.window_pieces import WindowPieces
from drumline.data.rewrite.shard_hints import resolve_shard_hints

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


def opener(lowering: Lowering, ragged: bool = False) -> Open:
    """Starts plans that users' functions made; their blocks may be ``ragged`` only if so."""

    def open_(
        plan: Node, place: Sequence[int], caches: list[bool] | None
    ) -> tuple[Stage, list[bool]]:
        lower_rows = at_hand(plan)
        if lower_rows is not None:
            return ReplayStage([lower_rows]), []
        nodes = list(plan.walk())
        if any(isinstance(node, Shard) for node in nodes):
            plan = resolve_shard_hints(plan, 1, 0)
        stores = [node.store for node in nodes if isinstance(node, Cache)]
        if not stores:
            return lowering.inside(plan, set(), tuple(place), ragged), []
        if caches is None:
            caches = [store.full for store in stores]
        filled = {store for store, serve in zip(stores, caches, strict=True) if serve}
        lowering.fill(plan, filled)
        return lowering.inside(plan, filled, tuple(place), ragged), caches

    return open_


def lower_rows(lowering: Lowering, node: Rows, trail: Trail, run: Pass) -> Stage:
    return ReplayStage(node.blocks)


def lower_window(lowering: Lowering, node: Window, trail: Trail, run: Pass) -> Stage:
    return WindowStage(lowering.input(node, trail, run), node)


def lower_stacked_windows(
    lowering: Lowering, node: StackedWindows, trail: Trail, run: Pass
) -> Stage:
    return StackedWindowStage(lowering.input(node, trail, run), node)


def lower_window_pieces(lowering: Lowering, node: WindowPieces, trail: Trail, run: Pass) -> Stage:
    return WindowPiecesStage(lowering.input(node, trail, run), node)


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


def lower_group_by_window(
    lowering: Lowering, node: GroupByWindow, trail: Trail, run: Pass
) -> Stage:
    ragged = node.key.is_python or isinstance(node.key.run, ShapeFunction)
    source = lowering.input(node, trail, run, ragged=ragged)
    return GroupStage(source, node, opener(lowering), run)


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
