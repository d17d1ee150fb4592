"""The inner datasets of a stage, opened in order, and short ones computed together.

A compiled function runs on blocks of one length, and to call it costs as much for three elements as
for a thousand. So datasets that a user's function makes of neighbouring outer elements have theirs
computed by one call, where they were found to be of the same functions.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drumline.data.elements.block import Block, concat, splitter
from drumline.data.elements.rows import stack
from drumline.data.elements.spec import ElementSpec
from drumline.data.functions.lifted import called_together
from drumline.data.operations.batch import Batch
from drumline.data.operations.cache import Cache, ReplayStage
from drumline.data.operations.filter import Predicate
from drumline.data.operations.map import Mapped
from drumline.data.operations.ordering.order import Shard, SourceStage, resolve_shard_hints
from drumline.data.operations.prefetch import PrefetchStage
from drumline.data.operations.reading.sources import Slices
from drumline.data.plan.node import Node
from drumline.data.runtime.stage import (
    TARGET_BYTES,
    PushbackBuffer,
    RandomAccessSource,
    Stage,
    StartsEarly,
    State,
)
from drumline.data.runtime.threads import ReadLimiter

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering

SHORT = 512
"""Elements up to which a dataset is short."""


def short_length(stage: Stage) -> int | None:
    """Return how many elements a stage reads that can be computed together with others'.

    ``None`` if it does not read a few that are available by position.
    """
    walk, _ = _parts(stage)
    return None if walk is None or walk.indexed.length > SHORT else walk.indexed.length


def computes(stage: Stage) -> bool:
    """Return whether a function is called for the elements that a stage reads."""
    walk, predicate = _parts(stage)
    return predicate is not None or (walk is not None and _maps(walk))


def prepare(stages: Sequence[Stage]) -> None:
    """Compute elements of fresh stages together, where neighbours run the same functions."""
    parts = [_parts(stage) for stage in stages]
    found = [(walk, predicate) for walk, predicate in parts if walk is not None]
    if len(found) < 2 or len(found) < len(parts):
        return
    walks = [walk for walk, _ in found]
    predicates = [predicate for _, predicate in found if predicate is not None]
    if not (_maps(walks[0]) or predicates):
        return
    rows = _elements(walks)
    if rows is None:
        return
    for walk, block in zip(walks, rows, strict=True):
        walk.prepared = block
    if len(predicates) == len(walks):
        verdicts = called_together([predicate.function for predicate in predicates], rows)
        for predicate, verdict in zip(predicates, verdicts or (), strict=False):
            predicate.prepared = verdict


def _parts(stage: Stage) -> tuple[SourceStage | None, Predicate | None]:
    """Return the source stage below a stage, and the predicate on its elements."""
    predicate: Predicate | None = None
    while not isinstance(stage, SourceStage):
        inputs = stage.inputs()
        if len(inputs) != 1:
            return None, None
        predicate = stage if isinstance(stage, Predicate) else None
        (stage,) = inputs
    return stage, predicate


def _maps(walk: SourceStage) -> bool:
    return bool(walk.functions) or isinstance(walk.indexed, Mapped)


def _elements(walks: Sequence[SourceStage]) -> list[Block] | None:
    """Return all elements of each source, if none of them is an error."""
    rows = _rows([walk.indexed for walk in walks])
    if len({len(walk.functions) for walk in walks}) > 1:
        return None
    for functions in zip(*(walk.functions for walk in walks), strict=True):
        rows = rows and called_together(functions, rows)
    return rows


def _rows(parts: Sequence[RandomAccessSource]) -> list[Block] | None:
    mapped = [part for part in parts if type(part) is Mapped]
    if len(mapped) == len(parts):
        inner = _rows([part.inner for part in mapped])
        return inner and called_together([part.function for part in mapped], inner)
    blocks = [part.rows(range(part.length)) for part in parts]
    whole = all(block.n == part.length for block, part in zip(blocks, parts, strict=True))
    return blocks if whole and not any(block.error for block in blocks) else None


def at_hand(plan: Node) -> Block | None:
    """Return all elements of a plan as one block of views, ``None`` if they have to be made.

    The datasets that functions make of windows are of these kinds mostly; starting stages for a
    few rows would cost more than the rows.
    """
    if isinstance(plan, Slices):
        return _views(plan)
    # Batches that pad, or that are ragged, are subclasses.
    if type(plan) is not Batch:
        return None
    rows = at_hand(plan.input)
    if rows is None or not 0 < rows.n <= plan.size or (plan.drop_remainder and rows.n < plan.size):
        return None
    return Block([column[None] for column in rows.columns], 1)


def _views(plan: Slices) -> Block | None:
    if not all(isinstance(column, np.ndarray) for column in plan.columns):
        return None
    columns = [column[:] for column in plan.columns]
    for column in columns:
        column.flags.writeable = False
    return Block(columns, plan.length)


Open = Callable[[Node, Sequence[int], list[bool] | None], tuple[Stage, list[bool]]]
"""Starts a plan in the given epoch and pass; returns also which caches it serves elements from,
and takes these to start it once more."""

_MOST_AT_ONCE = 64

_MANY = 1024
_NBYTES_AHEAD = 1 << 20


@dataclasses.dataclass(eq=False)
class OpenDataset:
    """A dataset that was opened.

    Attributes:
        number: the position of the outer element it was made for.
        before: the outer dataset's state right before that element.
        elements: the dataset's stage, and what was pulled from it and not used.
        caches: which of its caches it serves elements from.
    """

    number: int
    before: State
    elements: PushbackBuffer
    caches: list[bool]

    @property
    def allows_readahead(self) -> bool:
        """Whether it may be read ahead."""
        return self.elements.stage.allows_readahead

    def peek(self, limit: int, ahead: int) -> Block | None:
        """Return up to ``limit`` positions; a new block has ``ahead`` if read-ahead is allowed."""
        if ahead > limit and self.allows_readahead and not self.elements.events:
            self.elements.peek(ahead)
        return self.elements.peek(limit)


class InnerDatasets:
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
        reading: ReadLimiter | None = None,
        each_nbytes: int | None = 0,
    ):
        self._each_nbytes = each_nbytes
        self.source = source
        self.ended = False
        self._pushback = PushbackBuffer(source)
        self._split = splitter(spec.structure)
        self._function = function
        self._open = open_
        self._run = tuple(run)
        self._ahead = ahead if callable(ahead) else lambda: ahead
        self.reading = reading
        self._ready: deque[OpenDataset | Exception] = deque()
        self._before: deque[tuple[int, State]] = deque()
        self._items: deque[Any] = deque()
        self._number = 0
        self._want = 1
        self._together = 1

    def next(self) -> OpenDataset | Exception | None:
        """Return the next dataset, or the error in its place; ``None`` at the end."""
        self._prepare()
        if not self._ready:
            return None
        self._before.popleft()
        return self._ready.popleft()

    def next_opened(self) -> OpenDataset | None:
        """Return the next dataset; ``None`` where ``next`` gives an error or nothing."""
        self._prepare()
        if not (self._ready and isinstance(self._ready[0], OpenDataset)):
            return None
        self._before.popleft()
        opened = self._ready.popleft()
        assert isinstance(opened, OpenDataset)
        return opened

    def gather(self, positions: int) -> None:
        """Open short datasets of so many elements together, and compute these.

        To be called where their elements may be read ahead. Where they share a program, which
        costs as much for few elements as for many, it opens twice as many datasets as the time
        before.
        """
        if self._ready or self.reading is not None:
            return
        short: list[Stage] = []
        while len(short) < _MOST_AT_ONCE and self._advance():
            item = self._ready[-1]
            length = short_length(item.elements.stage) if isinstance(item, OpenDataset) else None
            if length is None or not isinstance(item, OpenDataset):
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
        """Open one more dataset before it is its turn; false at the end."""
        if self.ended:
            return False
        before = (self._number, self._pushback.state())
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

    def _next(self) -> OpenDataset | Exception | None:
        number, before = self._number, self._pushback.state()
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
    ) -> OpenDataset:
        place = (*self._run, number)
        plan = self._function(element, place)
        stage, served = self._open(plan, place, caches)
        if self.reading is not None and not isinstance(stage, ReplayStage):
            row_nbytes = plan.spec.row_nbytes()
            stage = PrefetchStage(
                stage, _room(plan.spec, self.reading.nbytes), row_nbytes, reading=self.reading
            )
        return OpenDataset(number, before, PushbackBuffer(stage), served)

    def _element(self) -> tuple[Any] | Exception | None:
        """Return the next outer element, in a tuple to tell it from an error."""
        if not self._items:
            block = self._pushback.peek(self._wanted())
            if block is None:
                return None
            for column in block.columns:
                column.flags.writeable = False
            self._items.extend((item,) for item in self._split(block.columns)[: block.n])
            if block.error is not None:
                self._items.append(block.error)
        self._pushback.commit(1)
        self._number += 1
        item: tuple[Any] | Exception = self._items.popleft()
        return item

    def _wanted(self) -> int:
        if not self.source.allows_readahead:
            return 1
        self._want = min(2 * self._want, _MOST_AT_ONCE)
        return max(self._want // 2, self.source.preferred_block_size)

    def most_nbytes(self, slots: int, row_nbytes: int) -> int | None:
        """Return how many bytes the open datasets hold, in ``slots``, and those opened ahead."""
        if self.reading is None:
            return None if self._each_nbytes is None else slots * self._each_nbytes
        # What is ready, and the block of it that was taken last.
        planned = max(self.reading.nbytes, 2 * row_nbytes)
        each = planned + min(planned, max(TARGET_BYTES, row_nbytes))
        return (slots + self._ahead() + 1) * each

    def held_nbytes(self, slots: Sequence[OpenDataset | None]) -> int:
        """Return how many bytes the datasets in the slots hold, and those to follow."""
        opened = [item for item in (*slots, *self._ready) if isinstance(item, OpenDataset)]
        return sum(item.elements.stage.held_nbytes() or 0 for item in opened)

    def state(self, slots: Sequence[OpenDataset | None]) -> State:
        """Return the position, with those of the datasets that are open."""
        now = self._before[0] if self._before else (self._number, self._pushback.state())
        opened = [slot for slot in slots if slot is not None]
        oldest = min(((slot.number, slot.before) for slot in opened), default=now, key=_first)
        return {
            "from": oldest[0],
            "at": oldest[1],
            "to": now[0],
            "open": [None if slot is None else _state_of(slot) for slot in slots],
        }

    def restore(self, state: State) -> list[OpenDataset | None]:
        """Read the outer dataset again from the oldest that is open; return those open."""
        self._pushback.restore(state["at"])
        self._number = state["from"]
        wanted = {saved["number"]: saved for saved in state["open"] if saved is not None}
        found: dict[int, OpenDataset] = {}
        while self._number < state["to"]:
            number, before = self._number, self._pushback.state()
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
        """Close the outer dataset and those opened ahead."""
        if self.reading is not None:
            self.reading.close()
        for item in self._ready:
            if isinstance(item, OpenDataset):
                item.elements.stage.close()
        self.source.close()


def _room(spec: ElementSpec, nbytes: int) -> int | None:
    """Return how many elements of each dataset to read ahead; ``None`` if their sizes vary."""
    if any(leaf.nbytes is None for leaf in spec.leaves):
        return None
    return max(2, min(_MANY, min(_NBYTES_AHEAD, nbytes) // spec.row_nbytes()))


def _first(pair: tuple[int, State]) -> int:
    return pair[0]


def _state_of(slot: OpenDataset) -> State:
    return {"number": slot.number, "caches": slot.caches, "elements": slot.elements.state()}


def opener(lowering: Lowering, ragged: bool = False) -> Open:
    """Start plans that users' functions made; their blocks may be ``ragged`` only if so."""

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


_LARGE = 1 << 16
_MANY_ROWS = 512


def joined_runs(
    peek: Callable[[int], Block | None],
    use: Callable[[int], None],
    limit: int,
    spec: ElementSpec,
    patience: float = 0.002,
) -> Block | None:
    """Return up to ``limit`` positions of short runs, for as long as that takes little time.

    Args:
        peek: gives up to so many positions of what comes next; an error comes last, alone or
            after elements.
        use: marks so many positions of it as used.
        limit: how many positions are wanted.
        spec: of the elements.
        patience: how many seconds it may take, about.

    Returns:
        ``None`` at the end.
    """
    parts: list[Block] = []
    rows = 0
    deadline = time.perf_counter() + patience
    while rows < limit:
        part = peek(limit - rows)
        if part is None or (parts and part.n and not parts[-1].same_shapes(part)):
            break
        use(part.events)
        if part.n:
            parts.append(part)
            rows += part.n
        if part.error is not None:
            return _joined(parts, part.error, spec)
        if part.n >= _MANY_ROWS or _nbytes(part) > _LARGE or time.perf_counter() > deadline:
            break
    return _joined(parts, None, spec) if parts else None


def _joined(parts: list[Block], error: Exception | None, spec: ElementSpec) -> Block:
    if not parts:
        return Block(stack([], spec), 0, error)
    clean = [Block(part.columns, part.n) for part in parts]
    whole = concat(clean)
    return Block([column[: whole.n] for column in whole.columns], whole.n, error)


def _nbytes(block: Block) -> int:
    return sum(column.nbytes for column in block.columns)
