"""A Python function that other processes run."""

from __future__ import annotations

import threading
import time
import weakref

from drumline.data.execute.block import Block
from drumline.data.functions.call import Position
from drumline.data.functions.notes import at_element
from drumline.data.functions.python_function import PythonFunction
from drumline.data.observe.meter import charge_cpu
from drumline.data.processes.pickling import dumps
from drumline.data.processes.worker_process import WorkerDied, WorkerProcess


class ProcessFunction:
    """Sends blocks to worker processes; as many as threads call it at once, kept for later calls.

    If a process dies, the element that it was working on is an error, in its place. What it had
    done of the block is done again by another.

    Args:
        function: what is sent; it is pickled now.

    Raises:
        TypeError: it cannot be pickled; the message says what of it.
    """

    block_length = 1

    def __init__(self, function: PythonFunction):
        self._function = function
        self._where = function.where
        self._payload = dumps(function.arguments(), function.user, function.where)
        self._idle: list[WorkerProcess] = []
        self._all: list[WorkerProcess] = []
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _stop, self._all)

    def limit(self, wanted: int) -> int:
        return self._function.limit(wanted)

    def __call__(self, block: Block, position: Position) -> Block:
        start = position(0)
        stopped: Exception | None = None
        rows = block.slice(0, block.n)
        while True:
            try:
                out = self._run(rows, start)
                break
            except WorkerDied as died:
                stopped = self._blame(died, start)
                rows = rows.slice(0, died.row)
                if not rows.n:
                    out = self._function(rows, position)
                    break
        if out.error is None:
            out.error = stopped if stopped is not None else block.error
        return out

    def _run(self, rows: Block, start: int) -> Block:
        process = self._taken()
        started = time.perf_counter()
        try:
            out, cpu = process.run(rows, start)
        except BaseException:
            # It died, or this thread was interrupted: what it would answer belongs to this block.
            with self._lock:
                if process in self._all:
                    self._all.remove(process)
            process.stop()
            raise
        charge_cpu(cpu)
        self._function.adapt(out.n, time.perf_counter() - started)
        with self._lock:
            self._idle.append(process)
        return out

    def _taken(self) -> WorkerProcess:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        process = WorkerProcess(self._payload)
        with self._lock:
            self._all.append(process)
        return process

    def _blame(self, died: WorkerDied, start: int) -> Exception:
        error = RuntimeError(
            f"the worker process that ran {self._where} {died}, at element {start + died.row}"
        )
        return at_element(error, start + died.row, self._where)

    def close(self) -> None:
        """Ends the processes."""
        self._finalizer()

    def describe(self) -> str:
        return f"{self._function.describe()}, in worker processes"


def _stop(processes: list[WorkerProcess]) -> None:
    for process in list(processes):
        process.stop()
