"""The guide "Use TPUs", by its sections: up to the TPU that is missing, and on CPU devices.

Its programs are among those that `make test-tpu` compiles for a TPU.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import drumline.compat.tf as tf
from tests.tpus import cpus_as_tpus

GUIDE = "guide/tpu.ipynb"
BATCH = 32
STEPS = 3


def connected(**where):
    """Section "TPU initialization"."""
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(**where)
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


@pytest.mark.parametrize(
    ("where", "error", "said"),
    [
        ({}, ValueError, r"provide a TPU Name.*Looked for it in.*MirroredStrategy"),
        ({"tpu": "local"}, tf.errors.NotFoundError, r"TPUs not found.*JAX has.*MirroredStrategy"),
    ],
)
def test_without_a_tpu(monkeypatch, where, error, said):
    """What a machine without one says, and the strategy that it names in its place trains."""
    for name in ("TPU_NAME", "TPU_WORKER_HOSTNAMES", "TPU_PROCESS_ADDRESSES", "TPU_WORKER_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    with pytest.raises(error, match=said):
        connected(**where)
    assert tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]).num_replicas_in_sync == 2


@pytest.fixture
def strategy():
    with cpus_as_tpus():
        yield connected(tpu="local")


def digits(batch_size, is_training=True):
    """Images as MNIST's, each with a bright row that its label names; without end in training."""
    rng = np.random.default_rng(int(is_training))
    images = rng.integers(0, 100, (4 * BATCH, 12, 12, 1), dtype=np.uint8)
    labels = rng.integers(0, 10, 4 * BATCH)
    images[np.arange(len(labels)), labels] = 255
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    dataset = dataset.map(lambda image, label: (tf.cast(image, tf.float32) / 255.0, label))
    if is_training:
        dataset = dataset.shuffle(100, seed=1).repeat()
    return dataset.batch(batch_size)


def classifier():
    tf.keras.utils.set_random_seed(1)
    return tf.keras.Sequential(
        [
            tf.keras.Input((12, 12, 1)),
            tf.keras.layers.Conv2D(8, 3, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(16, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )


def test_the_same_inputs_on_every_replica(strategy):
    """Section "Distribution strategies": a product of matrices on each core."""
    a = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    b = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    @tf.function
    def product(x, y):
        return tf.matmul(x, y)

    for each in strategy.experimental_local_results(strategy.run(product, args=(a, b))):
        np.testing.assert_array_equal(each, [[22.0, 28.0], [49.0, 64.0]])


def test_keras(strategy):
    """Section "Train the model using Keras high-level APIs", and with several steps a call."""
    with strategy.scope():
        model = classifier()
        model.compile(
            optimizer="adam",
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            steps_per_execution=STEPS,
            metrics=["sparse_categorical_accuracy"],
        )
    history = model.fit(
        digits(BATCH),
        epochs=2,
        steps_per_epoch=STEPS,
        validation_data=digits(BATCH, is_training=False),
        validation_steps=2,
        verbose=0,
    ).history
    assert history["loss"][1] < history["loss"][0]
    assert set(history) >= {"val_loss", "val_sparse_categorical_accuracy"}
    assert int(model.optimizer.iterations) == 2 * STEPS


@pytest.fixture
def loop(strategy):
    """Section "Train the model using a custom training loop": what its steps share."""
    with strategy.scope():
        model = classifier()
        optimizer = tf.keras.optimizers.Adam(0.01)
        losses = tf.keras.metrics.Mean("training_loss", dtype=tf.float32)
        accuracy = tf.keras.metrics.SparseCategoricalAccuracy("training_accuracy")

    def step(inputs):
        images, labels = inputs
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
            loss = tf.nn.compute_average_loss(loss, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(list(zip(gradients, model.trainable_variables, strict=True)))
        losses.update_state(loss * strategy.num_replicas_in_sync)
        accuracy.update_state(labels, logits)

    share = BATCH // strategy.num_replicas_in_sync
    iterator = iter(strategy.distribute_datasets_from_function(lambda context: digits(share)))
    return SimpleNamespace(
        strategy=strategy, step=step, iterator=iterator, losses=losses, optimizer=optimizer
    )


def test_a_step_at_a_time(loop):
    @tf.function
    def train_step(iterator):
        loop.strategy.run(loop.step, args=(next(iterator),))

    seen = []
    for _ in range(2):
        for _ in range(STEPS):
            train_step(loop.iterator)
        seen.append(float(loop.losses.result()))
        loop.losses.reset_state()
    assert seen[1] < seen[0]
    assert int(loop.optimizer.iterations.numpy()) == 2 * STEPS


def test_many_steps_in_a_function(loop):
    """Section "Improving performance with multiple steps inside `tf.function`"."""

    @tf.function
    def train_multiple_steps(iterator, steps):
        for _ in tf.range(steps):
            loop.strategy.run(loop.step, args=(next(iterator),))

    train_multiple_steps(loop.iterator, tf.convert_to_tensor(STEPS))
    first = float(loop.losses.result())
    loop.losses.reset_state()
    train_multiple_steps(loop.iterator, tf.convert_to_tensor(STEPS))
    assert float(loop.losses.result()) < first
    assert int(loop.optimizer.iterations.numpy()) == 2 * STEPS
