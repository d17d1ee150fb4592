"""Models of shapes alone, and weights that follow from their places."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import keras
import numpy as np


def of_shapes(build: Callable[[], keras.Model]) -> keras.Model:
    """A model whose variables were made in a trace, and so take no memory and no time."""
    built: list[keras.Model] = []
    jax.eval_shape(lambda: built.append(build()))
    return built[0]


def size(variables: list[Any]) -> int:
    return sum(math.prod(variable.shape) for variable in variables)


def averages(model: keras.Model) -> list[Any]:
    """The means and variances that batch normalization keeps."""
    return [variable for variable in model.non_trainable_variables if "moving" in variable.path]


ROLES = (
    *("conv", "depthwise", "pointwise", "conv_bias", "separable_bias", "beta", "gamma"),
    *("mean", "variance", "dense", "dense_bias"),
)


def value(role: str, index: int, shape: tuple[int, ...]) -> np.ndarray:
    """The value of the variable that is the `index`-th of its role in the order of building."""
    wave = np.sin(1.7 * np.arange(math.prod(shape)) + index + 11.0 * ROLES.index(role))
    wave = wave.reshape(shape)
    if role in ("conv", "pointwise", "dense"):
        return wave * math.sqrt(2 / math.prod(shape[:-1])) * 1.4
    if role == "depthwise":
        return wave * math.sqrt(2 / (shape[0] * shape[1])) * 1.4
    return 1 + 0.3 * wave if role in ("gamma", "variance") else 0.1 * wave


def images(size: int) -> np.ndarray:
    """Two images."""
    shape = (2, size, size, 3)
    return np.sin(0.37 * np.arange(math.prod(shape))).reshape(shape).astype("float32")


def forward(model: keras.Model, x: np.ndarray) -> np.ndarray:
    """Outputs in evaluation, of a model whose variables are `value`, which it need not have."""
    held = {id(variable): given for variable, given in _values(model)}

    def of(variables: list[Any]) -> list[np.ndarray]:
        return [held.get(id(v), np.zeros(v.shape, "float32")) for v in variables]

    def call(trainable: Any, others: Any, x: Any) -> Any:
        return model.stateless_call(trainable, others, x, training=False)[0]

    variables = of(model.trainable_variables), of(model.non_trainable_variables)
    return np.asarray(jax.jit(call)(*variables, x))


_ROLES_OF = {
    keras.layers.Conv2D: {"kernel": "conv", "bias": "conv_bias"},
    keras.layers.DepthwiseConv2D: {"kernel": "depthwise"},
    keras.layers.SeparableConv2D: {
        "depthwise_kernel": "depthwise",
        "pointwise_kernel": "pointwise",
        "bias": "separable_bias",
    },
    keras.layers.Dense: {"kernel": "dense", "bias": "dense_bias"},
    keras.layers.BatchNormalization: {
        "gamma": "gamma",
        "beta": "beta",
        "moving_mean": "mean",
        "moving_variance": "variance",
    },
}


def _values(model: keras.Model) -> Iterator[tuple[Any, np.ndarray]]:
    for kind, roles in _ROLES_OF.items():
        layers = [layer for layer in model.layers if type(layer) is kind]
        layers.sort(key=lambda layer: int(re.findall(r"\d+$", layer.name)[0]))
        for attribute, role in roles.items():
            held = (getattr(layer, attribute, None) for layer in layers)
            for index, variable in enumerate(v for v in held if v is not None):
                given = value(role, index, tuple(variable.shape))
                yield variable, given.astype("float32")
