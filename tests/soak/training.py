"""What each process of a job runs: ``python -m tests.soak.training``, by the soak's variables.

It goes on from what the disk holds, as the documentation has it; nothing here knows of faults.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.soak.jobs import FOLDER_VARIABLE, JOB_VARIABLE, Folder, Job, Step, digest_of

if TYPE_CHECKING:
    import drumline as dl

ROWS, FEATURES, CLASSES = 192, 8, 4
FSYNC_SECONDS = 0.1


def main() -> None:
    """Train the job of the environment to its end."""
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    name = f"{task['type']}:{task['index']}"
    job = Job.from_json(os.environ[JOB_VARIABLE])
    folder = Folder(Path(os.environ[FOLDER_VARIABLE]))
    folder.write_start(name, os.getpid())  # before the imports, which a fault may hit too
    use_slow_disk()
    run = {"custom": custom_loop, "fit": fit}[job.loop]
    strategy = strategy_of(job)
    writes_steps = name in ("worker:0", "chief:0") if strategy is not None else False
    if strategy is not None:
        folder.write_result(name, run(job, folder, strategy, writes_steps))


def use_slow_disk() -> None:
    """Let a file take as long to reach the disk as where that turns, so that saves can be hit."""
    fsync = os.fsync

    def slow_fsync(file: Any) -> None:
        time.sleep(FSYNC_SECONDS)
        fsync(file)

    os.fsync = slow_fsync


def strategy_of(job: Job) -> dl.distribute.Strategy | None:
    """The job's strategy; None in a process that only serves, once it has."""
    import drumline as dl

    if job.topology in ("single", "mirrored"):
        count = 1 if job.topology == "single" else 2
        dl.config.set_logical_devices("cpu", count)
        return dl.distribute.MirroredStrategy()
    if job.topology in ("workers", "hosts"):
        return dl.distribute.MultiWorkerMirroredStrategy()
    resolver = dl.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        server = dl.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id)
        server.join()
        return None
    # The numbers are defined only if no step misses the one before.
    return dl.distribute.ParameterServerStrategy(resolver, max_staleness=0)


def examples(job: Job) -> dl.data.Dataset:
    """One epoch of batches."""
    import numpy as np

    import drumline as dl

    numbers = np.random.default_rng(job.seed)
    x = numbers.normal(size=(ROWS, FEATURES)).astype("float32")
    y = (np.abs(x).sum(axis=1) * 3 % CLASSES).astype("int32")
    dataset = dl.data.Dataset.from_tensor_slices((x, y))
    if job.shuffle:
        dataset = dataset.shuffle(ROWS, seed=job.seed)
    if job.augment:
        dataset = dataset.map(
            lambda x, y: (x + dl.random.normal((FEATURES,), stddev=0.3, seed=job.seed), y)
        )
    return dataset.batch(ROWS // job.steps, drop_remainder=True)


def model_of(job: Job) -> Any:
    """A small classifier."""
    import keras

    keras.utils.set_random_seed(job.seed)
    layers = [keras.Input((FEATURES,)), keras.layers.Dense(16, activation="relu")]
    if job.normalize:
        layers.append(keras.layers.BatchNormalization())
    if job.dropout:
        layers.append(keras.layers.Dropout(0.3, seed=job.seed))
    return keras.Sequential([*layers, keras.layers.Dense(CLASSES)])


def optimizer_of(job: Job) -> Any:
    """The job's optimizer."""
    import keras

    if job.optimizer == "adam":
        return keras.optimizers.Adam(0.01)
    return keras.optimizers.SGD(0.05, momentum=0.9)


def custom_loop(
    job: Job, folder: Folder, strategy: dl.distribute.Strategy, writes_steps: bool
) -> dict[str, str]:
    """A loop with `CheckpointManager`, as docs/training/checkpoints.md has it."""
    import keras

    import drumline as dl

    with strategy.scope():
        model = model_of(job)
        optimizer = optimizer_of(job)
        optimizer.build(model.trainable_variables)
        accuracy = keras.metrics.SparseCategoricalAccuracy()
        step = dl.Variable(0)
    batches, train_step = _steps_of(job, strategy, model, optimizer, accuracy)
    checkpoint = dl.train.Checkpoint(
        model=model, optimizer=optimizer, accuracy=accuracy, step=step, batches=batches
    )
    manager = dl.train.CheckpointManager(checkpoint, folder.disk / "checkpoints", max_to_keep=3)
    manager.restore_or_initialize()
    while (number := int(step.numpy())) < job.total_steps:
        if number % job.steps == 0:
            accuracy.reset_state()
        folder.wait_at_gate(number + 1)
        loss = float(train_step(next(batches)))
        step.assign_add(1)
        number += 1
        if writes_steps:
            value = f"{loss.hex()} {float(accuracy.result()).hex()}"
            folder.write_step(Step(number, value, time.monotonic()))
        time.sleep(job.step_seconds)
        if number % job.save_every == 0:
            manager.save()
    return {
        "weights": _digest(model.variables),
        "optimizer": _digest(optimizer.variables),
        "metrics": _digest(accuracy.variables),
    }


def _steps_of(
    job: Job, strategy: Any, model: Any, optimizer: Any, accuracy: Any
) -> tuple[Any, Callable[[Any], Any]]:
    """The batches of all epochs, and what trains on one of them and returns its loss."""
    import keras

    import drumline as dl

    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
    dataset = examples(job).repeat(job.epochs)

    def replica_step(batch: Any) -> Any:
        x, y = batch
        with dl.GradientTape() as tape:
            predictions = model(x, training=True)
            each = cross_entropy(y, predictions)
            if job.topology == "servers":  # no replicas: a worker has the whole batch
                loss = keras.ops.mean(each)
            else:
                loss = dl.nn.compute_average_loss(each, global_batch_size=ROWS // job.steps)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        accuracy.update_state(y, predictions)
        return loss

    if job.topology == "servers":
        coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)

        def scheduled(batch: Any) -> Any:
            loss = coordinator.schedule(replica_step, args=(batch,))
            coordinator.join()
            return loss.fetch()

        return iter(dataset), scheduled

    @dl.function
    def train_step(batch: Any) -> Any:
        losses = strategy.run(replica_step, args=(batch,))
        return strategy.reduce(dl.distribute.ReduceOp.SUM, losses, axis=None)

    return iter(strategy.experimental_distribute_dataset(dataset)), train_step


def fit(
    job: Job, folder: Folder, strategy: dl.distribute.Strategy, writes_steps: bool
) -> dict[str, str]:
    """Keras's ``fit`` with `BackupAndRestore`, as docs/distribution/multi_worker.md has it."""
    import keras

    class Steps(keras.callbacks.Callback):
        """Write steps down, and take the time that a larger model would."""

        def __init__(self) -> None:
            super().__init__()
            self.epoch = 0

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.epoch = epoch

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if job.topology != "servers":  # there, steps begin ahead of those that have ended
                folder.wait_at_gate(self.epoch * job.steps + batch + 1)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            number = self.epoch * job.steps + batch + 1
            if writes_steps:
                # Parameter servers tell metrics at the end of an epoch.
                named = sorted(logs or {}) if job.topology != "servers" else []
                value = " ".join(f"{name} {float(logs[name]).hex()}" for name in named)
                folder.write_step(Step(number, value, time.monotonic()))
            if job.topology == "servers":
                folder.wait_at_gate(number + 1)
            time.sleep(job.step_seconds)

    with strategy.scope():
        model = model_of(job)
        model.compile(
            optimizer_of(job),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    table = folder.disk / "table.csv"
    history = model.fit(
        examples(job),
        epochs=job.epochs,
        verbose=0,
        callbacks=[
            # Kept: a launcher that is killed behind the last step has the job started once more.
            keras.callbacks.BackupAndRestore(
                str(folder.disk / "backup"),
                job.save_every,
                double_checkpoint=True,
                delete_checkpoint=False,
            ),
            keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=1),
            keras.callbacks.EarlyStopping(monitor="loss", patience=job.epochs),
            *([keras.callbacks.CSVLogger(str(table), append=True)] if writes_steps else []),
            Steps(),
        ],
    )
    curves = {name: [float(n).hex() for n in curve] for name, curve in history.history.items()}
    return {
        "weights": _digest(model.variables),
        "optimizer": _digest(model.optimizer.variables),
        "metrics": _digest(variable for each in model.metrics for variable in each.variables),
        "history": digest_of(json.dumps([history.epoch, curves], sort_keys=True).encode()),
        **({"table": digest_of(table.read_bytes())} if writes_steps else {}),
    }


def _digest(variables: Iterable[Any]) -> str:
    """The SHA-256 of all values, in order, with dtypes and shapes."""
    import numpy as np

    parts = []
    for variable in variables:
        value = np.asarray(variable.numpy())
        parts += [f"{value.dtype} {value.shape}".encode(), np.ascontiguousarray(value).tobytes()]
    return digest_of(*parts)


if __name__ == "__main__":
    main()
