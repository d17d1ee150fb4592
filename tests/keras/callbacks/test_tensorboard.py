"""Event files: the tags and steps Keras's own callback writes, in the format's framing."""

from __future__ import annotations

import contextlib
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.util import tensor_util

import drumline as dl
from drumline.keras.callbacks import KerasTensorBoard, TensorBoard
from drumline.profiler.trace_file import read_trace
from tests.summary.reading import values

ROWS, BATCH, EPOCHS = 20, 4, 3


def events(directory: Path) -> Iterator[Event]:
    """The events of all files in `directory`, read as length-prefixed records."""
    for path in sorted(directory.glob("events.out.tfevents.*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            yield Event.FromString(data[at + 12 : at + 12 + length])
            at += 12 + length + 4


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and values by tag."""
    found: dict[str, list[tuple[int, float]]] = {}
    for event in events(directory):
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars":
                number = float(tensor_util.make_ndarray(value.tensor))
                found.setdefault(value.tag, []).append((event.step, number))
    return found


def fit(
    callback: keras.callbacks.Callback,
    strategy: dl.distribute.Strategy | None = None,
    **options: Any,
) -> dict[str, list[float]]:
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x, y = rng.random((ROWS, 3), np.float32), rng.random((ROWS, 1), np.float32)
    with contextlib.nullcontext() if strategy is None else strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, name="out")])
        model.compile(keras.optimizers.SGD(), "mse", metrics=["mae"])
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1))
    history = model.fit(
        x,
        y,
        batch_size=BATCH,
        epochs=EPOCHS,
        verbose=0,
        validation_data=(x, y),
        callbacks=[schedule, callback],
        **options,
    )
    return history.history


def test_epoch_values_are_the_history(tmp_path: Path) -> None:
    history = fit(TensorBoard(tmp_path))
    train, validation = scalars(tmp_path / "train"), scalars(tmp_path / "validation")
    assert train.keys() == {"epoch_loss", "epoch_mae", "epoch_learning_rate"}
    for tag, curve in (("epoch_loss", "loss"), ("epoch_mae", "mae")):
        assert [step for step, _ in train[tag]] == [0, 1, 2]
        np.testing.assert_allclose([v for _, v in train[tag]], history[curve], rtol=1e-6)
        np.testing.assert_allclose(
            [v for _, v in validation[tag]], history[f"val_{curve}"], rtol=1e-6
        )
    rates = [value for _, value in train["epoch_learning_rate"]]
    np.testing.assert_allclose(rates, [0.1, 0.05, 0.1 / 3], rtol=1e-6)
    assert [step for step, _ in validation["evaluation_loss_vs_iterations"]] == [5, 10, 15]
    assert "epoch_learning_rate" not in validation


@pytest.mark.parametrize(("freq", "steps"), [("batch", range(1, 16)), (4, [4, 8, 12])])
def test_batches_are_written_at_their_turn(tmp_path: Path, freq: Any, steps: Any) -> None:
    fit(TensorBoard(tmp_path, update_freq=freq, write_steps_per_second=True))
    train = scalars(tmp_path / "train")
    for tag in ("batch_loss", "batch_mae", "batch_steps_per_second"):
        assert [step for step, _ in train[tag]] == list(steps)
    assert len(train["epoch_steps_per_second"]) == EPOCHS
    assert min(rate for _, rate in train["epoch_steps_per_second"]) > 0


def test_histograms_of_every_weight(tmp_path: Path) -> None:
    fit(TensorBoard(tmp_path, histogram_freq=2))
    found = [
        (value.tag, event.step, tensor_util.make_ndarray(value.tensor)[:, 2].sum())
        for event in events(tmp_path / "train")
        for value in event.summary.value
        if value.metadata.plugin_data.plugin_name == "histograms"
    ]
    by_tag = [("out/kernel/histogram", 3.0), ("out/bias/histogram", 1.0)]
    assert [(tag.split("/", 1)[1], step, num) for tag, step, num in found] == [
        (tag, step, num) for step in (0, 2) for tag, num in by_tag
    ]


@pytest.mark.parametrize("name", ["OneDeviceStrategy", "MirroredStrategy"])
def test_tensorboard_reads_the_same_under_a_strategy(tmp_path: Path, name: str) -> None:
    """By its own reader: each value once, of batches, epochs, weights and the graph."""
    devices = "cpu:0" if name == "OneDeviceStrategy" else ["cpu:0", "cpu:1"]
    strategy = getattr(dl.distribute, name)(devices)
    options: dict[str, Any] = {"histogram_freq": 1, "update_freq": 2}
    fit(TensorBoard(tmp_path / "plain", **options))
    fit(TensorBoard(tmp_path / "under", **options), strategy)
    for part, kinds in (("train", {"batch", "epoch", "sequential", "keras"}), ("validation", None)):
        wanted = values(tmp_path / "plain" / part)
        found = values(tmp_path / "under" / part)
        assert len({(tag, step) for tag, step, _ in found}) == len(found)
        same = [_without_counts(tag) for tag, _, _ in wanted]
        assert [_without_counts(tag) for tag, _, _ in found] == same
        assert kinds is None or {re.split("[_/]", tag)[0] for tag in same} == kinds
        for (tag, step, expected), (_, at, array) in zip(wanted, found, strict=True):
            assert at == step
            if tag != "keras":
                np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6, err_msg=tag)


def _without_counts(tag: str) -> str:
    """A tag without the number in the name of its model."""
    return re.sub(r"sequential_\d+", "sequential", tag)


@pytest.mark.parametrize("wanted", [True, False])
def test_the_graph_is_the_models_configuration(tmp_path: Path, wanted: bool) -> None:
    fit(TensorBoard(tmp_path, write_graph=wanted))
    values = [value for event in events(tmp_path / "train") for value in event.summary.value]
    graphs = [v for v in values if v.metadata.plugin_data.plugin_name == "graph_keras_model"]
    assert len(graphs) == wanted
    for graph in graphs:
        assert keras.models.model_from_json(graph.tensor.string_val[0].decode()).layers


@pytest.mark.parametrize(
    "options",
    [{"update_freq": 0}, {"update_freq": "step"}, {"histogram_freq": -1}, {"histogram_freq": True}],
)
def test_bad_arguments(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        TensorBoard("logs", **options)


def test_the_stand_in_takes_keras_arguments_that_ask_for_nothing(tmp_path: Path) -> None:
    fit(KerasTensorBoard(str(tmp_path), write_images=False, profile_batch=0, embeddings_freq=0))
    assert "epoch_loss" in scalars(tmp_path / "train")
    with pytest.raises(NotImplementedError, match=r"embeddings_freq=5\) needs TensorFlow"):
        KerasTensorBoard(str(tmp_path), embeddings_freq=5)


@pytest.mark.parametrize("batches", [3, (3, 4), "3,4"])
@pytest.mark.parametrize("devices", [1, 2])
def test_a_trace_of_the_batches_that_are_asked_for(
    tmp_path: Path, batches: Any, devices: int
) -> None:
    strategy = dl.distribute.MirroredStrategy([f"cpu:{index}" for index in range(devices)])
    fit(KerasTensorBoard(str(tmp_path), profile_batch=batches), strategy)
    (trace,) = (tmp_path / "train" / "plugins" / "profile").rglob("*.xplane.pb")
    steps, operations = set(), 0
    for event in read_trace(trace):
        if event.name == "train":
            steps.add(event.statistics["step_num"])
        operations += "hlo_op" in event.statistics
    assert steps == ({3} if batches == 3 else {3, 4})
    assert operations >= len(steps)


@pytest.mark.parametrize("wrong", [-1, (4, 3), "3-4", (0, 2), (1, 2, 3), 2.5, True])
def test_wrong_batches_to_trace_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"profile_batch must be .* such as \(10, 15\)"):
        TensorBoard("logs", profile_batch=wrong)


def test_a_fit_that_fails_while_it_is_traced_ends_the_trace(tmp_path: Path) -> None:
    class Fails(TensorBoard):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            raise ZeroDivisionError

    for _ in range(2):  # there can be one trace at a time
        with pytest.raises(ZeroDivisionError):
            fit(Fails(tmp_path, profile_batch=(1, 2)))


def test_keras_name_works_and_its_own_class_says_what_to_do(tmp_path: Path) -> None:
    code = f"""
import os; os.environ["KERAS_BACKEND"] = "jax"
import importlib.util; find = importlib.util.find_spec
importlib.util.find_spec = lambda n, p=None: None if n == "tensorflow" else find(n, p)
import keras; own = keras.callbacks.TensorBoard
from drumline.keras.callbacks.tensorboard import TensorBoard, replace_keras_tensorboard
replace_keras_tensorboard(); replace_keras_tensorboard()
assert issubclass(keras.callbacks.TensorBoard, TensorBoard)
model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]); model.compile(loss="mse")
x = keras.ops.ones((2, 1))
model.fit(x, x, verbose=0, callbacks=[keras.callbacks.TensorBoard({str(tmp_path)!r})])
try: model.fit(x, x, verbose=0, callbacks=[own({str(tmp_path)!r})])
except ImportError as error: print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert "Use drumline.keras.callbacks.TensorBoard" in done.stdout, done.stderr
    assert "epoch_loss" in scalars(tmp_path / "train")
