"""Models with batch normalization: each replica by the statistics of its own share, or by all's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops

from tests.models.running import Case, Program, Setting, fit_evaluate_predict
from tests.models.vision import application, classified, efficientnet, images, mobilenet, residual

Build = Callable[[Setting, Any], keras.Model]


class NormalizationOfShares(layers.BatchNormalization):
    """Batch normalization as replicas do it that each see a share of the batch, on one device.

    Every share is normalized by its own moments, and the moving moments follow the mean of the
    shares' moments. A batch that does not divide is one share: every replica computes all of it.
    """

    shares = 1

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        rows = inputs.shape[0]
        if not (training and self.trainable) or rows is None or rows % self.shares:
            return super().call(inputs, training=training, mask=mask)
        split = ops.reshape(inputs, (self.shares, rows // self.shares, *inputs.shape[1:]))
        axes = list(range(1, split.ndim - 1))
        mean = ops.mean(split, axis=axes, keepdims=True)
        variance = ops.mean((split - mean) ** 2, axis=axes, keepdims=True)
        for moving, moment in ((self.moving_mean, mean), (self.moving_variance, variance)):
            new = ops.reshape(ops.mean(moment, axis=0), moving.shape)
            moving.assign(moving * self.momentum + new * (1 - self.momentum))
        split = (split - mean) / ops.sqrt(variance + self.epsilon)
        normalized = ops.reshape(split, inputs.shape)
        return normalized * (1 if self.gamma is None else self.gamma) + (
            0 if self.beta is None else self.beta
        )


def with_normalization(build: Build, change: Callable[[dict[str, Any]], layers.Layer]) -> Build:
    """Build, with what `change` makes of the configuration of each BatchNormalization."""

    def changed(layer: layers.Layer) -> layers.Layer:
        if type(layer) is layers.BatchNormalization:
            return change(layer.get_config())
        return layer.__class__.from_config(layer.get_config())

    def built(setting: Setting, data: Any) -> keras.Model:
        model = build(setting, data)
        copied = keras.models.clone_model(model, clone_function=changed)
        copied.set_weights(model.get_weights())
        return classified(copied, setting, float(model.optimizer.learning_rate.numpy()))

    return built


def of_shares(build: Build, shares: int) -> Program:
    """The program that computes on one device what so many replicas do."""

    def change(config: dict[str, Any]) -> layers.Layer:
        layer = NormalizationOfShares.from_config(config)
        layer.shares = shares
        return layer

    return fit_evaluate_predict(with_normalization(build, change))


def synchronized(build: Build) -> Program:
    """The program whose normalization is synchronized."""
    return fit_evaluate_predict(
        with_normalization(
            build, lambda config: layers.BatchNormalization(**{**config, "synchronized": True})
        )
    )


def dense(setting: Setting, data: Any) -> keras.Model:
    """Normalization of vectors, without and with centre and scale, and of the first axis last."""
    model = keras.Sequential(
        [
            keras.Input(data[0].shape[1:]),
            layers.BatchNormalization(momentum=0.7, center=False, scale=False),
            layers.Conv2D(4, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(8),
            layers.BatchNormalization(momentum=0.9, epsilon=0.01),
            layers.Activation("tanh"),
            layers.Dense(4),
        ]
    )
    return classified(model, setting)


DEEP = "rounding grows in each of the many layers that divide by a deviation of few values"
EDGES = ", and decides on which side of an activation's edge a value lies, hence its gradient"
NETWORKS: dict[str, tuple[Build, Callable[[], Any], float, str]] = {
    "convnet": (dense, lambda: images(21, 6), 1e-5, ""),
    "residual": (application(residual, 0.1), lambda: images(16, 8), 1e-4, DEEP),
    "efficientnet": (application(efficientnet, 0.02), lambda: images(16, 32), 1e-3, DEEP),
    "mobilenet": (application(mobilenet, 0.02), lambda: images(16, 32), 2e-3, DEEP + EDGES),
}

MODELS: dict[str, Case] = {}
for _name, (_build, _data, _tolerance, _why) in NETWORKS.items():
    MODELS[f"{_name}, per replica"] = Case(
        fit_evaluate_predict(_build),
        _data,
        _tolerance,
        _why,
        reference=functools.partial(of_shares, _build),
        quick=("4 replicas",) if _name == "convnet" else (),
    )
    MODELS[f"{_name}, synchronized"] = Case(
        synchronized(_build),
        _data,
        _tolerance,
        _why,
        reference=lambda replicas, build=_build: fit_evaluate_predict(build),
        quick=("2 replicas",) if _name in ("convnet", "residual") else (),
    )
