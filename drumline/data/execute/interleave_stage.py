"""The elements of several inner datasets by turns."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.cycle import Cycle, Schedule
from drumline.data.execute.openings import Opened, Openings
from drumline.data.execute.pool import BufferPool
from drumline.data.execute.stage import Stage, State
from drumline.data.observe.meter import Meter
from drumline.data.rows import stack
from drumline.data.spec import ElementSpec

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
        openings: Openings,
        cycle_length: int,
        block_length: int,
        spec: ElementSpec,
        label: str,
        eager: bool,
        pool: BufferPool,
    ):
        self.eager = eager and openings.source.eager
        self._openings = openings
        self.pool = openings.reading
        if self.pool is not None:
            self.pool.meter = _meter_of(weakref.ref(self))
        # Further slots, up to the cycle's length, come into being as the cycle reaches them.
        self._slots: list[Opened | None] = [None]
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
        """Fills the slot that is visited; once no dataset is left, removes the empty slots.

        Slots that are empty as well are filled too, as far as no other can come before.
        """
        visits = limit // self._cycle.length
        if self.eager:
            self._openings.gather(limit)
        opened = self._openings.next()
        if isinstance(opened, Exception):
            return opened
        if opened is not None:
            first = self._cycle.slot
            self._slots[first] = opened
            for slot in range(first + 1, first + min(self._empty_after(first), visits - 1) + 1):
                following = self._openings.next_opened() if self.eager else None
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
        """How many slots right behind one are empty."""
        following = self._slots[slot + 1 :]
        taken = (i for i, opened in enumerate(following) if opened is not None)
        return next(taken, len(following))

    def _extend(self, datasets: int) -> None:
        """Goes on to slots that were never visited; as the cycle does not return before it comes
        to their end, so many ``datasets`` can be opened at once."""
        while len(self._slots) < self._most_slots:
            self._slots.append(None)
            self._cycle.slots += 1
            datasets -= 1
            opened = self._openings.next_opened() if self.eager and datasets > 0 else None
            if opened is None:
                return
            self._slots[-1] = opened

    def _plans(self, limit: int) -> bool:
        return (
            len(self._slots) > 1
            and limit > max(_FEW, self._cycle.length)
            and all(slot is None or slot.eager for slot in self._slots)
        )

    def _visit(self, slot: Opened, limit: int) -> Block | None:
        """What one visit takes; ``None`` if it finds the dataset at its end."""
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
        """What many visits take, up to the first that opens a dataset or needs to know more."""
        ahead = self._ahead(limit)
        blocks = [None if slot is None else slot.elements.peek(ahead) for slot in self._slots]
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
        schedule = self._cycle.schedule(known, limit, not self._openings.exhausted, failing)
        block = self._taken(blocks, schedule)
        self._apply(schedule)
        return block if block.events else None

    def _ahead(self, limit: int) -> int:
        """How many elements of each dataset to ask for, in whole visits."""
        opened = sum(slot is not None for slot in self._slots)
        return max(1, limit // (opened * self._cycle.length)) * self._cycle.length

    def _until_error(
        self, blocks: Sequence[Block | None], known: Sequence[int | None], limit: int
    ) -> int:
        """How many positions there are up to the first error, itself included; at most ``limit``.

        An error is the last position of its block, so the first one follows from trying fewer.
        """
        fine, failing = 0, limit
        while failing - fine > 1:
            middle = (fine + failing) // 2
            taken = self._cycle.schedule(known, middle, not self._openings.exhausted).taken
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
        """The parts from that of the visited slot on."""
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
            "datasets": self._openings.state(self._slots),
        }

    def restore(self, state: State) -> None:
        self._slots = self._openings.restore(state["datasets"])
        self._cycle.slots = len(self._slots)
        self._cycle.slot, self._cycle.used = state["slot"], state["used"]

    def most_nbytes(self) -> int | None:
        return self._openings.most_nbytes(self._most_slots, self._spec.row_nbytes())

    def held_nbytes(self) -> int:
        return self._openings.held_nbytes(self._slots)

    def inputs(self) -> Sequence[Stage]:
        return [self._openings.source]

    def describe(self) -> str:
        return (
            f"{self._most_slots} by turns of {self._label}, {self._cycle.length} elements at a time"
            f"{'' if self.pool is None else f', {self.pool.describe()}'}"
        )

    def close(self) -> None:
        for slot in self._slots:
            if slot is not None:
                slot.elements.stage.close()
        self._openings.close()


def _meter_of(held: weakref.ref[InterleaveStage]) -> Callable[[], Meter | None]:
    """What finds the stage's meter without keeping the stage alive."""

    def meter() -> Meter | None:
        stage = held()
        return None if stage is None else stage.meter

    return meter


def _without(order: np.ndarray, position: int) -> np.ndarray:
    """The order without the position of an error, which has no row."""
    kept = order[order != position]
    return np.where(kept > position, kept - 1, kept)
