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
from drumline.image.pixels import adjust_brightness, adjust_contrast, to_hsv, to_rgb

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
    image = adjust_brightness(jnp.asarray(image), brightness)
    image = jnp.where(contrast_last, image, adjust_contrast(image, contrast))
    turned = turned_in_yiq if yiq else turned_in_hsv
    image = turned(image, saturation, hue * math.pi if yiq else hue)
    image = jnp.where(contrast_last, adjust_contrast(image, contrast), image)
    return jnp.clip(image, 0.0, 1.0)


def turned_in_hsv(image: Any, saturation: Any, hue: Any) -> Any:
    """What ``tf.image``'s ``adjust_saturation`` and then ``adjust_hue`` give, in one conversion.

    Args:
        image: float32 (height, width, 3).
        saturation: a factor; the result is clipped to [0, 1].
        hue: in [-1, 1], of the way around all colors.
    """
    hsv = to_hsv(image)
    around = (hsv[..., 0] + hue) % 1
    more = jnp.clip(hsv[..., 1] * saturation, 0, 1)
    return to_rgb(jnp.stack([around, more, hsv[..., 2]], -1))


def turned_in_yiq(image: Any, saturation: Any, angle: Any) -> Any:
    """What ``tf.contrib.image.adjust_hsv_in_yiq`` gave: a linear map of each pixel.

    Args:
        image: float32 (height, width, 3).
        saturation: a factor of both chroma.
        angle: by which their plane is turned, in radians.
    """
    along, across = saturation * jnp.cos(angle), saturation * jnp.sin(angle)
    chroma = jnp.stack([jnp.stack([along, -across]), jnp.stack([across, along])])
    forth, back = jnp.asarray(_YIQ, jnp.float32), jnp.asarray(np.linalg.inv(_YIQ), jnp.float32)
    # The luma stays: written out, so that the products are of few numbers.
    matrix = jnp.outer(back[:, 0], forth[0]) + back[:, 1:] @ chroma @ forth[1:]
    return sum(image[..., channel, None] * matrix[:, channel] for channel in range(3))
