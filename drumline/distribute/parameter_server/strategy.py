"""The strategy: variables on parameter servers, steps on workers, one chief that schedules them.

`ParameterServerStrategy` lives on the chief. In its scope, variables are created on the servers
(`create_variable`); large initial values are computed there, and those of a few kilobytes here.
Its `ClusterCoordinator` runs steps; `run` works only inside a function that is being scheduled,
which a context variable tells (`scheduling`).

`FinalizerQueue` notes what the program cannot use any more, and the servers forget it at the next
call: objects die in any thread, also where locks are held. At interpreter exit the strategy closes
itself; a forked child does nothing.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import logging
import math
import os
import secrets
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import keras
import numpy as np

from drumline._forks import ForkSafeLock, at_exit, finalize
from drumline.data.elements.precision import require_fits
from drumline.distribute.cluster_resolver import ClusterResolver, TFConfigClusterResolver
from drumline.distribute.input.options import InputContext, InputOptions
from drumline.distribute.parameter_server import servers
from drumline.distribute.parameter_server.checkpoint import ParameterServerStore
from drumline.distribute.parameter_server.compiler import export_initializer
from drumline.distribute.parameter_server.compiler.step_program import REMEDY_64_BITS
from drumline.distribute.parameter_server.optimizers import OptimizerRegistry
from drumline.distribute.parameter_server.partitioners import Partitioner
from drumline.distribute.parameter_server.server_variable import move_to_servers
from drumline.distribute.parameter_server.servers import (
    RoundRobin,
    Servers,
    collect_only_what_is_new,
    rows_of,
)
from drumline.distribute.parameter_server.wire.messages import (
    BeginServerSession,
    CreateShard,
    ForgetShards,
    ServeChief,
    VariableLayout,
)
from drumline.distribute.parameter_server.worker import datasets
from drumline.distribute.replica import SingleContext, enter_replica_context
from drumline.distribute.step.run import RunOptions
from drumline.distribute.strategy import Strategy
from drumline.distribute.variable import set_strategy, strategy_of_variable

_scheduled = contextvars.ContextVar("drumline_being_scheduled", default=False)


def being_scheduled() -> bool:
    """Whether the calling code is part of a function that workers will run."""
    return _scheduled.get()


@contextlib.contextmanager
def scheduling() -> Iterator[None]:
    """Within the block a function is traced for workers."""
    token = _scheduled.set(True)
    try:
        yield
    finally:
        _scheduled.reset(token)


class FinalizerQueue:
    """What died since it was last asked.

    An object can die at any point of any thread, also where locks are held. So its name is only
    noted then; servers and workers drop it later.
    """

    def __init__(self) -> None:
        self._names: collections.deque[Any] = collections.deque()

    def watch(self, thing: Any, name: Any) -> None:
        """Note `name` when `thing` dies."""
        finalize(thing, self._names.append, name).atexit = False

    def take(self) -> list[Any]:
        """The names that were noted, each once."""
        taken = []
        while self._names:
            taken.append(self._names.popleft())
        return taken


_log = logging.getLogger("drumline")

INITIAL_VALUE_BYTES = 1 << 20
"""Up to this size a variable's initial value is computed by the chief and sent."""

TABLE_BYTES = 1 << 20
"""From this size on a matrix with many more rows than columns is kept as a table."""


class ParameterServerStrategy(Strategy):
    """Asynchronous training with variables on parameter servers.

    Follows ``tf.distribute.ParameterServerStrategy``. The chief makes the model in `scope` and
    schedules steps with a `ClusterCoordinator` or Keras's ``fit``; workers run them, and variables
    live on the parameter servers with their optimizer's state. The chief's program creates it;
    workers and ps run a `Server`. In their programs, and in an evaluator's, it is but a name for
    the cluster, which Estimators take: using it there is refused.

    Args:
        cluster_resolver: the cluster, by default what ``TF_CONFIG`` says. It needs addresses of
            jobs ``"worker"`` and ``"ps"``.
        variable_partitioner: into how many shards variables are cut along axis 0.
        max_staleness: how many updates of other steps the values that a step read may miss when its
            own are applied. 0 runs one step at a time, as one device would; None sets no limit.
        synchronous: add up the gradients of one step of every worker, then update once with their
            mean.
        timeout_seconds: how long to wait for the servers when starting, and when a worker that
            does not come is first warned of.

    Raises:
        ValueError: if the cluster has no worker or no parameter server, or `max_staleness` is
            negative or given with `synchronous`.
        drumline.distribute.parameter_server.ParameterServerLostError: if a server cannot be
            reached in time.

    Example:
        A cluster in one process; `drumline launch` starts one of many.

        >>> import socket
        >>> def free_address():
        ...     with socket.create_server(("127.0.0.1", 0)) as probe:
        ...         return "127.0.0.1:%d" % probe.getsockname()[1]
        >>> cluster = dl.train.ClusterSpec({"worker": [free_address()], "ps": [free_address()]})
        >>> tasks = [dl.distribute.Server(cluster, job, 0) for job in ("worker", "ps")]
        >>> resolver = dl.distribute.cluster_resolver.SimpleClusterResolver(cluster)
        >>> strategy = dl.distribute.ParameterServerStrategy(resolver)
        >>> with strategy.scope():
        ...     layer = keras.layers.Dense(1, kernel_initializer="ones")
        ...     layer.build((None, 2))
        >>> def step(x):
        ...     return strategy.run(lambda x: layer(x).sum(), (x,))
        >>> coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)
        >>> result = coordinator.schedule(step, (np.ones((4, 2), np.float32),))
        >>> float(result.fetch())
        8.0
        >>> coordinator.close()
        >>> for task in tasks:
        ...     task.close()
    """

    def __init__(
        self,
        cluster_resolver: ClusterResolver | None = None,
        variable_partitioner: Partitioner | None = None,
        *,
        max_staleness: int | None = None,
        synchronous: bool = False,
        timeout_seconds: float = 60.0,
    ) -> None:
        self.cluster_resolver = cluster_resolver or TFConfigClusterResolver()
        self.worker_addresses = _addresses(self.cluster_resolver, "worker")
        server_addresses = _addresses(self.cluster_resolver, "ps")
        if max_staleness is not None and (synchronous or max_staleness < 0):
            raise ValueError(
                f"max_staleness={max_staleness} must be 0 or more, and goes with asynchronous "
                "training alone: synchronous steps always read the newest values."
            )
        self._process: int | None = None
        if not self.leads:
            return
        super().__init__([jax.local_devices()[0]])
        self.max_staleness = max_staleness
        self.synchronous = synchronous
        self.timeout_seconds = timeout_seconds
        collect_only_what_is_new()
        self.servers = Servers(servers.connector(timeout_seconds), server_addresses)
        self.session = secrets.token_hex(8)
        self.servers.ask_all(ServeChief())
        self.servers.ask_all(BeginServerSession(session=self.session))
        self.optimizers = OptimizerRegistry(self.servers)
        prefix = _prefix_of(server_addresses)
        self._placement = RoundRobin(len(server_addresses), variable_partitioner, prefix)
        self.layouts: dict[str, VariableLayout] = {}
        self._tables: set[str] = set()
        self._discarded = FinalizerQueue()
        self.coordinator: Any = None
        self._process = os.getpid()
        at_exit(_close_if_alive, weakref.ref(self))
        self.keeper = ParameterServerStore(self.servers, self.optimizers, self._settle)

    @property
    def leads(self) -> bool:
        """Whether this process is the chief, which alone makes variables and schedules steps."""
        return self.cluster_resolver.task_type not in ("worker", "ps", "evaluator")

    def __getattr__(self, name: str) -> Any:
        """Refuse what a strategy has where it leads.

        Raises:
            AttributeError: there is no such attribute.
            ValueError: there is none because this task is not the chief.
        """
        known = vars(self)
        if name.startswith("__") or "cluster_resolver" not in known or self.leads:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise ValueError(_not_the_chief(self.cluster_resolver))

    def scope(self) -> contextlib.AbstractContextManager[Strategy]:
        """Put this strategy in force: variables made inside the block lie on the servers.

        Raises:
            ValueError: this task is not the chief.
        """
        if not self.leads:
            raise ValueError(_not_the_chief(self.cluster_resolver))
        return super().scope()

    @property
    def num_workers(self) -> int:
        """How many workers run scheduled functions."""
        return len(self.worker_addresses)

    def layout_of(self, variable: Any) -> VariableLayout | None:
        """Where a variable lies, None if it is not on the servers."""
        layout: VariableLayout | None = getattr(variable, "layout", None)
        return layout if strategy_of_variable(variable) is self else None

    @property
    def tables(self) -> frozenset[str]:
        """The keys of the variables that are kept as tables, of which steps take single rows."""
        return frozenset(self._tables)

    def create_variable(self, variable: Any, initial: Any) -> None:
        """Put a new variable on the servers.

        Args:
            variable: a Keras variable with a shape and a dtype, without a value.
            initial: its initializer, or its value.
        """
        shape, dtype = tuple(variable._shape), variable._dtype
        layout = self._placement.place(variable.path, shape, dtype)
        table = _is_table(variable)
        size = math.prod(shape) * np.dtype(dtype).itemsize
        value = None
        if not callable(initial):
            what = f"The initial value of the variable {variable.path!r}"
            require_fits(initial, what, REMEDY_64_BITS, dtype)
            value = np.asarray(initial, dtype)
        elif size <= INITIAL_VALUE_BYTES:
            value = np.asarray(initial(shape, dtype=dtype))
        self.forget_discarded()
        requests = []
        for shard in layout.shards:
            if value is None:
                program = export_initializer(initial, shape, dtype, shard.start, shard.stop)
                content = np.frombuffer(program, np.uint8)
            else:
                content = rows_of(value, shard)
            create = CreateShard(
                name=layout.shard_name(shard),
                shape=layout.shard_shape(shard),
                dtype=dtype,
                table=table,
                start=shard.start,
                is_program=value is None,
                content=content,
            )
            requests.append((shard.server, create))
        self.servers.ask_each(requests)
        seed = getattr(initial, "seed", None)
        if value is None and isinstance(seed, keras.random.SeedGenerator):
            seed.next()  # the next variable draws other numbers, as if it had been used here
        move_to_servers(variable, layout, self.servers)
        set_strategy(variable, self)
        self.layouts[layout.key] = layout
        self._discarded.watch(variable, layout.key)
        if table:
            self._tables.add(layout.key)

    def forget_discarded(self) -> None:
        """Let the servers go of variables that this program cannot use any more."""
        gone = [self.layouts.pop(key) for key in self._discarded.take() if key in self.layouts]
        if not gone:
            return
        self._tables.difference_update(layout.key for layout in gone)
        names: dict[int, list[str]] = collections.defaultdict(list)
        updates: dict[int, list[str]] = collections.defaultdict(list)
        for layout in gone:
            for shard in layout.shards:
                names[shard.server].append(layout.shard_name(shard))
        for server, update in self.optimizers.forget(gone):
            updates[server].append(update)
        for server in {*names, *updates}:
            forget = ForgetShards(names=tuple(names[server]), updates=tuple(updates[server]))
            self.servers.submit(server, forget)

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: RunOptions | None = None,
    ) -> Any:
        """Run `fn` on the worker, inside a function that `ClusterCoordinator.schedule` was given.

        Follows ``tf.distribute.ParameterServerStrategy.run``.

        Args:
            fn: the step.
            args: positional arguments, any pytree.
            kwargs: named arguments.
            options: must not retain 64 bits.

        Returns:
            What `fn` returns.

        Raises:
            NotImplementedError: for options that keep 64 bits: workers compute in 32.
            RuntimeError: anywhere else.
        """
        if not being_scheduled():
            raise RuntimeError(
                "strategy.run of a ParameterServerStrategy works inside a function that is given "
                "to `ClusterCoordinator.schedule`: steps run on workers. Call the function itself "
                "to run it here, on the chief, with values read from the servers."
            )
        if options is not None and options.keep_64_bits:
            raise NotImplementedError(
                "RunOptions(keep_64_bits=True): the workers of a ParameterServerStrategy compute "
                "with 32 bits. Leave it out, and give them numbers that fit."
            )
        with enter_replica_context(SingleContext(self)):
            return fn(*args, **(kwargs or {}))

    def _settle(self) -> None:
        if self.coordinator is not None:
            self.coordinator.join()

    def close(self) -> None:
        """Let workers and parameter servers end; the variables cannot be used any more.

        It is done at interpreter exit, if not before. A forked child does nothing.
        """
        if os.getpid() != self._process:
            return
        if self.coordinator is not None:
            self.coordinator.stop_workers()
        self.servers.finish()

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Any], options: InputOptions | None = None
    ) -> Any:
        """Return a worker's dataset, in a function given to `create_per_worker_dataset`.

        Args:
            dataset_fn: makes it from the worker's `InputContext`.
            options: as in TensorFlow. A worker has one replica, whatever they say.

        Raises:
            RuntimeError: anywhere else.
        """
        return datasets.own_dataset(dataset_fn)

    def experimental_distribute_dataset(
        self, dataset: Any, options: InputOptions | None = None
    ) -> Any:
        """Return the whole of `dataset`, in a function given to `create_per_worker_dataset`.

        Args:
            dataset: a worker's dataset.
            options: as in TensorFlow. A worker has one replica, whatever they say.

        Raises:
            RuntimeError: anywhere else.
        """
        return datasets.own_dataset(lambda context: dataset)

    def __reduce__(self) -> Any:
        """Pickled with a function that makes datasets, it becomes what a worker needs of it."""
        return datasets.StrategyOnWorker, ()

    def describe(self) -> str:
        """Return a text that says which tasks there are and what each server stores."""
        if not self.leads:
            return _not_the_chief(self.cluster_resolver)
        lines = [
            f"ParameterServerStrategy: {self.num_workers} worker(s), {len(self.servers)} ps",
            f"  steps run on: {', '.join(self.worker_addresses)}",
        ]
        for server, address in enumerate(self.servers.addresses):
            kept = [
                f"{layout.path}[{shard.start}:{shard.stop}]"
                for layout in self.layouts.values()
                for shard in layout.shards
                if shard.server == server
            ]
            lines.append(f"  ps:{server} at {address} keeps: {', '.join(kept) or 'nothing yet'}")
        lines.append(
            "  updates: "
            + (
                "once a step of all workers, with the mean of their gradients"
                if self.synchronous
                else "as gradients come, from every worker on its own"
            )
        )
        return "\n".join(lines)

    def __repr__(self) -> str:
        servers = len(_addresses(self.cluster_resolver, "ps"))
        return f"{type(self).__name__}({self.num_workers} workers, {servers} ps)"


_strategies: collections.Counter[tuple[str, ...]] = collections.Counter()
_counting = ForkSafeLock()


def _prefix_of(server_addresses: list[str]) -> str:
    """What distinguishes the variables of this program's strategies over the same servers.

    A program that is started again makes them in the same order, and finds their variables.
    """
    with _counting:
        number = _strategies[tuple(server_addresses)]
        _strategies[tuple(server_addresses)] += 1
    return f"strategy {number}:" if number else ""


def _close_if_alive(reference: weakref.ref[ParameterServerStrategy]) -> None:
    strategy = reference()
    if strategy is not None:
        strategy.close()


def _is_table(variable: Any) -> bool:
    shape = variable._shape
    if len(shape) != 2:
        return False
    if variable.path.rpartition("/")[2] == "embeddings":
        return True
    size = math.prod(shape) * np.dtype(variable._dtype).itemsize
    return bool(size >= TABLE_BYTES and shape[0] >= 16 * shape[1])


def _addresses(resolver: ClusterResolver, job: str) -> list[str]:
    spec = resolver.cluster_spec()
    addresses = spec.job_tasks(job) if job in spec.jobs else []
    if not addresses or None in addresses:
        raise ValueError(
            f"A ParameterServerStrategy needs the address of every {job!r} task, and the cluster "
            f"is {spec!r}. Start the job with `drumline launch --chief --workers N --ps M`, or "
            'set TF_CONFIG with the jobs "chief", "worker" and "ps".'
        )
    return [str(address) for address in addresses]


def _not_the_chief(resolver: ClusterResolver) -> str:
    return (
        f"This task is {resolver.task_type}:{resolver.task_id}, and the chief alone uses a "
        "ParameterServerStrategy. Let workers and parameter servers run "
        "`dl.distribute.Server(resolver.cluster_spec(), resolver.task_type, "
        "resolver.task_id).join()`; of an Estimator, `train_and_evaluate` does it."
    )
