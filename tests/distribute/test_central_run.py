"""Steps of `run` under `CentralStorageStrategy`: updated at home, and rows of tables travel."""

from __future__ import annotations

import functools
import gc
import logging
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline as dl
from drumline._jax_start import explicit_64_bits
from drumline.distribute import MirroredStrategy, Strategy
from drumline.distribute.experimental import CentralStorageStrategy
from drumline.distribute.step import central_programs
from tests.interruptions import interrupted_at
from tests.moved_rows import count_moved_rows, padded

ROWS, WIDTH, HOME = 1000, 8, "cpu:3"
BATCH = np.random.default_rng(0).integers(0, ROWS, (20, 4)).astype(np.int32)
BATCH[:3] = 7  # the same on all replicas, again and again


def _compute(replicas: int) -> list[str]:
    return [f"cpu:{index}" for index in range(replicas)]


class Loop:
    """A model with a table, its optimizer, and a step; `more` is done behind the update."""

    def __init__(
        self,
        strategy: Strategy,
        more: Callable[[Loop, Any], Any] = lambda loop, pairs: 0.0,
        optimizer: Any = None,
    ) -> None:
        keras.utils.set_random_seed(1)
        self.strategy, self._more = strategy, more
        with strategy.scope():
            self.table = keras.layers.Embedding(ROWS, WIDTH, name="words")
            self.norm = keras.layers.BatchNormalization()
            self.model = keras.Sequential(
                [
                    keras.Input((4,), dtype="int32"),
                    self.table,
                    keras.layers.GlobalAveragePooling1D(),
                    keras.layers.Dropout(0.2),
                    keras.layers.Dense(3),
                    self.norm,
                    keras.layers.Dense(1),
                ]
            )
            self.optimizer = optimizer or keras.optimizers.Adam(0.01)
            self.mean = keras.metrics.Mean()
            self.seen = dl.Variable(0.0, aggregation="sum")
            self.own = dl.Variable(0.0, synchronization="on_read", aggregation="sum")

    def step(self, x: Any) -> Any:
        with dl.GradientTape() as tape:
            loss = keras.ops.mean((self.model(x, training=True) - 1.0) ** 2)
        weights = self.model.trainable_variables
        pairs = list(zip(tape.gradient(loss, weights), weights, strict=True))
        self.optimizer.apply_gradients(pairs)
        self.mean.update_state(loss)
        self.seen.assign_add(1.0)
        self.own.assign_add(loss)
        return loss, self._more(self, pairs)

    def read(self, x: Any) -> Any:
        return keras.ops.mean(self.model(x) ** 2)

    def train(self, *sizes: int) -> list[Any]:
        """What steps on batches of these sizes return, then a step that only reads."""
        results = []
        for size in sizes:
            (batch,) = self.strategy.experimental_distribute_dataset(
                dl.data.Dataset.from_tensors(BATCH[:size])
            )
            found = self.strategy.run(self.step, (batch,))
            results += [self.strategy.reduce("MEAN", each) for each in found]
            results += [self.strategy.reduce("MEAN", self.strategy.run(self.read, (batch,)))]
        return [*results, self.mean.result(), self.own.value]

    def values(self) -> list[np.ndarray]:
        variables = (*self.model.variables, *self.optimizer.variables, self.seen)
        return [np.asarray(variable.value) for variable in variables]


@pytest.fixture
def require_tables_at_home() -> Callable[[], None]:
    """Checks that neither the table nor one of its slots is on another device than theirs."""

    def tables() -> list[jax.Array]:
        gc.collect()
        return [array for array in jax.live_arrays() if array.shape == (ROWS, WIDTH)]

    of_others = tables()  # other tests have left them; kept, so that no new array has their place

    def require() -> None:
        known = set(map(id, of_others))
        found = [array for array in tables() if id(array) not in known]
        assert len(found) >= 2
        assert set().union(*(array.devices() for array in found)) == {jax.devices()[3]}

    return require


@pytest.mark.parametrize("sizes", [(12, 18, 12, 13), (13, 12)], ids=["even", "uneven first"])
@pytest.mark.parametrize("replicas", [3, pytest.param(1, marks=pytest.mark.thorough)])
def test_steps_equal_those_of_mirrored_variables(replicas: int, sizes: tuple[int, ...]) -> None:
    central = Loop(CentralStorageStrategy(_compute(replicas), HOME))
    found = central.train(*sizes)
    mirrored = Loop(MirroredStrategy(_compute(replicas)))
    expected = mirrored.train(*sizes)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(central.values(), mirrored.values(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_what_the_host_fetches_for_home_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As from a GPU to the CPU: each value is fetched, and later given away to an update."""
    expected = Loop(CentralStorageStrategy(_compute(2), HOME))
    results = expected.train(12, 18, 12)
    fetched = []

    def is_fetched(value: jax.Array, device: Any) -> bool:
        assert value.devices() != {device}
        fetched.append(value)
        return True

    monkeypatch.setattr(central_programs, "_is_fetched", is_fetched)
    loop = Loop(CentralStorageStrategy(_compute(2), HOME))
    for ours, theirs in zip(loop.train(12, 18, 12), results, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(loop.values(), expected.values(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert len(fetched) > 10
    assert loop.norm.gamma.value.devices() == {jax.devices()[3]}


def test_only_what_stays_the_same_is_fetched() -> None:
    class Gpu:
        platform = "gpu"

    (device,) = jax.devices()[:1]
    assert central_programs._is_fetched(jnp.ones(3), Gpu())
    assert central_programs._is_fetched(jnp.ones(3, jnp.bfloat16), Gpu())
    assert not central_programs._is_fetched(jnp.ones(3), device)
    assert not central_programs._is_fetched(jax.random.key(0), Gpu())
    with explicit_64_bits():
        assert not central_programs._is_fetched(jnp.ones(3, jnp.float64), Gpu())


def test_copies_are_made_by_one_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(CentralStorageStrategy(_compute(2), HOME))
    loop.train(12)
    moved = []
    put = jax.device_put

    def device_put(values: Any, *arguments: Any, **named: Any) -> Any:
        moved.append(len(values) if isinstance(values, list) else -1)
        return put(values, *arguments, **named)

    monkeypatch.setattr(jax, "device_put", device_put)
    loop.train(12)
    assert len([count for count in moved if count > 3]) >= 2  # weights, and gradients


def test_rows_travel_and_tables_do_not(
    monkeypatch: pytest.MonkeyPatch, require_tables_at_home: Callable[[], None]
) -> None:
    gc.collect()
    loop = Loop(CentralStorageStrategy(_compute(2), HOME))
    (batch,) = loop.strategy.experimental_distribute_dataset(
        dl.data.Dataset.from_tensors(BATCH[:16])
    )
    loop.strategy.run(loop.step, (batch,))
    loop.strategy.run(loop.read, (batch,))
    moved = count_moved_rows(monkeypatch, HOME, [(WIDTH,)])
    loop.strategy.run(loop.step, (batch,))
    rows = max(len(np.unique(BATCH[start : start + 8])) for start in (0, 8))
    expected = 2 * padded(rows) * WIDTH * 4
    assert moved == {"to": expected, "from": expected}
    loop.strategy.run(loop.read, (batch,))
    require_tables_at_home()
    assert moved == {"to": 2 * expected, "from": expected}


def _own_update(loop: Loop, pairs: Any) -> Any:
    """An update written by hand, of a weight and of a moving value."""
    gradient = dl.distribute.get_replica_context().all_reduce("MEAN", pairs[-1][0])
    bias = loop.model.trainable_variables[-1]
    bias.assign(bias.value * 0.9 - gradient)
    return keras.ops.sum(bias.value)


def _reads_table(loop: Loop, pairs: Any) -> Any:
    return keras.ops.sum(loop.table.embeddings.value**2)


def _clips(loop: Loop, pairs: Any) -> Any:
    """A constraint: what it reads and writes is the table that the optimizer has left."""
    table = loop.table.embeddings
    table.assign(keras.ops.clip(table.value, -0.01, 0.01))
    return 0.0


def _twice(loop: Loop, pairs: Any) -> Any:
    loop.optimizer.apply_gradients(pairs)
    return 0.0


SAID: dict[str, tuple[Any, str | None]] = {
    "an update of one's own": (_own_update, None),
    "a table that is clipped": (_clips, "looked up: `an operation behind the update` at"),
    "a table that is read": (_reads_table, "looked up: `an operation behind the update` at"),
    "two updates": (_twice, "is given gradients twice"),
}


@pytest.mark.parametrize("case", SAID)
def test_whatever_else_a_step_does(case: str, caplog: pytest.LogCaptureFixture) -> None:
    more, said = SAID[case]
    central = Loop(CentralStorageStrategy(_compute(2), HOME), more)
    with caplog.at_level(logging.INFO, "drumline"):
        found = central.train(12, 12)
    mirrored = Loop(MirroredStrategy(_compute(2)), more)
    for ours, theirs in zip(found, mirrored.train(12, 12), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(central.values(), mirrored.values(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    texts = {record.getMessage() for record in caplog.records if "copied to" in record.getMessage()}
    assert len(texts) == (said is not None)
    assert said is None or said in texts.pop()


def test_an_update_that_computes_with_the_size_of_its_batch() -> None:
    def trained(strategy: Strategy) -> list[float]:
        with strategy.scope():
            weight = keras.Variable(0.0)
            optimizer = keras.optimizers.SGD(1.0)
            optimizer.build([weight])

        def step(x: Any) -> None:
            total = dl.distribute.get_replica_context().all_reduce("SUM", keras.ops.sum(x))
            mean = total / (2 * x.shape[0])
            optimizer.apply_gradients([(mean, weight)], skip_gradients_aggregation=True)

        found = []
        for size in (4, 8, 2, 4):
            strategy.run(step, (strategy.per_replica([np.ones(size, np.float32)] * 2),))
            found.append(float(weight.value))
        return found

    assert trained(CentralStorageStrategy(_compute(2), HOME)) == [-1.0, -2.0, -3.0, -4.0]


def test_an_optimizer_that_scales_losses(require_tables_at_home: Callable[[], None]) -> None:
    def scaled() -> Any:
        return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))

    central = Loop(CentralStorageStrategy(_compute(2), HOME), optimizer=scaled())
    central.train(12, 12)
    require_tables_at_home()
    mirrored = Loop(MirroredStrategy(_compute(2)), optimizer=scaled())
    mirrored.train(12, 12)
    for ours, theirs in zip(central.values(), mirrored.values(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def _each(loop: Loop, batches: Any) -> list[Any]:
    return [
        loop.strategy.reduce("SUM", loop.strategy.run(loop.step, (batch,))[0]) for batch in batches
    ]


def _function(loop: Loop, batches: Any) -> list[Any]:
    step = dl.function(lambda batch: _each(loop, [batch])[0])
    return [step(batch) for batch in batches]


def _defined_inside(loop: Loop, batches: Any) -> list[Any]:
    @dl.function
    def step(batch: Any) -> Any:
        def inside(x: Any) -> Any:
            return loop.step(x)[0]

        return loop.strategy.reduce("SUM", loop.strategy.run(inside, (batch,)))

    return [step(batch) for batch in batches]


def _loop(loop: Loop, batches: Any) -> list[Any]:
    @dl.function
    def epoch(batches: Any) -> Any:
        total = np.float32(0.0)
        for batch in batches:
            total += loop.strategy.reduce("SUM", loop.strategy.run(loop.step, (batch,))[0])
        return total

    return [epoch(batches), epoch(batches)]


def _loop_over_what_it_sees(loop: Loop, batches: Any) -> list[Any]:
    @dl.function
    def epoch() -> Any:
        total = np.float32(0.0)
        for batch in batches:
            total += loop.strategy.reduce("SUM", loop.strategy.run(loop.step, (batch,))[0])
        return total

    return [epoch(), epoch()]


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(_function, marks=pytest.mark.thorough),
        _defined_inside,
        pytest.param(_loop, marks=pytest.mark.thorough),
        _loop_over_what_it_sees,
    ],
)
def test_steps_in_a_function_update_at_home(
    form: Any, caplog: pytest.LogCaptureFixture, require_tables_at_home: Callable[[], None]
) -> None:
    epochs = 2 if "loop" in form.__name__ else 1

    def batches(loop: Loop) -> Any:
        return loop.strategy.experimental_distribute_dataset(
            dl.data.Dataset.from_tensor_slices(BATCH[:16]).batch(4)
        )

    central = Loop(CentralStorageStrategy(_compute(2), HOME))
    with caplog.at_level(logging.INFO, "drumline"):
        found = form(central, batches(central))
    assert not [each for each in caplog.records if "copied to" in each.getMessage()]
    require_tables_at_home()
    mirrored = Loop(MirroredStrategy(_compute(2)))
    data = batches(mirrored)
    wanted = [_each(mirrored, data) for _ in range(epochs)]
    if epochs == 2:
        np.testing.assert_allclose(found, np.sum(wanted, axis=1), rtol=1e-6)
    else:
        np.testing.assert_array_equal(found, wanted[0])
    for ours, theirs in zip(central.values(), mirrored.values(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_function_of_wide_numbers_stays_one_program() -> None:
    strategy = CentralStorageStrategy(_compute(2), HOME)
    with strategy.scope():
        total = dl.Variable(0.0, aggregation="sum")

    @functools.partial(dl.function, keep_64_bits=True)
    def wide(number: Any) -> Any:
        strategy.run(lambda: total.assign_add(1.0))
        return number + 1

    assert int(wide(np.int64(1 << 40))) == (1 << 40) + 1
    assert float(total.value) == 2


def test_what_copies_variables_says_so(caplog: pytest.LogCaptureFixture) -> None:
    strategy = CentralStorageStrategy(_compute(2), HOME)
    with strategy.scope():
        total = dl.Variable(0.0, aggregation="sum")

    @functools.partial(dl.function, keep_64_bits=True)
    def in_function(batch: Any) -> None:
        strategy.run(lambda x: total.assign_add(keras.ops.sum(x)), (batch,))

    with caplog.at_level(logging.INFO, "drumline"):
        for size in (2, 2, 3):
            (batch,) = strategy.experimental_distribute_dataset(
                dl.data.Dataset.from_tensors(np.ones(size, np.float32))
            )
            in_function(batch)
            strategy.run(lambda x: total.assign_add(keras.ops.sum(x)), (batch,))
    assert float(total.value) == 14
    texts = [record.getMessage() for record in caplog.records if "copied" in record.getMessage()]
    assert ["in_function" in text for text in texts] == [True, True, False]
    assert "`dl.function` is one program" in texts[0] and "does not split" in texts[2]


def test_an_interrupt_leaves_whole_steps() -> None:
    strategy = CentralStorageStrategy(_compute(2), HOME)
    with strategy.scope():
        first = dl.Variable(np.zeros(3, np.float32), aggregation="sum")
        second = dl.Variable(0.0, aggregation="sum")

    def step() -> None:
        first.assign_add(np.full(3, 0.5, np.float32))
        second.assign_add(0.5)

    strategy.run(step)
    steps, position, interrupted = 1, 1, 0
    files = ("central_run.py", "central_programs.py", "looked_up_rows.py", "variable_buffer.py")
    while interrupted_at(lambda: strategy.run(step), position, files):
        done = int(second.value)
        assert steps <= done <= steps + 1
        np.testing.assert_array_equal(first.value, np.full(3, done, np.float32))
        steps, position, interrupted = done, position + 29, interrupted + 1
    assert interrupted > 5
