"""Scripts of TensorFlow's, run by each of several processes, or by the test's own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.monitoring
import jax.numpy as jnp
import keras
import numpy as np

import drumline as dl
from drumline.compat import tf

ROWS, GLOBAL_BATCH, STEPS = 48, 8, 6
_compiled = 0


def _count(event: str, seconds: float, **_: Any) -> None:
    global _compiled
    _compiled += event == "/jax/core/compile/backend_compile_duration"


@contextlib.contextmanager
def compilations(into: list[int]) -> Iterator[None]:
    """Add to a list how many programs the block compiles."""
    before = _compiled
    yield
    into.append(_compiled - before)


def member(programs: list[str], folder: str) -> None:
    """In a process of a cluster: run programs one after another, and say what came out."""
    jax.monitoring.register_event_duration_secs_listener(_count)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    for name in programs:
        facts = globals()[name](strategy, f"{folder}/{name}")
        print(json.dumps({"facts": {name: facts}}), flush=True)


def rows() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(3)
    x = draw.normal(size=(ROWS, 5)).astype(np.float32)
    return x, (x.sum(axis=1) > 0).astype(np.int64)


def dataset_fn(context: Any) -> Any:
    batch_size = context.get_per_replica_batch_size(GLOBAL_BATCH)
    dataset = tf.data.Dataset.from_tensor_slices(rows())
    dataset = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    return dataset.repeat().batch(batch_size).prefetch(2)


def build() -> Any:
    layers = tf.keras.layers
    regularizer = tf.keras.regularizers.L2(1e-3)
    start = tf.keras.initializers.GlorotUniform(seed=5)
    return tf.keras.Sequential(
        [
            tf.keras.Input((5,)),
            layers.Dense(7, "relu", kernel_initializer=start, kernel_regularizer=regularizer),
            layers.Dense(2, kernel_initializer=start),
        ]
    )


def fit(strategy: Any, folder: str) -> dict[str, Any]:
    """Keras's loop, which saves a checkpoint that all processes see."""
    with strategy.scope():
        model = build()
        model.compile(
            optimizer=tf.keras.optimizers.SGD(0.1),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    data = tf.data.Dataset.from_tensor_slices(rows()).batch(GLOBAL_BATCH)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    history = model.fit(data.with_options(options), epochs=2, verbose=0).history
    return {
        "loss": [float(value) for value in history["loss"]],
        "accuracy": [float(value) for value in history["accuracy"]],
        "weights": model.get_weights()[0].ravel().tolist(),
    }


def loop(strategy: Any, folder: str) -> dict[str, Any]:
    """The tutorial's loop: a compiled function of an iterator, with a step defined inside."""
    with strategy.scope():
        model = build()
        data = strategy.distribute_datasets_from_function(dataset_fn)
        optimizer = tf.keras.optimizers.SGD(0.1)
        accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")

    @tf.function
    def train_step(iterator):
        def step_fn(inputs):
            x, y = inputs
            with tf.GradientTape() as tape:
                predictions = model(x, training=True)
                per_example_loss = tf.keras.losses.SparseCategoricalCrossentropy(
                    from_logits=True, reduction=tf.keras.losses.Reduction.NONE
                )(y, predictions)
                loss = tf.nn.compute_average_loss(per_example_loss)
                model_losses = model.losses
                if model_losses:
                    loss += tf.nn.scale_regularization_loss(tf.add_n(model_losses))
            grads = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
            accuracy.update_state(y, predictions)
            return loss

        per_replica_losses = strategy.run(step_fn, args=(next(iterator),))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)

    step = tf.Variable(tf.constant(0, dtype=tf.dtypes.int64), name="step")
    checkpoint = tf.train.Checkpoint(model=model, step=step)
    manager = tf.train.CheckpointManager(checkpoint, directory=folder, max_to_keep=1)
    iterator = iter(data)
    losses, counts = [], []
    while step.numpy() < STEPS:
        with compilations(counts):
            losses.append(float(train_step(iterator)))
            step.assign_add(1)
    saved = manager.save()
    with strategy.scope():
        again = build()
    restored = tf.train.Checkpoint(model=again, step=tf.Variable(0, dtype=tf.int64))
    restored.restore(tf.train.latest_checkpoint(folder)).assert_consumed()
    equal = [
        bool(np.all(a == b)) for a, b in zip(model.get_weights(), again.get_weights(), strict=True)
    ]
    return {
        "losses": losses,
        "accuracy": float(accuracy.result()),
        "weights": model.get_weights()[0].ravel().tolist(),
        "compiled": counts,
        "saved": Path(saved).name,
        "restored": [int(restored.step), all(equal)],
    }


def native_loop(strategy: Any, folder: str) -> dict[str, Any]:
    """The same without the look-alike."""
    with strategy.scope():
        model = build()
        optimizer = keras.optimizers.SGD(0.1)
    x, y = rows()

    def own(context: Any) -> Any:
        size = context.get_per_replica_batch_size(GLOBAL_BATCH)
        data = dl.data.Dataset.from_tensor_slices((x, y.astype(np.int32)))
        data = data.shard(context.num_input_pipelines, context.input_pipeline_id)
        return data.repeat().batch(size)

    core: Any = dl.distribute.Strategy
    data = core.distribute_datasets_from_function(strategy, own)

    @dl.function
    def train_step(iterator):
        def step_fn(inputs):
            rows, labels = inputs
            with dl.GradientTape() as tape:
                scores = model(rows, training=True)
                losses = keras.ops.sparse_categorical_crossentropy(labels, scores, from_logits=True)
                loss = jnp.sum(losses) / GLOBAL_BATCH
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        losses = core.run(strategy, step_fn, (next(iterator),))
        return core.reduce(strategy, "SUM", losses)

    iterator = iter(data)
    losses, counts = [], []
    for _ in range(STEPS):
        with compilations(counts):
            losses.append(float(train_step(iterator)))
    return {"losses": losses, "compiled": counts}
