"""The first programs of docs/training/checkpoints.md, stopped and started again."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl

PAGE = Path(__file__).parents[2] / "docs" / "training" / "checkpoints.md"


class Stopped(BaseException):
    """Stands for what ends a program."""


def programs() -> list[str]:
    """The programs of the section, which comes first on its page."""
    _, first, section = re.split(r"^## ", PAGE.read_text(), flags=re.M)[:3]
    assert first.startswith("Safe in five lines\n") and section.startswith("In `fit`\n")
    return re.findall(r"```python\n(.*?)```", first, re.S)


def changed(program: str, **changes: str) -> str:
    """The program with other numbers, each of which it has once."""
    for name, (old, new) in {name: each.split(" -> ") for name, each in changes.items()}.items():
        assert program.count(old) == 1, (name, old)
        program = program.replace(old, new)
    return program


def test_they_are_five_lines() -> None:
    fit, loop = programs()
    adds = [line for line in fit.splitlines() if "backup" in line]
    assert len(adds) == 2, "the callback, and that it is given to fit"
    saves = re.compile("checkpoint|manager|handler|step.value %")
    assert len([line for line in loop.splitlines() if saves.search(line)]) <= 6


class StopAtStep(keras.callbacks.Callback):
    """Ends the program in the middle of the second epoch."""

    def __init__(self, stops: bool) -> None:
        super().__init__()
        self._epoch, self._stops = 0, stops

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._stops and (self._epoch, batch) == (1, 12):
            raise Stopped


def test_fit_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = changed(
        programs()[0], steps="every_steps=500 -> every_steps=10", more="[backup] -> [backup, stop]"
    )

    def run(place: str, stops: bool) -> Any:
        (tmp_path / place).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / place)
        keras.utils.set_random_seed(1)
        names = {"stop": StopAtStep(stops)}
        exec(program, names)
        model: Any = names["model"]
        return model.get_weights(), model.history.history

    weights, history = run("undisturbed", stops=False)
    with pytest.raises(Stopped):
        run("stopped", stops=True)
    found, again = run("stopped", stops=False)
    assert again == history and len(history["loss"]) == 2
    for one, other in zip(found, weights, strict=True):
        np.testing.assert_array_equal(one, other)


def run_loop(place: Path, monkeypatch: pytest.MonkeyPatch, end: Any = None, at: int = 0) -> Any:
    """Run the loop for 30 steps; `end` is called in the step of number `at`."""
    program = changed(programs()[1], last="1_000 -> 30", each="% 500 -> % 10")
    place.mkdir(exist_ok=True)
    monkeypatch.chdir(place)
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    step = dl.Variable(0)
    rows = dl.data.Dataset.random(seed=4).map(lambda n: (n % 7 + np.arange(3)) / 10.0)
    batches = iter(rows.batch(4))
    seen: list[int] = []

    @dl.function
    def update(batch: Any) -> None:
        with dl.GradientTape() as tape:
            loss = keras.ops.mean(model(keras.ops.cast(batch, "float32")) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        step.assign_add(1)

    def train_step(batches: Any) -> None:
        update(next(batches))
        seen.append(int(step.numpy()))
        if seen[-1] == at:
            end()

    names: Any = {"dl": dl, "model": model, "optimizer": optimizer, "step": step}
    names |= {"batches": batches, "train_step": train_step}
    try:
        exec(program, names)
    finally:
        names["handler"].preemption.close()
    return seen, [np.array(v.numpy()) for v in (*model.weights, *optimizer.variables)]


def test_a_loop_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> None:
        raise Stopped

    steps, values = run_loop(tmp_path / "undisturbed", monkeypatch)
    with pytest.raises(Stopped):
        run_loop(tmp_path / "stopped", monkeypatch, stop, at=17)
    again, found = run_loop(tmp_path / "stopped", monkeypatch)
    assert steps == [*range(1, 31)] and again == [*range(11, 31)]
    for one, other in zip(found, values, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_loop_saves_before_its_machine_is_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, values = run_loop(tmp_path / "undisturbed", monkeypatch)
    with pytest.raises(SystemExit) as ended:
        run_loop(
            tmp_path / "stopped", monkeypatch, lambda: os.kill(os.getpid(), signal.SIGTERM), at=13
        )
    assert ended.value.code == 75
    again, found = run_loop(tmp_path / "stopped", monkeypatch)
    assert again == [*range(14, 31)]
    for one, other in zip(found, values, strict=True):
        np.testing.assert_array_equal(one, other)
