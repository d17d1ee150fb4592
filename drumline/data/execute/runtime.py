"""What the stages of a running dataset share."""

from __future__ import annotations

import copy
import functools
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from drumline.data.autotune.memory import default_budget
from drumline.data.autotune.model import Budget
from drumline.data.autotune.number import AUTOTUNE
from drumline.data.autotune.tuner import Tuner
from drumline.data.execute.stage import Stage
from drumline.data.execute.workers import MOST_WORKERS, DaemonThreads, Workers
from drumline.data.functions.call import BlockFunction
from drumline.data.functions.python_function import PythonFunction
from drumline.data.observe.observation import Observation
from drumline.data.options import Options
from drumline.data.plan.function_nodes import Map
from drumline.data.processes.process_function import ProcessFunction

_THREADS = "drumline-map"


class Runtime:
    """The options that hold while a dataset runs, who observes it, and the threads it shares.

    Args:
        options: of the dataset.
        observation: measures every stage; ``None`` measures nothing and costs nothing.
    """

    def __init__(self, options: Options | None = None, observation: Observation | None = None):
        self.options = options if options is not None else Options()
        statistics = self.options.experimental_statistics
        if observation is None and statistics is not None:
            observation = statistics.observation
        self.observation = observation
        self.decisions: list[str] = []
        self._process_functions: dict[PythonFunction, ProcessFunction] = {}
        self._threads: ThreadPoolExecutor | None = None

    @property
    def tuned(self) -> bool:
        """Whether numbers given as ``AUTOTUNE`` change while the dataset runs."""
        return self.options.autotune.enabled is not False

    @property
    def cores(self) -> int:
        """How many cores workers may keep busy whose number is left to drumline."""
        return self.options.autotune.cpu_budget or os.cpu_count() or 1

    @functools.cached_property
    def nbytes(self) -> int:
        """How many bytes buffers may hold together whose sizes are left to drumline."""
        return self.options.autotune.ram_budget or default_budget()

    def tune(self, stage: Stage) -> None:
        """Has everything that was left to drumline below ``stage`` chosen while it runs."""
        observation = self.observation
        assert observation is not None
        budget = Budget(self.cores, self.nbytes, strict=self.cores < (os.cpu_count() or 1))
        tuner = Tuner(budget, observation.clock, self.decisions)
        observation.after(stage, tuner.tick)

    def made(self, stage: Stage, name: str, trail: tuple[int, ...]) -> Stage:
        """The stage of the operation ``name``, measured if somebody observes."""
        if self.observation is None:
            return stage
        return self.observation.watch(stage, name, trail)

    def unobserved(self) -> Runtime:
        """The same, for the many short-lived stages of datasets inside datasets."""
        if self.observation is None:
            return self
        inner = copy.copy(self)
        inner.observation = None
        return inner

    def workers(self, wanted: int) -> Workers[Any]:
        """Threads for one stage: ``wanted`` of them, or a number that may change."""
        automatic = wanted == AUTOTUNE and self.tuned
        width = self._first_width() if wanted == AUTOTUNE else wanted
        shared = self.options.threading.private_threadpool_size
        if shared:
            return Workers(self._shared(shared), min(width, shared), automatic, owned=False)
        most = MOST_WORKERS if automatic else width
        return Workers(ThreadPoolExecutor(most, _THREADS), width, automatic)

    def processes(self, node: Map) -> tuple[BlockFunction, Workers[Any]] | None:
        """The map's function as worker processes run it, and a thread to wait for each of these.

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
        width = self.cores if node.workers == AUTOTUNE else node.workers
        pool: Workers[Any] = Workers(DaemonThreads(), width, automatic, most=self.cores)
        return self._process_functions[function], pool

    def _first_width(self) -> int:
        """All cores if it stays so; if it changes, one less, which the consumer needs."""
        return max(1, self.cores - 1) if self.tuned else self.cores

    def _shared(self, size: int) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(size, _THREADS)
            weakref.finalize(self, self._threads.shutdown, False, cancel_futures=True)
        return self._threads
