"""Checkpoints are evaluated as they come, each whole and in its turn."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from drumline import train
from drumline.data import Dataset
from drumline.distribute import MirroredStrategy
from drumline.keras import SidecarEvaluator, sidecar_evaluator

X = np.arange(12, dtype=np.float32).reshape(6, 2)
DATA = Dataset.from_tensor_slices((X, X.sum(1, keepdims=True))).batch(4)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar_evaluator, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(sidecar_evaluator, "RETRY_SECONDS", 0.15)


def build(units: int = 1, optimizer: str = "adam") -> keras.Model:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(units)])
    model.compile(optimizer, "mse")
    return model


class Training:
    """A model whose weights and steps of training are set at will, and what they evaluate to."""

    def __init__(self) -> None:
        self.model = build()
        self.expected: dict[int, float] = {}

    def at(self, step: int) -> keras.Model:
        self.model.set_weights([np.float32([[step], [2 * step]]), np.float32([step])])
        self.model.optimizer.iterations.assign(step)
        self.expected[step] = self.model.evaluate(DATA, verbose=0)
        return self.model


@pytest.fixture
def training() -> Training:
    return Training()


def evaluated(
    directory: Path,
    *,
    until: int | None,
    model: keras.Model | None = None,
    then: Callable[[int], None] = lambda step: None,
) -> list[tuple[int, float]]:
    """The steps that were evaluated and the losses; `then` is called after each with its step."""
    model = model or build(optimizer="sgd")
    seen: list[tuple[int, float]] = []

    def on_test_end(logs: Any) -> None:
        seen.append((int(model.optimizer.iterations.value), logs["loss"]))
        then(seen[-1][0])

    note = keras.callbacks.LambdaCallback(on_test_end=on_test_end)
    SidecarEvaluator(model, DATA, directory, max_evaluations=until, callbacks=[note]).start()
    return seen


def as_trained(training: Training, *steps: int) -> list[tuple[int, Any]]:
    return [(step, pytest.approx(training.expected[step], rel=1e-5)) for step in steps]


def test_files_of_keras_are_evaluated_in_the_order_of_their_numbers(
    training: Training, tmp_path: Path
) -> None:
    for step in (10, 9):
        training.at(step).save_weights(tmp_path / f"ckpt-{step}.weights.h5")
    training.at(2).save(tmp_path / "ckpt-2.keras")
    (tmp_path / "ckpt-1.txt").touch()
    assert evaluated(tmp_path, until=10) == as_trained(training, 2, 9, 10)


def test_checkpoints_of_a_custom_loop(training: Training, tmp_path: Path) -> None:
    loop_model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    checkpoint = train.Checkpoint(model=loop_model, optimizer=training.model.optimizer)
    manager = train.CheckpointManager(checkpoint, tmp_path, max_to_keep=2)
    for step in (3, 4, 5):
        loop_model.set_weights(training.at(step).get_weights())
        manager.save()
    assert evaluated(tmp_path, until=3) == as_trained(training, 4, 5)


def test_a_strategy_and_a_model_that_is_not_built(training: Training, tmp_path: Path) -> None:
    training.at(1).save_weights(tmp_path / "ckpt-1.weights.h5")
    with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(loss="mse")
    assert evaluated(tmp_path, until=1, model=model) == as_trained(training, 1)


def test_waits_for_what_is_not_there_or_not_finished(
    training: Training,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sidecar_evaluator, "RETRY_SECONDS", 20)
    directory = tmp_path / "later"
    for step in (1, 2):
        training.at(step).save_weights(tmp_path / f"ckpt-{step}.weights.h5")

    def write() -> None:
        time.sleep(0.1)
        directory.mkdir()
        for step in (1, 2):
            whole = (tmp_path / f"ckpt-{step}.weights.h5").read_bytes()
            with open(directory / f"ckpt-{step}.weights.h5", "wb", buffering=0) as file:
                for at in range(0, len(whole), 1 + len(whole) // 8):
                    file.write(whole[at : at + 1 + len(whole) // 8])
                    time.sleep(0.02 if step == 1 else 0.07)

    writer = threading.Thread(target=write)
    writer.start()
    assert evaluated(directory, until=2) == as_trained(training, 1, 2)
    writer.join()
    assert "later, which does not exist yet" in capsys.readouterr().out
    assert "damaged" not in caplog.text


def test_what_is_written_again_is_evaluated_again(training: Training, tmp_path: Path) -> None:
    training.at(1).save_weights(tmp_path / "best.weights.h5")

    def then(step: int) -> None:
        if step == 2:
            raise KeyboardInterrupt
        training.at(2).save_weights(tmp_path / "best.weights.h5")

    seen: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        evaluated(tmp_path, until=None, then=lambda step: (seen.append(step), then(step))[0])
    assert seen == [1, 2]


def test_damaged_and_deleted_checkpoints_are_left_out(
    training: Training, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in range(1, 5):
        training.at(step).save_weights(tmp_path / f"ckpt-{step}.weights.h5")
    torn = tmp_path / "ckpt-2.weights.h5"
    torn.write_bytes(torn.read_bytes()[:-2_000])
    with caplog.at_level(logging.WARNING, "drumline"):
        seen = evaluated(
            tmp_path,
            until=4,
            then=lambda step: (tmp_path / "ckpt-3.weights.h5").unlink(missing_ok=True),
        )
    assert seen == as_trained(training, 1, 4)
    assert "ckpt-2.weights.h5' is damaged" in caplog.text


def test_what_cannot_be_evaluated_is_refused(training: Training, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a compiled model"):
        SidecarEvaluator(keras.Sequential(), DATA, tmp_path)
    with pytest.raises(ValueError, match="must be positive"):
        SidecarEvaluator(training.model, DATA, tmp_path, max_evaluations=0)
    training.at(1).save_weights(tmp_path / "best.weights.h5")
    with pytest.raises(ValueError, match="has no number"):
        evaluated(tmp_path, until=3)
    with pytest.raises(ValueError, match="could not be loaded"):
        evaluated(tmp_path, until=None, model=build(units=2))
    shutil.rmtree(tmp_path)
    train.Checkpoint(net=training.model).save(tmp_path / "ckpt")
    with pytest.raises(ValueError, match=r"holds \['net'\], and no 'model'"):
        evaluated(tmp_path, until=1)
    deeper = keras.Sequential([*build(units=2).layers, keras.layers.Dense(1)])
    train.Checkpoint(model=build(units=2)).save(tmp_path / "ckpt")
    deeper.compile(loss="mse")
    with pytest.raises(ValueError, match="of another model"):
        evaluated(tmp_path, until=1, model=deeper)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("ckpt-12", 12),
        ("ckpt-3.weights.h5", 3),
        ("weights.03-0.52.keras", 3),
        ("epoch_07_acc_0.9.keras", 7),
        ("run-2-epoch-5.keras", 5),
        ("004.keras", 4),
        ("run-2-epoch-5-last.keras", None),
        ("resnet50.keras", None),
        ("best-0.52.weights.h5", None),
    ],
)
def test_the_number_in_a_name(name: str, number: int | None) -> None:
    assert sidecar_evaluator.number_in(name) == number
