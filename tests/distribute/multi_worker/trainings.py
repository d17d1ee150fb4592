"""Trainings that any strategy can run: in a process of a cluster, or in the test's own."""

from __future__ import annotations

import json
import os
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

import drumline as dl
from drumline.distribute.process_group import one_writer
from drumline.training.checkpoint import file_format

Policy = dl.data.experimental.AutoShardPolicy
ROWS, BATCH = 70, 16  # 70 = 4 * 16 + 6: the last batch splits over 2 replicas and not over 4


def member(trainings: list[str], folder: str) -> None:
    """In a process of a cluster: run trainings one after another, and say what came out."""
    strategy = dl.distribute.MultiWorkerMirroredStrategy()
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    keras.utils.set_random_seed(17 + rank)  # also numpy's, for shuffling
    for name in trainings:
        training = globals()[name]
        in_folder = training in (callbacks, checkpoints)
        facts = training(strategy, folder) if in_folder else training(strategy)
        print(json.dumps({"facts": {name: facts}}), flush=True)


def examples() -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(5)
    x = numbers.random((ROWS, 6), dtype=np.float32)
    return x, x @ np.arange(6, dtype=np.float32)[:, None]


def build(strategy: dl.distribute.Strategy, same_start: bool = True) -> keras.Model:
    """A small model; with `same_start` its initial weights are the same in any process."""
    with strategy.scope():
        draw = keras.initializers.GlorotUniform(seed=3 if same_start else None)
        model = keras.Sequential(
            [
                keras.Input((6,)),
                keras.layers.Dense(8, activation="tanh", kernel_initializer=draw),
                keras.layers.Dense(1, kernel_initializer=draw),
            ]
        )
        model.compile("sgd", "mse", metrics=["mae"])
    return model


def shuffled() -> dl.data.Dataset:
    """Batches in an order that each process would draw for itself."""
    return dl.data.Dataset.from_tensor_slices(examples()).shuffle(ROWS).batch(BATCH)


def in_order(policy: Policy = Policy.AUTO) -> dl.data.Dataset:
    options = dl.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    return dl.data.Dataset.from_tensor_slices(examples()).batch(BATCH).with_options(options)


def fit(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """`fit`, `evaluate` and `predict` of a dataset in a fixed order."""
    model = build(strategy)
    history = model.fit(in_order(), epochs=3, verbose=0, validation_data=in_order())
    predicted = model.predict(in_order().map(lambda x, y: x), verbose=0)
    return {
        "history": {name: list(map(float, curve)) for name, curve in history.history.items()},
        "evaluated": model.evaluate(in_order(), verbose=0),
        "predicted": predicted[:, 0].tolist(),
        "weights": model.get_weights()[0].ravel().tolist(),
        "on_batch": float(model.train_on_batch(*(part[:12] for part in examples()))[0]),
    }


def distilled(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """Steps of Keras on batches that another model returned, which lie on devices; 6 do not cut."""
    teacher, model = build(strategy), build(strategy)
    x = examples()[0]
    found: dict[str, Any] = {"on_batch": []}
    for rows in (12, 6):
        target = 3 * teacher(x[:rows])
        elsewhere = jax.device_put(np.asarray(target), jax.local_devices()[-1])
        for step in (model.train_on_batch, model.test_on_batch):
            found["on_batch"] += [float(step(x[:rows], y)[0]) for y in (target, elsewhere)]
        found[f"predicted {rows}"] = model.predict_on_batch(target @ np.ones((1, 6))).tolist()
    batches = [(x[:12], 3 * teacher(x[:12])), (x[:6], 3 * teacher(x[:6]))]
    given = (pair for pair in batches)
    history = model.fit(given, steps_per_epoch=2, shuffle=False, verbose=0).history
    return {**found, "fit": list(map(float, history["loss"]))}


def synchronized(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """`fit`, and a loop of one's own, of a model that is normalized over the global batch."""
    with strategy.scope():
        draw = keras.initializers.GlorotUniform(seed=3)
        model = keras.Sequential(
            [
                keras.Input((6,)),
                keras.layers.BatchNormalization(synchronized=True, momentum=0.5),
                keras.layers.Dense(1, kernel_initializer=draw),
            ]
        )
        model.compile("sgd", "mse")
    losses = model.fit(in_order(), verbose=0).history["loss"]

    def step(batch: Any) -> None:
        x, y = batch
        with dl.GradientTape() as tape:
            errors = (model(x, training=True) - y)[:, 0] ** 2
            loss = dl.nn.compute_average_loss(errors, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    for batch in strategy.experimental_distribute_dataset(in_order().skip(3)):
        strategy.run(step, args=(batch,))
    weights = np.concatenate([weight.ravel() for weight in model.get_weights()])
    return {"losses": list(map(float, losses)), "weights": weights.tolist()}


def fit_drawn(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """What the processes draw for themselves: weights, the dataset's order, Keras's own order."""
    model = build(strategy, same_start=False)
    losses = model.fit(shuffled(), epochs=2, verbose=0).history["loss"]
    losses += model.fit(*examples(), batch_size=BATCH, verbose=0).history["loss"]
    return {"losses": list(map(float, losses)), "weights": model.get_weights()[0].ravel().tolist()}


def fit_digits(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """The bundled digits, to an accuracy."""
    scaled = dl.datasets.load("digits", split="train", as_supervised=True).map(
        lambda image, label: (image / 16.0, label)
    )
    with strategy.scope():
        draw = keras.initializers.GlorotUniform(seed=3)
        model = keras.Sequential(
            [
                keras.Input((8, 8, 1)),
                keras.layers.Flatten(),
                keras.layers.Dense(32, activation="relu", kernel_initializer=draw),
                keras.layers.Dense(10, kernel_initializer=draw),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    history = model.fit(scaled.shuffle(2_000, seed=1).batch(64), epochs=3, verbose=0).history
    return {"losses": list(map(float, history["loss"])), "accuracy": history["accuracy"][-1]}


def loop(
    strategy: dl.distribute.Strategy, function: bool = True, skip: int = 0, epochs: int = 2
) -> dict[str, Any]:
    """The tutorial's loop, with a metric and a sum over the examples."""
    model = build(strategy)
    with strategy.scope():
        optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
        metric = keras.metrics.MeanAbsoluteError()
        seen = dl.Variable(0.0, synchronization="ON_READ", aggregation="SUM")

    def step(batch: Any) -> Any:
        x, y = batch
        with dl.GradientTape() as tape:
            predictions = model(x, training=True)
            errors = (predictions - y)[:, 0] ** 2
            loss = dl.nn.compute_average_loss(errors, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        metric.update_state(y, predictions)
        seen.assign_add(x.sum())
        return loss

    def train_step(batch: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(step, args=(batch,)), axis=None)

    compiled: Callable[[Any], Any] = dl.function(train_step) if function else train_step
    distributed = strategy.experimental_distribute_dataset(in_order().skip(skip))
    losses = [float(compiled(batch)) for _ in range(epochs) for batch in distributed]
    return {
        "losses": losses,
        "metric": float(metric.result()),
        "seen": float(seen.value),
        "weights": model.get_weights()[0].ravel().tolist(),
    }


def run_alone(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """The last two batches, the very last of which is uneven, without `function`."""
    return loop(strategy, function=False, skip=3, epochs=1)


def eagerly(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """A few steps without Keras, compiled and then step by step without compilation."""
    return {"compiled": _descend(strategy), "eager": _descend(strategy, eager=True)}


def _descend(strategy: dl.distribute.Strategy, eager: bool = False) -> list[float]:
    with strategy.scope():
        weights = dl.Variable(np.ones((6, 1), np.float32))
        largest = dl.Variable(0.0, synchronization="ON_READ", aggregation="MEAN")

    def step(batch: Any) -> Any:
        x, y = batch
        with dl.GradientTape() as tape:
            loss = ((x @ weights.value - y) ** 2).sum() / BATCH
        gradient = dl.distribute.get_replica_context().all_reduce(
            "SUM", tape.gradient(loss, weights)
        )
        largest.assign(x.max())
        dl.distribute.get_replica_context().merge_call(
            lambda _, change: weights.assign_sub(0.05 * strategy.reduce("MEAN", change)),
            args=(gradient,),
        )
        return loss

    dl.config.run_functions_eagerly(eager)
    try:
        distributed = strategy.experimental_distribute_dataset(in_order().skip(3))
        losses = [strategy.reduce("SUM", strategy.run(step, args=(b,))) for b in distributed]
    finally:
        dl.config.run_functions_eagerly(False)
    return [*map(float, losses), float(largest.value), *np.asarray(weights.value).ravel().tolist()]


def _ids(strategy: dl.distribute.Strategy, distributed: Any) -> list[list[int]]:
    """The elements that the replicas use, step by step, as all of them together see it."""
    steps = []
    for batch in distributed:
        used = strategy.run(lambda ids: ids + 0, args=(batch,))
        steps.append(sorted(map(int, np.asarray(strategy.gather(used, axis=0)))))
    return steps


def _lines_of(folder: Path, files: int, policy: Policy) -> dl.data.Dataset:
    """The numbers below ROWS, read in batches from files of different lengths."""
    edges = [0, *(ROWS // 2 + 5 * i for i in range(files - 1)), ROWS]
    for i in range(files):
        text = "".join(f"{number}\n" for number in range(edges[i], edges[i + 1]))
        (folder / str(i)).write_text(text)
    options = dl.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    names = dl.data.Dataset.list_files(str(folder / "*"))
    numbers = dl.data.TextLineDataset(names).map(lambda line: np.int64(int(line)))
    return numbers.batch(BATCH).with_options(options)


def policies(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """Which elements are used under each policy, and how an unsuitable one is refused."""
    numbers = dl.data.Dataset.range(ROWS)
    found: dict[str, Any] = {}
    for policy in (Policy.DATA, Policy.OFF, Policy.HINT):
        options = dl.data.Options()
        options.experimental_distribute.auto_shard_policy = policy
        hint = dl.data.experimental.SHARD_HINT
        dataset = numbers.shard(hint, hint) if policy is Policy.HINT else numbers
        dataset = dataset.batch(BATCH).with_options(options)
        found[policy.name] = _ids(strategy, strategy.experimental_distribute_dataset(dataset))
    for policy, files in ((Policy.FILE, 3), (Policy.AUTO, 2), (Policy.AUTO, 1)):
        with tempfile.TemporaryDirectory() as folder:
            dataset = _lines_of(Path(folder), files, policy)
            distributed = strategy.experimental_distribute_dataset(dataset)
            found[f"{policy.name} {files} files"] = _ids(strategy, distributed)
    for policy in (Policy.FILE, Policy.HINT):
        try:
            iter(strategy.experimental_distribute_dataset(in_order(policy)))
        except ValueError as error:
            found[f"{policy.name} refused"] = str(error)
    return found


def orders(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """Orders that each process would draw for itself, where one has looked at an element before."""
    hint = dl.data.experimental.SHARD_HINT
    options = dl.data.Options()
    options.experimental_distribute.auto_shard_policy = Policy.HINT
    hinted = dl.data.Dataset.range(ROWS).shuffle(ROWS).shard(hint, hint).batch(BATCH)
    found = {}
    for name, dataset in {
        "DATA": dl.data.Dataset.range(ROWS).shuffle(ROWS).batch(BATCH),
        "HINT": hinted.with_options(options),
    }.items():
        if strategy.process_index == 0:
            next(iter(dataset))
        distributed = strategy.experimental_distribute_dataset(dataset)
        found[name] = [_ids(strategy, distributed) for _ in range(2)]
    return found


def uneven(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """A training in which no batch splits, from weights that each process drew for itself."""
    model = build(strategy, same_start=False)
    dataset = dl.data.Dataset.from_tensor_slices(examples()).batch(6).take(4)
    distributed = strategy.experimental_distribute_dataset(dataset)

    def step(batch: Any) -> Any:
        x, y = batch
        with dl.GradientTape() as tape:
            errors = (model(x, training=True) - y)[:, 0] ** 2
            loss = dl.nn.compute_average_loss(errors, global_batch_size=6)
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    losses = [strategy.reduce("SUM", strategy.run(step, args=(b,))) for b in distributed]
    return {"losses": list(map(float, losses))}


def absent(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """Results of a last step in which some replicas have no rows: whose they are."""
    rows = (4, 8)[strategy.process_index]  # the first process has one batch, the other two
    first = 100 * strategy.process_index
    distributed = strategy.distribute_datasets_from_function(
        lambda context: dl.data.Dataset.range(first, first + rows).batch(4)
    )
    results = [strategy.run(lambda ids: ids + 0, args=(batch,)) for batch in distributed]
    local = [
        np.asarray(value).tolist()
        for result in results
        for value in strategy.experimental_local_results(result)
    ]
    return {"local": local}


def carried(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """Parameters and keys that go into each step and come out, and a last batch of one row."""

    def step(w: Any, key: Any, x: Any) -> Any:
        context = dl.distribute.get_replica_context()
        total = context.all_reduce("SUM", jnp.sum(x))
        return w + total, jax.random.split(key)[0], total

    data = strategy.experimental_distribute_dataset(
        dl.data.Dataset.from_tensor_slices(np.ones(9, np.float32)).batch(4)
    )
    w: Any = jnp.zeros(())
    key: Any = jax.random.key(1)
    totals = []
    for _ in range(2):
        for x in data:
            w, key, total = strategy.run(step, args=(w, key, x))
            totals.append(float(strategy.reduce("MEAN", total)))
    everyone = strategy.run(lambda w, x: w + 0 * x.sum(), args=(w, next(iter(data))))
    own = [float(value) for value in strategy.experimental_local_results(everyone)]
    return {"totals": totals, "own": own}


def other_widths(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """Batches that are wider in one process than in the other."""
    width = 3 + strategy.process_index
    distributed = strategy.distribute_datasets_from_function(
        lambda context: dl.data.Dataset.from_tensor_slices(np.zeros((8, width), np.float32)).batch(
            4
        )
    )
    try:
        list(distributed)
    except ValueError as error:
        return {"refused": str(error)}
    return {"refused": ""}


def in_the_middle(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """Going on after the first of the steps that one batch is enough for."""
    options = in_order(Policy.OFF).options()
    dataset = dl.data.Dataset.range(ROWS).batch(BATCH).with_options(options)
    distributed = strategy.experimental_distribute_dataset(dataset)
    iterator = iter(distributed)
    next(iterator)
    state = iterator.state()
    following = _ids(strategy, iterator)
    again = iter(distributed)
    again.restore(state)
    return {"following": following, "restored": _ids(strategy, again)}


def chief_looks(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """The first process alone reads the weights between the steps of `fit`."""
    model = build(strategy)

    def look(batch: int, logs: Any) -> None:
        if strategy.process_index == 0:
            callback.model.get_weights()

    callback = keras.callbacks.LambdaCallback(on_train_batch_end=look)
    history = model.fit(in_order(), epochs=2, verbose=0, callbacks=[callback]).history
    return {"losses": list(map(float, history["loss"]))}


def own_datasets(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """Each process makes its own dataset; they differ in length, and the last one is empty."""
    said: list[tuple[int, int]] = []

    def make(context: dl.distribute.InputContext) -> dl.data.Dataset:
        said.append((context.num_input_pipelines, context.input_pipeline_id))
        last = context.input_pipeline_id == context.num_input_pipelines - 1
        first = 100 * context.input_pipeline_id
        return dl.data.Dataset.range(first, first if last else first + 27).batch(4)

    distributed = strategy.distribute_datasets_from_function(make)
    iterator = iter(distributed)
    ids = _ids(strategy, iter(distributed))
    next(iterator)
    state = iterator.state()
    following = _ids(strategy, iterator)
    again = iter(distributed)
    again.restore(state)
    return {"said": said, "ids": ids, "following": following, "restored": _ids(strategy, again)}


def evaluate_own(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """Scores over all examples, which do not depend on who reads which of them, and steps."""
    model = build(strategy)
    examples_alone = dl.data.Dataset.from_tensor_slices(examples())
    hint = dl.data.experimental.SHARD_HINT
    hinted = (
        examples_alone.shard(hint, hint).batch(BATCH).with_options(in_order(Policy.HINT).options())
    )
    made = strategy.distribute_datasets_from_function(
        lambda context: examples_alone.shard(
            context.num_input_pipelines, context.input_pipeline_id
        ).batch(context.get_per_replica_batch_size(BATCH))
    )
    found: dict[str, Any] = {}
    for name, dataset in {
        "DATA": in_order(),
        "OFF": in_order(Policy.OFF),
        "HINT": hinted,
        "function": made,
    }.items():
        steps: list[int] = []
        count = keras.callbacks.LambdaCallback(
            on_test_batch_end=lambda n, logs, s=steps: s.append(n)
        )
        score = model.evaluate(dataset, verbose=0, callbacks=[count])
        found[name] = {"score": list(map(float, score)), "steps": len(steps)}
    return found


def values(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """Values for each replica, and how they are combined."""
    given = strategy.experimental_distribute_values_from_function(
        lambda context: np.float32(10 + context.replica_id_in_sync_group)
    )
    with strategy.scope():
        copies = dl.Variable(0.0, synchronization="ON_READ", aggregation="MEAN")
        summed = dl.Variable(1.0, aggregation="SUM")

    def step(value: Any) -> Any:
        context = dl.distribute.get_replica_context()
        copies.assign(value)
        summed.assign_add(value)
        everybody = context.all_gather(value[None])
        return value, everybody, context.replica_id_in_sync_group

    own, everybody, ids = strategy.run(step, args=(given,))
    return {
        "local": list(map(float, strategy.experimental_local_results(given))),
        "ids": [int(number) for number in strategy.experimental_local_results(ids)],
        "gathered": np.asarray(strategy.experimental_local_results(everybody)[0]).tolist(),
        "sum": float(strategy.reduce("SUM", own)),
        "mean": float(strategy.reduce("MEAN", own)),
        "copies": float(copies.value),
        "own copies": list(map(float, strategy.experimental_local_results(copies))),
        "summed": float(summed.value),
        "replicas": strategy.num_replicas_in_sync,
        "described": strategy.describe(),
    }


def callbacks(strategy: dl.distribute.Strategy, folder: str) -> dict[str, Any]:
    """Callbacks that write, all of them in all processes, twice: the second goes on."""
    place = Path(folder)
    epochs: list[int] = []
    for until in (2, 4):
        model = build(strategy, same_start=False)
        model.fit(
            in_order(),
            epochs=until,
            verbose=0,
            callbacks=[
                keras.callbacks.ModelCheckpoint(str(place / "epoch{epoch}.keras")),
                keras.callbacks.CSVLogger(str(place / "log.csv"), append=True),
                dl.keras.callbacks.TensorBoard(str(place / "board")),
                keras.callbacks.BackupAndRestore(str(place / "backup"), delete_checkpoint=False),
                keras.callbacks.LambdaCallback(
                    on_epoch_end=lambda epoch, logs: epochs.append(epoch)
                ),
            ],
        )
    return {
        "epochs": epochs,
        "writer": strategy.process_index == 0,
        "weights": model.get_weights()[0].ravel().tolist(),
        "logs": (place / "log.csv").read_text().splitlines() if strategy.process_index == 0 else [],
    }


def checkpoints(strategy: dl.distribute.Strategy, folder: str) -> dict[str, Any]:
    """Checkpoints that all processes save, in one directory, in others, and in the first alone."""
    place = Path(folder).with_name("checkpoints")
    rank = strategy.process_index
    written: list[str] = []
    write = file_format.write

    def noted(path: Any, snapshot: Any) -> None:
        written.append(str(Path(path).relative_to(place)))
        write(path, snapshot)

    file_format.write = noted
    try:
        with strategy.scope():
            v = dl.Variable(np.zeros(20_000, np.float32))
        checkpoint = dl.train.Checkpoint(v=v)
        manager = dl.train.CheckpointManager(checkpoint, place / "shared", max_to_keep=2)
        there = []
        for number in range(1, 5):
            v.assign(np.full(20_000, number))
            path = manager.save()
            there.append(float(_saved(path)[0]))
            _meet(strategy)
        ahead = dl.train.CheckpointManager(checkpoint, place / "ahead", max_to_keep=1)
        if rank == 0:
            for _ in range(3):
                ahead.save()
        _meet(strategy)
        if rank == 1:
            for _ in range(3):
                ahead.save()
        own = dl.train.Checkpoint(v=v).save(place / f"own-{rank}" / "ckpt")
        v.assign(np.full(20_000, 7))
        over = dl.train.Checkpoint(v=v).write(place / "over")
        v.assign(np.full(20_000, 8))
        dl.train.Checkpoint(v=v).write(place / "over")
        fails = _failing(checkpoint, place, rank)
        one_writer.PATIENCE_SECONDS = 0.1
        number_of_common = len(written)
        if rank == 0:
            dl.train.Checkpoint(v=v).write(place / "first")
        late = dl.train.Checkpoint(v=v).write(place / "late")
        if rank == 1:
            for _ in range(3):
                alone = dl.train.Checkpoint(v=v).write(place / "alone")
                assert _saved(alone)[0] == 8
    finally:
        file_format.write = write
    return {
        "written": written[:number_of_common],
        "there": there,
        "kept": [os.path.basename(path) for path in manager.checkpoints],
        "ahead": [os.path.basename(path) for path in ahead.checkpoints],
        "own": float(_saved(own)[0]),
        "over": float(_saved(over)[0]),
        "late": float(_saved(late)[0]),
        "fails": fails,
    }


def _meet(strategy: dl.distribute.Strategy) -> None:
    """Wait for all processes, as the steps between two saves do."""
    strategy.run(lambda: dl.distribute.get_replica_context().all_reduce("SUM", np.float32(1)))


def _saved(path: str) -> np.ndarray:
    return file_format.read(path).arrays["v/variables/0"]


def _failing(checkpoint: dl.train.Checkpoint, place: Path, rank: int) -> str:
    """What a process says when the first one cannot save."""
    write = file_format.write

    def full(path: Any, snapshot: Any) -> None:
        raise OSError(28, "No space left on device")

    if rank == 0:
        file_format.write = full
    try:
        checkpoint.write(place / "full")
    except OSError as error:
        return str(error)
    finally:
        file_format.write = write
    return "saved"


def different_models(strategy: dl.distribute.Strategy) -> dict[str, Any]:
    """A model that is not the same in all processes."""
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((6,)), keras.layers.Dense(1 + strategy.process_index)]
        )
        model.compile("sgd", "mse")
    try:
        model.fit(in_order(), verbose=0)
    except RuntimeError as error:
        return {"refused": str(error)}
    except Exception:
        return {"refused": traceback.format_exc()}
    return {"refused": ""}
