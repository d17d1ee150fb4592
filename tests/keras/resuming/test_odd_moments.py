"""Backups of a `fit` where a program does what few do, or a signal comes when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.distribute.process_group import preemption
from drumline.distribute.process_group.group import ProcessGroup
from tests.keras.resuming.trainings import STEPS, StopAfter, Stopped, Training, X, Y, dataset

pytestmark = pytest.mark.usefixtures("quick_compilation")

PLAIN = Training(lambda: {"x": dataset()})


def _often(place: Path) -> Any:
    return dl.keras.callbacks.Checkpointing(place, every_steps=3, every_epochs=1)


def _backup(place: Path) -> Any:
    return keras.callbacks.BackupAndRestore(place, save_freq=3)


def test_best_weights_in_bfloat16(tmp_path: Path) -> None:
    def compiling() -> dict[str, Any]:
        keras.config.set_dtype_policy("bfloat16")
        return {}

    def callbacks(place: Path) -> list[Any]:
        return [keras.callbacks.EarlyStopping("loss", patience=9, restore_best_weights=True)]

    training = Training(lambda: {"x": dataset()}, compiling=compiling, callbacks=callbacks)
    try:
        undisturbed = training.run(tmp_path / "undisturbed")
        resumed = training.resumed(tmp_path / "stopped", _often, StopAfter(STEPS + 5))
    finally:
        keras.config.set_dtype_policy("float32")
    assert {value.dtype.name for value in resumed.values} >= {"bfloat16"}
    assert resumed.differs_in(undisturbed) == []


@pytest.mark.parametrize("make", [_often, _backup])
def test_the_working_directory_changes(
    make: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = PLAIN.run(tmp_path / "undisturbed")
    other = tmp_path / "other"
    other.mkdir()
    # So that pytest's own goes back to what it was.
    monkeypatch.chdir(tmp_path)
    leave = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: os.chdir(other))
    leaving = Training(lambda: {"x": dataset()}, callbacks=lambda place: [leave])
    with pytest.raises(Stopped):
        leaving.run(tmp_path, lambda place: make("backup"), StopAfter(STEPS + 5))
    assert list(other.iterdir()) == []
    monkeypatch.chdir(tmp_path)
    resumed = leaving.run(tmp_path, lambda place: make("backup"))
    assert resumed.differs_in(undisturbed) == []
    assert list(other.iterdir()) == []
    if make is _backup:
        assert not (tmp_path / "backup").exists(), "a training that has ended needs no backup"


class FitInFit(keras.callbacks.Callback):
    """Trains the model a little more behind each epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.model.fit(X[:16], Y[:16], batch_size=8, verbose=0)


def test_a_fit_within_a_fit_that_is_resumed(tmp_path: Path) -> None:
    training = Training(lambda: {"x": dataset()}, callbacks=lambda place: [FitInFit()])
    undisturbed = training.run(tmp_path / "undisturbed")
    # The inner one's batches are counted, too.
    stop = StopAfter(STEPS + 2 + 5)
    assert training.resumed(tmp_path / "stopped", _often, stop).differs_in(undisturbed) == []


SIGTERM_AT_THE_END = """
import os, signal, sys
import drumline as dl
import keras, numpy as np

class End(keras.callbacks.Callback):
    def on_train_end(self, logs=None):
        os.kill(os.getpid(), signal.SIGTERM)

model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = np.ones((8, 1), "float32")
if sys.argv[2] == "user":
    signal.signal(signal.SIGTERM, lambda number, frame: print("heard", flush=True))
model.fit(x, x, verbose=0, callbacks=[dl.keras.callbacks.Checkpointing(sys.argv[1]), End()])
print("went on", flush=True)
"""


@pytest.mark.parametrize(
    ("handler", "status", "output"),
    [("none", -signal.SIGTERM, ""), ("user", 0, "heard\nwent on\n")],
)
def test_sigterm_behind_the_last_step_is_not_lost(
    handler: str, status: int, output: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SIGTERM_AT_THE_END), str(tmp_path), handler],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (status, output)


class InterruptedEvent(threading.Event):
    """An event, during whose `set` another SIGTERM comes."""

    sets = 0

    def set(self) -> None:
        self.sets += 1
        if self.sets == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        super().set()


def test_a_second_sigterm_interrupts_the_first() -> None:
    watched = preemption.Preemption(alone=True)
    try:
        watched._noticed = InterruptedEvent()
        os.kill(os.getpid(), signal.SIGTERM)
        assert watched.stops_here()
        assert watched._noticed.sets == 1, "in the lock of the first it would wait for ever"
    finally:
        watched._signals.was_heeded()
        watched.close()


class Board:
    """What processes say to each other about a preemption, in one process."""

    def __init__(self) -> None:
        self._preempted = False
        self._steps: dict[int, dict[int, int]] = {}

    def of(self, process: int) -> Any:
        board = self

        class Own:
            def tell_preempted(self, number: int) -> None:
                board._preempted = True

            def is_preempted(self, number: int) -> bool:
                return board._preempted

            def tell_steps(self, number: int, steps: int) -> None:
                board._steps.setdefault(0, {})[process] = steps

            def steps(self, number: int) -> dict[int, int]:
                return dict(board._steps.get(0, {}))

        return Own()


def _group(process: int) -> ProcessGroup:
    return ProcessGroup("worker", process, process, ("worker:0", "worker:1"), ("a:1", "b:1"))


def test_a_process_whose_steps_are_done_keeps_none_waiting() -> None:
    board = Board()
    noticed, ends = [threading.Event(), threading.Event()], [threading.Event(), threading.Event()]
    slow, quick = (
        preemption._Agreement(_group(n), board.of(n), noticed[n], ends[n]) for n in (0, 1)
    )
    for _ in range(3):
        assert not quick.stops_here()
    ends[1].set()  # its `fit` returns
    for _ in range(2):
        assert not slow.stops_here()
    noticed[0].set()
    while slow._published is None:
        time.sleep(0.01)
    assert not slow.stops_here(), "both have taken three steps, and neither takes a fourth"


def test_a_model_of_one_process_agrees_with_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preemption, "joined", lambda: (_group(0), Board().of(0)))
    monkeypatch.setattr(preemption, "_AGREE_SECONDS", 0.1)
    terminate = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: os.kill(os.getpid(), signal.SIGTERM)
    )
    with pytest.raises(SystemExit) as ended:
        PLAIN.run(tmp_path, _backup, terminate)
    assert ended.value.code == 75
    assert int(np.asarray(PLAIN.run(tmp_path, _backup).epochs[-1])) == 2


def _arrays(rows: int = 88, batch: int = 8) -> Training:
    return Training(lambda: {"x": X[:rows], "y": Y[:rows], "batch_size": batch})


def _endless(steps: int) -> Training:
    return Training(lambda: {"x": dataset().repeat(), "steps_per_epoch": steps})


def _validated(rows: int) -> Training:
    return Training(lambda: {"x": dataset(), "validation_data": (X[:rows], Y[:rows])})


def _at_once(steps: int) -> Training:
    return Training(lambda: {"x": dataset()}, compiling=lambda: {"steps_per_execution": steps})


@pytest.mark.parametrize(
    ("before", "after", "stop", "named"),
    [
        (_arrays(), _arrays(rows=40), 4, "input had batches: 11, and this one's has 5"),
        (_arrays(), _arrays(rows=87), 4, "input had rows in the last batch: 8, .* has 7"),
        (_arrays(88, 8), _arrays(88, 9), 4, "input had batches: 11, .* has 10"),
        (PLAIN, Training(lambda: {"x": dataset().take(5)}), STEPS + 1, "batches: 11, .* has 5"),
        (_endless(7), _endless(5), 4, "steps_per_epoch: 7, .* has 5"),
        (_validated(88), _validated(20), STEPS + 1, "validation data had batches: 3, .* has 1"),
        (_at_once(2), _at_once(3), 2, "behind step 2 .*steps_per_execution=3.*=2 as then"),
    ],
)
def test_another_input_is_refused_by_name(
    before: Training, after: Training, stop: int, named: str, tmp_path: Path
) -> None:
    def backup(place: Path) -> Any:
        return dl.keras.callbacks.Checkpointing(place, every_steps=1, every_epochs=1)

    with pytest.raises(Stopped):
        before.run(tmp_path, backup, StopAfter(stop))
    with pytest.raises(ValueError, match=named):
        after.run(tmp_path, backup)


def test_another_optimizer_is_refused_and_values_of_more_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        with pytest.raises(Stopped):
            PLAIN.run(tmp_path, _often, StopAfter(5))
    assert not caplog.text, "the same model has a place for all"
    slots = Training(lambda: {"x": dataset()}, compiling=lambda: {"optimizer": "nadam"})
    with pytest.raises(ValueError, match="saved with the optimizer Adam, and the model has Nadam"):
        slots.run(tmp_path, _often)
    caplog.clear()
    fewer = Training(lambda: {"x": dataset()}, compiling=lambda: {"metrics": []})
    fewer.run(tmp_path, _often)
    assert "has values that this model and its metrics have no place for: " in caplog.text
