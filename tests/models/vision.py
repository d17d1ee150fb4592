"""Models of images: applications cut down, autoencoders, layers that normalize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers, ops
from keras.src.applications.convnext import ConvNeXt
from keras.src.applications.efficientnet import EfficientNet

from tests.models.running import Case, Setting, fit_evaluate_predict

CLASSES = 4


def images(rows: int, size: int, channels: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Images in [0, 1) and classes."""
    rng = np.random.default_rng(rows + size)
    x = rng.random((rows, size, size, channels), dtype=np.float32)
    return x, rng.integers(0, CLASSES, rows)


def convnext(**options: Any) -> keras.Model:
    """ConvNeXt of one block a stage; its layer scale large enough that blocks matter."""
    return ConvNeXt(
        depths=(1, 1, 1, 1),
        projection_dims=(6, 8, 10, 12),
        layer_scale_init_value=0.5,
        include_preprocessing=False,
        weights=None,
        **options,
    )


def efficientnet(**options: Any) -> keras.Model:
    """EfficientNet of three kinds of blocks, without its random parts."""
    block = {
        "expand_ratio": 2,
        "id_skip": True,
        "se_ratio": 0.25,
        "filters_in": 8,
        "filters_out": 8,
    }
    return EfficientNet(
        1.0,
        1.0,
        32,
        dropout_rate=0.0,
        drop_connect_rate=0.0,
        blocks_args=[
            {**block, "kernel_size": 3, "repeats": 1, "filters_in": 32, "strides": 1},
            {**block, "kernel_size": 5, "repeats": 2, "strides": 2},
            {**block, "kernel_size": 3, "repeats": 1, "strides": 2},
        ],
        weights=None,
        **options,
    )


def mobilenet(input_shape: tuple[int, ...], classes: int, **options: Any) -> keras.Model:
    """MobileNet's first five blocks, a quarter as wide: later ones see one value an image."""
    whole = keras.applications.MobileNet(
        input_shape, alpha=0.25, include_top=False, weights=None, pooling=None
    )
    cut = whole.get_layer("conv_pw_5_relu").output
    outputs = layers.Dense(classes)(layers.GlobalAveragePooling2D()(cut))
    return keras.Model(whole.input, outputs)


def residual(**options: Any) -> keras.Model:
    """Two residual blocks with batch normalization, as ResNet's."""
    inputs = keras.Input(options["input_shape"])
    x = layers.Conv2D(6, 3, padding="same", use_bias=False)(inputs)
    for _ in range(2):
        y = layers.BatchNormalization(momentum=0.8)(x)
        y = layers.Conv2D(6, 3, padding="same", use_bias=False)(layers.ReLU()(y))
        x = layers.Add()([x, y])
    x = layers.GlobalAveragePooling2D()(layers.BatchNormalization()(x))
    outputs = layers.Dense(options["classes"])(x)
    return keras.Model(inputs, outputs)


Application = Callable[..., keras.Model]


def classified(
    model: keras.Model, setting: Setting, rate: float = 0.05, momentum: float = 0.9
) -> keras.Model:
    """Compile a model that gives logits of classes."""
    model.compile(
        keras.optimizers.SGD(rate, momentum=momentum),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **setting.compile,
    )
    return model


def application(make: Application, rate: float = 0.05) -> Callable[[Setting, Any], keras.Model]:
    """Builds an application as a classifier of the data's images."""

    def build(setting: Setting, data: Any) -> keras.Model:
        shape = data[0].shape[1:]
        model = make(input_shape=shape, classes=CLASSES, classifier_activation=None)
        return classified(model, setting, rate)

    return build


def normalized_in_many_ways(setting: Setting, data: Any) -> keras.Model:
    """Layers that normalize rows by themselves, and ones that learn from `adapt`."""
    x = data[0]
    adapted = layers.Normalization()
    adapted.adapt(x)
    model = keras.Sequential(
        [
            keras.Input(x.shape[1:]),
            adapted,
            layers.Conv2D(8, 3, activation="silu"),
            layers.GroupNormalization(4),
            layers.SeparableConv2D(8, 3),
            layers.LayerNormalization(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.UnitNormalization(),
            layers.Dense(8, activation="gelu"),
            layers.RMSNormalization(),
            layers.Dense(CLASSES),
        ]
    )
    return classified(model, setting)


def spectral(setting: Setting, data: Any) -> keras.Model:
    """Convolutions and dense layers under SpectralNormalization."""
    model = keras.Sequential(
        [
            keras.Input(data[0].shape[1:]),
            layers.SpectralNormalization(layers.Conv2D(6, 3, activation="relu"), 2),
            layers.GlobalAveragePooling2D(),
            layers.SpectralNormalization(layers.Dense(8, activation="tanh")),
            layers.Dense(CLASSES),
        ]
    )
    return classified(model, setting)


class Sampling(layers.Layer):
    """Draws from the posterior and adds its divergence, as in Keras's example of a VAE."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seeds = keras.random.SeedGenerator(5)

    def call(self, inputs: Any) -> Any:
        mean, log_variance = inputs
        divergence = 1 + log_variance - mean**2 - ops.exp(log_variance)
        self.add_loss(-0.05 * ops.mean(ops.sum(divergence, axis=1)))
        drawn = keras.random.normal(ops.shape(mean), seed=self.seeds)
        return mean + ops.exp(0.5 * log_variance) * drawn


def variational(setting: Setting, data: Any) -> keras.Model:
    """A variational autoencoder."""
    inputs = keras.Input(data[0].shape[1:])
    x = layers.Conv2D(4, 3, strides=2, padding="same", activation="relu")(inputs)
    x = layers.Flatten()(x)
    code = Sampling()([layers.Dense(3)(x), layers.Dense(3)(x)])
    x = layers.Reshape((4, 4, 4))(layers.Dense(64, activation="relu")(code))
    outputs = layers.Conv2DTranspose(1, 3, strides=2, padding="same")(x)
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.05), "mse", **setting.compile)
    return model


def segmented(setting: Setting, data: Any) -> keras.Model:
    """A U-Net of one step, with weights for each pixel."""
    inputs = keras.Input(data[0].shape[1:])
    top = layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
    low = layers.Conv2D(6, 3, padding="same", activation="relu")(layers.MaxPooling2D()(top))
    joined = layers.Concatenate()([top, layers.UpSampling2D()(low)])
    model = keras.Model(inputs, layers.Conv2D(2, 1)(joined))
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy"],
        **setting.compile,
    )
    return model


def pixels() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images, a class for each pixel, and a weight for each pixel."""
    x, _ = images(21, 8, 1)
    y = (x[..., 0] + x[:, ::-1, :, 0] > 1).astype(np.int32)
    weight = np.random.default_rng(3).random((21, 8, 8), dtype=np.float32)
    return x, y, weight * (weight > 0.2)


VISION = {
    "convnext": Case(fit_evaluate_predict(application(convnext)), lambda: images(16, 32)),
    "normalizing layers": Case(
        fit_evaluate_predict(normalized_in_many_ways),
        lambda: images(21, 10),
        quick=("4 replicas",),
    ),
    "spectral normalization": Case(
        fit_evaluate_predict(spectral), lambda: images(21, 8), quick=("2 replicas",)
    ),
    "variational autoencoder": Case(
        fit_evaluate_predict(variational), lambda: (images(21, 8, 1)[0],) * 2
    ),
    "segmentation": Case(fit_evaluate_predict(segmented), pixels),
}
"""Without batch normalization: see `tests/models/test_batch_statistics.py`."""
