"""The model and the data of the two workloads that train the tutorial's convnet."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.training import Task, seed_weights

SHAPE = (28, 28, 1)
CLASSES = 10
WRONG_LABELS = 0.1
TOLERANCE = 0.002
FALLS_TO = 0.9

Examples = tuple[NDArray[np.float32], NDArray[np.int64]]


def make_examples(elements: int) -> Examples:
    """Images (n, 28, 28, 1) of ten noisy patterns, float32, and labels, int64.

    A tenth of the labels is drawn at random, so that the loss stays away from zero and
    losses can be compared by their ratio.
    """
    random = np.random.RandomState(7)
    patterns = random.uniform(size=(CLASSES, 7, 7, 1)).repeat(4, axis=1).repeat(4, axis=2)
    labels = random.randint(CLASSES, size=elements)
    noise = random.standard_normal((elements, *SHAPE)) * 0.5
    images = (patterns[labels] + noise).astype(np.float32)
    wrong = random.uniform(size=elements) < WRONG_LABELS
    labels[wrong] = random.randint(CLASSES, size=int(wrong.sum()))
    return images, labels.astype(np.int64)


def convnet(keras: Any) -> Any:
    """The convnet of TensorFlow's distributed-Keras tutorial, with its seeded weights."""
    model = keras.Sequential(
        [
            keras.layers.Input(SHAPE),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(CLASSES),
        ]
    )
    seed_weights(model)
    return model


def compiled_convnet(keras: Any) -> Any:
    """The same, compiled as the tutorial does."""
    model = convnet(keras)
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.Adam(),
        metrics=["accuracy"],
    )
    return model


CONVNET = Task(make_examples, compiled_convnet)
