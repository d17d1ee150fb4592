"""How order and choice run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumline._core import mix64
from drumline.data.cardinality import UNKNOWN
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.order import Shuffled
from drumline.data.execute.repeat_stage import RepeatStage
from drumline.data.execute.repeated import Repeated
from drumline.data.execute.shard_stage import ShardStage
from drumline.data.execute.shuffle_stage import EVERYTHING, ShuffleStage
from drumline.data.execute.slice_stages import SkipStage, TakeStage
from drumline.data.execute.stage import Stage
from drumline.data.execute.transforms import SlicedRows, Strided
from drumline.data.execute.walk_stage import WalkStage
from drumline.data.operations.cache import Cache
from drumline.data.operations.numbering import RandomKeys
from drumline.data.operations.order import Repeat, Shard, Shuffle, Skip, Take
from drumline.data.plan.node import Node, Pass, Trail

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


def index_take(lowering: Lowering, node: Take, trail: Trail, run: Pass) -> Indexed | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is None:
        return None
    return SlicedRows(inner, 0, min(node.count, inner.length))


def index_skip(lowering: Lowering, node: Skip, trail: Trail, run: Pass) -> Indexed | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is None:
        return None
    start = min(node.count, inner.length)
    return SlicedRows(inner, start, inner.length - start)


def index_shard(lowering: Lowering, node: Shard, trail: Trail, run: Pass) -> Indexed | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is None:
        return None
    return Strided(inner, node.index, node.num_shards)


def lower_take(lowering: Lowering, node: Take, trail: Trail, run: Pass) -> Stage:
    return TakeStage(lowering.input(node, trail, run, ragged=True), node.count)


def lower_skip(lowering: Lowering, node: Skip, trail: Trail, run: Pass) -> Stage:
    return SkipStage(lowering.input(node, trail, run, ragged=True), node.count)


def lower_shard(lowering: Lowering, node: Shard, trail: Trail, run: Pass) -> Stage:
    return ShardStage(lowering.input(node, trail, run, ragged=True), node.num_shards, node.index)


def lower_shuffle(lowering: Lowering, node: Shuffle, trail: Trail, run: Pass) -> Stage:
    key = shuffle_key(lowering, node, trail, run)
    indexed = _shuffled_input(lowering, node.input, (*trail, 0), run)
    size = buffered(node)
    if indexed is not None:
        order = Shuffled(indexed.length, size, key)
        return WalkStage(indexed, order, row_nbytes=node.spec.row_nbytes())
    source = lowering.input(node, trail, run, ragged=True)
    return ShuffleStage(source, size, key, node.spec, lowering.pool)


def buffered(node: Shuffle) -> int:
    """How many elements the buffer of a shuffle holds."""
    return EVERYTHING if node.buffer_size == UNKNOWN else node.buffer_size


def shuffle_key(lowering: Lowering, node: Shuffle, trail: Trail, run: Pass) -> int:
    """What the order of a shuffle follows from."""
    key = mix64(node.seed, lowering.occurrences[trail])
    if node.reshuffle:
        for part in run:
            key = mix64(key, part)
    return key


def _shuffled_input(lowering: Lowering, node: Node, trail: Trail, run: Pass) -> Indexed | None:
    """A shuffle's input by position; also several passes over one whose passes are all the same."""
    drawing = Shuffle | RandomKeys
    if not isinstance(node, Repeat) or any(isinstance(n, drawing) for n in node.walk()):
        return lowering.indexed(node, trail, run)
    inner = lowering.indexed_input(node, trail, run)
    return None if inner is None else Repeated(inner, node.count)


def lower_repeat(lowering: Lowering, node: Repeat, trail: Trail, run: Pass) -> Stage:
    stores = [inner.store for inner in node.walk() if isinstance(inner, Cache)]

    def make(number: int, caches: list[bool] | None) -> tuple[Stage, list[bool]]:
        if caches is None:
            # The epoch decides for the first pass; later ones profit from what it filled.
            caches = [store in lowering.filled or (number > 0 and store.full) for store in stores]
        served = {store for store, serve in zip(stores, caches, strict=True) if serve}
        lowering.fill(node, served)
        source = lowering.serving(served).input(node, trail, (*run, number), ragged=True)
        return source, caches

    return RepeatStage(make, node.count)
