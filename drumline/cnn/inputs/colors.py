"""Random colors of training images, as tf_cnn_benchmarks distorts them.

Brightness, saturation, hue and contrast do not commute: images at even and odd positions of a batch
have them in two orders.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from drumline import random

BRIGHTNESS = 32 / 255
CONTRAST = (0.5, 1.5)
SATURATION = (0.5, 1.5)
HUE = 0.2
"""The most by which a hue is turned: a part of the way around, or times pi in YIQ."""

_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
"""From red, green and blue to NTSC's luma and chroma, as TensorFlow's ``adjust_hsv_in_yiq``."""


def distort_color(image: Any, position: Any, yiq: bool, seed: int | None = None) -> Any:
    """An image with random colors, in a function of a dataset.

    Args:
        image: float32 (height, width, 3), from 0 to 1.
        position: of the image in its batch, an integer.
        yiq: whether saturation and hue are changed in YIQ, and not in HSV.
        seed: in place of the operation's.

    Returns:
        float32, from 0 to 1.
    """
    brightness = random.uniform((), -BRIGHTNESS, BRIGHTNESS, seed=seed)
    saturation = random.uniform((), *SATURATION, seed=seed)
    hue = random.uniform((), -HUE, HUE, seed=seed)
    contrast = random.uniform((), *CONTRAST, seed=seed)
    return with_colors(image, position % 2 == 0, yiq, brightness, saturation, hue, contrast)


def with_colors(
    image: Any,
    contrast_last: Any,
    yiq: bool,
    brightness: Any,
    saturation: Any,
    hue: Any,
    contrast: Any,
) -> Any:
    """The image with these changes, clipped to [0, 1].

    Args:
        image: float32 (height, width, 3).
        contrast_last: a bool: whether contrast is changed after saturation and hue; else before.
        yiq: as of `distort_color`.
        brightness: what is added.
        saturation: a factor.
        hue: a part of the way around, or times pi in YIQ.
        contrast: a factor of the distances from each channel's mean.

    Returns:
        float32 (height, width, 3).
    """
    image = jnp.asarray(image)
    # One row for each channel: of rows XLA makes vectors, of pixels of three values it does not.
    rows = image.reshape(-1, 3).T + brightness
    if yiq:  # A linear map of pixels, which commutes with contrast.
        rows = _with_contrast(turned_in_yiq(rows, saturation, hue * math.pi), contrast)
    else:
        rows = _with_contrast(rows, jnp.where(contrast_last, 1, contrast))
        rows = turned_in_hsv(rows, saturation, hue)
        rows = _with_contrast(rows, jnp.where(contrast_last, contrast, 1))
    return jnp.clip(rows, 0.0, 1.0).T.reshape(image.shape)


def _with_contrast(rows: Any, factor: Any) -> Any:
    means = rows.mean(-1, keepdims=True)
    return (rows - means) * factor + means


def turned_in_hsv(rows: Any, saturation: Any, hue: Any) -> Any:
    """What ``tf.image``'s ``adjust_saturation`` and then ``adjust_hue`` give, in one conversion.

    Args:
        rows: float32 (3, n): reds, greens and blues.
        saturation: a factor; the result is clipped to [0, 1].
        hue: in [-1, 1], of the way around all colors.
    """
    red, green, blue = rows
    high = jnp.maximum(jnp.maximum(red, green), blue)
    spread = high - jnp.minimum(jnp.minimum(red, green), blue)
    of_red, of_green = red == high, green == high
    apart = jnp.where(of_red, green - blue, jnp.where(of_green, blue - red, red - green))
    third = jnp.where(of_red, 0.0, jnp.where(of_green, 2.0, 4.0))
    around = (third + apart / jnp.where(spread > 0, spread, 1)) / 6 + hue
    six = (around - jnp.floor(around)) * 6
    more = jnp.clip(spread / jnp.where(high > 0, high, 1) * saturation, 0, 1)
    more = jnp.where(high > 0, more, 0)
    parts = (jnp.abs(six - 3) - 1, 2 - jnp.abs(six - 2), 2 - jnp.abs(six - 4))
    return jnp.stack([((jnp.clip(part, 0, 1) - 1) * more + 1) * high for part in parts])


def turned_in_yiq(rows: Any, saturation: Any, angle: Any) -> Any:
    """What ``tf.contrib.image.adjust_hsv_in_yiq`` gave: a linear map of each pixel.

    Args:
        rows: float32 (3, n): reds, greens and blues.
        saturation: a factor of both chroma.
        angle: by which their plane is turned, in radians.
    """
    along, across = saturation * jnp.cos(angle), saturation * jnp.sin(angle)
    chroma = jnp.stack([jnp.stack([along, -across]), jnp.stack([across, along])])
    forth, back = jnp.asarray(_YIQ, jnp.float32), jnp.asarray(np.linalg.inv(_YIQ), jnp.float32)
    # The luma stays: written out, so that the products are of few numbers.
    matrix = jnp.outer(back[:, 0], forth[0]) + back[:, 1:] @ chroma @ forth[1:]
    return sum(matrix[:, channel, None] * rows[channel] for channel in range(3))
