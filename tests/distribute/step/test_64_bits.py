"""64-bit integers on their way to devices: refused where they do not fit, or kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drumline as dl
from drumline.data import Dataset
from drumline.data.elements.precision import require_fits
from drumline.distribute import InputOptions, MirroredStrategy, PerReplica, RunOptions
from tests.distribute.step.loops import mirrored

LARGE = 2**40
KEEP = RunOptions(keep_64_bits=True)


@pytest.fixture
def strategy() -> MirroredStrategy:
    return mirrored(2)


def batches(strategy: MirroredStrategy, *arrays: Any, **options: Any) -> list[Any]:
    """As a distributed dataset gives them, one after another."""
    return list(strategy.experimental_distribute_dataset(list(arrays), InputOptions(**options)))


def looped(strategy: MirroredStrategy, *arrays: Any) -> Any:
    @dl.function
    def total(data: Any) -> Any:
        n = 0
        for x in data:
            n += x.sum()
        return n

    return total(Dataset.from_tensor_slices(np.stack(arrays)))


def from_function(strategy: MirroredStrategy, array: Any) -> list[Any]:
    dataset = Dataset.from_tensor_slices(array).batch(1)
    return list(strategy.distribute_datasets_from_function(lambda context: dataset))


PLACES: dict[str, Callable[[MirroredStrategy, Any], Any]] = {
    "a variable": lambda s, x: dl.Variable(x),
    "a variable of int32": lambda s, x: dl.Variable(x, dtype="int32"),
    "assign": lambda s, x: dl.Variable(np.zeros(np.shape(x), np.int32)).assign(x),
    "assign_add": lambda s, x: dl.Variable(np.zeros(np.shape(x), np.int32)).assign_add(x),
    "run": lambda s, x: s.run(lambda x: x, args=(x,)),
    "run, named": lambda s, x: s.run(lambda x: x, kwargs={"x": {"ids": [x]}}),
    "function": lambda s, x: dl.function(lambda x: x + 1)(x),
    "function over batches": lambda s, x: looped(s, x, x, x),
    "a batch": lambda s, x: batches(s, x),
    "an uneven batch": lambda s, x: batches(s, x[:3]),
    "a batch on the host": lambda s, x: s.run(
        lambda x: x, args=batches(s, x, experimental_fetch_to_device=False)
    ),
    "batches ahead": lambda s, x: batches(s, x, x, experimental_per_replica_buffer_size=2),
    "a batch of a function": from_function,
    "values of a function": lambda s, x: s.experimental_distribute_values_from_function(
        lambda context: x
    ),
    "reduce": lambda s, x: s.reduce("SUM", PerReplica([x, x])),
    "reduce along an axis": lambda s, x: mirrored(1).reduce("SUM", x, axis=0),
    "gather": lambda s, x: s.gather(PerReplica([x, x]), 0),
    "a result": lambda s, x: s.run(lambda: x),
    "prefetch_to_device": lambda s, x: list(
        Dataset.from_tensor_slices(x).prefetch_to_device("cpu:0")
    ),
}


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_what_does_not_fit_is_refused(strategy: MirroredStrategy, place: str, eager: bool) -> None:
    dl.config.run_functions_eagerly(eager)
    try:
        if not (eager and place.startswith("function")):  # as it is: it may compute with numpy
            for value in (2**31, -(2**31) - 1, LARGE):
                with pytest.raises(OverflowError, match=str(value)):
                    PLACES[place](strategy, np.array([0, 1, 2, value], np.int64)[::-1])
        PLACES[place](strategy, np.array([0, 2**31 - 1, 2, -(2**31)], np.int64))
    finally:
        dl.config.run_functions_eagerly(False)


def test_a_scalar_is_refused_and_the_remedy_named(strategy: MirroredStrategy) -> None:
    with pytest.raises(OverflowError, match=r'dtype="int64"'):
        dl.Variable(np.int64(LARGE))
    with pytest.raises(OverflowError, match=r"would become 0\..*RunOptions"):
        strategy.run(lambda x: x, args=(np.int64(LARGE),))
    with pytest.raises(OverflowError, match=r"InputOptions\(keep_64_bits=True\)"):
        batches(strategy, np.int64([LARGE, 0]))


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5),
    st.sampled_from(["int64", "uint64", "int32", "float64", "bool"]),
)
def test_refused_are_exactly_those_that_would_change(numbers: list[int], dtype: str) -> None:
    array = np.array([abs(n) if dtype == "uint64" else n for n in numbers], object)
    array = np.where(np.abs(array) > 2**30, array, array) if dtype != "int32" else array % 2**31
    array = array.astype(dtype)
    narrow = array.astype({"int64": "int32", "uint64": "uint32"}.get(dtype, dtype))
    changes = bool((narrow.astype(dtype) != array).any())
    try:
        require_fits(array, "It", "do something")
        assert not changes
    except OverflowError:
        assert changes


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("rows", [4, 3, 1])
def test_a_variable_keeps_64_bits_in_steps(
    strategy: MirroredStrategy, rows: int, compiled: bool
) -> None:
    with strategy.scope():
        seen = dl.Variable(LARGE, dtype="int64", aggregation="SUM")
        own = dl.Variable(LARGE, dtype="int64", synchronization="ON_READ", aggregation="SUM")
    (x,) = batches(strategy, np.ones((rows, 1), np.float32))

    def step(x: Any) -> Any:
        seen.assign_add(x.shape[0])
        own.assign_add(x.shape[0])
        context = dl.distribute.get_replica_context()
        met = context.all_reduce("SUM", seen.value % np.int64(LARGE - 1))
        return seen.value * 2, met, x.sum()

    run = lambda x: strategy.run(step, args=(x,))  # noqa: E731
    for count in (1, 2):
        doubled, met, total = (dl.function(run) if compiled else run)(x)
        expected = LARGE + count * rows
        assert int(seen.value) == int(own.value) == expected
        assert {int(v) for v in doubled.values} == {2 * expected}
        assert {int(v) for v in met.values} == {expected % (LARGE - 1) * min(rows, 2)}
        assert total.values[0].dtype == "float32"
    assert int(strategy.reduce("SUM", doubled)) == 2 * expected * min(rows, 2)


def test_a_variable_keeps_64_bits_outside(strategy: MirroredStrategy, tmp_path: Path) -> None:
    for dtype, start in (("int64", -LARGE), ("uint64", 2**63)):
        variable = dl.Variable(start, dtype=dtype)
        variable.assign_add(1)
        variable.assign_sub(np.asarray(3, dtype))
        assert int(variable.value) == start - 2 and variable.value.dtype == dtype
        path = dl.train.Checkpoint(v=variable).save(str(tmp_path / dtype))
        variable.assign(0)
        dl.train.Checkpoint(v=variable).restore(path)
        assert int(variable.value) == start - 2
    third = dl.Variable(1 / 3, dtype="float64")
    assert float(dl.function(lambda: third.value * 3)()) == 1.0 and float(third.value) == 1 / 3
    with_double = dl.function(lambda x: (third.value, x))
    assert with_double(np.float64([0.1]))[1].dtype == "float32"
    assert dl.Variable(np.float64(1 / 3)).value.dtype == "float32"


def test_a_step_keeps_64_bits(strategy: MirroredStrategy) -> None:
    ids = np.int64([LARGE, 1, 2, -LARGE])
    out = strategy.run(lambda x: (x + 1, x[:1]), args=(ids,), options=KEEP)
    assert [v.tolist() for v in out[0].values] == [(ids + 1).tolist()] * 2
    for rows in (4, 3):
        for batch in batches(strategy, ids[:rows], keep_64_bits=True):
            for _ in range(2):
                out = strategy.run(lambda x: x * 2, args=(batch,))
            assert strategy.gather(out, 0).tolist() == (ids[:rows] * 2).tolist()
            assert strategy.run(lambda x: x.dtype.name, args=(batch,)) == "int64"
    dataset = strategy.experimental_distribute_dataset(
        Dataset.from_tensor_slices(ids).batch(2), InputOptions(keep_64_bits=True)
    )
    assert dataset.element_spec.value_specs[0].dtype == "int64"

    @dl.function(keep_64_bits=True)
    def largest(start: Any, data: Any) -> Any:
        for x in data:
            start = jnp.maximum(start, x.max())
        return start

    many = Dataset.from_tensor_slices(np.arange(LARGE, LARGE + 300)).batch(2)
    assert int(largest(np.int64(0), many)) == LARGE + 299
    assert int(dl.function(lambda x: x + 1, keep_64_bits=True)(np.int64(LARGE))) == LARGE + 1
    dl.config.run_functions_eagerly(True)
    try:
        out = strategy.run(lambda x: x + 1, args=(ids,), options=KEEP)
    finally:
        dl.config.run_functions_eagerly(False)
    assert out.values[1].tolist() == (ids + 1).tolist()
