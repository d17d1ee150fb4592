"""Brightness, contrast, colors and quality of images, as ``tf.image``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.data import random
from drumline.data.native.apply import apply
from drumline.image.converting import as_before, as_floats, convert_image_dtype, to_hsv, to_rgb
from drumline.image.encoding import EncodeJpeg
from drumline.image.jpeg import decode_jpeg
from drumline.image.pointwise import pointwise


@pointwise
def adjust_brightness(image: Any, delta: Any) -> Any:
    """The image with ``delta`` added, where 1 is white, as ``tf.image.adjust_brightness``.

    Args:
        image: numbers of any shape; integers are scaled to [0, 1] and back, saturated.
        delta: usually in (-1, 1).
    """
    values, dtype = as_floats(image)
    return as_before(values + _like(delta, values), dtype)


@pointwise
def adjust_contrast(images: Any, contrast_factor: Any) -> Any:
    """The image with each channel's distance from its mean multiplied, as ``tf.image``'s.

    Args:
        images: (..., height, width, channels).
        contrast_factor: 1 changes nothing.
    """
    values, dtype = as_floats(images)
    mean = values.mean((-3, -2), keepdims=True)
    return as_before((values - mean) * _like(contrast_factor, values) + mean, dtype)


@pointwise
def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Any:
    """The image (..., 3) with more or less color, as ``tf.image.adjust_saturation``."""
    values, dtype = as_floats(image)
    xp: Any = jnp if isinstance(values, jax.Array) else np
    hsv = to_hsv(values)
    more = xp.clip(hsv[..., 1] * _like(saturation_factor, values), 0, 1)
    return as_before(to_rgb(xp.stack([hsv[..., 0], more, hsv[..., 2]], -1)), dtype)


@pointwise
def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Any:
    """The image (..., 3) with other colors, as ``tf.image.adjust_hue``.

    Args:
        image: as for `adjust_brightness`.
        delta: in [-1, 1], of the way around all colors.
    """
    values, dtype = as_floats(image)
    xp: Any = jnp if isinstance(values, jax.Array) else np
    hsv = to_hsv(values)
    turned = (hsv[..., 0] + _like(delta, values)) % 1
    return as_before(to_rgb(xp.stack([turned, hsv[..., 1], hsv[..., 2]], -1)), dtype)


@pointwise
def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Any:
    """``gain * image ** gamma``, where 1 is white, as ``tf.image.adjust_gamma``.

    Raises:
        ValueError: gamma is negative.
    """
    if not isinstance(gamma, jax.core.Tracer) and gamma < 0:
        raise ValueError(f"adjust_gamma: gamma must not be negative, got {gamma}")
    values, dtype = as_floats(image)
    return as_before(_like(gain, values) * values ** _like(gamma, values), dtype)


def adjust_jpeg_quality(
    image: Any, jpeg_quality: Any, dct_method: str = "", name: str | None = None
) -> Any:
    """The image after it was a JPEG file of this quality, as ``tf.image.adjust_jpeg_quality``.

    Args:
        image: uint8, or floats in [0, 1]: (height, width, 1 or 3).
        jpeg_quality: 0 to 100; it may differ between elements.
        dct_method: as of `decode_jpeg`.
    """
    dtype = image.dtype
    pixels = convert_image_dtype(image, np.uint8, saturate=True)
    operation = EncodeJpeg("", 95, False, False, True, (True, 300, 300), b"")
    contents = apply(operation, pixels, jpeg_quality)
    decoded = decode_jpeg(contents, channels=image.shape[-1] or 0, dct_method=dct_method)
    return convert_image_dtype(decoded, dtype)


def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Any:
    """`adjust_brightness` by a number of [-max_delta, max_delta).

    Raises:
        ValueError: ``max_delta`` is negative.
    """
    if max_delta < 0:
        raise ValueError(f"random_brightness: max_delta must not be negative, got {max_delta}")
    return adjust_brightness(image, _drawn(-max_delta, max_delta, seed))


def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Any:
    """`adjust_contrast` by a number of [lower, upper).

    Raises:
        ValueError: they are no such range from 0 on.
    """
    _require_range("random_contrast", lower, upper)
    return adjust_contrast(image, _drawn(lower, upper, seed))


def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Any:
    """`adjust_saturation` by a number of [lower, upper).

    Raises:
        ValueError: they are no such range from 0 on.
    """
    _require_range("random_saturation", lower, upper)
    return adjust_saturation(image, _drawn(lower, upper, seed))


def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Any:
    """`adjust_hue` by a number of [-max_delta, max_delta).

    Raises:
        ValueError: ``max_delta`` is not in [0, 0.5].
    """
    if not 0 <= max_delta <= 0.5:
        raise ValueError(f"random_hue: max_delta must be in [0, 0.5], got {max_delta}")
    return adjust_hue(image, _drawn(-max_delta, max_delta, seed))


def random_jpeg_quality(
    image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None
) -> Any:
    """`adjust_jpeg_quality` by an integer of [min_jpeg_quality, max_jpeg_quality).

    Raises:
        ValueError: they are no such range in [0, 100].
    """
    if not 0 <= min_jpeg_quality < max_jpeg_quality <= 100:
        raise ValueError(
            "random_jpeg_quality: qualities must rise, from 0 to 100, got "
            f"{min_jpeg_quality} and {max_jpeg_quality}"
        )
    drawn = random.uniform((), min_jpeg_quality, max_jpeg_quality, np.int32, seed)
    return adjust_jpeg_quality(image, drawn)


def _drawn(low: float, high: float, seed: int | None) -> Any:
    return random.uniform((), low, high, seed=seed)


def _require_range(called: str, lower: float, upper: float) -> None:
    if not 0 <= lower < upper:
        raise ValueError(f"{called}: 0 <= lower < upper must hold, got {lower} and {upper}")


def _like(number: Any, values: Any) -> Any:
    """The number in the type of the values, so that it does not change theirs."""
    xp: Any = jnp if isinstance(number, jax.Array) else np
    return xp.asarray(number, values.dtype)
