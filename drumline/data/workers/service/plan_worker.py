"""The worker of remote plans: computes the elements of splits, a chunk at a time."""

from __future__ import annotations

import time

from drumline.data.elements.block import Block, estimated_nbytes
from drumline.data.engine.lowering import Lowering, Runtime
from drumline.data.plan.node import Pass
from drumline.data.runtime.stage import BatchSizeController, Stage, State
from drumline.data.workers.processes.worker_process import sendable
from drumline.data.workers.remote.cluster import Chunk, InputSplit
from drumline.data.workers.remote.packing import PickledObject, RemotePlan, count_from, unpacked

PORTION_BYTES = 1 << 20
_PATIENCE = 0.1


class PlanWorker:
    """Runs splits of parts of plans; called by one thread.

    Splits are opened, asked for chunks and closed by a key of the caller's. What goes wrong when
    one is opened is raised when a chunk is asked for.
    """

    def __init__(self) -> None:
        self._parts: dict[int, tuple[RemotePlan, Runtime] | Exception] = {}
        self._open: dict[int, tuple[Stage, BatchSizeController] | Exception] = {}

    def learn(self, part: int, packed: PickledObject) -> None:
        """Receive a part of a plan."""
        try:
            found: RemotePlan = unpacked(packed)
            self._parts[part] = (found, Runtime(found.options))
        except Exception as error:
            self._parts[part] = _unloadable(error)

    def open(
        self, key: int, part: int, split: InputSplit, run: Pass, state: State | None, skip: int
    ) -> None:
        """Begin a split, at ``state``, and passes over ``skip`` positions there."""
        try:
            self._open[key] = self._started(part, split, run, state, skip)
        except Exception as error:
            self._open[key] = error

    def _started(
        self, number: int, split: InputSplit, run: Pass, state: State | None, skip: int
    ) -> tuple[Stage, BatchSizeController]:
        learned = self._parts[number]
        if isinstance(learned, Exception):
            raise learned
        part, runtime = learned
        plan = part.of(split)
        lowering = Lowering(plan, set(), runtime)
        if split.shard is None:
            lowering.occurrences = part.occurrences
        stage = lowering.stage(*run)
        if state is not None:
            stage.restore(state)
        elif split.shard is None:
            count_from(stage, split.start)
        if skip:
            stage.advance(skip)
        return stage, BatchSizeController(plan.spec.row_nbytes())

    def pull(self, key: int, limit: int) -> Chunk:
        """Return the next elements, at least one and at most ``limit``.

        Raises:
            Exception: the split could not be opened.
        """
        opened = self._open.get(key)
        if opened is None:
            return Chunk([], None, True, 0.0)
        if isinstance(opened, Exception):
            raise sendable(opened)
        stage, block_size = opened
        started = time.perf_counter()
        blocks: list[Block] = []
        nbytes = events = 0
        ended = False
        while events < limit and nbytes < PORTION_BYTES:
            block = stage.next(
                min(limit - events, max(1, block_size.start(stage.preferred_block_size)))
            )
            block_size.stop()
            if block is None:
                ended = True
                break
            if block.events:
                blocks.append(_sent(block))
                nbytes += estimated_nbytes(block)
                events += block.events
            if time.perf_counter() - started > _PATIENCE:
                break
        after = None if ended else stage.state()
        if ended:
            self.close(key)
        return Chunk(blocks, after, ended, time.perf_counter() - started)

    def close(self, key: int) -> None:
        """Forget a split; one that has ended was forgotten already."""
        opened = self._open.pop(key, None)
        if isinstance(opened, tuple):
            opened[0].close()


def _sent(block: Block) -> Block:
    return block if block.error is None else Block(block.columns, block.n, sendable(block.error))


def _unloadable(error: Exception) -> Exception:
    made = RuntimeError(
        f"a worker could not load its part of the dataset: {type(error).__name__}: {error}. What "
        "functions use must be importable there, or be defined in the program itself."
    )
    made.__cause__ = error
    return made
