"""Start an epoch of a plan: place its parts on workers, rewrite it, and lower it to stages."""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
from collections.abc import Collection, Sequence
from typing import Any, TypedDict

import numpy as np

from drumline.data.elements.block import Block, splitter
from drumline.data.elements.ragged import RaggedTensorSpec, empty
from drumline.data.elements.rows import single
from drumline.data.elements.seeds import DrawnSeed
from drumline.data.elements.spec import AUTOTUNE, DatasetSpec, TensorSpec, has_datasets
from drumline.data.engine.lowering import Lowering, Runtime
from drumline.data.operations.batch import Unbatch
from drumline.data.operations.cache import Cache
from drumline.data.operations.filter import Filter
from drumline.data.operations.map import Map
from drumline.data.operations.nested.nesting import FlatMap, Interleave
from drumline.data.operations.nested.windows import held_rows
from drumline.data.operations.ordering.order import resolve_shard_hints
from drumline.data.operations.prefetch import Prefetch
from drumline.data.operations.reading.files import Files
from drumline.data.operations.seeding import drawn_seeds, seed_of, with_drawn_seeds
from drumline.data.options import Options, as_dataset
from drumline.data.plan.node import Node, bottom_up
from drumline.data.rewrite.optimize import optimize, rules_in_force
from drumline.data.runtime.meter import Observation
from drumline.data.runtime.stage import Stage
from drumline.data.workers.remote.cluster import Service
from drumline.data.workers.remote.nodes import Distribute, Piece, Remote, Shards


def place(plan: Node) -> Node:
    """Return the plan with every ``distribute`` replaced by remote plans.

    Where elements are handed out on demand, the operations that work element by element go to the
    workers: functions, and readers of files. All others stay with the consumer, so that the
    elements are those without ``distribute``.
    """
    return bottom_up(plan, _placed)


def _placed(node: Node) -> Node:
    if not isinstance(node, Distribute):
        return node
    if node.shards:
        _check_shards(node)
        return Shards((), node.service, node.policy, node.shards, node.input)
    return _Placement(node.service).placed(node.input)


def _check_shards(node: Distribute) -> None:
    for below in node.walk():
        if isinstance(below, Cache):
            raise ValueError(
                f"distribute({node.policy.name}): cache() before it would be filled by each worker "
                "again in every epoch; put it after distribute"
            )


@dataclasses.dataclass(frozen=True)
class _Placement:
    service: Service

    def placed(self, node: Node) -> Node:
        """Return the plan with the operations that workers can run on workers."""
        if isinstance(node, Interleave) and _reads_files(node):
            each = FlatMap((self._names(node),), node.function)
            return Remote((each,), self.service, node.cycle_length, node.block_length)
        if _by_position(node) and _computes(node):
            return Remote((Piece((node,), by_position=True),), self.service)
        if _by_element(node) or (isinstance(node, FlatMap) and _reads_files(node)):
            return Remote((self._part(node),), self.service)
        return node.with_inputs(*map(self.placed, node.inputs))

    def _part(self, node: Node) -> Node:
        if _by_position(node):
            return Piece((node,), by_position=True)
        if isinstance(node, Prefetch):
            return self._part(node.input)
        if _by_element(node):
            return node.with_inputs(self._part(node.input))
        if _one_after_the_other(node):
            return node.with_inputs(self._names(node))
        return Piece((self.placed(node),), by_position=False)

    def _names(self, node: Node) -> Piece:
        return Piece((self.placed(node.input),), by_position=False, one=True)


def _by_position(node: Node) -> bool:
    return Lowering(node, set()).indexed(node, (), (0,)) is not None


def _computes(node: Node) -> bool:
    return any(isinstance(below, Map) for below in node.walk())


def _by_element(node: Node) -> bool:
    """Return whether each element of the result depends on one of the input's alone."""
    return isinstance(node, Map | Filter | Unbatch) and not has_datasets(node.input.spec)


def _reads_files(node: FlatMap | Interleave) -> bool:
    # Seeds are drawn by the position of the element in the whole dataset.
    return node.function.reads_files and node.function.seed is None


def _one_after_the_other(node: Node) -> bool:
    if isinstance(node, Files):
        return node.at_once in (None, 1)
    return isinstance(node, FlatMap) and _reads_files(node)


class EpochConfig(TypedDict):
    """The inputs of lowering besides the plan; part of an iterator's state.

    Attributes:
        rules: the names of the rules by which the plan was rewritten.
        caches: for each cache of the rewritten plan, in order, whether elements are served from it.
    """

    rules: list[str]
    caches: list[bool]


class Epochs:
    """A plan, rewritten once, ready to be started for any epoch."""

    def __init__(self, plan: Node, options: Options, observation: Observation | None = None):
        self.plan = plan
        self.runtime = Runtime(options, observation)
        self._placed = place(plan)
        self._rules = rules_in_force(options)
        self.optimized = self._rewritten(self._rules)
        if options.experimental_slack and not isinstance(self.optimized, Prefetch):
            raise ValueError(
                "Options.experimental_slack is for datasets that end with prefetch; this one ends "
                f"with {self.optimized.name}"
            )
        self._tunes = self.runtime.tuned and any(_left_open(node) for node in plan.walk())

    @functools.cached_property
    def operations(self) -> list[str]:
        """Each operation's name with a digest of its arguments, elements and given seed."""
        return [_identity(node) for node in self.plan.walk()]

    @functools.cached_property
    def seeds(self) -> list[int]:
        """The seeds that were drawn for operations that were given none."""
        return drawn_seeds(self.plan)

    def with_seeds(self, seeds: Sequence[int]) -> Epochs:
        """Return these epochs as if ``seeds`` had been drawn; threads and options are shared."""
        if list(seeds) == self.seeds:
            return self
        made = copy.copy(self)
        made.plan = with_drawn_seeds(self.plan, seeds)
        vars(made).pop("seeds")
        made._placed = place(made.plan)
        made.optimized = made._rewritten(made._rules)
        return made

    def start(self, epoch: int, form: EpochConfig | None) -> tuple[Stage, EpochConfig]:
        """Return the stage of an epoch, and its configuration.

        Args:
            epoch: shuffles differ between epochs.
            form: that of a state which the stage is to be restored to, whatever options and machine
                it comes from; the caches that it serves from are filled first if necessary.
                ``None`` follows the options, and serves from the caches that are full.
        """
        stage, form = self.lowered(epoch, form)
        self.runtime.connect()
        return stage, form

    def lowered(self, epoch: int, form: EpochConfig | None) -> tuple[Stage, EpochConfig]:
        """Return what ``start`` does, without connecting to the workers of a ``distribute``."""
        rules = self._rules if form is None else form["rules"]
        plan = self.optimized if rules == self._rules else self._rewritten(rules)
        stores = [node.store for node in plan.walk() if isinstance(node, Cache)]
        caches = [store.full for store in stores] if form is None else form["caches"]
        filled = {store for store, serve in zip(stores, caches, strict=True) if serve}
        Lowering.fill(plan, filled)
        runtime = self.runtime.separately_observed() if self._tunes else self.runtime
        stage = Lowering(plan, filled, runtime).stage(epoch, ragged=True)
        if self._tunes:
            runtime.tune(stage)
        return stage, {"rules": rules, "caches": caches}

    def _rewritten(self, rules: Collection[str]) -> Node:
        threads = self.runtime.options.threading.private_threadpool_size
        return optimize(resolve_shard_hints(self._placed, 1, 0), rules, threads)


def digest_of(plan: Node) -> str:
    """Return a digest of a plan's operations and arguments, without the code of functions."""
    return hashlib.sha256(" ".join(map(_identity, plan.walk())).encode()).hexdigest()[:12]


def _identity(node: Node) -> str:
    seed = seed_of(node)
    known = "drawn" if isinstance(seed, DrawnSeed) else seed
    text = f"{node.name}({node.arguments()}) {node.spec} {known} {len(node.inputs)}"
    return f"{node.name} {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _left_open(node: Node) -> bool:
    """Return whether the number of the operation's workers was left to drumline."""
    return isinstance(node, Map | Interleave) and node.workers == AUTOTUNE


def first_element(plan: Node) -> Any:
    """Return an element of the plan's first epoch; zeros of its spec if it has none.

    Raises:
        Exception: what making the element raised.
    """
    return first_elements(plan, 1)[0]


def first_elements(plan: Node, count: int) -> list[Any]:
    """Return one to ``count`` elements of the plan's first epoch, as ``first_element``."""
    split = splitter(plan.spec.structure)
    return [split(block.columns)[0] for block in _first_blocks(plan, count)]


def first_block(plan: Node) -> Block:
    """Return the first element, as ``first_element``, as a block of one row."""
    return _first_blocks(plan, 1)[0]


def _first_blocks(plan: Node, count: int) -> list[Block]:
    stage = Lowering(resolve_shard_hints(plan, 1, 0), set()).stage(0)
    found: list[Block] = []
    try:
        while len(found) < count and (block := stage.next(1)) is not None:
            if block.error is not None:
                if found:
                    break
                raise block.error
            found.append(block)
    finally:
        stage.close()
    if not found:
        found = [Block([_zero(leaf) for leaf in plan.spec.leaves], 1)]
    for block in found:
        for column in block.columns:
            column.flags.writeable = False
    return found


def _zero(leaf: TensorSpec) -> np.ndarray:
    if isinstance(leaf, DatasetSpec):
        # Of one element: a function may take the only one.
        rows = Block([_zero(inner) for inner in leaf.element.leaves], 1)
        return single(as_dataset(held_rows([rows], leaf.element)))[None]
    if isinstance(leaf, RaggedTensorSpec):
        return single(empty(leaf))[None]
    dims = tuple(dim or 0 for dim in leaf.shape)
    if leaf.is_string:
        return np.full((1, *dims), b"", leaf.dtype)
    return np.zeros((1, *dims), leaf.dtype)
