"""Metrics are exact, whether or not their state adds up over the replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from drumline.keras.step.reductions import adds_up


class Largest(keras.metrics.Metric):
    """The largest prediction so far: state that does not add up."""

    def __init__(self, name: str = "largest") -> None:
        super().__init__(name=name)
        self.largest = self.add_variable((), "zeros", name="largest")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.largest.assign(ops.maximum(self.largest, ops.max(ops.abs(y_pred))))

    def result(self) -> Any:
        return ops.convert_to_tensor(self.largest)


class SumOfSquares(keras.metrics.Metric):
    def __init__(self, name: str = "squares") -> None:
        super().__init__(name=name)
        self.total = self.add_variable((), "zeros", name="total")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.total.assign_add(ops.sum(y_pred**2))

    def result(self) -> Any:
        return ops.convert_to_tensor(self.total)


class Batches(keras.metrics.Metric):
    """Counts its updates: replicas must not count one batch several times."""

    def __init__(self, name: str = "batches") -> None:
        super().__init__(name=name)
        self.count = self.add_variable((), "zeros", dtype="int32", name="count")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.count.assign_add(1)

    def result(self) -> Any:
        return ops.convert_to_tensor(self.count)


def spread(y_true: Any, y_pred: Any) -> Any:
    return ops.std(y_pred)


BINARY: dict[str, Callable[[], Any]] = {
    "auc": lambda: keras.metrics.AUC(name="auc"),
    "auc of interpolated precision and recall": lambda: keras.metrics.AUC(curve="PR", name="auc"),
    "precision": lambda: keras.metrics.Precision(name="precision"),
    "recall at precision": lambda: keras.metrics.RecallAtPrecision(0.4, name="r"),
    "accuracy": lambda: "accuracy",
    "cosine": lambda: keras.metrics.CosineSimilarity(axis=0, name="cosine"),
    "f1": lambda: keras.metrics.F1Score(average="micro", threshold=0.5, name="f1"),
    "r2": lambda: keras.metrics.R2Score(name="r2"),
    "rmse": lambda: keras.metrics.RootMeanSquaredError(name="rmse"),
    "largest": Largest,
    "squares": SumOfSquares,
    "batches": Batches,
    "function": lambda: spread,
    "mae": lambda: "mae",
}


def test_every_metric_is_exact_in_training_and_evaluation(images: Any, train: Any) -> None:
    x, y = images[0], (images[1] > 2).astype("float32")[:, None]

    def build() -> keras.Model:
        keras.utils.set_random_seed(0)
        model = keras.Sequential(
            [keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(1, "sigmoid")]
        )
        model.compile(
            "sgd",
            "binary_crossentropy",
            metrics=[make() for make in BINARY.values()],
            weighted_metrics=[keras.metrics.MeanSquaredError(name="weighted")],
        )
        return model

    options = {"validation_data": (x[:17], y[:17]), "sample_weight": np.linspace(0, 2, len(x))}
    one, several = train(build, 0, x, y, **options), train(build, 4, x, y, **options)
    assert one.history["batches"] == [4, 4, 4]
    several.assert_same(one)
    assert several.model.evaluate(x, y, batch_size=12, verbose=0) == pytest.approx(
        one.model.evaluate(x, y, batch_size=12, verbose=0), rel=1e-5, abs=1e-6
    )


@pytest.mark.parametrize("make", [Largest, SumOfSquares, Batches])
def test_a_users_metric_is_not_taken_to_add_up(make: Any) -> None:
    assert not adds_up(make())


def test_only_known_metrics_are_summed() -> None:
    class Own(keras.metrics.AUC):
        pass

    assert adds_up(keras.metrics.AUC())
    assert adds_up(keras.metrics.SparseCategoricalAccuracy())
    assert adds_up(keras.metrics.MeanMetricWrapper(keras.losses.mean_squared_error))
    assert not adds_up(Own())
    assert not adds_up(keras.metrics.MeanMetricWrapper(spread))
    assert not adds_up(keras.metrics.MeanMetricWrapper(keras.losses.cosine_similarity))


def test_an_overridden_compute_metrics_sees_the_global_batch(images: Any, train: Any) -> None:
    class Model(keras.Sequential):
        def compute_metrics(
            self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
        ) -> dict[str, Any]:
            results = super().compute_metrics(x, y, y_pred, sample_weight)
            return {**results, "range": ops.max(y_pred) - ops.min(y_pred)}

    def build() -> keras.Model:
        keras.utils.set_random_seed(0)
        model = Model([keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(5)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, metrics=["accuracy"])
        return model

    one = train(build, 0, *images)
    assert "range" in one.history
    train(build, 4, *images).assert_same(one)


def test_train_on_batch_counts_over_the_global_batch(
    perceptron: Any, images: Any, train: Any
) -> None:
    def build() -> keras.Model:
        return perceptron(metrics=["accuracy", Batches()])

    models = [train(build, n, *images, epochs=1).model for n in (0, 2)]
    x, y = (part[:14] for part in images)
    one, two = (model.train_on_batch(x, y, return_dict=True) for model in models)
    assert one.keys() == two.keys()
    assert {k: float(v) for k, v in two.items()} == pytest.approx(
        {k: float(v) for k, v in one.items()}, rel=1e-5
    )
