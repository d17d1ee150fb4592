"""A training loop written by hand, on two logical CPU devices: `python examples/custom_loop.py`.

Line by line TensorFlow's tutorial "Custom training with tf.distribute.Strategy", on digits.
"""

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
print(f"number of devices: {strategy.num_replicas_in_sync}")
GLOBAL_BATCH_SIZE = 64  # rows of all replicas together


def scaled(image, label):
    return image / np.float32(16), label


train_dataset = dl.datasets.load("digits", split="train", as_supervised=True).map(scaled).cache()
train_dataset = train_dataset.shuffle(2_000, seed=1).batch(GLOBAL_BATCH_SIZE)
test_dataset = dl.datasets.load("digits", split="test", as_supervised=True).map(scaled)
test_dataset = test_dataset.batch(GLOBAL_BATCH_SIZE)

train_dist_dataset = strategy.experimental_distribute_dataset(train_dataset)
test_dist_dataset = strategy.experimental_distribute_dataset(test_dataset)


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
checkpoint_dir = tempfile.TemporaryDirectory()
checkpoint = os.path.join(checkpoint_dir.name, "digits.weights.h5")

with strategy.scope():
    loss_object = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    def compute_loss(labels, predictions):
        per_example_loss = loss_object(labels, predictions)
        return dl.nn.compute_average_loss(per_example_loss, global_batch_size=GLOBAL_BATCH_SIZE)

    test_loss = keras.metrics.Mean(name="test_loss")
    train_accuracy = keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")
    test_accuracy = keras.metrics.SparseCategoricalAccuracy(name="test_accuracy")

    model = create_model()
    optimizer = keras.optimizers.Adam(2e-3)


def train_step(inputs):
    images, labels = inputs

    with dl.GradientTape() as tape:
        predictions = model(images, training=True)
        loss = compute_loss(labels, predictions)

    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    train_accuracy.update_state(labels, predictions)
    return loss


def test_step(inputs):
    images, labels = inputs

    predictions = model(images, training=False)
    t_loss = loss_object(labels, predictions)

    test_loss.update_state(t_loss)
    test_accuracy.update_state(labels, predictions)


@dl.function
def distributed_train_step(dataset_inputs):
    per_replica_losses = strategy.run(train_step, args=(dataset_inputs,))
    return strategy.reduce(dl.distribute.ReduceOp.SUM, per_replica_losses, axis=None)


@dl.function
def distributed_test_step(dataset_inputs):
    return strategy.run(test_step, args=(dataset_inputs,))


for epoch in range(options.epochs):
    total_loss = 0.0
    num_batches = 0
    for x in train_dist_dataset:
        total_loss += distributed_train_step(x)
        num_batches += 1
    train_loss = total_loss / num_batches

    for x in test_dist_dataset:
        distributed_test_step(x)

    model.save_weights(checkpoint)

    print(
        f"epoch {epoch + 1}: loss {train_loss:.4f}, accuracy {train_accuracy.result():.4f}, "
        f"test loss {test_loss.result():.4f}, test accuracy {test_accuracy.result():.4f}"
    )

    test_loss.reset_state()
    train_accuracy.reset_state()
    test_accuracy.reset_state()

# What a strategy's model saved is restored with a strategy or without.
eval_accuracy = keras.metrics.SparseCategoricalAccuracy(name="eval_accuracy")
new_model = create_model()
new_model.build((None, 8, 8, 1))
new_model.load_weights(checkpoint)
checkpoint_dir.cleanup()


@dl.function
def eval_step(images, labels):
    predictions = new_model(images, training=False)
    eval_accuracy.update_state(labels, predictions)


for images, labels in test_dataset:
    eval_step(images, labels)
print(f"restored without a strategy: test accuracy {eval_accuracy.result():.4f}")

# A given number of steps, by an iterator.
total_loss = 0.0
train_iter = iter(train_dist_dataset)
for _ in range(10):
    total_loss += distributed_train_step(next(train_iter))
print(f"10 steps of an iterator: mean loss {total_loss / 10:.4f}")


# The loop over the dataset inside a function: compiled steps that run ahead of Python.
@dl.function
def distributed_train_epoch(dataset):
    total_loss = 0.0
    num_batches = 0
    for x in dataset:
        per_replica_losses = strategy.run(train_step, args=(x,))
        total_loss += strategy.reduce(dl.distribute.ReduceOp.SUM, per_replica_losses, axis=None)
        num_batches += 1
    return total_loss / num_batches


print(f"an epoch in one function: mean loss {distributed_train_epoch(train_dist_dataset):.4f}")
