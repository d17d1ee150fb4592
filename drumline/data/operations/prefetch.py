"""``prefetch``, by a thread ahead of the consumer, and ``prefetch_to_device``."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from drumline._forks import finalize
from drumline._lazy import jax
from drumline.data.elements.block import UNBOUNDED, Block, estimated_nbytes
from drumline.data.elements.precision import require_fits
from drumline.data.elements.ragged import objects
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.operations.batch import Batch
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.runtime.stage import (
    TARGET_BYTES,
    BatchSizeController,
    RandomAccessSource,
    Stage,
    StartsEarly,
    State,
)
from drumline.data.runtime.threads import (
    ReadLimiter,
    interpreter_exiting,
    join_at_exit,
    stop_at_exit,
    wait_for,
)

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering

AUTO_BYTES = 8 << 20
"""How much an automatically sized buffer may hold: enough to hide a block's making, few enough
buffers that each stays warm."""

SLACK = 0.2
"""How long a prefetch with slack rests, as a share of the time between two requests."""


class PrefetchStage(StartsEarly):
    """A thread that buffers up to ``size`` elements of the input.

    Args:
        size: in elements; ``None`` leaves it to drumline.
        row_nbytes: estimated bytes of an element.
        automatic: finds the size of a buffer that is left to drumline; without it that holds
            ``AUTO_BYTES``.
        slack: whether the thread rests a little after an element was taken from a full buffer.
        reading: says when the thread may read.
        most_nbytes: what is ready may take so many bytes, however few elements that is; but one
            block is always made ahead.
        largest_nbytes: no element takes more bytes; ``None`` if that is not known.
    """

    threaded = True

    def __init__(
        self,
        source: Stage,
        size: int | None,
        row_nbytes: int,
        automatic: AutomaticRoom | None = None,
        slack: bool = False,
        reading: ReadLimiter | None = None,
        most_nbytes: int = UNBOUNDED,
        largest_nbytes: int | None = None,
    ):
        self.source = source
        self.size = size
        self._largest_nbytes = largest_nbytes
        self.allows_readahead = source.allows_readahead
        self.preferred_block_size = source.preferred_block_size
        first = AUTO_BYTES if automatic is None else min(AUTO_BYTES, automatic.most_nbytes)
        first = first if reading is None else min(first, reading.nbytes)
        room = size if size is not None else max(2, int(first // row_nbytes))
        self._producer = _Producer(source, room, row_nbytes, slack, automatic, reading, most_nbytes)
        self._producer.by_bytes = size is None
        self._current: Block | None = None
        self._current_state: State = {}
        self._used = 0
        # The thread refers to the producer only, so that a dropped iterator stops it.
        self._finalizer = finalize(self, self._producer.stop)
        self._finalizer.atexit = False

    @property
    def room(self) -> int:
        """How many elements may be ready."""
        return self._producer.room

    def start(self) -> None:
        """Begin to read ahead; the stage cannot be restored after that."""
        self._producer.start()

    def next(self, limit: int) -> Block | None:
        if self._current is None:
            entry = self._producer.get(limit)
            if entry is None:
                return None
            self._current_state, self._current = entry
            self._used = 0
        block, start = self._current, self._used
        stop = min(start + limit, block.events)
        self._used = stop
        if stop == block.events:
            self._current = None
        return block if start == 0 and stop == block.events else block.slice(start, stop)

    def state(self) -> State:
        if self._current is not None:
            return {"at": self._current_state, "used": self._used}
        return {"at": self._producer.next_state()}

    def restore(self, state: State) -> None:
        self.source.restore(state["at"])
        self._producer.position = self.source.state()
        self.advance(state.get("used", 0))

    def most_nbytes(self) -> int:
        # A room that is left to drumline is one of bytes, and shrinks where elements are larger.
        by_bytes = self._producer.by_bytes
        row_nbytes = int(self._producer.row_nbytes) if by_bytes else self._largest_nbytes
        if row_nbytes is None:
            return self._producer.most_nbytes + TARGET_BYTES
        planned = min(self._producer.most_nbytes, self.room * row_nbytes)
        return planned + max(TARGET_BYTES, row_nbytes)

    def held_nbytes(self) -> int:
        current = 0 if self._current is None else estimated_nbytes(self._current)
        return self._producer.nbytes + current

    def queue(self) -> tuple[int, int]:
        left = 0 if self._current is None else self._current.events - self._used
        return self._producer.held + left, self._producer.room

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        size = f"{self.room} (AUTOTUNE: at present)" if self.size is None else str(self.size)
        return f"prefetch {size} (one thread)"

    def close(self) -> None:
        self._finalizer.detach()
        self._producer.close()


class _Producer:
    def __init__(
        self,
        source: Stage,
        room: int,
        row_nbytes: int,
        slack: bool,
        automatic: AutomaticRoom | None,
        reading: ReadLimiter | None,
        most_nbytes: int,
    ):
        self.position = source.state()
        self._source = source
        self.room = room
        self._block_size = BatchSizeController(row_nbytes)
        self._ready: deque[tuple[State, Block, int]] = deque()
        self.held = 0
        self.most_nbytes = most_nbytes
        self.nbytes = 0
        self._ended = False
        self._failure: BaseException | None = None
        self._stopping = False
        self._left = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._slack = slack
        self._automatic = automatic
        self._reading = reading
        self.row_nbytes: float = row_nbytes
        self._taken_at = time.monotonic()
        self._rest_until = 0.0
        self.by_bytes = False

    def start(self) -> bool:
        """Start the thread, unless it runs; return false if the system allows no further one."""
        with self._changed:
            if self._thread is None and not self._stopping:
                if self._reading is not None and not self._reading.admit():
                    return False
                join_at_exit(self)
                stop_at_exit(self)
                if not self._stopping:
                    self._begin()
            return True

    def _begin(self) -> None:
        thread = threading.Thread(target=self._run, name="drumline-prefetch", daemon=True)
        thread.start()
        # Not before: at interpreter exit no further thread can be started.
        self._thread = thread

    def get(self, limit: int) -> tuple[State, Block] | None:
        """Return the next block, with the state before it; of up to ``limit`` without a thread."""
        with self._changed:
            if not self.start():
                return self._read_here(limit)
            if self._automatic is not None and not self._ended:
                self.room = self._automatic.next(self.room, self.held, self.row_nbytes)
            while not (self._ready or self._ended or self._failure or self._stopping):
                self._changed.wait()
            if self._ready:
                if self._slack:
                    self._rest()
                state, block, nbytes = self._ready.popleft()
                self.held -= block.events
                self.nbytes -= nbytes
                self._changed.notify_all()
                return state, block
            if self._failure is not None:
                raise self._failure
            return None

    def _read_here(self, limit: int) -> tuple[State, Block] | None:
        before, block = self.position, self._source.next(limit)
        self.position = self._source.state()
        return None if block is None else (before, block)

    def _rest(self) -> None:
        """Pause for the consumer, as long as that does not have to wait."""
        now = time.monotonic()
        if self.held >= self.room:
            self._rest_until = now + SLACK * (now - self._taken_at)
        self._taken_at = now

    def next_state(self) -> State:
        with self._changed:
            return self._ready[0][0] if self._ready else self.position

    def stop(self) -> None:
        """Ask the thread to end, without joining it: it may be in a user's slow function."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def request_stop(self) -> None:
        """Stop at interpreter exit, with an error, as the elements have not ended."""
        with self._changed:
            if not self._ended and self._failure is None:
                self._failure = interpreter_exiting()
            self.stop()

    def close(self) -> None:
        """``stop``, and closes the source: at once, or when the thread has left it."""
        with self._changed:
            self.stop()
            inside = self._thread is not None and not self._left
        if not inside:
            self._source.close()

    def join(self) -> None:
        """Wait for the thread, for at most as long as the exit of the interpreter requires."""
        if self._thread is not None:
            wait_for(self._thread)

    def _run(self) -> None:
        try:
            while (room := self._wait_for_room()) > 0:
                size = self._block_size.start(self._source.preferred_block_size)
                block = self._read(min(room, max(size, self._source.least_block_size)))
                self._block_size.stop()
                after = self._source.state()
                with self._changed:
                    if block is None:
                        break
                    nbytes = estimated_nbytes(block)
                    if self.by_bytes and block.n:
                        self._learn(nbytes / block.n)
                    self._ready.append((self.position, block, nbytes))
                    self.held += block.events
                    self.nbytes += nbytes
                    self.position = after
                    self._changed.notify_all()
        except BaseException as failure:
            with self._changed:
                self._failure = failure
                self._changed.notify_all()
        finally:
            with self._changed:
                self._ended = self._failure is None
                self._left = True
                if self._reading is not None:
                    self._reading.ends()
                stopped = self._stopping
                self._changed.notify_all()
            if stopped:
                self._source.close()

    def _read(self, limit: int) -> Block | None:
        if self._reading is None:
            return self._source.next(limit)
        return self._reading.read(self._source.next, limit)

    def _learn(self, row_nbytes: float) -> None:
        """Reduce the buffer when elements are larger than their spec says."""
        if row_nbytes > self.row_nbytes:
            self.room = max(2, int(self.room * self.row_nbytes / row_nbytes))
            self.row_nbytes = row_nbytes
            self._block_size.learn(row_nbytes)

    def _is_full(self) -> bool:
        # One block is always made ahead, however little memory there may be.
        return bool(self._ready) and (self.held >= self.room or self.nbytes >= self.most_nbytes)

    def _resting(self) -> float:
        return self._rest_until - time.monotonic()

    def _wait_for_room(self) -> int:
        with self._changed:
            while not self._stopping and self._is_full():
                self._changed.wait()
            while self._ready and not self._stopping and self._resting() > 0:
                self._changed.wait(self._resting())
            return 0 if self._stopping else self.room - self.held


class DeviceStage(Stage):
    """Starts the copies of elements' leaves; columns hold JAX arrays."""

    def __init__(self, source: Stage, device: Any):
        self.source = source
        self.device = device
        self.allows_readahead = source.allows_readahead

    def next(self, limit: int) -> Block | None:
        block = self.source.next(1)
        if block is None:
            return None
        columns = [self._placed(column) for column in block.columns]
        return Block(columns, block.n, block.error)

    def _placed(self, column: np.ndarray) -> np.ndarray:
        column.flags.writeable = False
        for row in column:
            require_fits(row, "An element of prefetch_to_device", "switch on `jax_enable_x64`")
        return objects([jax.device_put(np.asarray(row), self.device) for row in column])

    def state(self) -> State:
        return {"input": self.source.state()}

    def restore(self, state: State) -> None:
        self.source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"copy to {self.device}"


@dataclasses.dataclass(frozen=True, eq=False)
class PrefetchToDevice(Node):
    """Elements copied to a device, ``size`` of them ahead; the last operation of a plan.

    Attributes:
        device: a ``jax.Device`` or ``jax.sharding.Sharding``.
        size: how many elements are on their way at most.
    """

    device: Any
    size: int
    name: ClassVar[str] = "prefetch_to_device"
    is_last: ClassVar[bool] = True

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        narrowed = jax.dtypes.canonicalize_dtype
        return inner.with_leaves(
            [TensorSpec(leaf.shape, narrowed(leaf.dtype), leaf.name) for leaf in inner.leaves]
        )

    def arguments(self) -> str:
        return f"{self.device}, buffer_size={self.size}"


@dataclasses.dataclass(frozen=True, eq=False)
class Prefetch(Node):
    """Up to ``size`` elements made ahead; ``None`` leaves the size to drumline."""

    size: int | None
    name: ClassVar[str] = "prefetch"

    def arguments(self) -> str:
        return "AUTOTUNE" if self.size is None else str(self.size)


def locate_prefetch(
    lowering: Lowering, node: Prefetch, trail: Trail, run: Pass
) -> RandomAccessSource | None:
    return lowering.indexed_input(node, trail, run)


def lower_prefetch_to_device(
    lowering: Lowering, node: PrefetchToDevice, trail: Trail, run: Pass
) -> Stage:
    source = DeviceStage(lowering.input(node, trail, run), node.device)
    return PrefetchStage(source, node.size, node.spec.row_nbytes())


def lower_prefetch(lowering: Lowering, node: Prefetch, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run, ragged=True)
    room = lowering.runtime.room(lowering.root) if node.size is None else None
    slack = bool(lowering.runtime.options.experimental_slack) and not trail
    row_nbytes, most = node.spec.row_nbytes(), lowering.runtime.nbytes // 2
    largest = _largest_nbytes(node.input)
    return PrefetchStage(source, node.size, row_nbytes, room, slack, None, most, largest)


def _largest_nbytes(node: Node) -> int | None:
    """Return what no element of a node is larger than, in bytes."""
    if type(node) is Batch:
        row = _largest_nbytes(node.input)
        return None if row is None else node.size * row
    sizes = [leaf.nbytes for leaf in node.spec.leaves]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


MOST_ELEMENTS = 1 << 16


@dataclasses.dataclass
class AutomaticRoom:
    """The number of elements of a buffer whose size was left to drumline.

    A buffer that was full and is then found empty is smaller than the bursts: it doubles, as in
    tf.data. One that is never full has a slow producer, which more room does not help.

    Attributes:
        most_nbytes: what the buffer may hold.
        said: is called with a line for each change.
    """

    most_nbytes: float
    said: Callable[[str], None]
    _was_full: bool = False

    def next(self, room: int, held: int, row_nbytes: float) -> int:
        """Return the number from now on.

        Args:
            room: the present one.
            held: how many elements there are as one is asked for.
            row_nbytes: of an element, about.
        """
        if held >= room:
            self._was_full = True
        if held > 0 or not self._was_full:
            return room
        self._was_full = False
        affordable = int(self.most_nbytes // max(1.0, row_nbytes))
        wider = max(room, min(2 * room, affordable, MOST_ELEMENTS))
        if wider != room:
            self.said(f"prefetch: {room} -> {wider} elements ahead")
        return wider
