"""The inner datasets of a stage, opened one after the other."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from drumline.data.execute.at_hand import at_hand
from drumline.data.execute.block import Block
from drumline.data.execute.cache_stages import ReplayStage
from drumline.data.execute.carry import Carry
from drumline.data.execute.elements import splitter
from drumline.data.execute.prefetch_stage import PrefetchStage
from drumline.data.execute.ramp import TARGET_BYTES
from drumline.data.execute.reading import Reading
from drumline.data.execute.stage import Stage, StartsEarly, State
from drumline.data.execute.together import computes, prepare, short_length
from drumline.data.operations.cache import Cache
from drumline.data.operations.order import Shard
from drumline.data.plan.node import Node
from drumline.data.rewrite.shard_hints import resolve_shard_hints
from drumline.data.spec import ElementSpec

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


Open = Callable[[Node, Sequence[int], list[bool] | None], tuple[Stage, list[bool]]]
"""Starts a plan in the given epoch and pass; returns also which caches it serves elements from,
and takes these to start it once more."""

_MOST_AT_ONCE = 64

_MANY = 1024
_NBYTES = 1 << 20


@dataclasses.dataclass(eq=False)
class Opened:
    """A dataset that was opened.

    Attributes:
        number: the position of the outer element it was made for.
        before: the outer dataset's state right before that element.
        elements: the dataset's stage, and what was pulled from it and not used.
        caches: which of its caches it serves elements from.
    """

    number: int
    before: State
    elements: Carry
    caches: list[bool]

    @property
    def eager(self) -> bool:
        """Whether it may be read ahead."""
        return self.elements.stage.eager

    def peek(self, limit: int, ahead: int) -> Block | None:
        """Up to ``limit`` positions; a new block is asked for ``ahead`` of them if it may be."""
        if ahead > limit and self.eager and not self.elements.events:
            self.elements.peek(ahead)
        return self.elements.peek(limit)


class Openings:
    """Makes and opens the dataset of each outer element in turn.

    Args:
        source: the outer dataset.
        spec: of its elements.
        function: makes the plan for an element and its place.
        open_: starts it.
        run: the epoch, and the pass of each ``repeat`` around.
        ahead: how many datasets are opened before it is their turn, or what says it then.
        reading: if given, each dataset is read by a thread, when this allows it.
        each_nbytes: how many bytes an open dataset holds beside what is read ahead of it; ``None``
            if that is not known.

    Attributes:
        ended: whether there is no further outer element.
        reading: as given.
    """

    def __init__(
        self,
        source: Stage,
        spec: ElementSpec,
        function: Callable[[Any, Sequence[int]], Node],
        open_: Open,
        run: Sequence[int],
        ahead: int | Callable[[], int] = 0,
        reading: Reading | None = None,
        each_nbytes: int | None = 0,
    ):
        self._each_nbytes = each_nbytes
        self.source = source
        self.ended = False
        self._carry = Carry(source)
        self._split = splitter(spec.structure)
        self._function = function
        self._open = open_
        self._run = tuple(run)
        self._ahead = ahead if callable(ahead) else lambda: ahead
        self.reading = reading
        self._ready: deque[Opened | Exception] = deque()
        self._before: deque[tuple[int, State]] = deque()
        self._items: deque[Any] = deque()
        self._number = 0
        self._want = 1
        self._together = 1

    def next(self) -> Opened | Exception | None:
        """The next dataset, or the error in its place; ``None`` at the end."""
        self._prepare()
        if not self._ready:
            return None
        self._before.popleft()
        return self._ready.popleft()

    def next_opened(self) -> Opened | None:
        """The next dataset; ``None`` where ``next`` gives an error or nothing."""
        self._prepare()
        if not (self._ready and isinstance(self._ready[0], Opened)):
            return None
        self._before.popleft()
        opened = self._ready.popleft()
        assert isinstance(opened, Opened)
        return opened

    def gather(self, positions: int) -> None:
        """Opens as many short datasets as have so many elements together, and computes these.

        To be called where their elements may be read ahead. Where they share a program, which
        costs as much for few elements as for many, it goes on to twice as many datasets as the
        time before.
        """
        if self._ready or self.reading is not None:
            return
        short: list[Stage] = []
        while len(short) < _MOST_AT_ONCE and self._advance():
            item = self._ready[-1]
            length = short_length(item.elements.stage) if isinstance(item, Opened) else None
            if length is None or not isinstance(item, Opened):
                break
            short.append(item.elements.stage)
            positions -= length
            if positions <= 0 and (len(short) >= self._together or not computes(short[-1])):
                break
        prepare(short)
        self._together = min(2 * self._together, _MOST_AT_ONCE)

    def _prepare(self) -> None:
        while len(self._ready) <= self._ahead() and self._advance():
            continue

    def _advance(self) -> bool:
        """Opens one more dataset before it is its turn; false at the end."""
        if self.ended:
            return False
        before = (self._number, self._carry.state())
        item = self._next()
        if item is None:
            self.ended = True
            return False
        self._before.append(before)
        self._ready.append(item)
        return True

    @property
    def exhausted(self) -> bool:
        """Whether ``next`` has no more to give."""
        return self.ended and not self._ready

    def _next(self) -> Opened | Exception | None:
        number, before = self._number, self._carry.state()
        item = self._element()
        if item is None or isinstance(item, Exception):
            return item
        try:
            opened = self._opened(number, before, item[0], None)
        except Exception as error:
            return error
        if isinstance(opened.elements.stage, StartsEarly):
            opened.elements.stage.start()
        return opened

    def _opened(
        self, number: int, before: State, element: Any, caches: list[bool] | None
    ) -> Opened:
        place = (*self._run, number)
        plan = self._function(element, place)
        stage, served = self._open(plan, place, caches)
        if self.reading is not None and not isinstance(stage, ReplayStage):
            row_nbytes = plan.spec.row_nbytes()
            stage = PrefetchStage(
                stage, _room(plan.spec, self.reading.nbytes), row_nbytes, reading=self.reading
            )
        return Opened(number, before, Carry(stage), served)

    def _element(self) -> tuple[Any] | Exception | None:
        """The next outer element, in a tuple to tell it from an error."""
        if not self._items:
            block = self._carry.peek(self._wanted())
            if block is None:
                return None
            for column in block.columns:
                column.flags.writeable = False
            self._items.extend((item,) for item in self._split(block.columns)[: block.n])
            if block.error is not None:
                self._items.append(block.error)
        self._carry.commit(1)
        self._number += 1
        item: tuple[Any] | Exception = self._items.popleft()
        return item

    def _wanted(self) -> int:
        if not self.source.eager:
            return 1
        self._want = min(2 * self._want, _MOST_AT_ONCE)
        return max(self._want // 2, self.source.granule)

    def most_nbytes(self, slots: int, row_nbytes: int) -> int | None:
        """How many bytes so many open datasets of such elements hold, and those to follow."""
        if self.reading is None:
            return None if self._each_nbytes is None else slots * self._each_nbytes
        # What is ready, and the block of it that was taken last.
        planned = max(self.reading.nbytes, 2 * row_nbytes)
        each = planned + min(planned, max(TARGET_BYTES, row_nbytes))
        return (slots + self._ahead() + 1) * each

    def held_nbytes(self, slots: Sequence[Opened | None]) -> int:
        """How many bytes the datasets in the slots hold, and those to follow."""
        opened = [item for item in (*slots, *self._ready) if isinstance(item, Opened)]
        return sum(item.elements.stage.held_nbytes() or 0 for item in opened)

    def state(self, slots: Sequence[Opened | None]) -> State:
        """The position, with those of the datasets that are open."""
        now = self._before[0] if self._before else (self._number, self._carry.state())
        opened = [slot for slot in slots if slot is not None]
        oldest = min(((slot.number, slot.before) for slot in opened), default=now, key=_first)
        return {
            "from": oldest[0],
            "at": oldest[1],
            "to": now[0],
            "open": [None if slot is None else _state_of(slot) for slot in slots],
        }

    def restore(self, state: State) -> list[Opened | None]:
        """Reads the outer dataset again from the oldest that is open; returns those open."""
        self._carry.restore(state["at"])
        self._number = state["from"]
        wanted = {saved["number"]: saved for saved in state["open"] if saved is not None}
        found: dict[int, Opened] = {}
        while self._number < state["to"]:
            number, before = self._number, self._carry.state()
            item = self._element()
            if item is None:
                raise ValueError(
                    f"the state was taken after element {state['to'] - 1} of the outer dataset, "
                    f"which now has {number}: its source is not what it was"
                )
            if number in wanted and isinstance(item, tuple):
                saved = wanted[number]
                found[number] = self._opened(number, before, item[0], saved["caches"])
                found[number].elements.restore(saved["elements"])
        return [None if saved is None else found[saved["number"]] for saved in state["open"]]

    def close(self) -> None:
        """Closes the outer dataset and those opened ahead."""
        if self.reading is not None:
            self.reading.close()
        for item in self._ready:
            if isinstance(item, Opened):
                item.elements.stage.close()
        self.source.close()


def _room(spec: ElementSpec, nbytes: int) -> int | None:
    """How many elements of each dataset to read ahead; as many bytes' worth if sizes vary."""
    if any(leaf.nbytes is None for leaf in spec.leaves):
        return None
    return max(2, min(_MANY, min(_NBYTES, nbytes) // spec.row_nbytes()))


def _first(pair: tuple[int, State]) -> int:
    return pair[0]


def _state_of(slot: Opened) -> State:
    return {"number": slot.number, "caches": slot.caches, "elements": slot.elements.state()}


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
