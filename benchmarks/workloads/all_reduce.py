"""The sum of arrays over two processes, ready in both."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.floors import Floor
from benchmarks.harness.loops import Calls, check_calls, measured_calls
from benchmarks.harness.ranks import in_ranks, tf_config, torch_ranks
from benchmarks.harness.workload import Contender, Scale, Workload

OURS = ("drumline", "jax")
workers = functools.partial(tf_config, 2)
Arrays = list[NDArray[np.float32]]


def arrays_of(rank: int, count: int, size: int) -> Arrays:
    """What a rank brings: `count` arrays of `size` float32."""
    random = np.random.RandomState(rank)
    return [random.standard_normal(size).astype(np.float32) for _ in range(count)]


def problem_with(results: Sequence[Any], count: int, size: int) -> str:
    """How the results differ from numpy's; of two numbers there is only one sum."""
    ours, theirs = arrays_of(0, count, size), arrays_of(1, count, size)
    if len(results) != count:
        return f"gave {len(results)} arrays, not {count}"
    wrong = [
        index
        for index, (a, b, result) in enumerate(zip(ours, theirs, results, strict=True))
        if not np.array_equal(np.asarray(result).reshape(-1), a + b)
    ]
    return f"gave wrong sums for the arrays {wrong}" if wrong else ""


def by_strategy(
    count: int, size: int, implementation: str
) -> Callable[[Scale], Callable[[], Calls]]:
    """A step of `strategy.run` that reduces the arrays."""

    def prepare(scale: Scale) -> Callable[[], Calls]:
        import drumline as dl

        options = dl.distribute.experimental.CommunicationOptions(
            implementation=dl.distribute.experimental.CommunicationImplementation[implementation]
        )
        strategy = dl.distribute.MultiWorkerMirroredStrategy(communication_options=options)
        import jax

        def build() -> Calls:
            rank = strategy.process_index
            values = strategy.experimental_distribute_values_from_function(
                lambda context: tuple(arrays_of(rank, count, size))
            )
            latest: Any = None

            def step(arrays: Any) -> Any:
                return dl.distribute.get_replica_context().all_reduce("sum", arrays)

            def call() -> None:
                nonlocal latest
                latest = jax.block_until_ready(strategy.run(step, args=(values,)))

            def problem() -> str:
                (mine,) = strategy.experimental_local_results(latest)
                return problem_with(mine, count, size)

            return Calls(lambda: None, call, problem)

        return build

    return prepare


def by_torch(count: int, size: int, *, bucket: bool) -> Callable[[Scale], Callable[[], Calls]]:
    """`torch.distributed.all_reduce` in place: of one tensor after another, or of all in one."""

    def prepare(scale: Scale) -> Callable[[], Calls]:
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")

        def build() -> Calls:
            sources = [torch.from_numpy(a) for a in arrays_of(dist.get_rank(), count, size)]
            tensors = [torch.empty_like(source) for source in sources]
            flat = torch.empty(count * size)

            def refill() -> None:
                for tensor, source in zip(tensors, sources, strict=True):
                    tensor.copy_(source)

            def one_by_one() -> None:
                for tensor in tensors:
                    dist.all_reduce(tensor)

            def in_one() -> None:
                torch.cat(tensors, out=flat)
                dist.all_reduce(flat)
                for tensor, reduced in zip(tensors, flat.split(size), strict=True):
                    tensor.copy_(reduced)

            call = in_one if bucket else one_by_one
            return Calls(refill, call, lambda: problem_with(tensors, count, size))

        return build

    return prepare


def _contenders(count: int, size: int) -> tuple[Contender, ...]:
    torch_libraries = ("torch",)
    contenders = [
        Contender(
            "drumline",
            "strategy.run, ReplicaContext.all_reduce, CommunicationImplementation.AUTO",
            OURS,
            in_ranks(workers, measured_calls(by_strategy(count, size, "AUTO"), *OURS)),
        ),
        Contender(
            "drumline RING",
            "strategy.run, ReplicaContext.all_reduce, CommunicationImplementation.RING",
            OURS,
            in_ranks(workers, measured_calls(by_strategy(count, size, "RING"), *OURS)),
        ),
        Contender(
            "torch",
            "torch.distributed.all_reduce, Gloo" + (", one by one" if count > 1 else ""),
            torch_libraries,
            in_ranks(
                functools.partial(torch_ranks, 2),
                measured_calls(by_torch(count, size, bucket=False), "torch"),
            ),
        ),
    ]
    if count > 1:
        contenders.append(
            Contender(
                "torch expert",
                "copied into one tensor, torch.distributed.all_reduce, copied back",
                torch_libraries,
                in_ranks(
                    functools.partial(torch_ranks, 2),
                    measured_calls(by_torch(count, size, bucket=True), "torch"),
                ),
            )
        )
    return tuple(contenders)


def _workload(
    name: str, what: str, count: int, size: int, calls: int, floors: tuple[Floor, ...]
) -> Workload:
    return Workload(
        name=f"all_reduce_{name}",
        title=f"all-reduce of {what} between 2 processes",
        unit="calls",
        baseline="torch",
        full=Scale(elements=calls, batch_size=1, later_epochs=19),
        quick=Scale(elements=3, batch_size=1, later_epochs=3),
        contenders=_contenders(count, size),
        floors=floors,
        check=check_calls,
    )


def _at_least(value: float) -> tuple[Floor, ...]:
    return (Floor("later", at_least=value, against="torch"),)


WORKLOADS = (
    _workload("1kB", "1 kB", 1, 256, 200, _at_least(1.0)),
    _workload("1MB", "1 MB", 1, 262_144, 50, _at_least(1.0)),
    _workload("60x16kB", "60 arrays of 16 kB", 60, 4_096, 10, _at_least(5.0)),
    _workload("100MB", "100 MB", 1, 25_000_000, 2, (Floor("later", aim=1.0, against="torch"),)),
)
