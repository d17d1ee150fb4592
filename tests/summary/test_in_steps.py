"""Summaries that compiled steps record: each time they run, once for all replicas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
import pytest

import drumline as dl
from drumline.distribute.parameter_server.compiler.exporting import export_function
from drumline.distribute.parameter_server.errors import ProgramError
from tests.summary.reading import events, numbers

make_ndarray = pytest.importorskip("tensorboard.util.tensor_util").make_ndarray


@pytest.fixture(params=[1, 2, 4])
def strategy(request: pytest.FixtureRequest) -> dl.distribute.Strategy:
    return dl.distribute.MirroredStrategy([f"cpu:{i}" for i in range(request.param)])


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("eagerly", [True, False])
def test_replicas_record_once(
    strategy: dl.distribute.Strategy, compiled: bool, eagerly: bool, tmp_path: Path
) -> None:
    with strategy.scope():
        count = dl.Variable(np.int32(0))

    def replica_step(x: Any) -> Any:
        dl.summary.scalar("sum", x.sum(), step=count)
        return x.sum()

    def step(x: Any) -> Any:
        total = strategy.reduce("SUM", strategy.run(replica_step, args=(x,)), axis=None)
        with dl.summary.record_if(lambda: count.value % 2 == 0):
            dl.summary.scalar("even", total, step=count)
        count.assign_add(1)
        return total

    step = dl.function(step) if compiled else step
    rows = np.arange(4, dtype=np.float32)
    dl.config.run_functions_eagerly(eagerly)
    try:
        with dl.summary.create_file_writer(tmp_path).as_default():
            for number in range(4):
                step(rows + number)
    finally:
        dl.config.run_functions_eagerly(False)
    total = [float((rows + number).sum()) for number in range(4)]
    times = strategy.num_replicas_in_sync
    assert numbers(tmp_path) == [
        *(("even", number, total[number] * times) for number in (0, 2)),
        *(("sum", number, total[number]) for number in range(4)),
    ]


def test_uneven_batches_record_once(strategy: dl.distribute.Strategy, tmp_path: Path) -> None:
    rows = np.arange(5, dtype=np.float32)
    data = strategy.experimental_distribute_dataset(
        dl.data.Dataset.from_tensor_slices(rows).batch(4)
    )

    def replica_step(x: Any) -> None:
        dl.summary.scalar("rows", x.shape[0], step=0)

    with dl.summary.create_file_writer(tmp_path).as_default():
        for batch in data:
            strategy.run(replica_step, args=(batch,))
    each = 4 // strategy.num_replicas_in_sync
    assert sorted(numbers(tmp_path)) == sorted([("rows", 0, float(each)), ("rows", 0, 1.0)])


@pytest.mark.parametrize("whole", [False, True])
def test_a_step_of_keras_records(
    strategy: dl.distribute.Strategy, tmp_path: Path, whole: bool
) -> None:
    class Recorded(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            dl.summary.scalar("largest", keras.ops.max(x), step=optimizer.iterations)
            return x

    class Whole(keras.Sequential):
        def train_step(self, *args: Any) -> Any:
            return super().train_step(*args)

    with strategy.scope():
        optimizer = keras.optimizers.SGD()
        model = (Whole if whole else keras.Sequential)(
            [keras.Input((1,)), Recorded(), keras.layers.Dense(1)]
        )
        model.compile(optimizer, "mse")
    x = np.ones((8, 1), np.float32)
    with dl.summary.create_file_writer(tmp_path).as_default():
        model.fit(x, x, batch_size=4, epochs=1, verbose=0, shuffle=False)
        assert optimizer.iterations == 2
        model.fit(x, x, batch_size=4, epochs=1, verbose=0, shuffle=False)
    assert numbers(tmp_path) == [("largest", step, 1.0) for step in range(4)]


@pytest.fixture
def no_callback(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A program that calls back costs each of its calls as much as hundreds of summaries."""
    called: list[Any] = []
    monkeypatch.setattr("drumline.training.outbox._called_back", lambda *a: called.append(a))
    yield
    assert not called


@pytest.mark.usefixtures("no_callback")
def test_what_is_recorded_is_a_result_of_the_step(
    strategy: dl.distribute.Strategy, tmp_path: Path
) -> None:
    """Within tapes and transformations, too: values of any dtype and size, in their order."""
    with strategy.scope():
        weight, count = dl.Variable(np.ones(3, np.float32)), dl.Variable(np.int32(0))

    def replica_step(x: Any) -> Any:
        def loss_of(weight: Any) -> Any:
            loss = (weight * x).sum()
            dl.summary.scalar("in grad", loss, step=count)
            return loss

        with dl.GradientTape() as tape:
            loss = (weight * x).sum()
            dl.summary.scalar("in tape", loss.astype(np.float16), step=count)
        gradient = jax.grad(loss_of)(weight.value)
        dl.summary.write("less", loss < 0, step=count)
        dl.summary.write("gradient", tape.gradient(loss, weight) - gradient, step=count)
        dl.summary.scalar("mapped", 4, step=count)
        jax.vmap(lambda row: dl.summary.scalar("row", row, step=count))(x)
        return loss

    @dl.function
    def step(x: Any) -> Any:
        losses = strategy.run(replica_step, args=(x,))
        with dl.summary.record_if(count == 1):
            dl.summary.write("weight", weight, step=count)
            dl.summary.text("text", "of a step", step=count)
        weight.assign(weight * 2)
        count.assign_add(1)
        return losses

    with dl.summary.create_file_writer(tmp_path).as_default():
        for number in range(3):
            step(np.array([1.0, 2.0, 3.0 + number], np.float32))
    found = [
        (value.tag, event.step, make_ndarray(value.tensor))
        for event in events(tmp_path)
        for value in event.summary.value
    ]
    expected: list[tuple[str, int, Any]] = []
    for number in range(3):
        loss = np.float32(2**number * (6 + number))
        expected += [
            ("in tape", number, np.float32(loss)),
            ("in grad", number, loss),
            ("less", number, np.bool_(False)),
            ("gradient", number, np.zeros(3, np.float32)),
            ("mapped", number, np.float32(4)),
            *(("row", number, np.float32(row)) for row in (1, 2, 3 + number)),
        ]
        if number == 1:
            expected.append(("weight", 1, np.full(3, 2, np.float32)))
            expected.append(("text", 1, np.array(b"of a step", object)))
    assert [each[:2] for each in found] == [each[:2] for each in expected]
    for (tag, _, value), (_, _, wanted) in zip(found, expected, strict=True):
        assert value.dtype == wanted.dtype, tag
        np.testing.assert_array_equal(value, wanted, tag)


@pytest.mark.usefixtures("no_callback")
def test_several_steps_in_one_program_record_each(
    strategy: dl.distribute.Strategy, tmp_path: Path
) -> None:
    with strategy.scope():
        count = dl.Variable(np.int32(0))
    rows = np.arange(64, dtype=np.float32)
    data = strategy.experimental_distribute_dataset(
        dl.data.Dataset.from_tensor_slices(rows).batch(4)
    )

    def replica_step(x: Any) -> None:
        dl.summary.scalar("first", x[0], step=count)

    @dl.function
    def epoch() -> None:
        for batch in data:
            strategy.run(replica_step, args=(batch,))
            count.assign_add(1)
            dl.summary.scalar("count", count, step=count)

    with dl.summary.create_file_writer(tmp_path).as_default():
        epoch()
    assert numbers(tmp_path) == [
        *(("count", number, float(number)) for number in range(1, 17)),
        *(("first", number, 4.0 * number) for number in range(16)),
    ]


@pytest.mark.usefixtures("no_callback")
@pytest.mark.parametrize("jit_compile", [True, False])
def test_keras_without_a_strategy(tmp_path: Path, jit_compile: bool) -> None:
    optimizer = keras.optimizers.SGD()

    class Recorded(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            dl.summary.scalar("largest", keras.ops.max(x), step=optimizer.iterations)
            return x

    model = keras.Sequential([keras.Input((1,)), Recorded(), keras.layers.Dense(1)])
    model.compile(optimizer, "mse", jit_compile=jit_compile)
    x = np.arange(1, 5, dtype=np.float32)[:, None]
    with dl.summary.create_file_writer(tmp_path / "fit").as_default():
        model.fit(x, x, batch_size=2, epochs=2, verbose=0, shuffle=False)
    assert numbers(tmp_path / "fit") == [("largest", step, 2.0 + step % 2 * 2) for step in range(4)]
    with dl.summary.create_file_writer(tmp_path / "evaluate").as_default():
        model.evaluate(x, x, batch_size=2, verbose=0)
    assert numbers(tmp_path / "evaluate") == [("largest", 4, 2.0), ("largest", 4, 4.0)]
    assert "train_step" not in vars(model)


def test_branches_of_a_step_record(strategy: dl.distribute.Strategy, tmp_path: Path) -> None:
    """The device calls back there, in any order."""
    with strategy.scope():
        count = dl.Variable(np.int32(0))

    def replica_step(x: Any) -> None:
        def record() -> None:
            dl.summary.scalar("even", x, step=count)

        jax.lax.cond(count.value % 2 == 0, record, lambda: None)
        jax.jit(lambda x: dl.summary.scalar("compiled", x, step=count))(x)

    @dl.function
    def step(x: Any) -> None:
        strategy.run(replica_step, args=(x,))
        count.assign_add(1)

    with dl.summary.create_file_writer(tmp_path).as_default():
        for number in range(4):
            step(np.float32(number))
    assert numbers(tmp_path) == [
        *(("compiled", number, float(number)) for number in range(4)),
        *(("even", number, float(number)) for number in (0, 2)),
    ]


def test_loops_of_a_step_record(tmp_path: Path) -> None:
    @jax.jit
    def program(x: Any) -> Any:
        def body(i: Any, x: Any) -> Any:
            dl.summary.scalar("x", x, step=i)
            return x + 1

        return jax.lax.fori_loop(0, 3, body, x)

    with dl.summary.create_file_writer(tmp_path).as_default():
        program(np.float32(1))
    assert numbers(tmp_path) == [("x", i, 1.0 + i) for i in range(3)]


def test_a_variable_is_recorded_as_it_is_now(tmp_path: Path) -> None:
    """The next step gives its buffer away while the summary may still wait."""
    strategy = dl.distribute.OneDeviceStrategy("cpu:0")
    with strategy.scope():
        weight, count = dl.Variable(np.float32(1)), dl.Variable(np.int64(0))

    @dl.function
    def step() -> None:
        weight.assign(weight * 2)
        count.assign_add(1)

    with dl.summary.create_file_writer(tmp_path).as_default(step=count):
        for _ in range(50):
            dl.summary.scalar("weight", weight)
            step()
    assert numbers(tmp_path) == [("weight", i, float(np.float32(2.0**i))) for i in range(50)]


def test_values_of_replicas_must_be_reduced(tmp_path: Path) -> None:
    strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    each = strategy.run(lambda: dl.distribute.get_replica_context().replica_id_in_sync_group)
    with (
        dl.summary.create_file_writer(tmp_path).as_default(),
        pytest.raises(TypeError, match=r"'x' is given a value of each replica.*strategy.reduce"),
    ):
        dl.summary.scalar("x", each, step=0)


def test_a_step_for_other_tasks_refuses_summaries(tmp_path: Path) -> None:
    """As those for parameter servers' workers, which have no writer."""

    def step(x: Any) -> Any:
        dl.summary.scalar("x", x, step=0)
        return [x * 2]

    specs = [jax.ShapeDtypeStruct((), np.float32)]
    with (
        dl.summary.create_file_writer(tmp_path).as_default(),
        pytest.raises(ProgramError, match="return the value, and record it"),
    ):
        export_function(step, specs, ["cpu"])
    assert export_function(lambda x: [x * 2], specs, ["cpu"])
