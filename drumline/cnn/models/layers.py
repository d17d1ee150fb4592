"""Layers that Keras lacks: local response normalization, and NASNet's dropped paths."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

PACKAGE = "drumline.cnn"


@keras.saving.register_keras_serializable(PACKAGE)
class LocalResponseNormalization(keras.layers.Layer):
    """Divide each value by a power of the squares in the channels around it.

    ``x / (bias + alpha * total) ** beta``, where the total is that of ``x ** 2`` over the channel
    itself and `depth_radius` channels on either side, as of
    ``tf.nn.local_response_normalization``. In PyTorch's ``LocalResponseNorm`` ``alpha`` is
    divided by the number of channels that are summed.

    Args:
        depth_radius: How many channels count on either side.
        bias: What the sum is added to.
        alpha: What the sum is multiplied with.
        beta: The exponent.
        axis: Where the channels are: 3, or 1 for channels first. (TensorFlow's knows the last
            axis alone, so that the original normalizes over columns where channels are first.)
        **kwargs: Of ``keras.layers.Layer``.

    Raises:
        ValueError: `depth_radius` is negative.

    Example:
        >>> layer = LocalResponseNormalization(depth_radius=4, alpha=0.001 / 9, beta=0.75)
        >>> layer(np.ones((1, 8, 8, 16), "float32")).shape
        (1, 8, 8, 16)

    Source: Krizhevsky et al., ImageNet classification with deep convolutional neural networks,
    2012, section 3.3.
    """

    def __init__(
        self,
        depth_radius: int = 5,
        bias: float = 1.0,
        alpha: float = 1.0,
        beta: float = 0.5,
        axis: int = 3,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if depth_radius < 0:
            raise ValueError(
                f"LocalResponseNormalization(depth_radius={depth_radius}): a number of channels "
                "is not negative"
            )
        self.depth_radius, self.axis = depth_radius, axis
        self.bias, self.alpha, self.beta = bias, alpha, beta

    def call(self, inputs: Any) -> Any:
        """Normalize a tensor of any shape that has the axis; squares are summed in float32."""
        channels = inputs.shape[self.axis]
        edges = [(0, 0)] * len(inputs.shape)
        edges[self.axis] = (self.depth_radius, self.depth_radius)
        squares = ops.pad(ops.square(ops.cast(inputs, "float32")), edges)
        part = [slice(None)] * len(inputs.shape)
        total: Any = 0.0
        for first in range(2 * self.depth_radius + 1):
            part[self.axis] = slice(first, first + channels)
            total = total + squares[tuple(part)]
        divisor = ops.power(self.bias + self.alpha * total, self.beta)
        return inputs / ops.cast(divisor, inputs.dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of the input."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Return what makes an equal layer."""
        own = ("depth_radius", "bias", "alpha", "beta", "axis")
        return {**super().get_config(), **{name: getattr(self, name) for name in own}}


@keras.saving.register_keras_serializable(PACKAGE)
class TrainingProgress(keras.layers.Layer):
    """How much of a training is done, from 0 to 1: a scalar, whatever goes in.

    It counts the batches of training that it has seen in a weight, ``steps``, so that a training
    which is resumed continues there.

    Args:
        total_steps: Batches after which it is 1.
        **kwargs: Of ``keras.layers.Layer``.
    """

    def __init__(self, total_steps: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.total_steps = total_steps

    def build(self, input_shape: Any) -> None:
        """Make the counter."""
        self.steps = self.add_weight(
            shape=(),
            initializer="zeros",
            dtype="float32",
            trainable=False,
            aggregation="only_first_replica",
            name="steps",
        )

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Return the share of the steps before this one, and count this one."""
        done = ops.minimum(ops.convert_to_tensor(self.steps) / self.total_steps, 1.0)
        if training:
            self.steps.assign(self.steps + 1.0)
        return ops.cast(done, self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return a scalar's shape."""
        return ()

    def get_config(self) -> dict[str, Any]:
        """Return what makes an equal layer."""
        return {**super().get_config(), "total_steps": self.total_steps}


@keras.saving.register_keras_serializable(PACKAGE)
class DropPath(keras.layers.Layer):
    """Set all of an example to zero at random while training, more often the longer it lasts.

    The probability to keep an example falls from 1 to `keep_prob` over the training; what is kept
    is divided by it.

    Args:
        keep_prob: The probability at the end of the training.
        **kwargs: Of ``keras.layers.Layer``.

    Source: Zoph et al., https://arxiv.org/abs/1707.07012, appendix A.7 (ScheduledDropPath).
    """

    def __init__(self, keep_prob: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.keep_prob = keep_prob
        self.seed_generator = keras.random.SeedGenerator()

    def call(self, inputs: tuple[Any, Any], training: bool | None = None) -> Any:
        """Drop rows of the first input; the second is what a `TrainingProgress` gives."""
        x, progress = inputs
        if not training:
            return x
        keep = 1.0 - progress * (1.0 - self.keep_prob)
        shape = (ops.shape(x)[0], *(1,) * (len(x.shape) - 1))
        drawn = keras.random.uniform(shape, dtype="float32", seed=self.seed_generator)
        kept = ops.cast(drawn < ops.cast(keep, "float32"), x.dtype)
        return x / keep * kept

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of the first input."""
        return input_shape[0]

    def get_config(self) -> dict[str, Any]:
        """Return what makes an equal layer."""
        return {**super().get_config(), "keep_prob": self.keep_prob}
