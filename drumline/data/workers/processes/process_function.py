"""Python functions that worker processes run, as a stage's workers."""

from __future__ import annotations

import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

from drumline import _function_pickles
from drumline._forks import finalize, tell_in_child
from drumline._function_identity import UNSET, reads_of
from drumline._lost_process import LostProcess
from drumline.data.elements.block import Block
from drumline.data.elements.errors import at_element
from drumline.data.functions.call import Position
from drumline.data.functions.python_function import PythonFunction
from drumline.data.runtime.meter import charge_cpu
from drumline.data.runtime.threads import DaemonThreads, Workers, stop_at_exit
from drumline.data.workers.processes.worker_process import WorkerDied, WorkerProcess

_DEEPEST = 4


def dumps(value: Any, function: Callable[..., Any], where: str) -> bytes:
    """Return ``value``, which holds ``function``, as bytes for another process.

    Raises:
        TypeError: a part of the function cannot be sent; the message says which.
    """
    try:
        return _function_pickles.dumps(value)
    except Exception as error:
        parts = ", ".join(culprits(function, _picklable)) or "something it refers to"
        raise TypeError(
            f"{where} cannot be sent to a worker process: {parts} cannot be pickled ({error}). "
            "Make it inside the function, or leave Options.python_workers at 'threads'."
        ) from error


def culprits(
    value: Any, picklable: Callable[[Any], bool], path: str = "", depth: int = 0
) -> Iterator[str]:
    """Yield the smallest parts of ``value`` that cannot be pickled, by how one gets to them."""
    found = False
    for name, part in _parts(value):
        if depth < _DEEPEST and not picklable(part):
            found = True
            inner = f"{path}.{name}" if path else name
            yield from culprits(part, picklable, inner, depth + 1)
    if not found and path:
        yield f"{path} (a {type(value).__module__}.{type(value).__qualname__})"


def _picklable(value: Any) -> bool:
    try:
        _function_pickles.dumps(value)
    except Exception:
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, types.FunctionType):
        for kind, name, part, _ in reads_of(value):
            if part is not UNSET:
                yield f"default of {name}" if kind == "default" else name, part
    elif isinstance(value, types.MethodType):
        yield "self", value.__self__
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{i}]", item) for i, item in enumerate(value))
    elif not isinstance(value, type | types.ModuleType):
        yield from getattr(value, "__dict__", {}).items()
        args = getattr(value, "args", ())
        yield from _parts(list(args)) if isinstance(args, tuple) else ()
        if callable(getattr(value, "func", None)):
            yield "func", value.func


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
    ragged: bool | None = None
    varying: bool | None = None

    def __init__(self, function: PythonFunction):
        self._function = function
        self._where = function.where
        payload = dumps(function.arguments(), function.user, function.where)
        self._processes = _Processes(payload)
        self._finalizer = finalize(self, self._processes.stop)
        self._finalizer.atexit = False

    def limit(self, wanted: int) -> int:
        return self._function.limit(wanted)

    def __call__(self, block: Block, position: Position) -> Block:
        start = position(0)
        stopped: Exception | None = None
        rows = block.slice(0, block.n)
        while True:
            try:
                out = self._run(rows, start) if rows.n else self._function(rows, position)
                break
            except WorkerDied as died:
                stopped = self._blame(died, start)
                rows = rows.slice(0, died.row)
        if out.error is None:
            out.error = stopped if stopped is not None else block.error
        return out

    def _run(self, rows: Block, start: int) -> Block:
        process = self._processes.take()
        started = time.perf_counter()
        try:
            out, cpu = process.run(rows, start)
        except BaseException:
            # It died, or this thread was interrupted: what it would answer belongs to this block.
            self._processes.drop(process)
            raise
        charge_cpu(cpu)
        self._function.rows.adapt(out.n, time.perf_counter() - started)
        self._processes.give_back(process)
        return out

    def _blame(self, died: WorkerDied, start: int) -> Exception:
        error = RuntimeError(
            LostProcess("A worker process", f"it {died}", pid=died.pid).report(
                f"It ran {self._where}, at element {start + died.row}",
                "What follows is made by another one; ignore_errors() passes over this element",
            )
        )
        return at_element(error, start + died.row, self._where)

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes that run."""
        return self._processes.pids

    def describe(self) -> str:
        return self._function.describe()


class _Processes:
    """The worker processes of one function."""

    def __init__(self, payload: bytes):
        self._payload = payload
        self._idle: list[WorkerProcess] = []
        self._all: list[WorkerProcess] = []
        self._stopped = False
        self._lock = threading.Lock()
        stop_at_exit(self)
        tell_in_child(self)

    def forked(self) -> None:
        """Start without processes in a forked child: these are the parent's."""
        self._lock = threading.Lock()
        self._idle, self._all = [], []

    @property
    def pids(self) -> list[int]:
        """The ids of the processes."""
        with self._lock:
            return [process.pid for process in self._all]

    def take(self) -> WorkerProcess:
        """Return one that is idle, or a new one."""
        with self._lock:
            if self._stopped:
                raise RuntimeError("the dataset's worker processes have been ended")
            if self._idle:
                return self._idle.pop()
        process = WorkerProcess(self._payload)
        with self._lock:
            self._all.append(process)
            late = self._stopped
        if late:
            process.stop()
        return process

    def give_back(self, process: WorkerProcess) -> None:
        """Mark a process as idle again."""
        with self._lock:
            self._idle.append(process)

    def drop(self, process: WorkerProcess) -> None:
        """Stop a process that must not be used any more."""
        with self._lock:
            if process in self._all:
                self._all.remove(process)
        process.stop()

    def stop(self) -> None:
        """Stop all, now and for good."""
        with self._lock:
            self._stopped = True
            processes = list(self._all)
        for process in processes:
            process.stop()

    def request_stop(self) -> None:
        """``stop``, as the program ends."""
        self.stop()


class ProcessWorkers(Workers[Any]):
    """Threads of which each waits for a worker process.

    Args:
        width: how many at once.
        automatic: whether that is left to drumline.
        most: what it may choose.
    """

    def __init__(self, width: int, automatic: bool, most: int):
        super().__init__(DaemonThreads(), width, automatic, most=most)

    def describe(self) -> str:
        automatic = " (AUTOTUNE: at present)" if self.automatic else ""
        noun = "process" if self.width == 1 else "processes"
        return f"in {self.width} worker {noun}{automatic}, in order"
