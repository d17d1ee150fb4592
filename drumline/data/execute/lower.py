"""From a plan to running stages."""

from __future__ import annotations

import copy
from collections import Counter

from drumline._core import mix64
from drumline.data.execute import transforms
from drumline.data.execute.batch_stage import BatchStage
from drumline.data.execute.cache_stages import CacheStore, FillStage, ReplayStage
from drumline.data.execute.combine_stages import ConcatenateStage, ZipStage
from drumline.data.execute.filter_stage import FilterStage
from drumline.data.execute.generator_stage import GeneratorStage
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.map_stage import MapStage
from drumline.data.execute.order import Sequential, Shuffled
from drumline.data.execute.pool import BufferPool
from drumline.data.execute.prefetch_stage import PrefetchStage
from drumline.data.execute.ramp import MAX_ELEMENTS
from drumline.data.execute.repeat_stage import RepeatStage
from drumline.data.execute.shard_stage import ShardStage
from drumline.data.execute.shuffle_stage import ShuffleStage
from drumline.data.execute.slice_stages import EnumerateStage, SkipStage, TakeStage
from drumline.data.execute.sources import Columns, Integers
from drumline.data.execute.stage import Stage
from drumline.data.execute.unbatch_stage import UnbatchStage
from drumline.data.execute.walk_stage import ParallelWalkStage, WalkStage
from drumline.data.plan import batching, buffering, combining, function_nodes, ordering, sources
from drumline.data.plan.node import Node

Trail = tuple[int, ...]
"""Where in the tree a node stands: which input to follow at each step from the root."""

Pass = tuple[int, ...]
"""Which epoch, and inside it which repetition, a stage runs in."""


class Lowering:
    """Makes the stages of one epoch of a plan.

    What a plan yields is decided here, the same with the optimizer on or off: a chain over a
    random-access source stays random-access, and a shuffle over it is a permutation of positions.
    """

    def __init__(self, root: Node, filled: set[CacheStore]):
        """Takes the plan and the caches to serve elements from; others are filled on the way."""
        self._root = root
        self._filled = filled
        self._pool = BufferPool()
        self._occurrences = _shuffle_occurrences(root)

    def stage(self, epoch: int) -> Stage:
        """The stage that yields the plan's elements in the given epoch."""
        return self._stage(self._root, (), (epoch,))

    def _stage(self, node: Node, trail: Trail, run: Pass) -> Stage:
        indexed = self._indexed(node, trail, run)
        if indexed is not None:
            return self._shared(WalkStage(indexed, Sequential(indexed.length)), node)
        make = getattr(self, f"_{type(node).__name__.lower()}", None)
        if make is None:
            raise TypeError(f"no stage for {type(node).__name__}")
        stage: Stage = make(node, trail, run)
        return stage

    def _input(self, node: Node, trail: Trail, run: Pass, which: int = 0) -> Stage:
        return self._stage(node.inputs[which], (*trail, which), run)

    def _shared(self, walk: WalkStage, node: Node) -> Stage:
        workers = max(
            (n.workers or 1 for n in node.walk() if isinstance(n, function_nodes.Map)), default=1
        )
        return ParallelWalkStage(walk, workers) if workers > 1 and walk.computes else walk

    def _indexed(self, node: Node, trail: Trail, run: Pass) -> Indexed | None:
        match node:
            case sources.Range():
                return Integers(node.start, node.step, node.length, node.dtype)
            case sources.Slices():
                return Columns(node.columns, node.length, self._pool)
            case buffering.Cache():
                return self._cached(node)
            case combining.Zip() | combining.Concatenate():
                return self._indexed_pair(node, trail, run)
            case (
                function_nodes.Map()
                | combining.Enumerate()
                | ordering.Take()
                | ordering.Skip()
                | ordering.Shard()
            ):
                inner = self._indexed(node.input, (*trail, 0), run)
                return None if inner is None else _transformed(node, inner)
        return None

    def _indexed_pair(self, node: Node, trail: Trail, run: Pass) -> Indexed | None:
        parts = []
        for which, item in enumerate(node.inputs):
            part = self._indexed(item, (*trail, which), run)
            if part is None:
                return None
            parts.append(part)
        if isinstance(node, combining.Zip):
            return transforms.Zipped(parts)
        return transforms.Concatenated(*parts)

    def _cached(self, node: buffering.Cache) -> Indexed | None:
        blocks = node.store.blocks if node.store in self._filled else None
        if blocks is None or len(blocks) != 1:
            return None
        return Columns(blocks[0].columns, blocks[0].n, self._pool)

    def _generator(self, node: sources.Generator, trail: Trail, run: Pass) -> Stage:
        return GeneratorStage(node.factory, node.spec, node.label)

    def _map(self, node: function_nodes.Map, trail: Trail, run: Pass) -> Stage:
        source = self._input(node, trail, run)
        function = node.function.run
        if node.function.reorderable and isinstance(source, WalkStage | ParallelWalkStage):
            walk = source if isinstance(source, WalkStage) else source.walk
            source.close()
            return self._shared(walk.then(function), node)
        return MapStage(source, function)

    def _filter(self, node: function_nodes.Filter, trail: Trail, run: Pass) -> Stage:
        return FilterStage(self._input(node, trail, run), node.function.run)

    def _batch(self, node: batching.Batch, trail: Trail, run: Pass) -> Stage:
        source = self._input(node, trail, run)
        return BatchStage(source, node.size, node.drop_remainder, self._pool)

    def _unbatch(self, node: batching.Unbatch, trail: Trail, run: Pass) -> Stage:
        return UnbatchStage(self._input(node, trail, run))

    def _shuffle(self, node: ordering.Shuffle, trail: Trail, run: Pass) -> Stage:
        key = mix64(node.seed, self._occurrences[trail])
        if node.reshuffle:
            for part in run:
                key = mix64(key, part)
        indexed = self._indexed(node.input, (*trail, 0), run)
        if indexed is not None:
            return WalkStage(indexed, Shuffled(indexed.length, node.buffer_size, key))
        source = self._input(node, trail, run)
        return ShuffleStage(source, node.buffer_size, key, node.spec, self._pool)

    def _repeat(self, node: ordering.Repeat, trail: Trail, run: Pass) -> Stage:
        stores = [inner.store for inner in node.walk() if isinstance(inner, buffering.Cache)]

        def make(number: int, caches: list[bool] | None) -> tuple[Stage, list[bool]]:
            if caches is None:
                # The epoch decides for the first pass; later ones profit from what it filled.
                caches = [
                    store in self._filled or (number > 0 and store.blocks is not None)
                    for store in stores
                ]
            served = {store for store, serve in zip(stores, caches, strict=True) if serve}
            fill(node, served)
            inner = copy.copy(self)
            inner._filled = self._filled | served
            return inner._input(node, trail, (*run, number)), caches

        return RepeatStage(make, node.count)

    def _take(self, node: ordering.Take, trail: Trail, run: Pass) -> Stage:
        return TakeStage(self._input(node, trail, run), node.count)

    def _skip(self, node: ordering.Skip, trail: Trail, run: Pass) -> Stage:
        return SkipStage(self._input(node, trail, run), node.count)

    def _shard(self, node: ordering.Shard, trail: Trail, run: Pass) -> Stage:
        return ShardStage(self._input(node, trail, run), node.num_shards, node.index)

    def _enumerate(self, node: combining.Enumerate, trail: Trail, run: Pass) -> Stage:
        return EnumerateStage(self._input(node, trail, run), node.start)

    def _zip(self, node: combining.Zip, trail: Trail, run: Pass) -> Stage:
        return ZipStage([self._input(node, trail, run, i) for i in range(len(node.inputs))])

    def _concatenate(self, node: combining.Concatenate, trail: Trail, run: Pass) -> Stage:
        return ConcatenateStage([self._input(node, trail, run, i) for i in range(2)])

    def _cache(self, node: buffering.Cache, trail: Trail, run: Pass) -> Stage:
        if node.store in self._filled and node.store.blocks is not None:
            return ReplayStage(node.store.blocks)
        # What a cache holds must not depend on the epoch in which it was filled.
        return FillStage(self._input(node, trail, (0,)), node.store)

    def _prefetch(self, node: buffering.Prefetch, trail: Trail, run: Pass) -> Stage:
        source = self._input(node, trail, run)
        return PrefetchStage(source, node.size, node.spec.row_nbytes())


def fill(plan: Node, stores: set[CacheStore]) -> None:
    """Runs the inputs of those caches of the plan that are among ``stores`` and still empty."""
    for node in plan.walk():
        if isinstance(node, buffering.Cache) and node.store in stores and not node.store.full:
            stage = Lowering(node, stores - {node.store}).stage(0)
            while stage.next(MAX_ELEMENTS) is not None:
                continue
            stage.close()


def _transformed(node: Node, inner: Indexed) -> Indexed | None:
    match node:
        case function_nodes.Map():
            return (
                transforms.Mapped(inner, node.function.run) if node.function.reorderable else None
            )
        case combining.Enumerate():
            return transforms.Enumerated(inner, node.start)
        case ordering.Take():
            return transforms.Window(inner, 0, min(node.count, inner.length))
        case ordering.Skip():
            start = min(node.count, inner.length)
            return transforms.Window(inner, start, inner.length - start)
        case ordering.Shard():
            return transforms.Strided(inner, node.index, node.num_shards)
    return None


def _shuffle_occurrences(root: Node) -> dict[Trail, int]:
    """How many shuffles of the same seed come before each: ``zip((a, a))`` gives two orders."""
    seen: Counter[int] = Counter()
    found: dict[Trail, int] = {}

    def visit(node: Node, trail: Trail) -> None:
        for which, item in enumerate(node.inputs):
            visit(item, (*trail, which))
        if isinstance(node, ordering.Shuffle):
            found[trail] = seen[node.seed]
            seen[node.seed] += 1

    visit(root, ())
    return found
