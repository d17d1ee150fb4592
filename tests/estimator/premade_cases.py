"""Trainings of premade Estimators, the same in TensorFlow and in its look-alike.

`premade_reference.json` has what they give in TensorFlow 2.15, the last with Estimators. It was
made in an environment of its own (``pip install "tensorflow-cpu==2.15.*"``) by ::

    python -m tests.estimator.premade_cases [CASE ...]
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

REFERENCE = Path(__file__).with_name("premade_reference.json")
ROWS = 12
_NUMBERS = np.random.default_rng(3)
FEATURES = {
    "age": _NUMBERS.uniform(1, 9, ROWS).astype(np.float32),
    "size": _NUMBERS.normal(size=(ROWS, 2)).astype(np.float32),
    "color": np.array(["red", "green", "blue", "green", "pink", "red"] * 2),
    "room": _NUMBERS.integers(0, 5, ROWS),
    "weight": _NUMBERS.integers(1, 4, ROWS).astype(np.float32),
}
BINARY = (FEATURES["age"] > 5).astype(np.int64)
CLASSES = np.arange(ROWS) % 3
NUMBERS = np.stack([FEATURES["age"], FEATURES["size"][:, 0]], 1)
COUNTS = np.floor(FEATURES["age"]).astype(np.float32)
SHARES = (FEATURES["age"] / 10).astype(np.float32)
LABELS = np.stack([CLASSES == 0, FEATURES["age"] > 4, CLASSES != 2], 1).astype(np.int64)


def spread(shape: Any) -> np.ndarray:
    """In the place of random weights: numbers from -0.6 to 0.5."""
    return np.linspace(-0.6, 0.5, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def columns(tf: Any, dense: bool) -> list[Any]:
    """Columns of all features."""
    make = tf.feature_column
    color = make.categorical_column_with_vocabulary_list("color", ["red", "green", "blue"])
    room = make.categorical_column_with_identity("room", 5)
    buckets = make.bucketized_column(make.numeric_column("age"), [3.0, 5.0])
    table = tf.constant_initializer(spread((5, 2)))
    embedded = make.embedding_column(room, 2, initializer=table)
    numbers = [make.numeric_column("age"), make.numeric_column("size", shape=(2,)), buckets]
    if dense:
        return [*numbers, make.indicator_column(color), embedded]
    return [*numbers, color, room, make.crossed_column(["color", "room"], 20), embedded]


def input_fn(tf: Any, labels: Any, batch: int = 4) -> Callable[[], Any]:
    """Gives batches of all rows."""
    given = (dict(FEATURES), labels)
    return lambda: tf.data.Dataset.from_tensor_slices(given).batch(batch)


def _cases(tf: Any) -> dict[str, tuple[Callable[[Any], Any], Any]]:
    """Estimators of a model_dir, and their labels, by name."""
    kinds, sums = tf.estimator, tf.losses.Reduction.SUM
    dense, sparse = columns(tf, True), columns(tf, False)
    # FTRL in TensorFlow sets an embedding to 0 in a step whose gradient for it is 0, as that of
    # a linear model's first one is: see docs/tensorflow/differences.md.
    plain = sparse[:-1]
    words = np.array(["low", "high"])[BINARY]
    names = ["ash", "elm", "oak"]

    def linear(head: Any, optimizer: str = "SGD") -> Callable[[Any], Any]:
        return lambda folder: kinds.LinearEstimator(head, sparse, folder, optimizer=optimizer)

    heads = [kinds.RegressionHead(2, name="size"), kinds.BinaryClassHead(name="old")]
    return {
        "linear_classifier": (
            lambda folder: kinds.LinearClassifier(plain, folder, weight_column="weight"),
            BINARY,
        ),
        "linear_regressor": (
            lambda folder: kinds.LinearRegressor(
                plain, folder, label_dimension=2, sparse_combiner="mean", loss_reduction=sums
            ),
            NUMBERS,
        ),
        "dnn_classifier": (
            lambda folder: kinds.DNNClassifier(
                [4, 3], dense, folder, n_classes=3, label_vocabulary=names, optimizer="Adam"
            ),
            np.array(names)[CLASSES],
        ),
        "dnn_regressor": (
            lambda folder: kinds.DNNRegressor(
                [4],
                dense,
                folder,
                label_dimension=2,
                weight_column="weight",
                activation_fn=tf.nn.tanh,
                batch_norm=True,
            ),
            NUMBERS,
        ),
        "combined_classifier": (
            lambda folder: kinds.DNNLinearCombinedClassifier(
                folder, plain, "Ftrl", dense, "Adagrad", [3], label_vocabulary=["low", "high"]
            ),
            words,
        ),
        "binary_head": (
            linear(kinds.BinaryClassHead(weight_column="weight", thresholds=[0.3, 0.6])),
            BINARY,
        ),
        "multi_label_head": (
            linear(
                kinds.MultiLabelHead(
                    3,
                    weight_column="weight",
                    thresholds=[0.5],
                    classes_for_class_based_metrics=[0, 2],
                    name="trees",
                )
            ),
            LABELS,
        ),
        "poisson_head": (linear(kinds.PoissonRegressionHead(), "Adagrad"), COUNTS),
        "logistic_head": (linear(kinds.LogisticRegressionHead()), SHARES),
        "multi_head": (
            linear(kinds.MultiHead(heads, head_weights=[1.0, 2.0]), "Adagrad"),
            {"size": NUMBERS, "old": BINARY},
        ),
        "former_dnn_classifier": (
            lambda folder: tf.compat.v1.estimator.DNNClassifier([3], dense, folder),
            BINARY,
        ),
        "former_linear_regressor": (
            lambda folder: tf.compat.v1.estimator.LinearRegressor(
                sparse, folder, optimizer=tf.compat.v1.train.AdagradOptimizer(0.1)
            ),
            COUNTS,
        ),
        "former_combined_regressor": (
            lambda folder: tf.compat.v1.estimator.DNNLinearCombinedRegressor(
                folder, plain, "Ftrl", dense, "Adagrad", [3]
            ),
            COUNTS,
        ),
        "former_baseline": (
            lambda folder: tf.compat.v1.estimator.BaselineClassifier(folder, n_classes=3),
            CLASSES,
        ),
    }


def names(tf: Any) -> list[str]:
    """The cases' names."""
    return list(_cases(tf))


def results(tf: Any, name: str) -> dict[str, Any]:
    """What a case gives: variables of the model after two epochs, metrics, and predictions."""
    make, labels = _cases(tf)[name]
    with tempfile.TemporaryDirectory() as folder:
        estimator = make(folder)
        losses = []
        for _ in range(2):
            estimator.train(input_fn(tf, labels))
            losses.append(float(estimator.evaluate(input_fn(tf, labels))["loss"]))
        found = estimator.evaluate(input_fn(tf, labels), name="again")
        first = next(iter(estimator.predict(input_fn(tf, labels))))
        variables = {
            each: estimator.get_variable_value(each).tolist()
            for each in estimator.get_variable_names()
            if each.startswith(("linear/", "dnn/", "baseline/"))
            and "/part_" not in each
            and not each.rsplit("/", 1)[-1].startswith(("Adagrad", "Ftrl"))
        }
    return {
        "variables": variables,
        "losses": losses,
        "metrics": {key: float(value) for key, value in found.items()},
        "predictions": {
            "/".join(key) if isinstance(key, tuple) else key: _plain(value)
            for key, value in first.items()
        },
    }


def _plain(value: Any) -> Any:
    array = np.asarray(value)
    return [each.decode() for each in array.ravel()] if array.dtype.kind == "O" else array.tolist()


def _write(chosen: list[str]) -> None:
    """Write what cases give in TensorFlow; by default all, else those beside what is there."""
    import tensorflow as tf

    kind = tf.compat.v1.glorot_uniform_initializer
    kind.__call__ = lambda self, shape, dtype=None, partition_info=None: tf.constant(spread(shape))
    made = json.loads(REFERENCE.read_text()) if chosen else {}
    made["tensorflow"] = tf.__version__
    for name in chosen or names(tf):
        made[name] = results(tf, name)
    REFERENCE.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    _write(sys.argv[1:])
