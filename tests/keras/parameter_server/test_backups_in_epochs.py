"""Backups in the middle of an epoch, while workers are given steps ahead of what has ended."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.keras.parameter_server.sources import DrawnSource
from tests.keras.resuming.trainings import BATCH, ROWS, STEPS, StopAfter, Stopped, Training, X, Y
from tests.keras.resuming.trainings import dataset as rows_in_batches
from tests.ports import free_addresses


@contextlib.contextmanager
def cluster(workers: int, **options: Any) -> Iterator[Any]:
    """A strategy, with workers and one server in this process."""
    ports = free_addresses(workers + 1)
    spec = dl.train.ClusterSpec({"worker": ports[:workers], "ps": ports[workers:]})
    tasks = [*(("worker", index) for index in range(workers)), ("ps", 0)]
    servers = [dl.distribute.Server(spec, job, index) for job, index in tasks]
    resolver = dl.distribute.cluster_resolver.SimpleClusterResolver(spec)
    strategy = dl.distribute.ParameterServerStrategy(resolver, **options)
    try:
        yield strategy
    finally:
        dl.distribute.coordinator.ClusterCoordinator(strategy).close()
        for server in servers:
            server.close()


@pytest.fixture(scope="module")
def one_worker() -> Iterator[Any]:
    """One worker whose steps see all updates of those before: the numbers are defined."""
    with cluster(1, max_staleness=0) as strategy:
        yield strategy


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Any]:
    with cluster(2) as strategy:
        yield strategy


def every_four(place: Path) -> Any:
    return dl.keras.callbacks.Checkpointing(place, every_steps=4)


def keras_own(place: Path) -> Any:
    return keras.callbacks.BackupAndRestore(place, save_freq=4)


def every_moment(place: Path) -> Any:
    """Asks for backups behind steps, by a clock that has always run out."""
    return dl.keras.callbacks.Checkpointing(place, every_seconds=1e-9)


def drawn(context: Any) -> dl.data.Dataset:
    rows = dl.data.Dataset.from_tensor_slices((X, Y)).shuffle(ROWS, seed=context.input_pipeline_id)
    return rows.repeat().map(augmented_by_position).batch(BATCH)


def augmented_by_position(x: Any, y: Any) -> Any:
    return x + dl.random.normal(x.shape, stddev=0.3, seed=4), y


def callbacks(place: Path) -> list[Any]:
    return [
        keras.callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=0.5, factor=0.5),
        keras.callbacks.CSVLogger(place / "log.csv"),
    ]


INPUTS: dict[str, Callable[[], dict[str, Any]]] = {
    "arrays": lambda: {"x": X, "y": Y, "batch_size": BATCH},
    "dataset": lambda: {"x": rows_in_batches()},
    "two steps at once": lambda: {"x": rows_in_batches()},
    "drawn": lambda: {"x": drawn, "steps_per_epoch": STEPS},
}


@pytest.mark.parametrize(
    ("kind", "backup"),
    [
        *(("arrays", keras_own), ("dataset", every_four), ("dataset", every_moment)),
        *(("two steps at once", keras_own), ("drawn", every_four)),
    ],
)
def test_a_stopped_training_has_the_bits_of_one_that_was_not(
    one_worker: Any, tmp_path: Path, kind: str, backup: Callable[[Path], Any]
) -> None:
    at_once = 2 if kind == "two steps at once" else 1
    training = Training(
        INPUTS[kind],
        strategy=lambda: one_worker,
        compiling=lambda: {"dropout": False, "steps_per_execution": at_once},
        callbacks=callbacks,
        epochs=2,
    )
    undisturbed = training.run(tmp_path / "undisturbed")
    stops = StopAfter(6 // at_once), StopAfter(10 // at_once)
    left = training.resumed(tmp_path / "stopped", backup, *stops)
    assert left.differs_in(undisturbed) == []


class Rows(keras.metrics.Sum):
    """How many rows were trained on."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return super().update_state(keras.ops.ones_like(y_pred))


def counting_model(batch: int) -> keras.Model:
    """A model whose table counts how often each row was trained on, also by stale steps."""
    table = keras.layers.Embedding(ROWS, 1, embeddings_initializer="zeros")
    model = keras.Sequential([keras.Input((1,), dtype="int32"), table, keras.layers.Flatten()])
    optimizer = keras.optimizers.SGD(float(batch))
    model.compile(optimizer, lambda y, p: -p[:, 0], metrics=[Rows(name="rows")])
    return model


NUMBERS = np.arange(ROWS, dtype="int32")[:, None]


def its_half(context: Any) -> dl.data.Dataset:
    """Row by row, so that the order in which a worker reads them is known."""
    rows = dl.data.Dataset.from_tensor_slices((NUMBERS, NUMBERS))
    return rows.shard(2, context.input_pipeline_id).batch(2).repeat()


FED = {"x": NUMBERS, "y": NUMBERS, "batch_size": BATCH}


def run_counting(
    strategy: Any, place: Path, *more: Any, batch: int = BATCH, **fit: Any
) -> keras.Model:
    """Train with a backup and `more` callbacks, which may stop it."""
    with strategy.scope():
        model = counting_model(batch)
    with contextlib.suppress(Stopped):
        model.fit(**fit, epochs=2, verbose=0, callbacks=[every_four(place), *more])
    return model


def test_with_several_workers_each_row_is_trained_on_once(two_workers: Any, tmp_path: Path) -> None:
    for executions in (6, 11):
        stopped = run_counting(two_workers, tmp_path, StopAfter(executions), **FED)
        assert int(stopped.optimizer.iterations.numpy()) < 2 * STEPS
    model = run_counting(two_workers, tmp_path, **FED)
    np.testing.assert_array_equal(model.layers[0].embeddings.numpy(), np.full((ROWS, 1), 2.0))
    assert model.history.history["rows"] == [ROWS, ROWS] and model.history.epoch == [0, 1]
    assert int(model.optimizer.iterations.numpy()) == 2 * STEPS


def test_workers_go_on_behind_what_they_have_drawn(two_workers: Any, tmp_path: Path) -> None:
    class Used(keras.callbacks.Callback):
        """How many batches each worker has used, in all its starts."""

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            drawn = vars(self.model)["_drumline_fit_run"].drawn
            assert isinstance(drawn, DrawnSource)
            used[:] = drawn.state()

    used: list[int] = []
    fit = {"x": its_half, "steps_per_epoch": 30, "batch": 2}
    for executions in (6, 33):
        run_counting(two_workers, tmp_path, StopAfter(executions), **fit)
    model = run_counting(two_workers, tmp_path, Used(), **fit)
    assert sum(used) == 60 and model.history.history["rows"] == [60, 60]
    wanted = np.zeros(ROWS)
    for worker, count in enumerate(used):
        own = NUMBERS[worker::2, 0]
        for number in range(2 * count):
            wanted[own[number % len(own)]] += 1
    np.testing.assert_array_equal(model.layers[0].embeddings.numpy()[:, 0], wanted)


def test_another_number_of_workers_is_warned_of(two_workers: Any) -> None:
    coordinator = dl.distribute.coordinator.ClusterCoordinator(two_workers)
    source = DrawnSource(coordinator, its_half, 30, 1, None)
    with pytest.warns(UserWarning, match="1 workers drew batches.* there are 2, .*Start as many"):
        source.resume([5])
    assert source.state() == [0, 0]
