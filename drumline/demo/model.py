"""The convnet and learning rates of TensorFlow's tutorial on distributed Keras training.

https://www.tensorflow.org/tutorials/distribute/keras
"""

from __future__ import annotations

import keras


def build_model(image_shape: tuple[int, ...]) -> keras.Model:
    """The tutorial's convnet for ten classes of images of `image_shape`, compiled."""
    model = keras.Sequential(
        [
            keras.Input(image_shape),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.Adam(),
        metrics=["accuracy"],
    )
    return model


def decay(epoch: int, epochs: int) -> float:
    """The tutorial's learning rate for an epoch, its 12 epochs stretched to `epochs`.

    1e-3 for the first quarter, 1e-4 until 7/12, then 1e-5.
    """
    if epoch * 12 < 3 * epochs:
        return 1e-3
    return 1e-4 if epoch * 12 < 7 * epochs else 1e-5
