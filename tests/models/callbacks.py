"""Every callback of Keras: what it is told, what it does to a training, what it writes."""

from __future__ import annotations

import contextlib
import csv
import http.server
import io
import json
import re
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
import orbax.checkpoint
from keras import layers
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.util import tensor_util

from tests.models.running import BATCH, Case, Facts, Setting, facts_of, weights_of

ROWS, WIDTH = 21, 4


def examples() -> tuple[np.ndarray, np.ndarray]:
    """Rows, and a sum of theirs with noise."""
    rng = np.random.default_rng(14)
    x = rng.random((ROWS, WIDTH), dtype=np.float32)
    return x, (x.sum(1, keepdims=True) + rng.normal(size=(ROWS, 1))).astype(np.float32)


def trained(
    setting: Setting,
    data: Any,
    *callbacks: keras.callbacks.Callback,
    model: keras.Model | None = None,
    rate: float = 0.1,
    epochs: int = 4,
    **options: Any,
) -> tuple[keras.Model, Facts]:
    """Fit a small model with callbacks; its curves and weights."""
    x, y = data
    if model is None:
        model = regression(setting, rate)
    fit = {"epochs": epochs, "verbose": 0, "shuffle": False, "batch_size": BATCH, **options}
    held_out = (x[::-1].copy(), y)
    history = model.fit(x, y, validation_data=held_out, callbacks=list(callbacks), **fit)
    return model, {**facts_of(history), **weights_of(model)}


def regression(setting: Setting, rate: float = 0.1, **optimizer: Any) -> keras.Model:
    """A linear model."""
    with setting.scope():
        model = keras.Sequential([keras.Input((WIDTH,)), layers.Dense(1)])
        sgd = keras.optimizers.SGD(rate, **optimizer)
        model.compile(sgd, "mse", metrics=["mae"], **setting.compile)
    return model


class Recorder(keras.callbacks.Callback):
    """What every hook is told, and the weights at each epoch's end."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []
        self.values: list[float] = []

    def told(self, hook: str, number: Any = None, logs: Any = None) -> None:
        self.order.append(f"{hook} {number} {sorted(logs or {})}")
        for _, value in sorted((logs or {}).items()):
            self.values += np.ravel(value).tolist()

    @property
    def facts(self) -> Facts:
        return {"order": np.array(self.order), "values": np.array(self.values)}


for _hook in ("train_batch", "test_batch", "predict_batch", "epoch"):
    for _when in ("begin", "end"):
        setattr(
            Recorder,
            f"on_{_hook}_{_when}",
            lambda self, number, logs=None, name=f"{_hook} {_when}": self.told(name, number, logs),
        )
for _hook in ("train", "test", "predict"):
    for _when in ("begin", "end"):
        setattr(
            Recorder,
            f"on_{_hook}_{_when}",
            lambda self, logs=None, name=f"{_hook} {_when}": self.told(name, None, logs),
        )


def all_hooks(setting: Setting, data: Any) -> Facts:
    """Hooks of `fit`, `evaluate` and `predict`."""
    recorder = Recorder()
    model, facts = trained(setting, data, recorder, epochs=2)
    model.evaluate(*data, batch_size=BATCH, verbose=0, callbacks=[recorder])
    model.predict(data[0], batch_size=BATCH, verbose=0, callbacks=[recorder])
    return {**facts, **recorder.facts}


def list_of_callbacks(setting: Setting, data: Any) -> Facts:
    """A `CallbackList` that the user made, whose history is read from the model."""
    model = regression(setting)
    recorder = Recorder()
    steps = -(-ROWS // BATCH)
    chosen = keras.callbacks.CallbackList(
        [recorder], add_history=True, model=model, epochs=2, verbose=0, steps=steps
    )
    x, y = data
    model.fit(x, y, batch_size=BATCH, epochs=2, verbose=0, shuffle=False, callbacks=chosen)
    curves = {name: np.array(curve) for name, curve in model.history.history.items()}
    return {**curves, **recorder.facts, **weights_of(model)}


def lambdas(setting: Setting, data: Any) -> Facts:
    """Losses of batches; and weights that a hook writes."""
    losses: list[float] = []

    def halve(epoch: int, logs: Any) -> None:
        kernel = model.weights[0]
        kernel.assign(0.5 * kernel)

    told = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: losses.append(float(logs["loss"])),
        on_epoch_end=halve,
    )
    model = regression(setting)
    _, facts = trained(setting, data, told, model=model)
    return {**facts, "losses": np.array(losses)}


def early_stopping(setting: Setting, data: Any) -> Facts:
    """A rate that is too high soon stops it; the best weights come back."""
    stop = keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True)
    wild = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.02 if epoch < 3 else 0.9)
    _, facts = trained(setting, data, wild, stop, epochs=9)
    assert 0 < stop.stopped_epoch < 8
    return {**facts, "stopped": np.array([stop.stopped_epoch, stop.best_epoch])}


def reduced_rate(setting: Setting, data: Any) -> Facts:
    """The rate falls where the loss does not."""
    reduce = keras.callbacks.ReduceLROnPlateau("loss", factor=0.3, patience=1, min_delta=0.2)
    _, facts = trained(setting, data, reduce, rate=0.2, epochs=6)
    assert len(set(facts["learning_rate"])) > 2
    return facts


def scheduled_rate(setting: Setting, data: Any) -> Facts:
    """The rate by epoch, from the one before."""
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * (1 - 0.1 * epoch))
    return trained(setting, data, schedule)[1]


def saved_weights(setting: Setting, paths: list[Path]) -> Facts:
    """The weights in files, read into a model of plain Keras."""
    facts: Facts = {"files": np.array([path.name for path in paths])}
    for path in paths:
        if path.name.endswith(".weights.h5"):
            model = keras.Sequential([keras.Input((WIDTH,)), layers.Dense(1)])
            model.load_weights(path)
        else:
            model = keras.models.load_model(path)
        for index, value in enumerate(model.get_weights()):
            facts[f"{path.name} {index}"] = np.asarray(value)
    return facts


def model_checkpoints(setting: Setting, data: Any) -> Facts:
    """Every epoch, the best one, and every second batch."""
    assert setting.folder is not None
    checkpoint = keras.callbacks.ModelCheckpoint
    _, facts = trained(
        setting,
        data,
        checkpoint(setting.folder / "{epoch}.keras"),
        checkpoint(
            setting.folder / "best.weights.h5",
            "val_mae",
            save_best_only=True,
            save_weights_only=True,
        ),
        checkpoint(setting.folder / "last.keras", save_freq=2),
        epochs=3,
    )
    setting.wait_for_all()
    return {**facts, **saved_weights(setting, sorted(setting.folder.iterdir()))}


class Interruption(Exception):
    """What ends a training in its midst."""


def backed_up(setting: Setting, data: Any) -> Facts:
    """A training that is interrupted goes on at its last epoch."""
    assert setting.folder is not None
    epochs: list[int] = []

    def interrupt(epoch: int, logs: Any = None) -> None:
        epochs.append(epoch)
        if epochs == [0, 1, 2]:
            raise Interruption

    facts: Facts = {}
    for attempt in range(2):
        keras.utils.set_random_seed(attempt)
        backup = keras.callbacks.BackupAndRestore(setting.folder / "backup")
        hook = keras.callbacks.LambdaCallback(on_epoch_begin=interrupt)
        with contextlib.suppress(Interruption):
            model = regression(setting, momentum=0.9)
            _, facts = trained(setting, data, backup, hook, model=model)
        setting.wait_for_all()
    left = [path.name for path in setting.folder.iterdir()]
    return {**facts, "epochs": np.array(epochs), "left": np.array(left, "U9")}


def orbax_checkpoints(setting: Setting, data: Any) -> Facts:
    """Checkpoints of Orbax, the last of which a model of another start loads."""
    assert setting.folder is not None
    folder = setting.folder / "orbax"
    callback = keras.callbacks.OrbaxCheckpoint(folder, max_to_keep=2)
    _, facts = trained(setting, data, callback, epochs=3)
    setting.wait_for_all()
    steps = sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())
    last = folder / str(steps[-1]) / "pytree"
    with orbax.checkpoint.PyTreeCheckpointer() as reader:
        as_numpy = orbax.checkpoint.RestoreArgs(restore_type=np.ndarray)
        saved = reader.metadata(last).item_metadata.tree
        found = reader.restore(last, restore_args=jax.tree.map(lambda _: as_numpy, saved))
    values = {f"saved {number}": leaf for number, leaf in enumerate(jax.tree.leaves(found))}
    return {**facts, **values, "steps": np.array(steps)}


def csv_log(setting: Setting, data: Any) -> Facts:
    """A log of two trainings."""
    assert setting.folder is not None
    path = setting.folder / "log.csv"
    model = regression(setting)
    facts: Facts = {}
    for _ in range(2):
        logger = keras.callbacks.CSVLogger(path, append=True)
        _, facts = trained(setting, data, logger, model=model, epochs=2)
    setting.wait_for_all()
    with path.open() as file:
        header, *rows = csv.reader(file)
    return {**facts, "header": np.array(header), "rows": np.array(rows, np.float64)}


def events(directory: Path) -> Iterator[Event]:
    """The events of all files in `directory`, read as length-prefixed records."""
    for path in sorted(directory.glob("events.out.tfevents.*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            yield Event.FromString(data[at + 12 : at + 12 + length])
            at += 12 + length + 4


def board(setting: Setting, data: Any) -> Facts:
    """Scalars of epochs and batches, and histograms, for TensorBoard."""
    assert setting.folder is not None
    callback = keras.callbacks.TensorBoard(
        setting.folder / "board", histogram_freq=2, update_freq="batch"
    )
    _, facts = trained(setting, data, callback)
    setting.wait_for_all()
    for name in ("train", "validation"):
        tags, numbers = [], []
        for event in events(setting.folder / "board" / name):
            for value in event.summary.value:
                tags.append(f"{value.tag} {event.step}")
                if value.metadata.plugin_data.plugin_name in ("scalars", "histograms"):
                    numbers += tensor_util.make_ndarray(value.tensor).ravel().tolist()
        facts |= {f"{name} tags": np.array(tags), f"{name} values": np.array(numbers)}
    return facts


def not_a_number(setting: Setting, data: Any) -> Facts:
    """NaN in a row ends the training at its batch."""
    x, y = data
    y = y.copy()
    y[-1] = np.nan
    batches: list[int] = []
    count = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: batches.append(batch)
    )
    stop = keras.callbacks.TerminateOnNaN()
    _, facts = trained(setting, (x, y), stop, count)
    return {**facts, "batches": np.array(batches)}


def averaged_weights(setting: Setting, data: Any) -> Facts:
    """Evaluated, and saved, with the averages of the weights."""
    assert setting.folder is not None
    facts: Facts = {}
    for by_epoch in (False, True):
        model = regression(setting, use_ema=True, ema_momentum=0.7)
        swap = keras.callbacks.SwapEMAWeights(swap_on_epoch=by_epoch)
        path = setting.folder / f"{by_epoch}.weights.h5"
        save = keras.callbacks.ModelCheckpoint(path, save_weights_only=True)
        _, found = trained(setting, data, swap, save, model=model, epochs=3)
        facts |= {f"{by_epoch} {name}": value for name, value in found.items()}
    setting.wait_for_all()
    return {**facts, **saved_weights(setting, sorted(setting.folder.iterdir()))}


def remote_monitor(setting: Setting, data: Any) -> Facts:
    """Logs of epochs, posted to a server."""
    posted: list[dict[str, float]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append(json.loads(body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            monitor = keras.callbacks.RemoteMonitor(address, send_as_json=True)
            _, facts = trained(setting, data, monitor, epochs=2)
        finally:
            server.shutdown()
            thread.join()
    values = [logs[name] for logs in posted for name in sorted(logs)]
    names = [sorted(logs) for logs in posted]
    return {**facts, "posted": np.array(values), "names": np.array(names)}


def progress(setting: Setting, data: Any) -> Facts:
    """What the progress bar says at the end of each epoch."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        _, facts = trained(setting, data, epochs=2, verbose=2)
    lines = [line for line in said.getvalue().splitlines() if "loss" in line]
    shown = [re.findall(r"(\w+): ([\d.e+-]+)", line) for line in lines]
    names = [[name for name, _ in line] for line in shown]
    values = [[float(value) for _, value in line] for line in shown]
    return {**facts, "shown": np.array(names), "values": np.array(values)}


def history(setting: Setting, data: Any) -> Facts:
    """A `History` of the user's, beside Keras's own."""
    own = keras.callbacks.History()
    _, facts = trained(setting, data, own)
    return {**facts, **{f"own {name}": np.array(curve) for name, curve in own.history.items()}}


PROGRAMS: dict[str, Callable[[Setting, Any], Facts]] = {
    "BackupAndRestore": backed_up,
    "CSVLogger": csv_log,
    "Callback": all_hooks,
    "CallbackList": list_of_callbacks,
    "EarlyStopping": early_stopping,
    "History": history,
    "LambdaCallback": lambdas,
    "LearningRateScheduler": scheduled_rate,
    "ModelCheckpoint": model_checkpoints,
    "OrbaxCheckpoint": orbax_checkpoints,
    "ProgbarLogger": progress,
    "ReduceLROnPlateau": reduced_rate,
    "RemoteMonitor": remote_monitor,
    "SwapEMAWeights": averaged_weights,
    "TensorBoard": board,
    "TerminateOnNaN": not_a_number,
}
QUICK = {
    "BackupAndRestore": "2 replicas",
    "Callback": "2 replicas, 3 steps at once",
    "EarlyStopping": "4 replicas",
    "OrbaxCheckpoint": "2 processes",
    "SwapEMAWeights": "2 replicas",
}

CALLBACKS = {
    name: Case(program, examples, quick=(QUICK[name],) if name in QUICK else ())
    for name, program in PROGRAMS.items()
}
