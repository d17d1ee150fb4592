"""A `fit` that is stopped, at whatever step and in whatever way, ends as one that was not."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from tests.keras.resuming.trainings import (
    BATCH,
    FEATURES,
    ROWS,
    STEPS,
    StopAfter,
    StopInValidation,
    Stopped,
    Training,
    X,
    Y,
    augmented,
    dataset,
)
from tests.summary.reading import numbers

pytestmark = pytest.mark.usefixtures("quick_compilation")


class Shuffled(keras.utils.PyDataset):
    """Batches in an order, and with noise, of its own."""

    def __init__(self, workers: int = 1) -> None:
        super().__init__(workers=workers)
        self._order = np.arange(ROWS)
        self._noise = np.random.default_rng(3)
        self.on_epoch_end()

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> Any:
        rows = self._order[index * BATCH : (index + 1) * BATCH]
        noise = self._noise.normal(size=(BATCH, FEATURES)) if self.workers == 1 else 0
        return (X[rows] + noise).astype(np.float32), Y[rows]

    def on_epoch_end(self) -> None:
        np.random.shuffle(self._order)


def validation() -> dl.data.Dataset:
    rows = dl.data.Dataset.from_tensor_slices((X, Y)).shuffle(ROWS)
    return rows.map(augmented).batch(30)


def all_callbacks(place: Path) -> list[Any]:
    return [
        keras.callbacks.EarlyStopping(
            "loss", patience=1, min_delta=0.02, restore_best_weights=True
        ),
        keras.callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=0.5, factor=0.5),
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
        keras.callbacks.CSVLogger(place / "log.csv"),
        keras.callbacks.ModelCheckpoint(
            place / "best.weights.h5", "loss", save_best_only=True, save_weights_only=True
        ),
    ]


def _seeded(data: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        keras.utils.set_random_seed(11)
        return data()

    return make


def _mirrored() -> Any:
    return dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])


TRAININGS = {
    "a dataset and callbacks": Training(
        lambda: {"x": dataset(), "validation_data": validation()}, callbacks=all_callbacks
    ),
    "two replicas, two steps at once": Training(
        lambda: {"x": dataset(), "class_weight": {0: 1.0, 1: 3.0}},
        _mirrored,
        lambda: {"steps_per_execution": 2},
    ),
    "one device": Training(
        lambda: {"x": dataset()}, lambda: dl.distribute.OneDeviceStrategy("cpu:1")
    ),
    "an unknown number of batches": Training(
        lambda: {"x": dataset().unbatch().filter(lambda x, y: x[0] > 0).batch(BATCH)}
    ),
    "one iteration for all epochs": Training(
        lambda: {"x": dataset().repeat(), "steps_per_epoch": 7}, epochs=4
    ),
    "a cache": Training(
        lambda: {
            "x": dl.data.Dataset.from_tensor_slices((X, Y))
            .map(augmented)
            .cache()
            .shuffle(20)
            .batch(BATCH)
        }
    ),
    "arrays": Training(
        lambda: {"x": X, "y": Y, "batch_size": BATCH, "sample_weight": np.abs(X[:, 0])},
        callbacks=all_callbacks,
    ),
    "arrays, shuffled in batches": Training(
        lambda: {"x": X, "y": Y, "batch_size": BATCH, "shuffle": "batch", "validation_split": 0.2}
    ),
    "a PyDataset": Training(lambda: {"x": Shuffled(), "shuffle": True}),
    "a PyDataset with workers": Training(lambda: {"x": dataset_with_workers()}),
}


def dataset_with_workers() -> Any:
    class Steady(Shuffled):
        _noise = None

        def __init__(self) -> None:
            super().__init__(workers=2)
            del self.__dict__["_noise"]

    return Steady()


QUICK = {
    "a dataset and callbacks": (1, 2 * STEPS),
    "two replicas, two steps at once": (3, 6),
    "an unknown number of batches": (9,),
    "one iteration for all epochs": (9, 6),
    "arrays": (4, STEPS + 1),
    "a PyDataset": (STEPS + 4,),
    "a PyDataset with workers": (STEPS + 4,),
}


def _every_3(place: Path) -> Any:
    return keras.callbacks.BackupAndRestore(place, save_freq=3)


def _every_2_and_epochs(place: Path) -> Any:
    return dl.keras.callbacks.Checkpointing(place, every_steps=2, every_epochs=1)


def _seeds(training: Training) -> Training:
    return Training(
        _seeded(training.data),
        training.strategy,
        training.compiling,
        training.callbacks,
        training.epochs,
    )


def _undisturbed(name: str, training: Training, place: Path) -> Any:
    """Without a backup; with one where without it an epoch begins with the one before's batches."""
    return training.run(place, _every_3 if "with workers" in name else None)


@pytest.mark.parametrize("name", QUICK)
def test_stopped_after_some_steps(name: str, tmp_path: Path) -> None:
    training = _seeds(TRAININGS[name])
    undisturbed = _undisturbed(name, training, tmp_path / "undisturbed")
    stops = [StopAfter(steps) for steps in QUICK[name]]
    resumed = training.resumed(tmp_path / "stopped", _every_2_and_epochs, *stops)
    assert resumed.differs_in(undisturbed) == []


@pytest.mark.thorough
@pytest.mark.parametrize("name", TRAININGS)
@pytest.mark.parametrize("backup", [_every_3, _every_2_and_epochs])
def test_stopped_at_many_steps(name: str, backup: Callable[[Path], Any], tmp_path: Path) -> None:
    training = _seeds(TRAININGS[name])
    undisturbed = _undisturbed(name, training, tmp_path / "undisturbed")
    at_once = training.compiling().get("steps_per_execution", 1)
    executions = (7 if training.epochs == 4 else STEPS - 3 * ("split" in name)) // at_once
    if "unknown" in name:  # half of the rows are there
        executions = executions // 2 - 1
    draw = random.Random(name)
    for number in range(12):
        stops = [StopAfter(draw.randint(1, executions + 2)) for _ in range(draw.randint(1, 2))]
        resumed = training.resumed(tmp_path / str(number), backup, *stops)
        assert resumed.differs_in(undisturbed) == [], number


def test_a_damaged_backup_leaves_the_one_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    training = _seeds(TRAININGS["a dataset and callbacks"])
    undisturbed = training.run(tmp_path / "undisturbed")
    place = tmp_path / "stopped"
    with pytest.raises(Stopped):
        training.run(place, _every_3, StopAfter(7))
    files = sorted((place / "backup").glob("latest-*.safetensors"))
    assert len(files) == 2
    content = bytearray(files[-1].read_bytes())
    content[-1] ^= 1
    files[-1].write_bytes(content)
    assert training.run(place, _every_3).differs_in(undisturbed) == []
    assert files[-1].name.removesuffix(".safetensors") in caplog.text


def test_tensorboard_counts_on(tmp_path: Path) -> None:
    training = Training(
        TRAININGS["a dataset and callbacks"].data,
        callbacks=lambda place: [
            keras.callbacks.TensorBoard(str(place / "logs"), update_freq=1, write_graph=False)
        ],
    )
    with pytest.raises(Stopped):
        training.run(tmp_path, _every_3, StopAfter(STEPS + 4))
    first = {path.name for path in (tmp_path / "logs" / "train").iterdir()}
    training.run(tmp_path, _every_3)
    for path in (tmp_path / "logs" / "train").iterdir():
        if path.name in first:
            path.unlink()
    steps = [step for tag, step, _ in numbers(tmp_path / "logs" / "train") if tag == "batch_loss"]
    # The backup of a step comes behind all callbacks, so that of the last one was not made.
    assert steps == list(range((STEPS + 3) // 3 * 3 + 1, training.epochs * STEPS + 1))


def test_stopped_in_the_validation(tmp_path: Path) -> None:
    training = _seeds(TRAININGS["a dataset and callbacks"])
    undisturbed = training.run(tmp_path / "undisturbed")
    resumed = training.resumed(
        tmp_path / "stopped",
        lambda place: dl.keras.callbacks.Checkpointing(place, every_steps=STEPS),
        StopInValidation(1),
    )
    assert resumed.differs_in(undisturbed) == []


class At(keras.callbacks.Callback):
    """Does something when so many steps are done."""

    def __init__(self, steps: int, do: Callable[[], Any]) -> None:
        super().__init__()
        self._left = steps
        self._do = do

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._left -= 1
        if not self._left:
            self._do()


PLAIN = Training(lambda: {"x": dataset()})


def _interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _preempt() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_an_interrupt(tmp_path: Path) -> None:
    undisturbed = PLAIN.run(tmp_path / "undisturbed")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            PLAIN.run(tmp_path / "stopped", _every_3, At(STEPS + 5, _interrupt))
    finally:
        signal.signal(signal.SIGINT, before)
    assert PLAIN.run(tmp_path / "stopped", _every_3).differs_in(undisturbed) == []


@pytest.mark.parametrize("steps", [1, STEPS, STEPS + 2])
def test_sigterm_saves_at_that_step_and_ends_with_75(steps: int, tmp_path: Path) -> None:
    undisturbed = PLAIN.run(tmp_path / "undisturbed")
    before = signal.getsignal(signal.SIGTERM)

    def backup(place: Path) -> Any:
        return keras.callbacks.BackupAndRestore(place, save_freq=False)

    with pytest.raises(SystemExit) as ended:
        PLAIN.run(tmp_path / "stopped", backup, At(steps, _preempt))
    assert ended.value.code == 75
    assert signal.getsignal(signal.SIGTERM) in (before, signal.SIG_DFL)
    done: list[int] = []
    resumed = PLAIN.run(tmp_path / "stopped", backup, Steps(done))
    assert resumed.differs_in(undisturbed) == []
    assert len(done) == 3 * STEPS - steps, "no step was done twice"


class Steps(keras.callbacks.Callback):
    """Notes the steps that it is told of."""

    def __init__(self, seen: list[int]) -> None:
        super().__init__()
        self._seen = seen

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._seen.append(batch)


def test_a_termination_watcher_and_a_function_for_the_end(tmp_path: Path) -> None:
    ended: list[str] = []
    noticed: list[bool] = []

    class Ended(Exception):
        pass

    def end() -> None:
        ended.append("end")
        raise Ended

    config = dl.train.TerminationConfig(lambda: bool(noticed), exit_fn=end)
    backup = dl.keras.callbacks.Checkpointing(tmp_path / "b", termination_config=config)
    with pytest.raises(Ended):
        PLAIN.run(
            tmp_path,
            lambda place: backup,
            keras.callbacks.LambdaCallback(
                on_train_batch_end=lambda batch, logs: noticed.append(True)
            ),
            epochs=1_000_000,
        )
    assert ended == ["end"]
    assert dl.train.latest_checkpoint(tmp_path / "b")


@pytest.fixture
def small_files() -> Iterator[Callable[[], None]]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk(tmp_path: Path, small_files: Callable[[], None]) -> None:
    undisturbed = PLAIN.run(tmp_path / "undisturbed")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.raises(OSError, match="too large|Errno 27"):
        PLAIN.run(tmp_path / "stopped", _every_3, At(STEPS + 5, small_files))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert PLAIN.run(tmp_path / "stopped", _every_3).differs_in(undisturbed) == []


IN_A_PROCESS = """
import json, os, signal, sys
from pathlib import Path
import jax
jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_num_cpu_devices", 4)
from tests.keras.resuming.test_stops import PLAIN, At, Steps, _every_3

def kill_in_the_next_save():
    os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)

place, way = Path(sys.argv[1]), sys.argv[2]
done = []
if way == "killed":
    PLAIN.run(place, _every_3, At(16, kill_in_the_next_save))
left = PLAIN.run(place, _every_3 if way == "resumed" else None, Steps(done))
values = [value.tobytes().hex() for value in left.values]
print(json.dumps([values, left.history, left.epochs, len(done)]))
"""


def test_a_kill_during_a_save(tmp_path: Path) -> None:
    def run(place: str, way: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(IN_A_PROCESS), tmp_path / place, way],
            cwd=Path(__file__).parents[3],
            env={
                **os.environ,
                "KERAS_BACKEND": "jax",
                "PYTHONPATH": str(Path(__file__).parents[3]),
            },
            stdout=subprocess.PIPE,
            text=True,
            timeout=600,
        )

    assert run("stopped", "killed").returncode == -signal.SIGKILL
    left = sorted(path.name for path in (tmp_path / "stopped" / "backup").iterdir())
    assert any(name.endswith(".unfinished") for name in left), left
    *resumed, done = json.loads(run("stopped", "resumed").stdout.splitlines()[-1])
    *undisturbed, whole = json.loads(run("undisturbed", "undisturbed").stdout.splitlines()[-1])
    assert resumed == undisturbed
    assert (whole, done) == (3 * STEPS, 3 * STEPS - 15)


def _kept_backup(place: Path) -> keras.callbacks.Callback:
    return keras.callbacks.BackupAndRestore(str(place / "kept"), delete_checkpoint=False)


@pytest.mark.parametrize("saved", [_every_2_and_epochs, _kept_backup])
def test_a_training_that_has_ended_returns_at_once(saved: Any, tmp_path: Path) -> None:
    first = PLAIN.run(tmp_path, saved)
    done: list[int] = []
    again = PLAIN.run(tmp_path, saved, Steps(done))
    assert again.differs_in(first) == [] and done == []
    longer = PLAIN.run(tmp_path, saved, epochs=5)
    assert longer.differs_in(PLAIN.run(tmp_path / "undisturbed", epochs=5)) == []


def test_initial_epoch_is_a_datasets_epoch() -> None:
    def trained(weights: Any, **options: Any) -> list[list[np.ndarray]]:
        keras.utils.set_random_seed(5)
        model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        if weights is not None:
            model.set_weights(weights)
        after = []
        note = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: after.append(model.get_weights())
        )
        model.fit(dataset(), epochs=3, verbose=0, callbacks=[note], **options)
        return after

    _, second, third = trained(None)
    ((kernel, bias),) = trained(second, initial_epoch=2)
    np.testing.assert_array_equal(kernel, third[0])
    np.testing.assert_array_equal(bias, third[1])


def test_a_users_callback_with_a_state(tmp_path: Path) -> None:
    class Sums(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.sums: dict[Any, Any] = {"losses": (np.zeros(2),), 3: []}

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.sums["losses"][0][batch % 2] += logs["loss"]
            self.sums[3].append(batch)

        def get_state(self) -> Any:
            return self.sums

        def set_state(self, state: Any) -> None:
            self.sums = state

    made: list[Sums] = []

    def callbacks(place: Path) -> list[Any]:
        made.append(Sums())
        return [made[-1]]

    training = Training(lambda: {"x": dataset()}, callbacks=callbacks)
    training.run(tmp_path / "undisturbed")
    training.resumed(tmp_path / "stopped", _every_3, StopAfter(8))
    assert made[-1].sums[3] == made[0].sums[3]
    assert made[-1].sums["losses"][0].tolist() == made[0].sums["losses"][0].tolist()


def test_the_progress_bar_continues(tmp_path: Path, capsys: Any) -> None:
    def lines(text: str) -> list[str]:
        found = [line.split(" - ")[-1] for line in text.replace("\b", "").splitlines()]
        return [line for line in found if "mae" in line]

    PLAIN.run(tmp_path / "undisturbed", verbose=2)
    whole = lines(capsys.readouterr().out)
    with pytest.raises(Stopped):
        PLAIN.run(tmp_path / "stopped", _every_3, StopAfter(STEPS + 5), verbose=2)
    capsys.readouterr()
    PLAIN.run(tmp_path / "stopped", _every_3, verbose=2)
    assert lines(capsys.readouterr().out) == whole[1:]


def test_another_kind_of_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        PLAIN.run(tmp_path, _every_3, StopAfter(5))
    other = Training(lambda: {"x": X, "y": Y, "batch_size": BATCH})
    with pytest.raises(ValueError, match="DatasetAdapter.*ArrayDataAdapter.*same kind of input"):
        other.run(tmp_path, _every_3)
