"""Two models, two tapes, two optimizers in one step: `python examples/gan.py --output gan.png`."""

import argparse

import drumline as dl  # before Keras, whose backend it selects

# isort: split
import keras
import matplotlib
import matplotlib.pyplot
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=250)
parser.add_argument("--output", default="generated_digits.png")
options = parser.parse_args()

dl.config.set_logical_devices("cpu", 2)
strategy = dl.distribute.MirroredStrategy()
BATCH, LATENT = 64, 16

pairs = dl.datasets.load("digits", split="train", as_supervised=True).batch(2_000)
real, labels = next(iter(pairs))
real = real.reshape(len(real), 64).astype("float32") / 8 - 1
dataset = dl.data.Dataset.from_tensor_slices(real).shuffle(2_000, seed=1)
dataset = strategy.experimental_distribute_dataset(dataset.batch(BATCH, drop_remainder=True))

keras.utils.set_random_seed(7)
with strategy.scope():
    generator = keras.Sequential(
        [
            keras.Input((LATENT,)),
            keras.layers.Dense(128, activation="leaky_relu"),
            keras.layers.Dense(128, activation="leaky_relu"),
            keras.layers.Dense(64, activation="tanh"),
        ]
    )
    discriminator = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(128, activation="leaky_relu"),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(64, activation="leaky_relu"),
            keras.layers.Dense(1),
        ]
    )
    generator_optimizer = keras.optimizers.Adam(5e-4, beta_1=0.5)
    discriminator_optimizer = keras.optimizers.Adam(5e-4, beta_1=0.5)
    noise_seed = keras.random.SeedGenerator(11)
cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True, reduction=None)


def mean_loss(target, logits):
    losses = cross_entropy(keras.ops.full_like(logits, target), logits)
    return dl.nn.compute_average_loss(losses, global_batch_size=BATCH)


def step(images):
    noise = keras.random.normal((images.shape[0], LATENT), seed=noise_seed)
    with dl.GradientTape() as generator_tape, dl.GradientTape() as discriminator_tape:
        fakes = generator(noise, training=True)
        on_real = discriminator(images, training=True)
        on_fakes = discriminator(fakes, training=True)
        generator_loss = mean_loss(1.0, on_fakes)
        discriminator_loss = mean_loss(0.9, on_real) + mean_loss(0.0, on_fakes)
    for tape, loss, model, optimizer in (
        (generator_tape, generator_loss, generator, generator_optimizer),
        (discriminator_tape, discriminator_loss, discriminator, discriminator_optimizer),
    ):
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return generator_loss, discriminator_loss


@dl.function
def train_epoch(dataset):
    losses = (0.0, 0.0)
    for images in dataset:
        losses = strategy.reduce("SUM", strategy.run(step, args=(images,)))
    return losses


def nearest(images):
    """The distance of each image to the nearest real digit, and that digit's label."""
    squares = ((images[:, None] - real[None]) ** 2).sum(-1)
    return np.sqrt(squares.min(1)), labels[squares.argmin(1)]


sample = np.random.default_rng(5).normal(size=(100, LATENT)).astype("float32")
untrained = nearest(np.asarray(generator(sample)))[0].mean()
for epoch in range(options.epochs):
    generator_loss, discriminator_loss = train_epoch(dataset)
    if (epoch + 1) % max(1, options.epochs // 5) == 0:
        print(
            f"epoch {epoch + 1}: generator loss {float(generator_loss):.3f}, "
            f"discriminator loss {float(discriminator_loss):.3f}"
        )

images = np.asarray(generator(sample))
distances, nearest_labels = nearest(images)
print(f"distance to the nearest real digit: {untrained:.2f} untrained, {distances.mean():.2f} now")
print(f"kinds of digits among 100: {len(set(nearest_labels.tolist()))}")

framed = np.pad(images.reshape(100, 8, 8), ((0, 0), (1, 1), (1, 1)), constant_values=-0.5)
sheet = framed.reshape(10, 10, 10, 10).transpose(0, 2, 1, 3).reshape(100, 100)
matplotlib.pyplot.imsave(options.output, np.kron(sheet, np.ones((6, 6))), cmap="gray")
print(f"wrote {options.output}")
