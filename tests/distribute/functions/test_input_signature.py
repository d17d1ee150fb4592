"""`function(input_signature=...)` and what distributed datasets say of their elements."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import drumline as dl
from drumline.config import devices as config_devices
from drumline.data import Dataset, TensorSpec
from drumline.distribute.values import PerReplicaSpec


def mirrored(replicas: int) -> dl.distribute.MirroredStrategy:
    return dl.distribute.MirroredStrategy([f"cpu:{index}" for index in range(replicas)])


def twice(*specs: TensorSpec) -> tuple[PerReplicaSpec, ...]:
    return tuple(PerReplicaSpec(spec, spec) for spec in specs)


def test_what_replicas_get_of_a_global_batch() -> None:
    strategy = mirrored(2)
    pairs = Dataset.from_tensors(([1.0], {"label": np.int64(1)})).repeat(8)
    distributed = strategy.experimental_distribute_dataset(pairs.batch(4))
    features, label = twice(TensorSpec((None, 1)), TensorSpec((None,), np.int32))
    assert distributed.element_spec == (features, {"label": label})
    assert iter(distributed).element_spec == distributed.element_spec
    for rows, share in ((4, 2), (5, None)):
        full = strategy.experimental_distribute_dataset(pairs.batch(rows, drop_remainder=True))
        assert full.element_spec[0] == twice(TensorSpec((share, 1)))[0]
    alone = mirrored(1).experimental_distribute_dataset(pairs.batch(4, drop_remainder=True))
    assert alone.element_spec == (TensorSpec((4, 1)), {"label": TensorSpec((4,), np.int32)})
    batch = next(iter(distributed))
    assert batch[1]["label"].values[0].dtype == label.value_specs[0].dtype
    assert iter(pairs).element_spec == pairs.element_spec


@pytest.mark.parametrize(("elements", "rows"), [(16, 4), (12, None), (None, 4)])
def test_what_replicas_get_from_a_function(elements: int | None, rows: int | None) -> None:
    def make(context: Any) -> Dataset:
        endless = Dataset.range(100).repeat()
        return (endless if elements is None else endless.take(elements)).batch(4, True)

    distributed = mirrored(2).distribute_datasets_from_function(make)
    assert distributed.element_spec == twice(TensorSpec((rows,), np.int32))[0]


def test_a_step_over_a_distributed_dataset() -> None:
    strategy = mirrored(2)
    dataset = strategy.experimental_distribute_dataset(Dataset.range(10).batch(4))

    @dl.function(input_signature=[dataset.element_spec])
    def step(per_replica: Any) -> Any:
        return strategy.run(lambda x: 2 * x, args=(per_replica,))

    results = [np.concatenate(step(batch).values).tolist() for batch in dataset]
    assert results == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]
    other = strategy.experimental_distribute_dataset(Dataset.from_tensor_slices(np.eye(4)).batch(4))
    with pytest.raises(TypeError, match=r"step: per_replica is to be .*got an array of shape"):
        step(next(iter(other)))
    with pytest.raises(TypeError, match=r"PerReplicaSpec.*distributed dataset"):
        step(np.arange(4))
    with pytest.raises(TypeError, match="a PerReplica of 3 values"):
        step(mirrored(3).per_replica([np.int32([1])] * 3))
    with pytest.raises(TypeError, match="replica 1 is to be"):
        step(strategy.per_replica([np.int32([1]), np.float32([1])]))


def test_numbers_do_not_compile_anew() -> None:
    traced: list[Any] = []

    @dl.function(input_signature=[TensorSpec([]), {"x": TensorSpec([None], np.int32)}])
    def scale(by: Any, of: Any) -> Any:
        traced.append((by, of))
        return by * of["x"]

    first = scale(2, {"x": [1, 2, 3]})
    assert first.dtype == jnp.float32 and first.tolist() == [2, 4, 6]
    count = len(traced)
    assert scale(3.5, of={"x": np.int32([1, 2, 3])}).tolist() == [3.5, 7, 10.5]
    assert len(traced) == count
    assert scale(by=1, of={"x": jnp.arange(5)}).tolist() == [0, 1, 2, 3, 4]
    assert len(traced) > count


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (([[1.0]],), {}, r"f: x is to be TensorSpec\(shape=\(None,\).*\(1, 1\)"),
        ((jnp.array([1]),), {}, "f: x is to be .*float32.*int32"),
        ((np.float16([1]),), {}, "float16"),
        ((["a"],), {}, "x is to be"),
        (({"a": 1.0},), {}, r"x is to be"),
        (([1.0], 5.0), {}, "got y, which its input_signature does not describe"),
        (([1.0],), {"y": 3.0}, "got y"),
        ((), {}, "missing a required argument: 'x'"),
        (([1.0], 2.0, 3.0), {}, "too many positional arguments"),
    ],
)
@pytest.mark.parametrize("eager", [False, True])
def test_calls_that_do_not_fit(
    args: Any, kwargs: Any, message: str, eager: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_devices, "_eager", eager)

    @dl.function(input_signature=[TensorSpec([None])])
    def f(x: Any, y: float = 2.0) -> Any:
        return x * y

    assert f([1.0, 2.0]).tolist() == [2, 4]
    with pytest.raises(TypeError, match=message):
        f(*args, **kwargs)


def test_structures_that_do_not_fit() -> None:
    f = dl.function(lambda x: x, input_signature=[(TensorSpec([]), {"a": TensorSpec([])})])
    with pytest.raises(TypeError, match="x has another structure"):
        f((1.0, {"b": 1.0}))
    with pytest.raises(TypeError, match=r"x\[1\]\['a'\] is to be .*\(1,\)"):
        f((1.0, {"a": [1.0]}))


def test_methods_and_variadic_arguments() -> None:
    class Model:
        factor = 3

        @dl.function(input_signature=[TensorSpec([], np.int32)])
        def scaled(self, x: Any) -> Any:
            return self.factor * x

    assert int(Model().scaled(2)) == 6
    with pytest.raises(TypeError, match=r"Model.scaled: x is to be"):
        Model().scaled(2.5)

    total = dl.function(lambda *xs: sum(xs), input_signature=[TensorSpec([])] * 2)
    assert float(total(1, 2)) == 3
    with pytest.raises(TypeError, match="got 1 arguments, its input_signature describes 2"):
        total(1)
    with pytest.raises(TypeError, match=r"got \*\[2\]"):
        total(1, 2, 3)


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (TensorSpec([]), "takes a list"),
        ([np.float32], "takes dl.TensorSpec"),
        ([TensorSpec([])] * 3, "has 3 entries, but the function has 2 arguments"),
        ([TensorSpec([])], "no entry for y"),
    ],
)
def test_signatures_that_do_not_suit(specs: Any, message: str) -> None:
    f = dl.function(lambda x, y: x + y, input_signature=specs)
    with pytest.raises(TypeError, match=message):
        f(1.0, 2.0)


def test_a_signature_within_another_function() -> None:
    inner = dl.function(lambda x: x + 1, input_signature=[TensorSpec([2])])
    outer = dl.function(lambda x: inner(x))
    assert outer(np.float32([1, 2])).tolist() == [2, 3]
    assert inner.input_signature == [TensorSpec([2])]
    with pytest.raises(TypeError, match=r"is to be .*\(3,\)"):
        outer(np.float32([1, 2, 3]))
    assert jax.jit(inner)(jnp.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_types_as_the_devices_have_them(dtype: Any) -> None:
    f = dl.function(lambda x: x + 1, input_signature=[TensorSpec([None], dtype)])
    for given in (np.arange(3), jnp.arange(3), [0, 1, 2]):
        assert f(given).tolist() == [1, 2, 3]
