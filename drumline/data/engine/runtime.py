"""The threads, buffers and measurements that the stages of a running dataset share."""

from __future__ import annotations

import copy
import functools
from typing import Any

from drumline._forks import finalize
from drumline._memory import BufferPool
from drumline.data.elements.spec import AUTOTUNE
from drumline.data.engine.tuning import Budget, Operation, TunedWidth, Tuner, default_budget
from drumline.data.functions.call import BlockFunction
from drumline.data.functions.python_function import PythonFunction
from drumline.data.operations.map import Map
from drumline.data.operations.nested.nesting import Interleave
from drumline.data.operations.prefetch import AutomaticRoom, Prefetch
from drumline.data.options import Options
from drumline.data.plan.node import Node
from drumline.data.runtime.meter import Observation
from drumline.data.runtime.stage import Stage
from drumline.data.runtime.threads import (
    LARGEST_NBYTES,
    MOST_THREADS,
    MOST_WORKERS,
    PooledThreads,
    ReadLimiter,
    Workers,
    available_cores,
)
from drumline.data.workers.processes.process_function import ProcessFunction, ProcessWorkers
from drumline.data.workers.remote.cluster import RemoteSession, Service

_THREADS = "drumline-map"


class Runtime:
    """The options, measurements, threads and buffers that the stages of a dataset share.

    Args:
        options: of the dataset.
        observation: measures every stage; ``None`` measures nothing and costs nothing.

    Attributes:
        pool: where stages take their buffers from; the next epoch reuses those of the last.
        decisions: what autotuning changed.
    """

    def __init__(self, options: Options | None = None, observation: Observation | None = None):
        self.options = options if options is not None else Options()
        statistics = self.options.experimental_statistics
        if observation is None and statistics is not None:
            observation = statistics.observation
        self.observation = observation
        self.pool = BufferPool(threads=self.options.threading.max_intra_op_parallelism or None)
        self.decisions: list[str] = []
        self._found: dict[Operation, TunedWidth] = {}
        self._sessions: dict[Service, RemoteSession] = {}
        self._process_functions: dict[PythonFunction, ProcessFunction] = {}
        size = self.options.threading.private_threadpool_size
        self._private = PooledThreads(size, _THREADS) if size else None
        if self._private is not None:
            finalize(self, self._private.shutdown).atexit = False

    @property
    def tuned(self) -> bool:
        """Whether numbers given as ``AUTOTUNE`` change while the dataset runs."""
        return self.options.autotune.enabled is not False

    @property
    def cores(self) -> int:
        """How many cores workers may keep busy whose number is left to drumline."""
        return self.options.autotune.cpu_budget or available_cores()

    @functools.cached_property
    def nbytes(self) -> int:
        """How many bytes buffers may hold together whose sizes are left to drumline."""
        return self.options.autotune.ram_budget or default_budget()

    def room(self, plan: Node) -> AutomaticRoom | None:
        """Return what tunes the size of one of a plan's prefetches; ``None``: not tuned."""
        if not self.tuned:
            return None
        sharing = sum(isinstance(node, Prefetch) and node.size is None for node in plan.walk())
        return AutomaticRoom(self.nbytes / 2 / max(1, sharing), self.decisions.append)

    def tune(self, stage: Stage) -> None:
        """Tune the numbers of workers below ``stage`` that were given as ``AUTOTUNE``.

        It begins with what was found in an earlier epoch.
        """
        observation = self.observation
        assert observation is not None
        strict = self.cores < available_cores()
        budget = Budget(self.cores, self.nbytes / 2, strict)
        tuner = Tuner(budget, observation.clock, self.decisions, self._found)
        tuner.resume(stage)
        observation.after(stage, tuner.tick)

    def separately_observed(self) -> Runtime:
        """Return the same for one iterator, whose measurements must not mix with others'."""
        if self.observation is not None:
            return self
        inner = copy.copy(self)
        # Queues are not measured, as nothing reads that: it would cost where the GIL is contended.
        inner.observation = Observation(queues=False)
        return inner

    def made(self, stage: Stage, name: str, trail: tuple[int, ...]) -> Stage:
        """Return the stage of the operation ``name``, measured if the dataset is observed."""
        if self.observation is None:
            return stage
        return self.observation.watch(stage, name, trail)

    def unobserved(self) -> Runtime:
        """Return the same, for the many short-lived stages of datasets inside datasets."""
        if self.observation is None:
            return self
        inner = copy.copy(self)
        inner.observation = None
        return inner

    def session(self, service: Service) -> RemoteSession:
        """Return the session of a service, reused by later epochs; not connected to yet."""
        if service not in self._sessions:
            self._sessions[service] = RemoteSession(service)
        return self._sessions[service]

    def connect(self) -> None:
        """Connect to the services of all sessions.

        Raises:
            RuntimeError: one cannot be reached.
        """
        for session in self._sessions.values():
            session.connect()

    def workers(self, wanted: int, unbounded: bool = False) -> Workers[Any]:
        """Return threads for one stage: ``wanted`` of them, or a number that may change.

        They are among those that stages share, if the user gave a number, unless ``unbounded``.
        """
        automatic = wanted == AUTOTUNE and self.tuned
        width = self._first_width() if wanted == AUTOTUNE else min(wanted, MOST_THREADS)
        if self._private is not None and not unbounded:
            size = self.options.threading.private_threadpool_size or 1
            return Workers(self._private, min(width, size), automatic, owned=False, most=size)
        most = MOST_WORKERS if automatic else width
        return Workers(PooledThreads(most, _THREADS), width, automatic)

    def reading(self, node: Interleave) -> ReadLimiter | None:
        """Return how many of an interleave's datasets may be read at once; ``None`` for no threads.

        A number that is found begins at all that are open: reads wait more than they compute.
        """
        if not node.workers:
            return None
        if node.workers != AUTOTUNE:
            return ReadLimiter(min(node.workers, MOST_THREADS))
        most = min(MOST_WORKERS, 2 * node.cycle_length)
        opened = 2 * min(MOST_THREADS, node.cycle_length)
        nbytes = min(LARGEST_NBYTES, self.nbytes // 2 // opened)
        return ReadLimiter(min(most, node.cycle_length), self.tuned, most, nbytes)

    def processes(self, node: Map) -> tuple[BlockFunction, Workers[Any]] | None:
        """Return the map's function as worker processes run it, and these.

        ``None`` if threads are to run it.
        """
        function = node.function.run
        if self.options.python_workers != "processes" or node.workers is None:
            return None
        if not isinstance(function, PythonFunction):
            return None
        if function not in self._process_functions:
            self._process_functions[function] = ProcessFunction(function)
        automatic = node.workers == AUTOTUNE and self.tuned
        width = self.cores if node.workers == AUTOTUNE else min(node.workers, MOST_WORKERS)
        pool = ProcessWorkers(width, automatic, self.cores)
        return self._process_functions[function], pool

    def left_in_turn(self, node: Map) -> bool:
        """Return whether a map runs in the consumer's thread although processes are enabled."""
        wanted = self.options.python_workers == "processes"
        return wanted and node.workers is None and isinstance(node.function.run, PythonFunction)

    def _first_width(self) -> int:
        """Return all cores if it stays so; if it changes, one less, which the consumer needs."""
        return max(1, self.cores - 1) if self.tuned else self.cores
