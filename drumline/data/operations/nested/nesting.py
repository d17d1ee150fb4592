"""``flat_map`` and ``interleave``: the elements of inner datasets, in order or by turns."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from drumline._memory import BufferPool
from drumline.data.elements.block import Block
from drumline.data.elements.rows import stack
from drumline.data.elements.spec import AUTOTUNE, UNKNOWN, ElementSpec
from drumline.data.operations.nested.dataset_function import DatasetFunction
from drumline.data.operations.nested.inner_datasets import (
    InnerDatasets,
    OpenDataset,
    joined_runs,
    opener,
)
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.runtime.meter import Meter
from drumline.data.runtime.stage import Stage, State
from drumline.data.runtime.threads import MOST_THREADS, ReadLimiter

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


@dataclasses.dataclass(frozen=True, eq=False)
class Nested(Node):
    """Base of operations whose function makes datasets, of which the elements are.

    Attributes:
        function: the user's.
    """

    function: DatasetFunction

    @property
    def spec(self) -> ElementSpec:
        return self.function.spec

    @property
    def cardinality(self) -> int:
        return 0 if self.input.cardinality == 0 else UNKNOWN

    @property
    def seed(self) -> int | None:
        """The seed that those inside the function are derived from; ``None`` if it draws none."""
        return self.function.seed

    def with_seed(self, seed: int) -> Nested:
        """Return the same operation with other seeds."""
        return dataclasses.replace(self, function=dataclasses.replace(self.function, seed=seed))

    def arguments(self) -> str:
        return self.function.label


@dataclasses.dataclass(frozen=True, eq=False)
class FlatMap(Nested):
    """The elements of the dataset made for each element, one dataset after the other."""

    name: ClassVar[str] = "flat_map"


@dataclasses.dataclass(frozen=True, eq=False)
class Interleave(Nested):
    """The elements of ``cycle_length`` such datasets at a time, ``block_length`` by turns.

    Attributes:
        workers: how many datasets are read ahead at once, each by a thread; 0 for none,
            ``AUTOTUNE`` for a number that is found.
    """

    cycle_length: int
    block_length: int
    workers: int
    name: ClassVar[str] = "interleave"

    def arguments(self) -> str:
        return (
            f"{self.function.label}, cycle_length={self.cycle_length}, "
            f"block_length={self.block_length}"
        )


_PATIENCE = 0.008
"""Seconds after which no further datasets are joined: opening them together takes some."""


class FlatMapStage(Stage):
    """Goes through the dataset of each outer element; short ones are joined to one block."""

    def __init__(
        self,
        inner_datasets: InnerDatasets,
        spec: ElementSpec,
        label: str,
        allows_readahead: bool,
        ragged: bool = False,
    ):
        self.ragged = ragged
        self.allows_readahead = allows_readahead and inner_datasets.source.allows_readahead
        self._inner_datasets = inner_datasets
        self._spec = spec
        self._label = label
        self._inner: OpenDataset | None = None

    def next(self, limit: int) -> Block | None:
        return joined_runs(self._peek, self._use, limit, self._spec, _PATIENCE)

    def _use(self, positions: int) -> None:
        if self._inner is not None:
            self._inner.elements.commit(positions)

    def _peek(self, limit: int) -> Block | None:
        """Return the next block, after any empty datasets; or the error of opening one."""
        while True:
            if self._inner is None:
                if self.allows_readahead:
                    self._inner_datasets.gather(limit)
                opened = self._inner_datasets.next()
                if opened is None:
                    return None
                if isinstance(opened, Exception):
                    return Block(stack([], self._spec), 0, opened)
                self._inner = opened
            part = self._inner.elements.peek(limit)
            if part is not None:
                return part
            self._inner.elements.stage.close()
            self._inner = None

    def state(self) -> State:
        return self._inner_datasets.state([self._inner])

    def restore(self, state: State) -> None:
        (self._inner,) = self._inner_datasets.restore(state)

    def most_nbytes(self) -> int | None:
        return self._inner_datasets.most_nbytes(1, self._spec.row_nbytes())

    def held_nbytes(self) -> int:
        return self._inner_datasets.held_nbytes([self._inner])

    def inputs(self) -> Sequence[Stage]:
        return [self._inner_datasets.source]

    def describe(self) -> str:
        return f"elements of {self._label}"

    def close(self) -> None:
        if self._inner is not None:
            self._inner.elements.stage.close()
        self._inner_datasets.close()


@dataclasses.dataclass
class Cycle:
    """Where the cycle over the slots stands.

    A visit to a slot takes ``length`` elements of it. One that finds the slot's dataset at its end
    closes it and continues with the next slot; one that finds the slot empty opens a dataset and
    takes its elements.

    Attributes:
        slots: how many there are.
        length: the elements of a visit.
        slot: the one that is visited.
        used: how many elements this visit has taken.
    """

    slots: int
    length: int
    slot: int = 0
    used: int = 0

    def leave(self) -> None:
        """Continue with the next slot."""
        self.slot = (self.slot + 1) % self.slots
        self.used = 0

    def take(self, count: int) -> None:
        """Record that the visit took elements."""
        self.used += count
        if self.used == self.length:
            self.leave()

    def schedule(
        self, known: Sequence[int | None], limit: int, opens: bool, ordered: bool = False
    ) -> Schedule:
        """Return what the next visits take, up to the first that is unknown.

        Args:
            known: how many elements of each slot are buffered; 0 for a dataset that has ended,
                ``None`` for an empty slot.
            limit: the most elements to take.
            opens: whether closed and empty slots get new datasets.
            ordered: give the order also where all slots give whole visits by turns.
        """
        counts = np.array([count or 0 for count in known], np.int64)
        empty = np.array([count is None for count in known])
        first = np.where(np.arange(self.slots) < self.slot, self.length, 0)
        first[self.slot] = self.used
        # An element's place is the number of elements of its own slot that visits could have taken
        # since the round in which the cycle stands began.
        ends = first + counts
        closing = (counts == 0) & ~empty
        stops = np.where(closing, (ends // self.length + 1) * self.length, ends)
        if not opens:
            stops[closing | empty] = np.iinfo(np.int64).max
        stop = int(self._keys(stops).min())
        taken = self._before(stop, first, counts)
        order: np.ndarray | None = None
        if ordered or taken.sum() > limit or not self._regular(taken):
            keys = self._element_keys(first, taken)
            order = np.argsort(keys, kind="stable")
            if len(keys) > limit:
                stop = int(keys[order[limit]])
                taken = self._before(stop, first, counts)
                order = np.argsort(self._element_keys(first, taken), kind="stable")
        closed = closing & (self._keys(first) < stop)
        return Schedule(taken, order, closed, stop)

    def _regular(self, taken: np.ndarray) -> bool:
        """Return whether every slot gives as many whole visits as every other."""
        return self.used == 0 and bool((taken == taken[0]).all()) and taken[0] % self.length == 0

    def _keys(self, places: np.ndarray) -> np.ndarray:
        """Return numbers by which places of all slots (one for each) are ordered in time."""
        rounds, within = np.divmod(places, self.length)
        rounds = np.minimum(rounds, np.iinfo(np.int64).max // (self.slots * self.length) - 1)
        return (rounds * self.slots + np.arange(self.slots)) * self.length + within

    def _element_keys(self, first: np.ndarray, taken: np.ndarray) -> np.ndarray:
        keys = []
        for slot in range(self.slots):
            places = np.arange(first[slot], first[slot] + taken[slot])
            rounds, within = np.divmod(places, self.length)
            keys.append((rounds * self.slots + slot) * self.length + within)
        return np.concatenate(keys)

    def _before(self, stop: int, first: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return how many of each slot's elements come before the place with the key ``stop``."""
        visits, within = divmod(stop, self.length)
        rounds, slot = divmod(visits, self.slots)
        slots = np.arange(self.slots)
        places = np.where(slots < slot, rounds + 1, rounds) * self.length
        places[slot] += within
        return np.clip(places - first, 0, counts)

    def move(self, stop: int) -> None:
        """Continue to the place with the key ``stop``."""
        visits, self.used = divmod(stop, self.length)
        self.slot = visits % self.slots


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The elements that a number of visits take.

    Attributes:
        taken: how many elements of each slot.
        order: the order of the elements, given slot after slot; ``None`` if all slots give whole
            visits by turns, from the cycle's slot on.
        closed: the slots whose datasets were found at their end.
        stop: where the cycle then stands.
    """

    taken: np.ndarray
    order: np.ndarray | None
    closed: np.ndarray
    stop: int


_AT_ONCE = 64
"""Elements that are made of a dataset at once: one alone costs nearly as much, with many leaves."""

_FEW = 4
"""Elements for which planning a whole block of visits does not pay."""


class InterleaveStage(Stage):
    """``block_length`` elements by turns of each of ``cycle_length`` open datasets.

    Datasets that may be read ahead are visited a block at a time; otherwise nothing is read before
    its visit.
    """

    workers_may_wait = True

    def __init__(
        self,
        inner_datasets: InnerDatasets,
        cycle_length: int,
        block_length: int,
        spec: ElementSpec,
        label: str,
        allows_readahead: bool,
        pool: BufferPool,
    ):
        self.allows_readahead = allows_readahead and inner_datasets.source.allows_readahead
        self._inner_datasets = inner_datasets
        self.pool = inner_datasets.reading
        if self.pool is not None:
            self.pool.meter = _meter_of(weakref.ref(self))
        # Further slots, up to the cycle's length, come into being as the cycle reaches them.
        self._slots: list[OpenDataset | None] = [None]
        self._most_slots = cycle_length
        self._cycle = Cycle(1, block_length)
        self._spec = spec
        self._label = label
        self._pool = pool

    @property
    def workers(self) -> int:  # type: ignore[override]
        return 0 if self.pool is None else self.pool.width

    def next(self, limit: int) -> Block | None:
        while self._slots:
            slot = self._slots[self._cycle.slot]
            if slot is None:
                error = self._open(limit)
                if error is not None:
                    return Block(stack([], self._spec), 0, error)
                continue
            block = self._visits(limit) if self._plans(limit) else self._visit(slot, limit)
            if block is not None:
                return block
        return None

    def _open(self, limit: int) -> Exception | None:
        """Fill the slot that is visited; once no dataset is left, remove the empty slots.

        Further empty slots are filled too, where no other slot can come before them.
        """
        visits = limit // self._cycle.length
        if self.allows_readahead:
            self._inner_datasets.gather(limit)
        opened = self._inner_datasets.next()
        if isinstance(opened, Exception):
            return opened
        if opened is not None:
            first = self._cycle.slot
            self._slots[first] = opened
            for slot in range(first + 1, first + min(self._empty_after(first), visits - 1) + 1):
                following = self._inner_datasets.next_opened() if self.allows_readahead else None
                if following is None:
                    return None
                self._slots[slot] = following
            if self._slots[-1] is not None:
                self._extend(visits)
            return None
        before = sum(slot is not None for slot in self._slots[: self._cycle.slot])
        self._slots = [slot for slot in self._slots if slot is not None]
        self._cycle.slots = len(self._slots)
        self._cycle.slot = before % max(1, len(self._slots))
        return None

    def _empty_after(self, slot: int) -> int:
        """Return how many slots right behind one are empty."""
        following = self._slots[slot + 1 :]
        taken = (i for i, opened in enumerate(following) if opened is not None)
        return next(taken, len(following))

    def _extend(self, datasets: int) -> None:
        """Continue with slots that were never visited, and open ``datasets`` at once.

        The cycle does not return to other slots before the end of these.
        """
        while len(self._slots) < self._most_slots:
            self._slots.append(None)
            self._cycle.slots += 1
            datasets -= 1
            opened = (
                self._inner_datasets.next_opened()
                if self.allows_readahead and datasets > 0
                else None
            )
            if opened is None:
                return
            self._slots[-1] = opened

    def _plans(self, limit: int) -> bool:
        return (
            len(self._slots) > 1
            and limit > max(_FEW, self._cycle.length)
            and all(slot is None or slot.allows_readahead for slot in self._slots)
        )

    def _visit(self, slot: OpenDataset, limit: int) -> Block | None:
        """Return what one visit takes; ``None`` if it finds the dataset at its end."""
        block = slot.peek(min(limit, self._cycle.length - self._cycle.used), limit)
        if block is None:
            slot.elements.stage.close()
            self._slots[self._cycle.slot] = None
            self._cycle.leave()
            return None
        slot.elements.commit(block.events)
        self._cycle.take(block.events)
        return block

    def _visits(self, limit: int) -> Block | None:
        """Return what many visits take, up to one that opens a dataset or lacks information."""
        ahead = self._ahead(limit)
        at_once = max(ahead, _AT_ONCE)
        blocks = [None if slot is None else slot.peek(ahead, at_once) for slot in self._slots]
        found = [block for block in blocks if block is not None and block.n]
        if not all(found[0].same_shapes(block) for block in found[1:]):
            slot = self._slots[self._cycle.slot]
            assert slot is not None
            return self._visit(slot, limit)
        known = [
            None if slot is None else 0 if block is None else block.events
            for slot, block in zip(self._slots, blocks, strict=True)
        ]
        failing = any(block is not None and block.error is not None for block in blocks)
        if failing:
            limit = self._until_error(blocks, known, limit)
        schedule = self._cycle.schedule(known, limit, not self._inner_datasets.exhausted, failing)
        block = self._taken(blocks, schedule)
        self._apply(schedule)
        return block if block.events else None

    def _ahead(self, limit: int) -> int:
        """Return how many elements of each dataset to ask for, in whole visits."""
        opened = sum(slot is not None for slot in self._slots)
        return max(1, limit // (opened * self._cycle.length)) * self._cycle.length

    def _until_error(
        self, blocks: Sequence[Block | None], known: Sequence[int | None], limit: int
    ) -> int:
        """Return the number of positions up to and with the first error; at most ``limit``.

        An error is the last position of its block, so the first one follows from trying fewer.
        """
        fine, failing = 0, limit
        while failing - fine > 1:
            middle = (fine + failing) // 2
            taken = self._cycle.schedule(known, middle, not self._inner_datasets.exhausted).taken
            failed = sum(
                block is not None and block.error is not None and count == block.events
                for block, count in zip(blocks, taken, strict=True)
            )
            fine, failing = (fine, middle) if failed else (middle, failing)
        return failing

    def _taken(self, blocks: Sequence[Block | None], schedule: Schedule) -> Block:
        parts: list[list[np.ndarray]] = []
        error: Exception | None = None
        order = schedule.order
        start = 0
        for block, count in zip(blocks, schedule.taken.tolist(), strict=True):
            if block is None or not count:
                continue
            part = block.slice(0, count)
            if part.error is not None and order is not None:
                error = part.error
                order = _without(order, start + part.n)
            if part.n:
                parts.append(list(part.columns))
            start += count
        if not parts:
            return Block(stack([], self._spec), 0, error)
        if order is None:
            parts = self._turned(blocks, parts)
        columns = [self._merged(pieces, order) for pieces in zip(*parts, strict=True)]
        return Block(columns, len(columns[0]), error)

    def _turned(
        self, blocks: Sequence[Block | None], parts: list[list[np.ndarray]]
    ) -> list[list[np.ndarray]]:
        """Return the parts from that of the visited slot on."""
        start = sum(block is not None for block in blocks[: self._cycle.slot])
        return parts[start:] + parts[:start]

    def _merged(self, pieces: Sequence[np.ndarray], order: np.ndarray | None) -> np.ndarray:
        if order is not None:
            whole = np.concatenate(pieces)
            out = whole[order]
        else:
            length = self._cycle.length
            rounds, shape = len(pieces[0]) // length, pieces[0].shape[1:]
            whole = self._pool.empty((rounds, len(pieces), length, *shape), pieces[0].dtype)
            for slot, piece in enumerate(pieces):
                whole[:, slot] = piece.reshape(rounds, length, *shape)
            out = whole.reshape(rounds * len(pieces) * length, *shape)
        out.flags.writeable = False
        return out

    def _apply(self, schedule: Schedule) -> None:
        for i, count in enumerate(schedule.taken.tolist()):
            slot = self._slots[i]
            if slot is None:
                continue
            slot.elements.commit(count)
            if schedule.closed[i]:
                slot.elements.stage.close()
                self._slots[i] = None
        self._cycle.move(schedule.stop)

    def state(self) -> State:
        return {
            "slot": self._cycle.slot,
            "used": self._cycle.used,
            "datasets": self._inner_datasets.state(self._slots),
        }

    def restore(self, state: State) -> None:
        self._slots = self._inner_datasets.restore(state["datasets"])
        self._cycle.slots = len(self._slots)
        self._cycle.slot, self._cycle.used = state["slot"], state["used"]

    def most_nbytes(self) -> int | None:
        return self._inner_datasets.most_nbytes(self._most_slots, self._spec.row_nbytes())

    def held_nbytes(self) -> int:
        return self._inner_datasets.held_nbytes(self._slots)

    def inputs(self) -> Sequence[Stage]:
        return [self._inner_datasets.source]

    def describe(self) -> str:
        return (
            f"{self._most_slots} by turns of {self._label}, {self._cycle.length} elements at a time"
            f"{'' if self.pool is None else f', {self.pool.describe()}'}"
        )

    def close(self) -> None:
        for slot in self._slots:
            if slot is not None:
                slot.elements.stage.close()
        self._inner_datasets.close()


def _meter_of(held: weakref.ref[InterleaveStage]) -> Callable[[], Meter | None]:
    """Return what finds the stage's meter without keeping the stage alive."""

    def meter() -> Meter | None:
        stage = held()
        return None if stage is None else stage.meter

    return meter


def _without(order: np.ndarray, position: int) -> np.ndarray:
    """Return the order without the position of an error, which has no row."""
    kept = order[order != position]
    return np.where(kept > position, kept - 1, kept)


def lower_flat_map(lowering: Lowering, node: FlatMap, trail: Trail, run: Pass) -> Stage:
    inner_datasets = _inner_datasets(lowering, node, trail, run)
    return FlatMapStage(inner_datasets, node.spec, _label(node), node.function.allows_readahead)


def lower_interleave(lowering: Lowering, node: Interleave, trail: Trail, run: Pass) -> Stage:
    ahead = min(node.cycle_length if node.workers == AUTOTUNE else node.workers, MOST_THREADS)
    return InterleaveStage(
        _inner_datasets(lowering, node, trail, run, ahead, lowering.runtime.reading(node)),
        node.cycle_length,
        node.block_length,
        node.spec,
        _label(node),
        node.function.allows_readahead,
        lowering.pool,
    )


def _inner_datasets(
    lowering: Lowering,
    node: Nested,
    trail: Trail,
    run: Pass,
    ahead: int = 0,
    reading: ReadLimiter | None = None,
) -> InnerDatasets:
    source = lowering.input(node, trail, run)
    return InnerDatasets(
        source, node.input.spec, node.function, opener(lowering), run, ahead, reading
    )


def _label(node: Nested) -> str:
    return f"the datasets that {node.function.label} makes, called as Python"
