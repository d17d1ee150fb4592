"""Specifications of all-reduces: their grammar, sums, and the bytes that compiled programs send."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drumline.cnn.updates import all_reduce_spec
from drumline.cnn.updates.all_reduce_spec import SizeRange, SpecifiedAllReduce, all_reduce_of, parse
from drumline.distribute.collectives import NcclAllReduce
from tests.distribute.collectives import checks
from tests.distribute.collectives.replicas import axis_of, program, run, stack_of
from tests.distribute.collectives.traffic import bytes_between

WITHOUT_PROCESSES = ["nccl", "collective", "xring", "ring", "rechd", "pscpu", "psgpu#4", "pscpu#2"]
WITHOUT_PROCESSES += ["xring#2", "rechd#3", "pscpu:4:pscpu#2:16:xring", "pscpu:1k:nccl"]
TWO_LEVELS = [f"{a}/{b}" for a in ("nccl", "pscpu") for b in ("xring", "rechd", "pscpu")]


def test_the_grammar() -> None:
    assert parse("nccl") == [SizeRange("nccl", 1, None)]
    assert parse("psgpu#4") == [SizeRange("psgpu", 4, None)]
    assert parse("pscpu:2k:pscpu#2:64K:xring") == [
        SizeRange("pscpu", 1, 2048),
        SizeRange("pscpu", 2, 65536),
        SizeRange("xring", 1, None),
    ]
    assert parse("nccl/xring") == [SizeRange("nccl/xring", 1, None)]
    sizes = {"7": 7, "32k": 2**15, "1M": 2**20, "2G": 2**31, "1T": 2**40}
    assert {text: all_reduce_spec.parse_size(text) for text in sizes} == sizes


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("", "there is no algorithm ''"),
        ("ncl", "Did you mean 'nccl'"),
        ("pscpu:32k", "ends with a size"),
        ("pscpu:32q:xring", "'32q' is no size"),
        ("pscpu:-1:xring", "'-1' is no size"),
        ("pscpu#0", "'0' is no number of shards"),
        ("pscpu#two", "'two' is no number of shards"),
        ("pscpu#", "'' is no number of shards"),
        ("xring/nccl", "there is no algorithm 'xring/nccl'"),
        ("pscpu:2k:xring:1k:nccl", "sizes must rise"),
    ],
)
def test_what_is_refused(spec: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        all_reduce_of(spec)


def test_more_shards_than_devices_are_refused() -> None:
    ops = all_reduce_of("pscpu:1k:psgpu#5")
    with pytest.raises(ValueError, match="5 shards need as many devices .* there are 4"):
        ops.check(axis_of(4))
    all_reduce_of("pscpu:1k:psgpu#4").check(axis_of(4))


@pytest.mark.parametrize("replicas", [1, 2, 3, 4])
@pytest.mark.parametrize("spec", WITHOUT_PROCESSES)
def test_sums_are_right_and_alike_on_all_replicas(spec: str, replicas: int) -> None:
    checks.check_sums(all_reduce_of(spec), replicas)


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four devices as if two processes had two each."""
    monkeypatch.setattr(all_reduce_spec, "_groups", lambda _: [[0, 1], [2, 3]])


@pytest.mark.usefixtures("two_processes")
@pytest.mark.parametrize("spec", TWO_LEVELS)
def test_sums_in_two_levels(spec: str) -> None:
    checks.check_sums(all_reduce_of(spec), 4)


@pytest.mark.parametrize("spec", TWO_LEVELS)
def test_three_processes_of_one_device(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_reduce_spec, "_groups", lambda _: [[0], [1], [2]])
    checks.check_sums(all_reduce_of(spec), 3)


@pytest.mark.parametrize("replicas", [2, 3, 4])
@pytest.mark.parametrize("spec", WITHOUT_PROCESSES)
def test_the_compiled_program_sends_the_bytes_of_the_formula(spec: str, replicas: int) -> None:
    ops = all_reduce_of(spec)
    assert isinstance(ops, SpecifiedAllReduce)
    axis = axis_of(replicas)
    for size in (1, 7, 960, 2048):
        array = jax.ShapeDtypeStruct((size,), jnp.float32)
        sent = checks.count(ops, replicas, array)
        assert sent.sum() == ops.total_bytes_sent(array, axis), size
        of_replicas = [ops.bytes_sent(array, axis, replica) for replica in range(replicas)]
        if None not in of_replicas:
            assert sent.sum(axis=1).tolist() == of_replicas


@pytest.mark.usefixtures("two_processes")
@pytest.mark.parametrize("spec", TWO_LEVELS)
def test_bytes_in_two_levels(spec: str) -> None:
    ops = all_reduce_of(spec)
    assert isinstance(ops, SpecifiedAllReduce)
    array = jax.ShapeDtypeStruct((960,), jnp.float32)
    sent = checks.count(ops, 4, array)
    assert sent.sum() == ops.total_bytes_sent(array, axis_of(4))
    across = sent[:2, 2:].sum() + sent[2:, :2].sum()
    assert across == 2 * 960 * 4, "each process's sum goes to the other once"


def test_shuffles_take_turns() -> None:
    """The first array is gathered on the first device, the second on the next."""
    ops = all_reduce_of("pscpu")

    def body(values: list[jax.Array]) -> list[jax.Array]:
        return ops.sum_arrays(values, axis_of(3))

    stacked = [jax.ShapeDtypeStruct((3, 500), jnp.float32) for _ in range(2)]
    text = program(body, 3).lower(stacked).compile().as_text()
    sent = bytes_between(text)
    assert sent.tolist() == [[0, 4000, 2000], [4000, 0, 2000], [2000, 2000, 0]]


def test_small_arrays_are_packed_like_those_of_an_algorithm() -> None:
    packed, alone = all_reduce_of("xring", NcclAllReduce(num_packs=1)), all_reduce_of("xring")
    given = stack_of(lambda r: [np.full((5,), r, np.float32), np.full((3,), r, np.float32)], 2)

    def travels(ops: object) -> int:
        lowered = program(lambda v: ops.all_reduce("SUM", v, axis_of(2)), 2)  # type: ignore[attr-defined]
        return str(lowered.lower(given).as_text()).count("collective_permute")

    assert travels(packed) < travels(alone)
    results = run(lambda v: packed.all_reduce("SUM", v, axis_of(2)), 2, given)
    assert results[0].tolist() == [[1.0] * 5] * 2


def test_what_describe_says() -> None:
    assert all_reduce_of("xring#2").describe(axis_of(2)) == "xring of 2 shards"
    said = all_reduce_of("pscpu:32k:nccl").describe(axis_of(2))
    assert said == "pscpu up to 32,768 elements; nccl for all others"
