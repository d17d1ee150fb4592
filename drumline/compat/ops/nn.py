"""``tf.nn``: activations, losses, convolutions, pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline import nn as of_drumline
from drumline.compat.ops.elementwise import add, compute, keras_ops
from drumline.compat.ops.reductions import reduce_mean, reduce_variance
from drumline.compat.values.boundary import unwrap
from drumline.compat.values.convert import convert, raw, same_dtype, static
from drumline.compat.values.tensor import Tensor


def _activation(
    name: str,
    function: Callable[..., Any],
    of_numpy: Callable[..., Any] | None = None,
    positions: tuple[str, ...] = (),
    first: str = "features",
) -> Callable[..., Any]:
    """An activation.

    Args:
        name: the name, also of the function in `keras.ops`.
        function: computes it of JAX's arrays.
        of_numpy: the same of numpy's, where that is as exact and faster for small arrays.
        positions: its options, in TensorFlow's order.
        first: the name of what it is computed of.
    """

    def activation(features: Any = None, *args: Any, name: Any = None, **options: Any) -> Any:
        features = options.pop(first) if features is None and first in options else features
        chosen = {**dict(zip(positions, args, strict=False)), **options}
        if keras_ops(features) is not None:
            return getattr(keras_ops(features), label)(features, **chosen)
        chosen = {key: raw(value) for key, value in chosen.items()}
        value = convert(features)
        if of_numpy is not None and isinstance(value, np.ndarray):
            return Tensor(of_numpy(value, **chosen))
        return Tensor(compute(function, value, **chosen))

    label = name
    activation.__name__ = activation.__qualname__ = name
    activation.__doc__ = f"The activation ``{name}``."
    return activation


def _softmax_numpy(x: np.ndarray, axis: Any = -1) -> np.ndarray:
    shifted = np.exp(x - x.max(-1 if axis is None else axis, keepdims=True))
    return shifted / shifted.sum(-1 if axis is None else axis, keepdims=True)


relu = _activation("relu", jax.nn.relu, lambda x: np.maximum(x, x.dtype.type(0)))
relu6 = _activation("relu6", jax.nn.relu6, lambda x: np.clip(x, x.dtype.type(0), x.dtype.type(6)))
elu = _activation("elu", jax.nn.elu)
selu = _activation("selu", jax.nn.selu)
silu = _activation("silu", lambda x, beta=1.0: x * jax.nn.sigmoid(beta * x), None, ("beta",))
gelu = _activation(
    "gelu", lambda x, approximate=False: jax.nn.gelu(x, approximate), None, ("approximate",)
)
leaky_relu = _activation(
    "leaky_relu",
    lambda x, alpha=0.2: jax.nn.leaky_relu(x, alpha),
    lambda x, alpha=0.2: np.where(x > 0, x, x * x.dtype.type(alpha)),
    ("alpha",),
)
softmax = _activation(
    "softmax",
    lambda x, axis=-1: jax.nn.softmax(x, -1 if axis is None else axis),
    _softmax_numpy,
    ("axis",),
    "logits",
)
log_softmax = _activation(
    "log_softmax",
    lambda x, axis=-1: jax.nn.log_softmax(x, -1 if axis is None else axis),
    None,
    ("axis",),
    "logits",
)


def sparse_softmax_cross_entropy_with_logits(labels: Any, logits: Any, name: Any = None) -> Tensor:
    """The cross entropy of class numbers ``(...)`` and logits ``(..., classes)``."""
    scores, rows = jnp.asarray(convert(logits)), convert(labels)
    found = compute(jax.nn.log_softmax, scores)
    return Tensor(-jnp.take_along_axis(found, jnp.asarray(rows)[..., None], -1)[..., 0])


def softmax_cross_entropy_with_logits(
    labels: Any, logits: Any, axis: int = -1, name: Any = None
) -> Tensor:
    """The cross entropy of distributions and logits over an axis."""
    shares, scores = same_dtype(labels, logits, "SoftmaxCrossEntropyWithLogits")
    return Tensor(-jnp.sum(shares * jax.nn.log_softmax(jnp.asarray(scores), axis), axis))


def sigmoid_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, name: Any = None
) -> Tensor:
    """The cross entropy of probabilities and logits, element by element."""
    z, x = map(jnp.asarray, same_dtype(labels, logits, "logistic_loss"))
    return Tensor(jnp.maximum(x, 0) - x * z + jnp.log1p(jnp.exp(-jnp.abs(x))))


def dropout(
    x: Any, rate: Any, noise_shape: Any = None, seed: Any = None, name: Any = None
) -> Tensor:
    """Elements set to zero at random, the others scaled up."""
    value = jnp.asarray(convert(x))
    shape = None if noise_shape is None else static(noise_shape)
    return Tensor(keras.random.dropout(value, raw(rate), shape, static(seed)))


def bias_add(value: Any, bias: Any, data_format: Any = None, name: Any = None) -> Any:
    """The bias of each channel added."""
    a, b = same_dtype(value, bias, "BiasAdd")
    if data_format is not None and data_format.startswith("NC"):
        b = b.reshape(-1, *(1,) * (len(a.shape) - 2))
    return add(a, b)


def l2_loss(t: Any, name: Any = None) -> Tensor:
    """Half the sum of squares."""
    value = convert(t)
    return Tensor((value * value).sum() / np.asarray(2, value.dtype))


def moments(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: Any = None
) -> tuple[Any, Any]:
    """Mean and variance over axes."""
    return reduce_mean(x, axes, keepdims), reduce_variance(x, axes, keepdims)


def _window(given: Any, dimensions: int, channels_first: bool) -> tuple[int, ...]:
    """Sizes for each spatial dimension, of TensorFlow's number or list."""
    sizes = static(given)
    if isinstance(sizes, int):
        return (sizes,) * dimensions
    if len(sizes) == dimensions + 2:
        sizes = sizes[2:] if channels_first else sizes[1:-1]
    return tuple(sizes) * (dimensions if len(sizes) == 1 else 1)


def _convolution(dimensions: int) -> Callable[..., Tensor]:
    def conv(
        input: Any,
        filters: Any,
        strides: Any,
        padding: Any,
        data_format: str | None = None,
        dilations: Any = None,
        name: Any = None,
    ) -> Tensor:
        """A convolution of images with filters."""
        if not isinstance(padding, str):
            raise NotImplementedError("explicit paddings; pad with tf.pad and use VALID")
        first = bool(data_format) and str(data_format).startswith("NC")
        x, w = map(jnp.asarray, same_dtype(input, filters, "Conv"))
        made = keras.ops.conv(
            x,
            w,
            _window(strides, dimensions, first),
            padding.lower(),
            "channels_first" if first else "channels_last",
            _window(1 if dilations is None else dilations, dimensions, first),
        )
        return Tensor(made)

    return conv


conv1d = _convolution(1)
conv2d = _convolution(2)
conv3d = _convolution(3)


def _pooling(function: str, dimensions: int) -> Callable[..., Tensor]:
    def pool(
        input: Any,
        ksize: Any,
        strides: Any,
        padding: str,
        data_format: str | None = None,
        name: Any = None,
    ) -> Tensor:
        """Images with each window reduced to one value."""
        first = bool(data_format) and str(data_format).startswith("NC")
        made = getattr(keras.ops, function)(
            jnp.asarray(convert(input)),
            _window(ksize, dimensions, first),
            _window(strides, dimensions, first),
            padding.lower(),
            "channels_first" if first else "channels_last",
        )
        return Tensor(made)

    return pool


max_pool1d, max_pool2d, max_pool3d = (_pooling("max_pool", n) for n in (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = (_pooling("average_pool", n) for n in (1, 2, 3))


def embedding_lookup(params: Any, ids: Any, max_norm: Any = None, name: Any = None) -> Any:
    """The rows with these numbers.

    Raises:
        NotImplementedError: with ``max_norm``.
    """
    from drumline.compat.ops.arrays import gather

    if max_norm is not None:
        raise NotImplementedError("tf.nn.embedding_lookup with max_norm=")
    return gather(params, ids)


def compute_average_loss(
    per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None
) -> Tensor:
    """The sum of the examples' losses, divided by the size of the global batch."""
    given = map(unwrap, (per_example_loss, sample_weight, global_batch_size))
    return Tensor(jnp.asarray(of_drumline.compute_average_loss(*given)))


def scale_regularization_loss(regularization_loss: Any) -> Tensor:
    """The loss, divided by the number of replicas."""
    return Tensor(jnp.asarray(of_drumline.scale_regularization_loss(unwrap(regularization_loss))))
