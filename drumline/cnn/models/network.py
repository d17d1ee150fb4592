"""The layers that the benchmark's models are made of, named and initialized as in the original.

Follows tf_cnn_benchmarks' convnet_builder: what a layer is called, how its weights begin, and
which of bias and batch normalization it has. Written for Keras's functional models.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable
from typing import Any, Literal

import keras
from keras import layers

Tensor = Any
"""A ``keras.KerasTensor``."""

Padding = Literal["same", "valid", "centered"]
"""As in Keras; "centered" pads (k - 1) // 2 before and the rest after, whatever the image's size.

With a stride, "same" pads by what the size leaves over, and more after than before. ResNets are
"centered", so that a window lies at the same place of an image of any size.
"""

CHANNELS = {"channels_last": 3, "channels_first": 1}
"""Where the channels are among four dimensions."""

_WITH_FLOAT32_WEIGHTS = {"float16": "mixed_float16", "bfloat16": "mixed_bfloat16"}


@dataclasses.dataclass(frozen=True)
class BatchNormSettings:
    """How a model normalizes its batches.

    Attributes:
        momentum: What moving averages keep in a step.
        epsilon: What is added to a variance.
        scale: Whether there is a weight for each channel to multiply with (gamma). There is always
            one to add (beta).
    """

    momentum: float = 0.999
    epsilon: float = 1e-3
    scale: bool = False


class Network:
    """Layers of one model: each method adds some after a tensor, and returns what they give.

    Layers are named after their kind and number (``conv0``, ``batchnorm0``), which are the
    same each time a model is built.

    Args:
        num_classes: What the model tells apart.
        data_format: Of all tensors in the model, "channels_last" or "channels_first".
        dtype: A dtype policy's name, or a policy. With "float16" and "bfloat16" batch
            normalization keeps its weights and averages in float32, as the original does.
        norm: How convolutions are normalized that say nothing else; with None, they are not.

    Source: https://github.com/tensorflow/benchmarks, scripts/tf_cnn_benchmarks/convnet_builder.py.
    """

    def __init__(
        self,
        num_classes: int,
        data_format: str = "channels_last",
        dtype: Any = "float32",
        norm: BatchNormSettings | None = None,
    ) -> None:
        self.num_classes = num_classes
        self.data_format = data_format
        self.axis = CHANNELS[data_format]
        self.dtype = keras.dtype_policies.get(dtype)
        wide = _WITH_FLOAT32_WEIGHTS.get(self.dtype.name)
        self._norm_dtype = keras.dtype_policies.get(wide) if wide else self.dtype
        self.norm = norm
        self._numbers: collections.Counter[str] = collections.Counter()

    def name(self, kind: str) -> str:
        """Return the next name of a layer of a kind."""
        number = self._numbers[kind]
        self._numbers[kind] += 1
        return f"{kind}{number}"

    def channels(self, x: Tensor) -> int:
        """Return how many channels a tensor has."""
        return int(x.shape[self.axis])

    def conv(
        self,
        x: Tensor,
        filters: int,
        kernel: int | tuple[int, int],
        strides: int = 1,
        padding: Padding = "same",
        *,
        norm: bool | None = None,
        bias: float | None = 0.0,
        activation: str | None = "relu",
        stddev: float | None = None,
        initializer: Any = None,
    ) -> Tensor:
        """Convolve, normalize or add a bias, and activate.

        Args:
            x: The input.
            filters: Channels of the output.
            kernel: Height and width of the window.
            strides: Of the window, in both directions.
            padding: See `Padding`.
            norm: Whether to normalize; None is as the network was made. What is normalized has
                no bias.
            bias: What the biases begin with, None for none.
            activation: Keras's name of one, or None.
            stddev: Of the weights' truncated normal distribution.
            initializer: Of the weights, in its place; with neither, the variance is one over the
                number of inputs.

        Returns:
            The output.
        """
        size = (kernel, kernel) if isinstance(kernel, int) else kernel
        normalized = self.norm is not None if norm is None else norm
        if padding == "centered" and strides > 1:
            edges = [((k - 1) // 2, k - 1 - (k - 1) // 2) for k in size]
            x = layers.ZeroPadding2D(edges, data_format=self.data_format, dtype=self.dtype)(x)
            padding = "valid"
        if stddev is not None:
            initializer = keras.initializers.TruncatedNormal(stddev=stddev)
        x = layers.Conv2D(
            filters,
            size,
            strides=strides,
            padding="same" if padding == "centered" else padding,
            data_format=self.data_format,
            use_bias=bias is not None and not normalized,
            kernel_initializer=initializer or keras.initializers.VarianceScaling(),
            bias_initializer=keras.initializers.Constant(bias or 0.0),
            dtype=self.dtype,
            name=self.name("conv"),
        )(x)
        if normalized:
            x = self.batch_norm(x, self.norm)
        return x if activation is None else self.activation(x, activation)

    def depthwise_conv(self, x: Tensor, kernel: int, strides: int, initializer: Any) -> Tensor:
        """Convolve each channel by itself, without a bias."""
        return layers.DepthwiseConv2D(
            kernel,
            strides=strides,
            padding="same",
            data_format=self.data_format,
            use_bias=False,
            depthwise_initializer=initializer,
            dtype=self.dtype,
            name=self.name("depthwise"),
        )(x)

    def separable_conv(
        self, x: Tensor, filters: int, kernel: int, strides: int, initializer: str
    ) -> Tensor:
        """Convolve each channel by itself, then points by themselves; add a bias, and rectify."""
        return layers.SeparableConv2D(
            filters,
            kernel,
            strides=strides,
            padding="same",
            data_format=self.data_format,
            activation="relu",
            depthwise_initializer=initializer,
            pointwise_initializer=initializer,
            dtype=self.dtype,
            name=self.name("separable"),
        )(x)

    def batch_norm(self, x: Tensor, norm: BatchNormSettings | None = None) -> Tensor:
        """Normalize over the batch, with the original's defaults where `norm` is None."""
        norm = norm or BatchNormSettings()
        return layers.BatchNormalization(
            axis=self.axis,
            momentum=norm.momentum,
            epsilon=norm.epsilon,
            scale=norm.scale,
            dtype=self._norm_dtype,
            name=self.name("batchnorm"),
        )(x)

    def activation(self, x: Tensor, name: str = "relu") -> Tensor:
        """Activate."""
        return layers.Activation(name, dtype=self.dtype)(x)

    def max_pool(self, x: Tensor, size: int, strides: int = 2, padding: str = "valid") -> Tensor:
        """Return the greatest of each window."""
        return layers.MaxPooling2D(
            size, strides, padding, self.data_format, dtype=self.dtype, name=self.name("mpool")
        )(x)

    def mean_pool(self, x: Tensor, size: int, strides: int = 2, padding: str = "valid") -> Tensor:
        """Return the mean of each window, over what is in the image."""
        return layers.AveragePooling2D(
            size, strides, padding, self.data_format, dtype=self.dtype, name=self.name("apool")
        )(x)

    def spatial_mean(self, x: Tensor) -> Tensor:
        """Return the mean of each channel, of shape (batch, channels)."""
        return layers.GlobalAveragePooling2D(
            self.data_format, dtype=self.dtype, name=self.name("spatial_mean")
        )(x)

    def flatten(self, x: Tensor) -> Tensor:
        """Return one row per image, in the order of channels last, so that weights mean the same.

        The original flattens in the order of its format, and so its weights fit one format alone.
        """
        return layers.Flatten(self.data_format, dtype=self.dtype)(x)

    def dense(
        self,
        x: Tensor,
        units: int,
        *,
        bias: float = 0.0,
        activation: str | None = "relu",
        stddev: float | None = None,
        initializer: Any = None,
    ) -> Tensor:
        """Multiply by a matrix, add a bias, and activate.

        The weights' distribution is a truncated normal one. Its standard deviation is, if not
        given, the root of 2 / inputs before a rectifier and of 1 / inputs otherwise.
        """
        gain = 2.0 if activation == "relu" else 1.0
        stddev = stddev or math.sqrt(gain / x.shape[-1])
        return layers.Dense(
            units,
            activation=activation,
            kernel_initializer=initializer or keras.initializers.TruncatedNormal(stddev=stddev),
            bias_initializer=keras.initializers.Constant(bias),
            dtype=self.dtype,
            name=self.name("affine"),
        )(x)

    def dropout(self, x: Tensor, rate: float = 0.5) -> Tensor:
        """Set a share of the values to zero while training, and enlarge the others."""
        return layers.Dropout(rate, dtype=self.dtype, name=self.name("dropout"))(x)

    def concatenate(self, tensors: Iterable[Tensor]) -> Tensor:
        """Put the channels of tensors behind each other."""
        return layers.Concatenate(self.axis, dtype=self.dtype)(list(tensors))

    def add(self, *tensors: Tensor) -> Tensor:
        """Return the sum of tensors."""
        return layers.Add(dtype=self.dtype)(list(tensors))
