"""A wide-and-deep model of tumours, trained by `fit` on parameter servers or on one device.

The data are scikit-learn's breast cancer measurements: 569 tumours, 30 numbers each. The wide part
sees pairs of them, cut into ranges, by a table of weights; the deep part sees each range through an
embedding, beside the numbers themselves (Cheng et al., https://arxiv.org/abs/1606.07792).

    python examples/parameter_server_wide_and_deep.py
    drumline launch --chief --workers 2 --ps 2 -- python examples/parameter_server_wide_and_deep.py
"""

from __future__ import annotations

import argparse
import itertools
import os
from typing import Any

import drumline as dl  # before Keras, whose backend it selects

# isort: split
import keras
import numpy as np
from sklearn.datasets import load_breast_cancer

RANGES = 10
CROSSED = 8
WIDTH = 8
BATCH = 32
EXAMPLES_FOR_TESTS = 4


def main() -> None:
    """Trains, and prints how well the model does on tumours that it has not seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--save", help="a file .keras for the trained model")
    arguments = parser.parse_args()
    if "TF_CONFIG" not in os.environ:
        train(dl.distribute.get_strategy(), arguments)
        return
    resolver = dl.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        spec = resolver.cluster_spec()
        dl.distribute.Server(spec, resolver.task_type, resolver.task_id).join()
        return
    train(dl.distribute.ParameterServerStrategy(resolver), arguments)


def train(strategy: Any, arguments: argparse.Namespace) -> None:
    """Trains under a strategy, and tests."""
    keras.utils.set_random_seed(1)
    training, testing = examples()
    data = dl.data.Dataset.from_tensor_slices(training).shuffle(512, seed=1).repeat().batch(BATCH)
    with strategy.scope():
        model = wide_and_deep()
        model.compile("adam", keras.losses.BinaryCrossentropy(), metrics=["accuracy"])
    steps = len(training[1]) // BATCH
    history = model.fit(data, epochs=arguments.epochs, steps_per_epoch=steps, verbose=0)
    for epoch, (loss, accuracy) in enumerate(
        zip(history.history["loss"], history.history["accuracy"], strict=True)
    ):
        print(f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy:.4f}", flush=True)
    loss, accuracy = model.evaluate(*testing, verbose=0)
    print(f"test loss {loss:.4f}, test accuracy {accuracy:.4f}")
    benign = model.predict(testing[0], verbose=0)[:, 0] > 0.5
    print(f"of {len(benign)} tumours {benign.sum()} are benign, says the model")
    if arguments.save:
        model.save(arguments.save)


def wide_and_deep() -> keras.Model:
    """The model; on parameter servers its two embeddings are tables."""
    numbers = keras.Input((30,), name="numbers")
    ranges = keras.Input((30,), dtype="int32", name="ranges")
    crosses = keras.Input((len(_pairs()),), dtype="int32", name="crosses")
    weights = keras.layers.Embedding(
        len(_pairs()) * RANGES**2, 1, embeddings_initializer="zeros", name="wide"
    )(crosses)
    wide = keras.ops.sum(weights, axis=1)
    rows = keras.layers.Embedding(30 * RANGES, WIDTH, name="deep")(ranges)
    deep = keras.layers.Concatenate()([keras.layers.Flatten()(rows), numbers])
    for units in (64, 32):
        deep = keras.layers.Dense(units, activation="relu")(deep)
    logits = keras.layers.Add()([wide, keras.layers.Dense(1)(deep)])
    outputs = keras.layers.Activation("sigmoid")(logits)
    return keras.Model({"numbers": numbers, "ranges": ranges, "crosses": crosses}, outputs)


def examples() -> tuple[Any, Any]:
    """Inputs and targets for training, and for tests: every fourth example."""
    data = load_breast_cancer()
    numbers = data.data.astype(np.float32)
    unseen = np.arange(len(numbers)) % EXAMPLES_FOR_TESTS == 0
    known = numbers[~unseen]
    edges = np.quantile(known, np.linspace(0, 1, RANGES + 1)[1:-1], axis=0)
    ranges = np.stack(
        [np.searchsorted(edges[:, column], numbers[:, column]) for column in range(30)], axis=1
    ).astype(np.int32)
    crosses = np.stack(
        [
            (place * RANGES + ranges[:, first]) * RANGES + ranges[:, second]
            for place, (first, second) in enumerate(_pairs())
        ],
        axis=1,
    ).astype(np.int32)
    inputs = {
        "numbers": (numbers - known.mean(axis=0)) / known.std(axis=0),
        "ranges": ranges + RANGES * np.arange(30, dtype=np.int32),
        "crosses": crosses,
    }
    targets = data.target.astype(np.float32)[:, None]
    training = {name: value[~unseen] for name, value in inputs.items()}, targets[~unseen]
    testing = {name: value[unseen] for name, value in inputs.items()}, targets[unseen]
    return training, testing


def _pairs() -> list[tuple[int, int]]:
    return list(itertools.combinations(range(CROSSED), 2))


if __name__ == "__main__":
    main()
