"""One program for each way to train: it trains, evaluates, saves, restores and trains on.

Each is run without a strategy, and under the strategies of `table.ROWS`: by the test's process, by
two workers, or by the chief of a cluster with parameter servers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import drumline.compat.tf as tf

ROWS, GLOBAL_BATCH = 64, 16
STEPS = ROWS // GLOBAL_BATCH
Facts = dict[str, Any]


def rows() -> tuple[np.ndarray, np.ndarray]:
    """What a linear model fits exactly, so that asynchronous steps end where others end."""
    x = np.random.default_rng(3).normal(size=(ROWS, 3)).astype(np.float32)
    return x, x @ np.float32([[1.0], [-2.0], [0.5]]) + np.float32(0.25)


def dataset_fn(context: Any) -> Any:
    """An endless share of the rows for each process."""
    data = tf.data.Dataset.from_tensor_slices(rows())
    data = data.shard(context.num_input_pipelines, context.input_pipeline_id).repeat()
    return data.batch(context.get_per_replica_batch_size(GLOBAL_BATCH))


def all_rows() -> Any:
    """All rows once; processes share out rows, not files."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return tf.data.Dataset.from_tensor_slices(rows()).batch(GLOBAL_BATCH).with_options(options)


def build() -> tuple[Any, Any]:
    """A model and an optimizer that has a state beside its step."""
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.set_weights([np.full((3, 1), 0.1, np.float32), np.zeros(1, np.float32)])
    return model, tf.keras.optimizers.SGD(0.05, momentum=0.5)


def weights(model: Any) -> list[float]:
    """All numbers of a model in one list."""
    return np.concatenate([each.ravel() for each in model.get_weights()]).tolist()


def asynchronous(strategy: Any) -> bool:
    """Whether workers go each at its own pace."""
    return isinstance(strategy, tf.distribute.ParameterServerStrategy)


def fit(strategy: Any, folder: Path, epochs: int) -> Facts:
    """``Model.fit``, ``evaluate``, ``save`` and ``load_model``."""
    with strategy.scope():
        model, optimizer = build()
        model.compile(optimizer, "mse")

    def train(model: Any, epochs: int) -> list[float]:
        data = all_rows()
        if asynchronous(strategy):
            data = tf.keras.utils.experimental.DatasetCreator(dataset_fn)
        history = model.fit(data, epochs=epochs, steps_per_epoch=STEPS, verbose=0).history
        return [float(loss) for loss in history["loss"]]

    losses = train(model, epochs)
    evaluated = model.evaluate(all_rows(), verbose=0)
    model.save(folder / "model.keras")
    with strategy.scope():
        again = tf.keras.models.load_model(folder / "model.keras")
    restored = again.evaluate(all_rows(), verbose=0)
    trained = weights(model)
    losses += train(again, 1)
    return {
        "losses": losses,
        "weights": trained,
        "evaluated": [evaluated, restored],
        "continued": weights(again),
        "replicas": strategy.num_replicas_in_sync,
    }


def loop(strategy: Any, folder: Path, epochs: int) -> Facts:
    """A loop of ``Strategy.run`` and ``reduce``, and ``tf.train.Checkpoint``."""
    with strategy.scope():
        model, optimizer = build()
    losses = _train(strategy, model, optimizer, epochs * STEPS)
    evaluated = _evaluate(strategy, model)
    path = tf.train.Checkpoint(model=model, optimizer=optimizer).save(str(folder / "ckpt"))
    with strategy.scope():
        again, its_optimizer = build()
    restoring = tf.train.Checkpoint(model=again, optimizer=its_optimizer)
    status = restoring.restore(path)
    restored = _evaluate(strategy, again)
    trained = weights(model)
    losses += _train(strategy, again, its_optimizer, STEPS)
    status.assert_consumed()
    return {
        "losses": losses,
        "weights": trained,
        "evaluated": [evaluated, restored],
        "continued": weights(again),
        "replicas": strategy.num_replicas_in_sync,
    }


def _train(strategy: Any, model: Any, optimizer: Any, steps: int) -> list[float]:
    def replica_fn(inputs: Any) -> Any:
        x, y = inputs
        with tf.GradientTape() as tape:
            squares = tf.square(model(x, training=True) - y)[:, 0]
            batch = GLOBAL_BATCH // strategy.num_replicas_in_sync
            loss = tf.reduce_sum(squares) / (batch * strategy.num_replicas_in_sync)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(iterator: Any) -> Any:
        losses = strategy.run(replica_fn, args=(next(iterator),))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    if asynchronous(strategy):
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        data = coordinator.create_per_worker_dataset(
            tf.function(lambda: strategy.distribute_datasets_from_function(dataset_fn))
        )
        iterator = iter(data)
        scheduled = [coordinator.schedule(step, args=(iterator,)) for _ in range(steps)]
        coordinator.join()
        return [float(loss.fetch()) for loss in scheduled]
    iterator = iter(strategy.distribute_datasets_from_function(dataset_fn))
    return [float(step(iterator)) for _ in range(steps)]


def _evaluate(strategy: Any, model: Any) -> float:
    """The mean square over all rows: of the chief's with parameter servers, else of replicas."""
    if asynchronous(strategy):
        x, y = rows()
        return float(tf.reduce_mean(tf.square(model(x) - y)))
    with strategy.scope():
        mean = tf.keras.metrics.Mean()

    @tf.function
    def step(inputs: Any) -> None:
        def replica_fn(inputs: Any) -> None:
            x, y = inputs
            mean.update_state(tf.square(model(x) - y))

        strategy.run(replica_fn, args=(inputs,))

    for inputs in strategy.experimental_distribute_dataset(all_rows()):
        step(inputs)
    return float(mean.result())


def estimator(strategy: Any, folder: Path, epochs: int) -> Facts:
    """``Estimator.train`` and ``evaluate``, and another one that goes on from its checkpoint."""
    default = not isinstance(strategy, tf.distribute.Strategy) or (
        strategy is tf.distribute.get_strategy()
    )

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        kernel = tf.compat.v1.get_variable(
            "kernel", [3, 1], initializer=tf.compat.v1.constant_initializer(0.1)
        )
        bias = tf.compat.v1.get_variable("bias", [1], initializer=tf.compat.v1.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(features, kernel) + bias - labels))
        if mode == tf.estimator.ModeKeys.EVAL:
            return tf.estimator.EstimatorSpec(mode, loss=loss)
        optimizer = tf.compat.v1.train.MomentumOptimizer(0.05, 0.5)
        return tf.estimator.EstimatorSpec(
            mode,
            loss=loss,
            train_op=optimizer.minimize(loss, tf.compat.v1.train.get_global_step()),
        )

    def made() -> Any:
        strategies = {} if default else {"train_distribute": strategy, "eval_distribute": strategy}
        config = tf.estimator.RunConfig(str(folder), **strategies)
        return tf.estimator.Estimator(model_fn, config=config)

    def input_fn(input_context: Any = None) -> Any:
        if input_context is None:
            return tf.data.Dataset.from_tensor_slices(rows()).repeat().batch(GLOBAL_BATCH)
        return dataset_fn(input_context)

    first = made()
    first.train(input_fn, steps=epochs * STEPS)
    evaluated = first.evaluate(all_rows, steps=STEPS)["loss"]
    trained = _of_estimator(first)
    again = made()
    restored = again.evaluate(all_rows, steps=STEPS)["loss"]
    again.train(input_fn, steps=STEPS)
    return {
        "losses": [],
        "weights": trained,
        "evaluated": [float(evaluated), float(restored)],
        "continued": _of_estimator(again),
        "replicas": strategy.num_replicas_in_sync,
    }


def _of_estimator(made: Any) -> list[float]:
    values = [np.asarray(made.get_variable_value(name)) for name in ("kernel", "bias")]
    return np.concatenate([each.ravel() for each in values]).tolist()


PROGRAMS: dict[str, Callable[[Any, Path, int], Facts]] = {
    "fit": fit,
    "loop": loop,
    "estimator": estimator,
}


def worker(columns: list[str], folder: str, epochs: int) -> None:
    """In each of two processes: run programs one after another, and say what came out."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    own = Path(folder) / str(strategy.cluster_resolver.task_id)
    for column in columns:
        # Keras's files are each process's own; what the others write is shared.
        place = (own if column == "fit" else Path(folder)) / column
        place.mkdir(parents=True, exist_ok=True)
        facts = PROGRAMS[column](strategy, place, epochs)
        print(json.dumps({"facts": {column: facts}}), flush=True)


def main(folder: str, epochs: str, *columns: str) -> None:
    """As a task of a cluster with parameter servers, which ``TF_CONFIG`` describes."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type != "chief":
        tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id
        ).join()
        return
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    facts = {}
    for column in columns:
        place = Path(folder) / column
        place.mkdir()
        facts[column] = PROGRAMS[column](strategy, place, int(epochs))
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
