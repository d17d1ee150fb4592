"""Trainings with `shard=` in the processes of a cluster, beside those with copies."""

from __future__ import annotations

import json
import math
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

import drumline as dl
from drumline import _safetensors
from drumline.distribute import MultiWorkerMirroredStrategy
from drumline.distribute.global_arrays import ReplicaArrays
from drumline.keras.state import TRAIN_STATE
from drumline.keras.step.train_step import TrainStep, shard_or_replicate
from drumline.training.cut_values import is_cut, reading_rows, row_length
from tests.distribute.collectives.traffic import bytes_between

ROWS, BATCH, EPOCHS = 25, 12, 8  # 24 steps; the last batch of an epoch splits over no replicas
OPTIMIZERS: dict[str, Callable[[], keras.optimizers.Optimizer]] = {
    "adam": lambda: keras.optimizers.Adam(0.01),
    "clipped": lambda: keras.optimizers.AdamW(1e-3, global_clipnorm=0.5),
}


def member(trainings: list[tuple[str, str]], **more: Any) -> None:
    """In a process of a cluster: train with copies, and cut; say how both compare.

    Args:
        trainings: names of optimizers, and what is cut.
        more: names of other functions here, and their arguments.
    """
    copies = MultiWorkerMirroredStrategy()
    found: dict[str, Any] = {}
    expected = {name: results(*trained(copies, name)) for name in dict(trainings)}
    for name, shard in trainings:
        strategy = MultiWorkerMirroredStrategy(shard=shard)
        model, given = trained(strategy, name)
        found[f"{name} {shard}"] = {
            "apart": apart(expected[name], results(model, given)),
            "cut": cut_of(model, strategy),
            "describes": strategy.describe(),
        }
    for name, arguments in more.items():
        found[name] = globals()[name](**arguments)
    print(json.dumps({"facts": found}), flush=True)


def not_compiled() -> dict[str, float]:
    """How far trainings whose steps are not compiled are from one with copies."""
    found = {}
    for shard in (None, "optimizer", "parameters"):
        model = model_of(MultiWorkerMirroredStrategy(shard=shard), "adam", 1)
        model.run_eagerly = True
        x, y = rows(BATCH)
        given = [*model.fit(x, y, epochs=2, verbose=0).history.values()]
        found[str(shard)] = results(model, [*given, model.predict(x, verbose=0)])
    return {name: apart(found["None"], each) for name, each in found.items()}


def rank() -> int:
    """This process's number in the cluster."""
    return int(json.loads(os.environ["TF_CONFIG"])["task"]["index"])


def model_of(strategy: dl.distribute.Strategy, optimizer: str, seed: int) -> keras.Model:
    """A small model, its initial weights drawn from `seed`."""
    keras.utils.set_random_seed(seed)
    with strategy.scope():
        layers = [
            keras.Input((6,)),
            keras.layers.Dense(17, "relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(3),
        ]
        model = keras.Sequential(layers)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(OPTIMIZERS[optimizer](), loss, metrics=["accuracy"])
    return model


def rows(count: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Examples, and their classes."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, 6)).astype(np.float32), rng.integers(0, 3, count)


def trained(strategy: dl.distribute.Strategy, optimizer: str) -> tuple[keras.Model, list[Any]]:
    """A model, and what its training given; each process draws other initial weights."""
    model = model_of(strategy, optimizer, 1 + rank())
    x, y = rows()
    fit = {"batch_size": BATCH, "epochs": EPOCHS, "shuffle": False, "verbose": 0}
    given = [*model.fit(x, y, **fit).history.values()]
    given += [model.evaluate(x, y, verbose=0), model.predict(x, verbose=0)]
    return model, [*given, model.train_on_batch(x[:BATCH], y[:BATCH])]


def values(model: keras.Model) -> list[np.ndarray]:
    """The values of all variables."""
    return [
        np.asarray(variable.value) for variable in [*model.variables, *model.optimizer.variables]
    ]


def results(model: keras.Model, given: list[Any]) -> list[Any]:
    """All numbers of a training."""
    return [*given, *values(model)]


def apart(expected: list[Any], found: list[Any]) -> float:
    """How far numbers are from those expected, where those are large by a share of them."""
    pairs = [
        (np.asarray(one, np.float64), np.asarray(other, np.float64))
        for one, other in zip(expected, found, strict=True)
    ]
    return max(float(np.max(abs(b - a) / np.maximum(1, abs(a)))) for a, b in pairs)


def cut_of(model: keras.Model, strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """What of a model is cut, and the elements of it on each of this process's devices."""
    cut = [v for v in [*model.variables, *model.optimizer.variables] if is_cut(v)]
    with reading_rows():
        arrays = [variable.value for variable in cut]
    shares = {device.id: 0 for device in strategy.local_replica_devices}
    for array in arrays:
        for shard in array.addressable_shards:
            shares[shard.device.id] += shard.data.size
    sizes = [math.prod(variable.shape) for variable in cut]
    return {
        "variables": len(cut),
        "shares": list(shares.values()),
        "share": sum(row_length(size, strategy.num_replicas_in_sync) for size in sizes),
    }


def traffic(shards: list[str], widths: list[int]) -> dict[str, Any]:
    """The bytes that each replica sends in a step of layers of a width, and of its rows."""
    return {shard: _traffic(shard, widths) for shard in shards}


def _traffic(shard: str, widths: list[int]) -> dict[str, Any]:
    strategy = MultiWorkerMirroredStrategy(shard=shard)
    with strategy.scope():
        layers = [keras.layers.Dense(width, "tanh", use_bias=False) for width in widths]
        model = keras.Sequential([keras.Input((600,)), *layers])
        model.compile(keras.optimizers.Adam(0.01), "mse")
        batch = np.zeros((BATCH, 600), np.float32), np.zeros((BATCH, widths[-1]), np.float32)
        model._symbolic_build(data_batch=batch)
        state = model._get_jax_state(**dict.fromkeys(TRAIN_STATE, True))
        step = TrainStep(model, strategy)._per_replica
        compiled = step._alone.lower(state, shard_or_replicate(batch, strategy)).compile()
    sizes = [math.prod(variable.shape) for variable in model.trainable_variables]
    text, memory = compiled.as_text(), compiled.memory_analysis()
    assert text is not None and memory is not None
    return {
        "sent": bytes_between(text).sum(axis=1).tolist(),
        "rows": [4 * row_length(size, strategy.num_replicas_in_sync) for size in sizes],
        "temporary": memory.temp_size_in_bytes,
        "largest": 4 * max(sizes),
    }


def alone(shard: str) -> dict[str, Any]:
    """The error in processes that read different variables."""
    model = model_of(MultiWorkerMirroredStrategy(shard=shard), "adam", 1)
    try:
        model.layers[3 * rank()].kernel.value.block_until_ready()
    except RuntimeError as error:
        return {"error": str(error)}
    return {"error": ""}


def refused() -> dict[str, Any]:
    """What is refused, and what is said."""
    said = {}
    ring = dl.distribute.experimental.CommunicationOptions(
        implementation=dl.distribute.experimental.CommunicationImplementation.RING
    )
    wanted: dict[str, dict[str, Any]] = {
        "rows": {"shard": "rows"},
        "ring": {"shard": "parameters", "communication_options": ring},
        "agreement": {"shard": "optimizer", "check_agreement": True},
    }
    for name, arguments in wanted.items():
        try:
            MultiWorkerMirroredStrategy(**arguments)
        except ValueError as error:
            said[name] = str(error)
    return said


def checkpoints(folder: str, saved: str, expected: str) -> dict[str, Any]:
    """Checkpoints from one way to cut to others, and what a process writes of one.

    Args:
        folder: where, of all processes.
        saved: a checkpoint that one process has saved.
        expected: the values that it has.
    """
    copies = MultiWorkerMirroredStrategy()
    cut = {shard: MultiWorkerMirroredStrategy(shard=shard) for shard in ("optimizer", "parameters")}
    first, _ = trained(cut["parameters"], "adam")
    of_first = values(first)
    path = checkpoint_of(first).save(f"{folder}/cut")
    (directory,) = Path(f"{path}.servers").iterdir()
    with np.load(expected) as given:
        of_one = [given[name] for name in given.files]
    found: dict[str, Any] = {
        "parts": {each.name: _bytes_in(each) for each in directory.iterdir()},
        "others": _bytes_in(Path(f"{path}.safetensors")),
        "share": 4 * cut_of(first, cut["parameters"])["share"],
        "whole": sum(value.nbytes for value in of_first),
        "path": path,
    }
    if rank() == 0:
        np.savez(f"{folder}/cut.npz", *of_first)
    for name, strategy in {"copies": copies, **cut}.items():
        model = model_of(strategy, "adam", 5)
        model.optimizer.build(model.trainable_variables)
        for kind, restored, wanted in (("two", path, of_first), ("one", saved, of_one)):
            checkpoint_of(model).restore(restored).assert_consumed()
            found[f"{kind} {name}"] = apart(wanted, values(model))
    return found


def _bytes_in(file: Path) -> int:
    """Those of all arrays in a file of a checkpoint."""
    arrays = _safetensors.parse(np.fromfile(file, np.uint8)).arrays
    return sum(array.nbytes for array in arrays.values())


def restored(path: str, expected: str) -> dict[str, Any]:
    """A checkpoint of other processes, in these."""
    found = {}
    with np.load(expected) as given:
        wanted = [given[name] for name in given.files]
    for shard in ("optimizer", "parameters"):
        model = model_of(MultiWorkerMirroredStrategy(shard=shard), "adam", 5)
        model.optimizer.build(model.trainable_variables)
        checkpoint_of(model).restore(path).assert_consumed()
        found[shard] = apart(wanted, values(model))
    return found


def checkpoint_of(model: keras.Model) -> dl.train.Checkpoint:
    """A checkpoint of all that a model has."""
    return dl.train.Checkpoint(model=model, optimizer=model.optimizer)


class _Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.model.optimizer.iterations == 7:
            raise KeyboardInterrupt


def resumed(folder: str) -> dict[str, Any]:
    """A `fit` that is interrupted, and goes on with other shards; and files that it writes."""
    x, y = rows()
    kept = keras.callbacks.ModelCheckpoint(f"{folder}/kept.keras")

    def fitted(shard: str, *callbacks: keras.callbacks.Callback) -> keras.Model:
        model = model_of(MultiWorkerMirroredStrategy(shard=shard), "adam", 1)
        options = {"batch_size": BATCH, "epochs": 3, "shuffle": False, "verbose": 0}
        model.fit(x, y, callbacks=list(callbacks), **options)
        return model

    def backup() -> keras.callbacks.Callback:
        return keras.callbacks.BackupAndRestore(f"{folder}/backup", save_freq=2)

    whole = fitted("parameters", kept)
    try:
        fitted("parameters", backup(), _Stop())
    except KeyboardInterrupt:
        parts = [each.parent.parent.name for each in Path(folder).glob("backup/*.servers/*/*")]
    after = fitted("optimizer", backup())
    with MultiWorkerMirroredStrategy().scope():
        loaded = keras.models.load_model(f"{folder}/kept.keras")
    weights = [[np.asarray(v.value) for v in each.trainable_variables] for each in (whole, loaded)]
    return {
        "apart": apart(values(whole), values(after)),
        "kept": apart(*weights),
        "parts": len(parts),
    }


def saved_one_by_one(folder: str) -> dict[str, Any]:
    """How many variables are whole at a time while a model is saved, and how many were."""
    model, _ = trained(MultiWorkerMirroredStrategy(shard="parameters"), "adam")
    joined: list[weakref.ref[Any]] = []
    most = [0]
    join = ReplicaArrays._joined

    def counting_join(self: ReplicaArrays, *args: Any) -> Any:
        whole = join(self, *args)
        joined.append(weakref.ref(whole))
        most[0] = max(most[0], sum(each() is not None for each in joined))
        return whole

    ReplicaArrays._joined = counting_join  # type: ignore[method-assign]
    try:
        model.save(f"{folder}/{rank()}.keras")
    finally:
        ReplicaArrays._joined = join  # type: ignore[method-assign]
    return {"most": most[0], "joined": len(joined)}


def memory(layers: int, width: int) -> dict[str, Any]:
    """The bytes that a process is resident in while it trains, above those after the imports.

    Args:
        layers: of a model of dense layers, each a square matrix.
        width: its sides.
    """
    strategy = MultiWorkerMirroredStrategy(shard="parameters")
    before = _resident("VmRSS")
    keras.utils.set_random_seed(1)
    with strategy.scope():
        dense = [keras.layers.Dense(width, "tanh", use_bias=False) for _ in range(layers)]
        model = keras.Sequential([keras.Input((width,)), *dense, keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(1e-4), "mse")
    built = _resident("VmHWM")
    x = np.random.default_rng(0).normal(size=(16, width)).astype(np.float32)
    history = model.fit(x, x[:, :1], batch_size=16, epochs=2, verbose=0).history
    state = [*model.trainable_variables, *model.optimizer.variables]
    return {
        "whole state": sum(4 * math.prod(variable.shape) for variable in state),
        "built": built - before,
        "peak": _resident("VmHWM") - before,
        "losses": history["loss"],
    }


def _resident(name: str) -> int:
    """A number of bytes that the kernel says of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024
