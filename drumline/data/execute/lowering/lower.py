"""From a plan to running stages."""

from __future__ import annotations

import copy
from collections import Counter

from drumline.data.autotune.number import AUTOTUNE
from drumline.data.execute.cache_stages import CacheStore
from drumline.data.execute.dense_stage import DenseStage, may_be_ragged, may_vary
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.lowering.packed_reads import packed_reads
from drumline.data.execute.lowering.rules import (
    Pass,
    Trail,
    by_position,
    random_access,
    stages,
)
from drumline.data.execute.order import Sequential
from drumline.data.execute.ramp import MAX_ELEMENTS
from drumline.data.execute.runtime import Runtime
from drumline.data.execute.stage import Stage
from drumline.data.execute.walk_stage import ParallelWalkStage, WalkStage
from drumline.data.plan import buffering, function_nodes, ordering
from drumline.data.plan.node import Node
from drumline.data.plan.random_keys import RandomKeys


class Lowering:
    """Makes the stages of one epoch of a plan, by the rules registered for its nodes.

    What a plan yields is decided here, the same with the optimizer on or off: a chain over a
    random-access source stays random-access, and a shuffle over it is a permutation of positions.

    Attributes:
        root: the plan.
        filled: the caches to serve elements from; others are filled on the way.
        pool: where stages take their buffers from.
        runtime: the options that hold, and who observes the stages.
        occurrences: for each shuffle or function that draws, how many of its seed come before it.
        packed: where files are read without making objects of their records.
    """

    def __init__(self, root: Node, filled: set[CacheStore], runtime: Runtime | None = None):
        self.root = root
        self.filled = filled
        self.runtime = runtime if runtime is not None else Runtime()
        self.pool = self.runtime.pool
        self.occurrences = _occurrences(root)
        self._streams = False
        self.packed = packed_reads(root)

    def stage(self, *run: int, ragged: bool = False) -> Stage:
        """The stage that yields the plan's elements in the given epoch.

        Args:
            run: the epoch, and the pass of each ``repeat`` around; shuffles differ between them.
            ragged: whether its blocks may hold rows that differ in length.
        """
        return self._allowing(ragged, self._stage(self.root, (), run))

    def input(
        self,
        node: Node,
        trail: Trail,
        run: Pass,
        which: int = 0,
        ragged: bool = False,
        varying: bool = False,
    ) -> Stage:
        """The stage of one of a node's inputs.

        Its blocks may hold rows that differ in length only if they may be ``ragged``, and rows that
        differ in other dimensions, too, only if ``varying``.
        """
        stage = self._stage(node.inputs[which], (*trail, which), run)
        return self._allowing(ragged, stage, varying)

    def _allowing(self, ragged: bool, stage: Stage, varying: bool = False) -> Stage:
        may_stay = (ragged or not may_be_ragged(stage)) and (varying or not may_vary(stage))
        return stage if may_stay else DenseStage(stage)

    def indexed(self, node: Node, trail: Trail, run: Pass) -> Indexed | None:
        """A node's elements by position, ``None`` if they come in one order only."""
        make = random_access.get(type(node))
        found = None if make is None else make(self, node, trail, run)
        if found is None and self._streams:
            make = by_position.get(type(node))
            found = None if make is None else make(self, node, trail, run)
        return found

    def by_position(self) -> Lowering:
        """The same lowering, in which ``indexed`` also finds elements of operations that stream."""
        inner = copy.copy(self)
        inner._streams = True
        return inner

    def indexed_input(self, node: Node, trail: Trail, run: Pass) -> Indexed | None:
        """The only input's elements by position."""
        return self.indexed(node.input, (*trail, 0), run)

    def indexed_inputs(self, node: Node, trail: Trail, run: Pass) -> list[Indexed] | None:
        """All inputs' elements by position, if all have them."""
        parts = []
        for which, item in enumerate(node.inputs):
            part = self.indexed(item, (*trail, which), run)
            if part is None:
                return None
            parts.append(part)
        return parts

    def shared(self, walk: WalkStage, node: Node) -> Stage:
        """The walk on as many threads as the maps below ``node`` were given."""
        asked = [n.workers or 1 for n in node.walk() if isinstance(n, function_nodes.Map)]
        wanted = AUTOTUNE if AUTOTUNE in asked else max(asked, default=1)
        if wanted == 1 or not walk.computes:
            return walk
        pool, most_nbytes = self.runtime.workers(wanted), self.runtime.nbytes // 2
        return ParallelWalkStage(walk, pool, node.spec.row_nbytes(), most_nbytes)

    def serving(self, caches: set[CacheStore]) -> Lowering:
        """The same lowering with more caches to serve from."""
        inner = copy.copy(self)
        inner.filled = self.filled | caches
        return inner

    def inside(self, plan: Node, filled: set[CacheStore], run: Pass, ragged: bool = False) -> Stage:
        """The stage of a dataset that an operation of this one has made, not observed by itself."""
        inner = Lowering(plan, filled, self.runtime.unobserved())
        return inner._allowing(ragged, inner._stage(plan, (), run))

    def _stage(self, node: Node, trail: Trail, run: Pass) -> Stage:
        indexed = self.indexed(node, trail, run)
        if indexed is not None:
            order = Sequential(indexed.length)
            walk = WalkStage(indexed, order, row_nbytes=node.spec.row_nbytes())
            stage = self.shared(walk, node)
        else:
            stage = stages[type(node)](self, node, trail, run)
        return self.runtime.made(stage, node.name, trail)


def fill(plan: Node, stores: set[CacheStore]) -> None:
    """Runs the inputs of those caches of the plan that are among ``stores`` and still empty."""
    for node in plan.walk():
        if isinstance(node, buffering.Cache) and node.store in stores and not node.store.full:
            stage = Lowering(node, stores - {node.store}).stage(0, ragged=True)
            while stage.next(MAX_ELEMENTS) is not None:
                continue
            stage.close()


def _occurrences(root: Node) -> dict[Trail, int]:
    """How many of its seed come before each: ``zip((a, a))`` gives two orders, and other draws."""
    seen: Counter[int] = Counter()
    found: dict[Trail, int] = {}

    def visit(node: Node, trail: Trail) -> None:
        for which, item in enumerate(node.inputs):
            visit(item, (*trail, which))
        if isinstance(node, ordering.Shuffle | RandomKeys):
            found[trail] = seen[node.seed]
            seen[node.seed] += 1

    visit(root, ())
    return found
