"""Sums in shared memory: of the devices of this process, and which processes share any."""

from __future__ import annotations

import concurrent.futures
import json
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import pjit
from jax.sharding import NamedSharding, PartitionSpec

from drumline import _core
from drumline._shared_memory import MemoryOffer, create_memory
from drumline.cpu_kernels import kernels
from drumline.distribute import MirroredStrategy, PerReplica, global_arrays
from drumline.distribute.collectives import GlooAllReduce, SharedMemoryAllReduce, shared_memory
from drumline.distribute.collectives.collective_channels import (
    LARGE_CHANNELS,
    MOST_RANKS,
    ChannelAllocator,
    ChannelRange,
    allocate_channels,
)
from drumline.distribute.process_group import shm_all_reduce
from drumline.distribute.process_group.peers import LocalProcess
from tests.distribute.collectives import checks
from tests.distribute.collectives.replicas import assert_same_bits, axis_of, program, stack_of
from tests.processes import open_files

REPLICAS = 4
OPS = SharedMemoryAllReduce()


@pytest.fixture(scope="module", autouse=True)
def memory() -> None:
    """As in a job of one process, in which each device is a rank."""
    kernels.register()
    nbytes = _core.summing_memory_bytes(REPLICAS)
    descriptor = create_memory(nbytes, reserved=nbytes)
    this = LocalProcess.this()
    peers = [("worker:0", this.pid, this.started)] * REPLICAS
    _core.share_summing_memory(descriptor, peers, 60.0)
    with pytest.raises(RuntimeError, match="already"):
        _core.share_summing_memory(descriptor, peers, 60.0)
    os.close(descriptor)


def numbered(body: Callable[..., Any]) -> Any:
    """Compile on call: `body` for every replica, with channels for its sums."""

    def with_channels(*args: Any) -> Any:
        with allocate_channels():
            return body(*args)

    return jax.jit(ChannelRange(program(with_channels, REPLICAS), ChannelAllocator()))


def reduced(values: Any) -> Any:
    return OPS.all_reduce("SUM", values, axis_of(REPLICAS))


def calls(compiled: Any, *stacked: Any) -> int:
    """How many sums are formed in shared memory."""
    return str(compiled.lower(*stacked).as_text()).count("@drumline_all_reduce")


def test_sums_of_many_types_have_the_same_bits_everywhere() -> None:
    given = stack_of(checks.values, REPLICAS)
    given["float64"] = np.random.default_rng(1).normal(size=(REPLICAS, 3))
    with jax.enable_x64(True):
        compiled = numbered(reduced)
        assert calls(compiled, given) == 5  # float64, float32, float16, bfloat16, int32
        sums = jax.tree.map(np.asarray, compiled(given))
    for name, values in given.items():
        assert_same_bits(sums[name], np.broadcast_to(sums[name][0], sums[name].shape).copy())
        checks._assert_close(sums[name][0], values, 1)
    in_order = given["float32"][0] + given["float32"][1] + given["float32"][2] + given["float32"][3]
    assert_same_bits(sums["float32"][0], in_order)


def test_sums_larger_than_a_slot_and_several_at_a_time_many_times() -> None:
    def body(large: Any, small: Any) -> Any:
        first = reduced([large, large[:5]])
        second = reduced({"own": small, "half": small.astype(jnp.bfloat16), "other": large * 2})
        return first, second, reduced(first[0][:3])

    random = np.random.default_rng(2)
    large = random.integers(-9, 9, (REPLICAS, 700_001)).astype(np.float32)
    small = random.integers(-9, 9, (REPLICAS, 3)).astype(np.float32)
    compiled = numbered(body)
    assert calls(compiled, large, small) == 4
    total = large.sum(0)
    for _ in range(5):
        sums = jax.tree.map(lambda array: np.asarray(array)[3], compiled(large, small))
        (first, part), second, third = sums
        np.testing.assert_array_equal(first, total)
        np.testing.assert_array_equal(part, total[:5])
        np.testing.assert_array_equal(second["own"], small.sum(0))
        np.testing.assert_array_equal(second["half"].astype(np.float32), small.sum(0))
        np.testing.assert_array_equal(second["other"], 2 * total)
        np.testing.assert_array_equal(third, REPLICAS * total[:3])


def test_what_may_occur_twice_in_a_program_goes_by_gloo() -> None:
    twice = jax.jit(lambda x: reduced(x))

    def body(x: Any) -> Any:
        looped = jax.lax.scan(lambda c, _: (reduced(c) / REPLICAS, None), x, None, length=2)[0]
        slope = jax.grad(lambda x: (reduced(x) ** 2).sum())(x)
        return twice(x) + twice(x + 1), looped, slope

    x = np.arange(REPLICAS * 3, dtype=np.float32).reshape(REPLICAS, 3)
    compiled = numbered(body)
    assert calls(compiled, x) == 0
    by_gloo = jax.tree.map(np.asarray, program(body, REPLICAS)(x))
    jax.tree.map(np.testing.assert_array_equal, jax.tree.map(np.asarray, compiled(x)), by_gloo)


def test_no_more_sums_at_a_time_than_there_are_channels() -> None:
    def body(x: Any) -> Any:
        return [reduced(x * factor) for factor in range(LARGE_CHANNELS + 2)]

    x = np.ones((REPLICAS, 1025), np.float32)
    compiled = numbered(body)
    assert calls(compiled, x) == LARGE_CHANNELS
    for factor, total in enumerate(compiled(x)):
        np.testing.assert_array_equal(total, np.full_like(x, REPLICAS * factor))


def test_derivatives_and_batches_of_a_whole_step() -> None:
    def loss(compiled: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda x: (compiled(x) ** 2).sum()

    x = np.arange(REPLICAS * 3, dtype=np.float32).reshape(REPLICAS, 3)
    one, other = numbered(reduced), program(reduced, REPLICAS)
    np.testing.assert_allclose(jax.grad(loss(one))(x), jax.grad(loss(other))(x))
    batch = np.stack([x, x + 1, -x])
    np.testing.assert_array_equal(jax.vmap(one)(batch), jax.vmap(other)(batch))


def test_what_a_function_reduces_after_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = MirroredStrategy([f"cpu:{i}" for i in range(REPLICAS)], cross_device_ops=OPS)
    monkeypatch.setattr(MirroredStrategy, "spans_processes", True)

    def whole(rows: Any) -> Any:
        with allocate_channels():
            values = PerReplica.of_stacked(rows)
            return strategy.reduce("SUM", values, axis=None), strategy.reduce("MEAN", values, None)

    rows = jax.device_put(
        np.arange(REPLICAS * 3, dtype=np.int32).reshape(REPLICAS, 3),
        NamedSharding(strategy.mesh, PartitionSpec(strategy.mesh.axis_names[0])),
    )
    compiled = jax.jit(ChannelRange(whole, ChannelAllocator()))
    assert "all-reduce" not in compiled.lower(rows).compile().as_text()
    assert calls(compiled, rows) == 2
    total, mean = compiled(rows)
    np.testing.assert_array_equal(total, np.asarray(rows).sum(0))
    np.testing.assert_array_equal(mean, np.asarray(rows).mean(0))
    assert total.dtype == jnp.int32 and mean.dtype == jnp.float32


def test_jax_calls_programs_with_sums_by_its_quick_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA is told of side effects, and JAX of none, which would keep the program from it."""
    quick: list[bool] = []
    asked = pjit._get_fastpath_data

    def noted(*args: Any, **kwargs: Any) -> Any:
        found = asked(*args, **kwargs)
        quick.append(found is not None)
        return found

    monkeypatch.setattr(pjit, "_get_fastpath_data", noted)
    x = np.arange(REPLICAS * 3, dtype=np.float32).reshape(REPLICAS, 3)
    given = jax.device_put(x, NamedSharding(stacked().mesh, PartitionSpec("replica")))
    compiled = numbered(lambda x: (reduced(x), reduced(x)))
    assert not compiled.trace(given).jaxpr.effects
    for _ in range(6):
        first, second = compiled(given)
        np.testing.assert_array_equal(first, second)
    assert quick[-1] and len(quick) < 6, "later calls do not come by JAX's Python"
    text = compiled.lower(given).compile().as_text()
    calls = [line for line in text.splitlines() if 'custom_call_target="drumline_all_r' in line]
    assert len(calls) == 2, "equal sums, on channels of their own, stay two"
    assert all("custom_call_has_side_effect=true" in line for line in calls)


def stacked() -> MirroredStrategy:
    return MirroredStrategy([f"cpu:{i}" for i in range(REPLICAS)], cross_device_ops=OPS)


@pytest.fixture
def spanning(monkeypatch: pytest.MonkeyPatch) -> MirroredStrategy:
    """Its arrays are computed with as if other processes had some of them."""
    strategy = stacked()
    arrays = strategy._arrays

    def compute(fn: Any, options: Any, operand: Any) -> Any:
        ops = arrays._gathering(operand)
        sharding = NamedSharding(strategy.mesh, PartitionSpec())
        compiled = global_arrays._compiled(fn, options, sharding, ops)
        text = compiled.lower(operand).compile().as_text()
        found.append((text.count('target="drumline_all_reduce"'), text.count("all-gather(")))
        return compiled(operand)

    found: list[tuple[int, int]] = []
    monkeypatch.setattr(arrays, "_compute", compute)
    monkeypatch.setattr(strategy, "found", found, raising=False)
    return strategy


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "uint8", "int16", "float64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 5)])
def test_small_values_of_replicas_are_gathered_with_all_their_bits(
    spanning: Any, dtype: str, shape: tuple[int, ...]
) -> None:
    kind = np.dtype(jnp.dtype(dtype))
    count = REPLICAS * int(np.prod(shape)) * kind.itemsize
    bits = np.random.default_rng(3).integers(0, 2 if dtype == "bool" else 256, count, np.uint8)
    rows = bits.view(kind).reshape(REPLICAS, *shape)
    with jax.enable_x64(True):
        given = jax.device_put(rows, NamedSharding(spanning.mesh, PartitionSpec("replica")))
        everywhere = spanning._arrays.compute(lambda stacked: stacked, (), given)
    assert spanning.found == [(1, 0)]
    for shard in everywhere.addressable_shards:
        assert_same_bits(np.asarray(shard.data), rows)


def test_what_is_large_or_has_no_bytes_is_gathered_by_xla(spanning: Any) -> None:
    limit = shared_memory.MOST_GATHERED_BYTES // REPLICAS
    by_rows = NamedSharding(spanning.mesh, PartitionSpec("replica"))
    for each in (
        np.zeros((REPLICAS, limit + 1), np.uint8),
        np.zeros((REPLICAS, 2), np.complex64),
        np.zeros((REPLICAS, 0), np.float32),
        jax.random.split(jax.random.key(0), REPLICAS),
    ):
        assert spanning._arrays._gathering(jax.device_put(each, by_rows)) is None
    small = jax.device_put(np.zeros((REPLICAS, limit), np.uint8), by_rows)
    assert spanning._arrays._gathering(small) is OPS


def test_replicas_values_are_reduced_and_gathered_in_shared_memory(spanning: Any) -> None:
    rows = np.random.default_rng(4).normal(size=(REPLICAS, 2, 3)).astype(np.float32)
    by_rows = NamedSharding(spanning.mesh, PartitionSpec("replica"))
    values = PerReplica.of_stacked(jax.device_put(rows, by_rows))
    total = ((rows[0] + rows[1]) + rows[2]) + rows[3]
    assert_same_bits(np.asarray(spanning.reduce("SUM", values)), total)
    assert_same_bits(np.asarray(spanning.reduce("MEAN", values)), total / np.float32(REPLICAS))
    assert_same_bits(np.asarray(spanning.gather(values, axis=0)), np.concatenate(rows))
    few = PerReplica.of_stacked(values.stacked, [0, 2])
    assert_same_bits(np.asarray(spanning.reduce("SUM", few)), rows[0] + rows[2])
    assert spanning.found == [(1, 0)] * 4


class Blackboard:
    """What processes tell one another, in one process."""

    def __init__(self) -> None:
        self.told: dict[str, concurrent.futures.Future[str]] = {}

    def _slot(self, key: str) -> concurrent.futures.Future[str]:
        return self.told.setdefault(key, concurrent.futures.Future())

    def tell_memory(self, key: str, value: str) -> None:
        self._slot(key).set_result(value)

    def memory(self, key: str, timeout_seconds: int) -> str:
        return self._slot(key).result(timeout_seconds)


def decide(machines: list[str], process_of_rank: list[int]) -> list[str]:
    """Why each of the processes shares no memory."""
    blackboard = Blackboard()
    this = LocalProcess.this()
    processes = [LocalProcess(machine, this.pid, this.started) for machine in machines]
    tasks = tuple(f"worker:{index}" for index in range(len(machines)))

    def member(index: int) -> str:
        group = SimpleNamespace(process_index=index, num_processes=len(machines), tasks=tasks)
        membership: Any = SimpleNamespace(group=group, processes=processes, coordination=blackboard)
        return shm_all_reduce.share(membership, process_of_rank)

    with concurrent.futures.ThreadPoolExecutor(len(machines)) as pool:
        return list(pool.map(member, range(len(machines))))


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would have been shared."""
    found: list[Any] = []
    monkeypatch.setattr(shm_all_reduce, "share_summing_memory", lambda *args: found.append(args))
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_collective_timeout_seconds=7 --other=8")
    return found


def test_processes_of_one_machine_share_memory(joined: list[Any]) -> None:
    before = open_files()
    assert decide(["here", "here"], [0, 0, 1, 1]) == ["", ""]
    names = [[task for task, *_ in peers] for _, peers, _ in joined]
    assert names == [["worker:0", "worker:0", "worker:1", "worker:1"]] * 2
    assert [limit for *_, limit in joined] == [7, 7]
    assert not open_files() - before


def test_processes_that_cannot_share_say_why(
    joined: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (why,) = set(decide(["here", "there"], [0, 1]))
    assert "several machines" in why
    (why,) = set(decide(["here", "here"], [0, 1] * MOST_RANKS))
    assert f"more than {MOST_RANKS}" in why
    with monkeypatch.context() as here:
        here.setattr(os, "posix_fallocate", _no_space)
        (why,) = set(decide(["here", "here"], [0, 1]))
    assert "No space left" in why
    with monkeypatch.context() as here:
        here.setattr(MemoryOffer, "open", _no_space)
        (why,) = set(decide(["here", "here", "here"], [0, 1, 2]))
    assert "cannot be opened" in why
    monkeypatch.setenv("DRUMLINE_SHARED_MEMORY", "0")
    (why,) = set(decide(["here", "here"], [0, 1]))
    assert "DRUMLINE_SHARED_MEMORY is 0" in why
    assert not joined
    assert why in GlooAllReduce(because=why).describe(axis_of(2))


def test_memory_of_another_job_is_not_taken(joined: list[Any]) -> None:
    blackboard = Blackboard()
    descriptor = create_memory(8192)
    network = os.readlink("/proc/self/ns/net")
    memory = MemoryOffer.of(descriptor, nonce_at=64).to_json()
    blackboard.tell_memory("offer", json.dumps({"memory": memory, "network": network}))
    found: Any = blackboard
    assert "does not offer 4096 bytes" in str(shm_all_reduce._accept(found, 4096))
    opened = shm_all_reduce._accept(found, 8192)
    assert isinstance(opened, int)
    os.close(opened)
    os.pwrite(descriptor, b"0" * 32, 64)
    assert "another connection or job" in str(shm_all_reduce._accept(found, 8192))
    os.close(descriptor)
    other: Any = Blackboard()
    other.tell_memory("offer", json.dumps({"memory": memory, "network": "net:[1]"}))
    assert "several hosts" in str(shm_all_reduce._accept(other, 8192))


def _no_space(*_: Any) -> None:
    raise OSError(28, "No space left on device")
