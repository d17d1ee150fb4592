"""The chief's hand on the workers: schedule functions, wait for them, fetch what they return.

`ClusterCoordinator` ties the parts together. `schedule` makes a closure (`function`) and puts it
into the queue (`scheduling`); a `WorkerDispatcher` for each worker takes closures from there in a
thread of its own, and calls `ended` or `failed` when the worker has answered. What all workers must
have is in `commands`. Programs for workers that lack one are traced in a background thread.

`CompletionLog` notes closures that have ended, so that servers may forget their pushes, and
optimizers count their updates. Locks are held for bookkeeping only, never while a worker is asked.
A worker's loss is not seen here: its closures are queued again.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax

from drumline import _recorder
from drumline.distribute.input.options import InputContext
from drumline.distribute.parameter_server import servers as peers
from drumline.distribute.parameter_server.coordinator.commands import (
    Command,
    MakeCommand,
    ReplayedCommands,
)
from drumline.distribute.parameter_server.coordinator.function import ScheduledFunctions, StepTracer
from drumline.distribute.parameter_server.coordinator.scheduling import (
    Admission,
    ClosureQueue,
    RemoteValue,
    RoundAdmission,
    ScheduledClosure,
    StalenessAdmission,
    next_name,
)
from drumline.distribute.parameter_server.coordinator.values import (
    PerWorkerDataset,
    PerWorkerIterator,
)
from drumline.distribute.parameter_server.coordinator.worker_dispatcher import WorkerDispatcher
from drumline.distribute.parameter_server.errors import ParameterServerLostError
from drumline.distribute.parameter_server.servers import Servers
from drumline.distribute.parameter_server.strategy import FinalizerQueue, ParameterServerStrategy
from drumline.distribute.parameter_server.wire import Connection
from drumline.distribute.parameter_server.wire.messages import (
    AbandonRound,
    CreateDataset,
    CreateIterator,
    FinishClosures,
)
from drumline.distribute.parameter_server.worker.datasets import SentFunction, made

_AT_A_TIME = 4096


class CompletionLog:
    """The closures that have run since the last `forget`, whose pushes servers still remember.

    Args:
        servers: all parameter servers.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._names: list[str] = []
        self._updates: dict[int, tuple[Any, int]] = {}
        self._lock = threading.Lock()

    def ended(self, closure: ScheduledClosure) -> None:
        """A closure has run; now and then the servers are notified."""
        if not closure.function.writes:
            return
        with self._lock:
            for reference, times in closure.function.applied:
                optimizer = reference()
                if optimizer is None:
                    continue
                _, before = self._updates.get(id(optimizer), (optimizer, 0))
                self._updates[id(optimizer)] = (optimizer, before + times)
            self._names.append(closure.name)
            due = len(self._names) >= _AT_A_TIME
        if due:
            self.forget(wait=False)

    def failed(self, closure: ScheduledClosure) -> None:
        """A closure has failed: what it may have pushed is all that it pushes."""
        with self._lock:
            self._names.append(closure.name)

    def count_updates(self) -> None:
        """Let each optimizer's ``iterations`` on the chief count what the servers have applied."""
        with self._lock:
            updates, self._updates = self._updates, {}
        for optimizer, times in updates.values():
            optimizer.iterations.assign_add(times)

    def forget(self, wait: bool = True) -> None:
        """Let the servers forget the closures that have run."""
        with self._lock:
            names, self._names = self._names, []
        if not names:
            return
        finish = FinishClosures(closures=tuple(names))
        for server in range(len(self._servers)):
            answer = self._servers.submit(server, finish)
            if wait:
                self._servers.result(server, finish, answer)


class ClusterCoordinator:
    """Schedules functions on the workers, as ``tf.distribute.coordinator.ClusterCoordinator``.

    A function is traced on the chief; workers get a compiled program and the list of variables it
    reads and writes. Functions run in any order, on whichever worker is free, each at least once:
    a function whose worker is lost runs again on another one, and what it had already written is
    not written twice.

    A strategy has one coordinator: making another one for it gives the same.

    Args:
        strategy: whose workers to use.

    Attributes:
        continues_at_end: whether functions whose worker's dataset has ended run on workers that
            have data still, and fail with an `OutOfRangeError` when none has. By default they fail
            with the first dataset that ends, as in TensorFlow.

    Raises:
        TypeError: if it is no `ParameterServerStrategy`.
    """

    def __new__(cls, strategy: ParameterServerStrategy) -> ClusterCoordinator:
        if not isinstance(strategy, ParameterServerStrategy):
            raise TypeError(
                f"A ClusterCoordinator takes a ParameterServerStrategy, got {strategy!r}."
            )
        if strategy.coordinator is None:
            strategy.coordinator = super().__new__(cls)
            strategy.coordinator._start(strategy)
        coordinator: ClusterCoordinator = strategy.coordinator
        return coordinator

    def _start(self, strategy: ParameterServerStrategy) -> None:
        self._strategy = strategy
        self.continues_at_end = False
        self.session = strategy.session
        self.queue = ClosureQueue(gate=_gate_of(strategy), abandon=self._abandon_round)
        self.commands = ReplayedCommands()
        self._discarded = FinalizerQueue()
        self._functions = ScheduledFunctions(StepTracer(strategy), self._discarded)
        self._applied = CompletionLog(strategy.servers)
        self._numbers = itertools.count()
        self._background = ThreadPoolExecutor(1, thread_name_prefix="drumline coordinator")
        self._workers = [
            WorkerDispatcher(self, index, functools.partial(peers.connect_within, address))
            for index, address in enumerate(strategy.worker_addresses)
        ]

    @property
    def strategy(self) -> ParameterServerStrategy:
        """The strategy whose workers run the functions."""
        return self._strategy

    def schedule(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> RemoteValue:
        """Let a worker run a function; returns at once, unless very many wait.

        Args:
            fn: a function, also one that `drumline.function` made. It is traced when it is first
                scheduled, and again for arguments of another structure, shape or Python value.
            args: its arguments: arrays, Python values, per-worker iterators of
                `create_per_worker_dataset`, and what other scheduled functions will return.
            kwargs: more of them, by name.

        Raises:
            Exception: what a function that was scheduled before failed with. Those that had not
                run yet are cancelled then, and the coordinator can be used again.
        """
        recorder = _recorder.active
        if recorder is not None and recorder.is_here():
            recorder.scheduled(self)
        call = self._functions.call(fn, args or (), kwargs or {})
        self._strategy.optimizers.send_learning_rates()
        self._strategy.optimizers.send_iterations()
        closure = ScheduledClosure(
            next_name(self.session), call.function, call.arrays, call.iterators, needs=call.needs
        )
        self._forget_discarded()
        closure.result.hurry = self.queue.flush
        self.queue.put(closure)
        return closure.result

    @_recorder.counted_as(_recorder.COMPUTING, _recorder.WORKERS)
    def join(self) -> None:
        """Wait until all scheduled functions have run.

        Raises:
            Exception: what one of them failed with; those that had not run are cancelled.
        """
        try:
            self.queue.wait()
        finally:
            self._applied.forget()
            self._strategy.optimizers.send_iterations()
            self._applied.count_updates()
            self._strategy.optimizers.counted()
            self._forget_discarded()

    def done(self) -> bool:
        """Whether all scheduled functions have run.

        Raises:
            Exception: what one of them failed with; those that had not run are cancelled.
        """
        return self.queue.done()

    def fetch(self, val: Any) -> Any:
        """A structure with every `RemoteValue` in it replaced by its result.

        Waits for them.
        """
        return jax.tree.map(
            lambda leaf: leaf.fetch() if isinstance(leaf, RemoteValue) else leaf, val
        )

    def create_per_worker_dataset(self, dataset_fn: Any) -> PerWorkerDataset:
        """Make a dataset on every worker.

        Args:
            dataset_fn: a function that returns a dataset, with an `InputContext` as its argument
                or none; or a dataset, which every worker then goes through as a whole. It is also
                called here, to learn the elements' shapes.

        Raises:
            TypeError: if what it returns is no dataset with an ``element_spec``.
        """
        workers = self._strategy.num_workers
        dataset = made(dataset_fn, InputContext(workers, 0, 1))
        if not hasattr(dataset, "element_spec"):
            raise TypeError(
                f"The dataset function {dataset_fn!r} returned {type(dataset).__name__}, which "
                "has no element_spec. Return a dl.data.Dataset, or what "
                "`strategy.distribute_datasets_from_function` gives."
            )
        number = next(self._numbers)
        sent = SentFunction(dataset_fn)

        def make(connection: Connection) -> Command:
            local, pickled = sent.content(connection.in_process)
            create = CreateDataset(
                session=self.session,
                dataset=number,
                workers=workers,
                local=local,
                pickled=pickled,
            )
            return Command(("dataset", number), create)

        self._make_on_workers(("dataset", number), make)
        made_on_workers = PerWorkerDataset(self, number, dataset.element_spec)
        self._discarded.watch(made_on_workers, ("dataset", number))
        return made_on_workers

    def iterate(self, dataset: PerWorkerDataset) -> PerWorkerIterator:
        """Start going through a dataset on every worker; the same as ``iter(dataset)``."""
        number = next(self._numbers)
        create = CreateIterator(session=self.session, iterator=number, dataset=dataset.number)
        command = Command(("iterator", number), create)
        self._make_on_workers(command.key, lambda _: command)
        iterator = PerWorkerIterator(number, dataset)
        for worker in self._workers:
            worker.begin_again()
        self._discarded.watch(iterator, ("iterator", number))
        return iterator

    def all_at_end(self) -> bool:
        """Whether no worker has data any more, where it continues at the end of datasets."""
        return all(worker.at_end for worker in self._workers)

    def counts(self) -> dict[str, Any]:
        """How many closures were completed, in all and by worker, and how many run again."""
        return {
            "completed": self.queue.completed,
            "repeated": self.queue.repeated,
            "by worker": [worker.completed for worker in self._workers],
            "workers lost": [worker.lost for worker in self._workers],
        }

    def worker_times(self, seconds: float = 5.0) -> dict[int, tuple[float, ...]]:
        """What workers have done since their sessions began, by their numbers.

        Args:
            seconds: how long each is waited for; one that is not there, or does not answer, is
                left out.

        Returns:
            Closures that have run, and seconds of drawing batches, computing, waiting for
            parameters and sending gradients.
        """
        found = {worker.index: worker.times(seconds) for worker in self._workers}
        return {
            index: (each.steps, each.drawing, each.computing, each.pulling, each.pushing)
            for index, each in found.items()
            if each is not None
        }

    def close(self) -> None:
        """Let the workers and servers end their `Server.join`, and use them no more."""
        self._strategy.close()

    def stop_workers(self) -> None:
        """Let the workers end."""
        self.queue.stop()
        for worker in self._workers:
            worker.join()
        self._background.shutdown()

    def ended(self, closure: ScheduledClosure) -> None:
        """A closure has run, and no worker will run it again."""
        try:
            self._applied.ended(closure)
        except ParameterServerLostError as error:
            self.queue.fail(error)
        finally:
            self.queue.finished(closure)

    def failed(self, closure: ScheduledClosure, error: BaseException) -> None:
        """A closure has failed, and no worker will run it again."""
        self._applied.failed(closure)
        self.queue.failed(closure, error)

    def in_background(self, fn: Callable[..., None], *args: Any) -> None:
        """Do something that takes long for a worker, apart from the worker's thread."""
        self._background.submit(fn, *args)

    def refuse(self, worker: WorkerDispatcher, error: Exception) -> None:
        """A worker cannot carry out a command: the next call raises that."""
        self.queue.fail(error)

    def _make_on_workers(self, key: Any, make: MakeCommand) -> None:
        """Have all workers make something, those that come later too."""
        self.commands.add(key, make)
        try:
            for worker in self._workers:
                worker.make(make)
        except BaseException:
            self.commands.remove(key)
            raise

    def _forget_discarded(self) -> None:
        """Let workers and servers go of what the program cannot use any more."""
        keys = self._discarded.take()
        if keys:
            self.commands.remove(*keys)
            for worker in self._workers:
                worker.forget(keys)
        self._strategy.forget_discarded()

    def _abandon_round(self, number: int) -> None:
        servers = self._strategy.servers
        for server in range(len(servers)):
            # What waits at a server that is lost fails without it.
            with contextlib.suppress(ParameterServerLostError):
                servers.submit(server, AbandonRound(round=number, final=True))


def _gate_of(strategy: ParameterServerStrategy) -> Admission:
    if strategy.synchronous:
        return RoundAdmission(strategy.num_workers)
    return (
        Admission()
        if strategy.max_staleness is None
        else StalenessAdmission(strategy.max_staleness)
    )
