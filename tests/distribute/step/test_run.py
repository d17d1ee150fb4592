"""What `run` takes, gives back and refuses."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset
from drumline.distribute import MirroredStrategy, PerReplica
from drumline.distribute.step import run as run_module
from tests.distribute.step.loops import mirrored


class Pair(NamedTuple):
    a: Any
    b: Any


@pytest.fixture
def strategy() -> MirroredStrategy:
    return mirrored(2)


def batches(strategy: MirroredStrategy, *values: Any) -> list[Any]:
    return list(strategy.experimental_distribute_dataset(list(values)))


def test_any_structure_in_and_out(strategy: MirroredStrategy) -> None:
    (batch,) = batches(strategy, {"b": np.arange(4), "a": (np.ones((2, 3), "f")[[0, 0, 1, 1]],)})

    def step(batch: Any, word: str, *, pair: Pair, flag: bool) -> Any:
        assert word == "hello" and flag is True and pair.a is None
        return {"n": None, "w": word, "p": Pair(batch["b"] + pair.b, [batch["a"][0]]), "i": 3}

    out = strategy.run(
        step, args=(batch, "hello"), kwargs={"pair": Pair(None, np.int32(10)), "flag": True}
    )
    assert out["n"] is None and out["w"] == "hello" and isinstance(out["p"], Pair)
    assert [v.tolist() for v in out["p"].a.values] == [[10, 11], [12, 13]]
    assert [v.shape for v in out["p"].b[0].values] == [(2, 3), (2, 3)]
    assert [int(v) for v in out["i"].values] == [3, 3]


def test_traced_once_for_a_shape(strategy: MirroredStrategy) -> None:
    traces: list[Any] = []

    def step(x: Any) -> Any:
        traces.append(x.shape)
        return x.sum()

    wide = batches(strategy, *[np.ones((4, 2), np.float32)] * 3)
    for batch in wide:
        strategy.run(step, args=(batch,))
    after = len(traces)
    assert set(traces) == {(2, 2)}
    for batch in wide:
        strategy.run(step, args=(batch,))
    assert len(traces) == after
    (narrow,) = batches(strategy, np.ones((2, 2), np.float32))
    strategy.run(step, args=(narrow,))
    assert traces[-1] == (1, 2)


def test_methods_partials_and_lambdas(strategy: MirroredStrategy) -> None:
    class Owner:
        calls = 0

        def step(self, x: Any) -> Any:
            self.calls += 1
            return x + 1

    owner = Owner()
    (x,) = batches(strategy, np.zeros(2, np.float32))
    for _ in range(3):
        strategy.run(owner.step, args=(x,))
    assert owner.calls == 2  # once to find the variables, once to compile
    add = functools.partial(lambda k, x: x + k, 5.0)
    assert float(strategy.reduce("SUM", strategy.run(add, args=(x,)), axis=0)) == 10.0


def test_python_numbers_are_constants_and_many_are_told(strategy: MirroredStrategy) -> None:
    def step(x: Any, n: int) -> Any:
        return x * n if n % 2 else x

    (x,) = batches(strategy, np.ones(2, np.float32))
    with pytest.warns(
        UserWarning, match=r"5 different Python numbers among its arguments \(0, 1, 2, 3, 4\)"
    ):
        outs = [strategy.run(step, args=(x, n)) for n in range(5)]
    assert [float(strategy.reduce("SUM", out, axis=0)) for out in outs] == [2, 2, 2, 6, 2]


def test_functions_that_are_not_run_any_more_are_forgotten(
    strategy: MirroredStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "MOST_PROGRAMS", 2)
    (x,) = batches(strategy, np.ones(2, np.float32))
    steps = [functools.partial(lambda k, x: x + k, float(k)) for k in range(4)]
    kept = weakref.WeakSet(steps)
    for step in steps:
        strategy.run(step, args=(x,))
    del steps, step
    gc.collect()
    assert len(kept) <= 2


def test_bad_arguments(strategy: MirroredStrategy) -> None:
    dataset = Dataset.range(4).batch(2)
    for given in (dataset, strategy.experimental_distribute_dataset(dataset)):
        with pytest.raises(TypeError, match="got a dataset.*experimental_distribute_dataset"):
            strategy.run(lambda x: x, args=(given,))
    with pytest.raises(TypeError, match="strings or objects"):
        strategy.run(lambda x: x, args=(np.array([b"a"], object),))
    empty = PerReplica([np.zeros((0, 2), "f"), np.zeros((0, 2), "f")])
    out = strategy.run(lambda x: x.sum(), args=(empty,))
    assert float(strategy.reduce("SUM", out)) == 0.0


def test_a_step_that_raises_changes_nothing(strategy: MirroredStrategy) -> None:
    with strategy.scope():
        v = dl.Variable(1.0, aggregation="SUM")
    fail = True

    def step() -> None:
        v.assign_add(1.0)
        if fail:
            raise ArithmeticError("stop")

    with pytest.raises(ArithmeticError, match="stop"):
        strategy.run(step)
    assert float(v.value) == 1.0
    fail = False
    strategy.run(step)
    assert float(v.value) == 3.0


def test_inside_functions_compiled_by_jax(strategy: MirroredStrategy) -> None:
    """A jitted function that reads a variable sees its value of now, in every trace."""
    with strategy.scope():
        v = dl.Variable(2.0, aggregation="MEAN")
    scaled = jax.jit(lambda x: x * v.value)

    def step(x: Any) -> Any:
        before = scaled(x)
        v.assign(v.value * 10)
        return before + scaled(x)

    (x,) = batches(strategy, np.ones(2, np.float32))
    totals = [float(strategy.reduce("SUM", strategy.run(step, args=(x,)), axis=0)) for _ in "ab"]
    assert totals == [2 * (2 + 20), 2 * (20 + 200)]


def test_reduce(strategy: MirroredStrategy) -> None:
    even, uneven = batches(strategy, np.arange(4), np.arange(6.0, dtype=np.float32)[:3])
    assert strategy.reduce("SUM", even, axis=None).tolist() == [2, 4]
    assert int(strategy.reduce("SUM", even, axis=0)) == 6
    assert float(strategy.reduce("MEAN", even, axis=0)) == 1.5
    assert float(strategy.reduce("MEAN", uneven, axis=0)) == 1.0
    with pytest.raises(ValueError, match="axis=1"):
        strategy.reduce("SUM", even, axis=1)
    with pytest.raises(ValueError, match="not per replica"):
        strategy.reduce("SUM", np.float32(1))
    assert float(strategy.reduce("MEAN", np.float32(1))) == 1.0
    assert strategy.reduce("SUM", {"a": even, "b": [uneven]}, axis=0)["b"][0] == 3.0


def test_gather(strategy: MirroredStrategy) -> None:
    even, uneven = batches(strategy, np.arange(8).reshape(4, 2), np.arange(6).reshape(3, 2))
    assert strategy.gather(even, axis=0).tolist() == np.arange(8).reshape(4, 2).tolist()
    assert strategy.gather(even, axis=1).tolist() == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert strategy.gather(uneven, axis=0).tolist() == np.arange(6).reshape(3, 2).tolist()
    scalars = strategy.run(lambda: jnp.float32(1))
    with pytest.raises(ValueError, match=r"value\[None\]"):
        strategy.gather(scalars, axis=0)


def test_a_step_holds_what_its_variables_hold_once() -> None:
    strategy = MirroredStrategy(["cpu:0", "cpu:1"])
    with strategy.scope():
        total = dl.Variable(np.zeros(12_347, np.float32), aggregation="mean")

    def step(x: Any) -> None:
        total.assign_add(x * np.ones(12_347, np.float32))

    for _ in range(2):
        strategy.run(step, (np.float32(1),))
    gc.collect()
    arrays = [array for array in jax.live_arrays() if array.size == 12_347]
    parts = [part.data for array in arrays for part in array.addressable_shards]
    assert len({part.unsafe_buffer_pointer() for part in parts}) == 2  # on two devices
