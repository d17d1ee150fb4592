"""A table of embeddings that lives on one device while two others compute, trained with Adagrad.

It leaves a row alone whose gradient is zero, so TensorFlow's updates of some rows are ours of all.
What travels is counted in `tests/keras/test_central_tables.py` and, for steps of `run`, in
`tests/distribute/test_central_run.py`; this is what a step costs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.loops import Loop, measured_loop
from benchmarks.harness.training import Prepared, Task, check_training, from_dataset, measured
from benchmarks.harness.workload import Contender, Scale, Workload

ROWS, WIDTH, LOOKUPS = 200_000, 32, 8
COMPUTE, HOME = ["cpu:1", "cpu:2"], "cpu:0"
TOLERANCE, FALLS_TO = 0.01, 0.98


def make_examples(elements: int) -> tuple[Any, Any]:
    """Ids (n, 8), int32, low ones more often, and the sums of hidden values of theirs."""
    random = np.random.RandomState(7)
    ids = (ROWS * random.uniform(size=(elements, LOOKUPS)) ** 3).astype(np.int32)
    hidden = random.standard_normal(ROWS).astype(np.float32)
    return ids, hidden[ids].sum(axis=1, keepdims=True)


def table_model(keras: Any) -> Any:
    """A table, the mean of the rows that are looked up, and two dense layers."""
    model = keras.Sequential(
        [
            keras.layers.Input((LOOKUPS,), dtype="int32"),
            keras.layers.Embedding(ROWS, WIDTH),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    random = np.random.RandomState(3)
    shapes = [tuple(variable.shape) for variable in model.weights]
    model.set_weights([0.1 * random.standard_normal(s).astype(np.float32) for s in shapes])
    return model


def compiled_model(keras: Any) -> Any:
    """The same, to be fitted with Adagrad."""
    model = table_model(keras)
    model.compile(loss="mse", optimizer=_optimizer(keras.optimizers.Adagrad))
    return model


def _optimizer(adagrad: Any) -> Any:
    return adagrad(0.05, initial_accumulator_value=1e-6)


def fit_by(strategy: str) -> Callable[[Scale], Prepared]:
    """Keras's fit under the strategy of this name."""

    def prepare(scale: Scale) -> Prepared:
        dl, keras = _drumline()
        made = {
            "central": lambda: dl.distribute.experimental.CentralStorageStrategy(COMPUTE, HOME),
            "mirrored": lambda: dl.distribute.MirroredStrategy(COMPUTE),
        }[strategy]()
        return from_dataset(Task(make_examples, compiled_model), keras, dl.data, scale, made.scope)

    return prepare


def _drumline() -> tuple[Any, Any]:
    os.environ["KERAS_BACKEND"] = "jax"
    import drumline as dl

    dl.config.set_logical_devices("cpu", 3)
    import jax
    import keras

    jax.devices()
    return dl, keras


def drumline_loop(scale: Scale) -> Callable[[], Loop]:
    """Steps of `strategy.run`, which update the table where it lives."""
    dl, keras = _drumline()
    strategy = dl.distribute.experimental.CentralStorageStrategy(COMPUTE, HOME)
    return _loop(dl, keras, strategy, scale, lambda step: step)


def tensorflow_loop(scale: Scale) -> Callable[[], Loop]:
    """As TensorFlow's guide writes it: Keras 3's fit does not train under this strategy."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
    devices = [f"/{device}" for device in (*COMPUTE, HOME)]
    strategy = tf.distribute.experimental.CentralStorageStrategy(devices[:2], devices[2])

    class Adagrad(keras.optimizers.Adagrad):  # type: ignore[misc,name-defined]
        """Sum the rows of an id first: Keras's adds up the squares of each replica's rows alone."""

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            if isinstance(gradient, tf.IndexedSlices):
                ids, places = tf.unique(gradient.indices)
                rows = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(ids))
                gradient = tf.IndexedSlices(rows, ids, gradient.dense_shape)
            super().update_step(gradient, variable, learning_rate)

    return _loop(tf, keras, strategy, scale, tf.function, Adagrad)


def _loop(
    dl: Any,
    keras: Any,
    strategy: Any,
    scale: Scale,
    function: Callable[..., Any],
    adagrad: Any = None,
) -> Callable[[], Loop]:
    examples, size = make_examples(scale.elements), scale.batch_size

    def build() -> Loop:
        dataset = dl.data.Dataset.from_tensor_slices(examples).batch(size)
        distributed = strategy.experimental_distribute_dataset(dataset.prefetch(dl.data.AUTOTUNE))
        with strategy.scope():
            model = table_model(keras)
            optimizer = _optimizer(adagrad or keras.optimizers.Adagrad)
            optimizer.build(model.trainable_variables)

        def replica_step(ids: Any, labels: Any) -> Any:
            with dl.GradientTape() as tape:
                errors = (model(ids, training=True) - labels) ** 2
                loss = keras.ops.sum(errors) / size
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        @function
        def step(batch: Any) -> Any:
            losses = strategy.run(replica_step, args=batch)
            return strategy.reduce(dl.distribute.ReduceOp.SUM, losses, axis=None)

        def epoch() -> tuple[float, int]:
            losses = [step(batch) for batch in distributed]
            return float(np.mean([np.asarray(loss) for loss in losses])), len(losses)

        return Loop(model.get_weights, epoch)

    return build


WORKLOAD = Workload(
    name="central_storage",
    title="Adagrad on a table of 200,000 x 32, looked up on 2 devices, batch 512",
    unit="rows",
    baseline="mirrored",
    full=Scale(elements=51_200, batch_size=512, later_epochs=3),
    quick=Scale(elements=5_120, batch_size=512, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "CentralStorageStrategy over 2 of 3 logical CPU devices, Keras fit",
            ("drumline", "jax", "keras"),
            measured(fit_by("central"), "drumline", "jax"),
        ),
        Contender(
            "loop",
            "the same, steps of strategy.run",
            ("drumline", "jax", "keras"),
            measured_loop(drumline_loop, "drumline", "jax", "keras"),
        ),
        Contender(
            "mirrored",
            "MirroredStrategy over 2 logical CPU devices, Keras fit",
            ("drumline", "jax", "keras"),
            measured(fit_by("mirrored"), "drumline", "jax"),
        ),
        Contender(
            "TensorFlow",
            "its CentralStorageStrategy, tf.function, strategy.run",
            ("tensorflow", "keras"),
            measured_loop(tensorflow_loop, "tensorflow-cpu", "tensorflow", "keras"),
        ),
    ),
    floors=(
        Floor("later", at_least=1.2, aim=1.5, against="mirrored"),
        Floor("later", at_least=1.5, aim=2.0, against="TensorFlow"),
    ),
    check=check_training(TOLERANCE, FALLS_TO),
)
