"""``tf.compat.v1.layers``: functions that make a layer of Keras and call it.

A layer without a name, or in a scope that does not reuse, is a new one at each call; in a template
of `make_template`, or in a scope with ``reuse=tf.compat.v1.AUTO_REUSE``, calls in the same order
share their layers. So write the model as a function, and make a template of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from drumline.compat.v1.collections import GraphKeys, collect
from drumline.compat.v1.variables import default_name, full_name, shared
from drumline.compat.values.tensor import Tensor

_OPTIONS = {
    "dense": "units activation use_bias kernel_initializer bias_initializer kernel_regularizer "
    "bias_regularizer activity_regularizer kernel_constraint bias_constraint trainable",
    "conv1d": "filters kernel_size strides padding data_format dilation_rate activation use_bias "
    "kernel_initializer bias_initializer kernel_regularizer bias_regularizer "
    "activity_regularizer kernel_constraint bias_constraint trainable",
    "conv2d_transpose": "filters kernel_size strides padding data_format activation use_bias "
    "kernel_initializer bias_initializer kernel_regularizer bias_regularizer "
    "activity_regularizer kernel_constraint bias_constraint trainable",
    "separable_conv2d": "filters kernel_size strides padding data_format dilation_rate "
    "depth_multiplier activation use_bias depthwise_initializer pointwise_initializer "
    "bias_initializer depthwise_regularizer pointwise_regularizer bias_regularizer "
    "activity_regularizer depthwise_constraint pointwise_constraint bias_constraint trainable",
    "max_pooling2d": "pool_size strides padding data_format",
    "flatten": "data_format",
    "dropout": "rate noise_shape seed",
    "batch_normalization": "axis momentum epsilon center scale beta_initializer "
    "gamma_initializer moving_mean_initializer moving_variance_initializer beta_regularizer "
    "gamma_regularizer beta_constraint gamma_constraint",
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "batch_normalization": {"axis": -1},
    "dropout": {"rate": 0.5},
}


def _layer(name: str, kind: str, options: str, training: bool = False) -> Callable[..., Any]:
    """A function that makes a layer of Keras and calls it.

    Args:
        name: its own.
        kind: the name of Keras's layer.
        options: the layer's options, in TensorFlow's order.
        training: whether it takes ``training=``.
    """
    names = _OPTIONS[options].split()

    def call(inputs: Any, *args: Any, **kwargs: Any) -> Any:
        given = {**_DEFAULTS.get(name, {}), **dict(zip(names, args, strict=False))}
        reuse, label = kwargs.pop("reuse", None), kwargs.pop("name", None)
        train = {"training": kwargs.pop("training", False)} if training else {}
        unknown = kwargs.keys() - set(names)
        if unknown or len(args) > len(names):
            what = ", ".join(sorted(unknown)) or f"{len(args) + 1} positional arguments"
            raise TypeError(f"tf.compat.v1.layers.{name}() does not take {what}")
        given.update(kwargs)
        if given.get("data_format", "") is None:
            del given["data_format"]
        title = default_name(name) if label is None else label

        def make() -> Any:
            return getattr(keras.layers, kind)(**given, name=title)

        layer = shared("layer", title, make, reuse)
        found = layer(inputs, **train)
        for variable in layer.variables:  # which TensorFlow 1 calls by their scopes
            variable._name = f"{full_name(title)}/{variable.path.rpartition('/')[2]}:0"
        for loss in layer.losses:
            collect(GraphKeys.REGULARIZATION_LOSSES, Tensor(loss))
        return found

    call.__name__ = call.__qualname__ = name
    call.__doc__ = (
        f"What `keras.layers.{kind}` gives for `inputs`; options: {', '.join(names)}, name, reuse."
    )
    return call


dense = _layer("dense", "Dense", "dense")
conv1d, conv2d, conv3d = (_layer(f"conv{n}d", f"Conv{n}D", "conv1d") for n in (1, 2, 3))
conv2d_transpose, conv3d_transpose = (
    _layer(f"conv{n}d_transpose", f"Conv{n}DTranspose", "conv2d_transpose") for n in (2, 3)
)
separable_conv1d, separable_conv2d = (
    _layer(f"separable_conv{n}d", f"SeparableConv{n}D", "separable_conv2d") for n in (1, 2)
)
max_pooling1d, max_pooling2d, max_pooling3d = (
    _layer(f"max_pooling{n}d", f"MaxPooling{n}D", "max_pooling2d") for n in (1, 2, 3)
)
average_pooling1d, average_pooling2d, average_pooling3d = (
    _layer(f"average_pooling{n}d", f"AveragePooling{n}D", "max_pooling2d") for n in (1, 2, 3)
)
flatten = _layer("flatten", "Flatten", "flatten")
dropout = _layer("dropout", "Dropout", "dropout", training=True)
batch_normalization = _layer(
    "batch_normalization", "BatchNormalization", "batch_normalization", training=True
)
