"""A training loop written by hand, on two logical CPU devices: `python examples/custom_loop.py`."""

import argparse
import os
import tempfile

import drumline as dl  # before Keras, whose backend it selects

# isort: split
import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--replicas", type=int, default=2)
options = parser.parse_args()

dl.config.set_logical_devices("cpu", options.replicas)
strategy = dl.distribute.MirroredStrategy()
BATCH = 64  # rows in a global batch: all replicas together


def scaled(image, label):
    return image / np.float32(16), label


train = dl.datasets.load("digits", split="train", as_supervised=True).map(scaled)
test = dl.datasets.load("digits", split="test", as_supervised=True).map(scaled)
train = strategy.experimental_distribute_dataset(train.cache().shuffle(2_000, seed=1).batch(BATCH))
test = strategy.experimental_distribute_dataset(test.batch(BATCH))


def create_model():
    return keras.Sequential(
        [
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


keras.utils.set_random_seed(3)
with strategy.scope():
    model = create_model()
    optimizer = keras.optimizers.Adam(2e-3)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
    train_accuracy = keras.metrics.SparseCategoricalAccuracy()
    test_accuracy = keras.metrics.SparseCategoricalAccuracy()
    test_loss = keras.metrics.Mean()


def train_step(batch):
    images, labels = batch
    with dl.GradientTape() as tape:
        logits = model(images, training=True)
        loss = dl.nn.compute_average_loss(loss_of(labels, logits), global_batch_size=BATCH)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    train_accuracy.update_state(labels, logits)
    return loss


def test_step(batch):
    images, labels = batch
    logits = model(images, training=False)
    test_loss.update_state(loss_of(labels, logits))
    test_accuracy.update_state(labels, logits)


@dl.function
def train_epoch(dataset):
    total, batches = 0.0, 0
    for batch in dataset:
        total += strategy.reduce("SUM", strategy.run(train_step, args=(batch,)))
        batches += 1
    return total / batches


@dl.function
def test_epoch(dataset):
    for batch in dataset:
        strategy.run(test_step, args=(batch,))


for epoch in range(options.epochs):
    loss = train_epoch(train)
    test_epoch(test)
    print(
        f"epoch {epoch + 1}: loss {float(loss):.4f}, accuracy {train_accuracy.result():.4f}, "
        f"test loss {test_loss.result():.4f}, test accuracy {test_accuracy.result():.4f}"
    )
    before_restart = float(test_accuracy.result())
    for metric in (train_accuracy, test_accuracy, test_loss):
        metric.reset_state()

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "digits.weights.h5")
    model.save_weights(path)
    restored = create_model()
    restored.build((None, 8, 8, 1))
    restored.load_weights(path)

accuracy = keras.metrics.SparseCategoricalAccuracy()
for images, labels in (
    dl.datasets.load("digits", split="test", as_supervised=True).map(scaled).batch(BATCH)
):
    accuracy.update_state(labels, restored(images, training=False))
print(f"restored without a strategy: test accuracy {accuracy.result():.4f}")
if abs(float(accuracy.result()) - before_restart) > 1e-6:
    raise SystemExit(f"the restored model differs: it had {before_restart:.4f}")
