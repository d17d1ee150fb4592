"""Types of values, and colors, as ``tf.image``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.image.pointwise import pointwise

_LUMA = np.array([0.2989, 0.587, 0.114], np.float32)


@pointwise
def convert_image_dtype(
    image: Any, dtype: Any, saturate: bool = False, name: str | None = None
) -> Any:
    """An image of another type, its values scaled, as ``tf.image.convert_image_dtype``.

    Integers reach to their type's largest value, floats to 1.

    Args:
        image: numbers of any shape.
        dtype: the type of the result.
        saturate: whether floats beyond the type's range become its ends; else they must lie in it.
    """
    return _converted(image, np.dtype(dtype), saturate)


def _converted(image: Any, to: np.dtype, saturate: bool = False) -> Any:
    have = np.dtype(image.dtype)
    if have == to:
        return image
    if have.kind in "iu" and to.kind in "iu":
        mine, other = np.iinfo(have).max, np.iinfo(to).max
        if mine > other:
            return (image // ((mine + 1) // (other + 1))).astype(to)
        return image.astype(to) * np.array((other + 1) // (mine + 1), to)
    if have.kind in "iu":
        wide = np.promote_types(to, np.float32)  # Half a precision would overflow on the way.
        return (image.astype(wide) * np.array(1 / np.iinfo(have).max, wide)).astype(to)
    if to.kind not in "iu":
        return image.astype(to)
    scaled = image * np.array(np.iinfo(to).max + 0.5, have)
    if saturate:
        return _saturated(scaled, to)
    return scaled.astype(to)


def _saturated(values: Any, to: np.dtype) -> Any:
    xp: Any = jnp if isinstance(values, jax.Array) else np
    low, high = np.iinfo(to).min, np.iinfo(to).max
    ends = np.array([low, high]).astype(values.dtype)
    inside = xp.clip(values, *ends).astype(to)
    return xp.where(values >= ends[1], np.array(high, to), inside)


def as_floats(image: Any) -> tuple[Any, np.dtype]:
    """The image in floats, and the type that it had."""
    dtype = np.dtype(image.dtype)
    return (image if dtype.kind == "f" else _converted(image, np.dtype(np.float32))), dtype


def as_before(image: Any, dtype: np.dtype) -> Any:
    """Floats in the type that an image had, saturated."""
    return image if dtype.kind == "f" else _converted(image, dtype, saturate=True)


@pointwise
def per_image_standardization(image: Any) -> Any:
    """The image with mean 0 and variance 1, as ``tf.image.per_image_standardization``.

    Args:
        image: (..., height, width, channels).

    Returns:
        float32. The deviation that divides is at least 1 / sqrt(the number of values).
    """
    xp: Any = jnp if isinstance(image, jax.Array) else np
    values = image.astype(np.float32)
    axes = tuple(range(values.ndim - 3, values.ndim))
    count = np.prod(values.shape[-3:], dtype=np.float64)
    mean = xp.mean(values, axes, keepdims=True)
    deviation = xp.sqrt(xp.mean(xp.square(values - mean), axes, keepdims=True))
    return (values - mean) / xp.maximum(deviation, np.float32(1 / np.sqrt(count)))


@pointwise
def rgb_to_grayscale(images: Any, name: str | None = None) -> Any:
    """Gray values (..., 1) of colors (..., 3), as ``tf.image.rgb_to_grayscale``."""
    _require_colors("rgb_to_grayscale", images)
    values, dtype = as_floats(images)
    gray = (values * _LUMA.astype(values.dtype)).sum(-1, keepdims=True)
    return _converted(gray, dtype)


@pointwise
def grayscale_to_rgb(images: Any, name: str | None = None) -> Any:
    """Colors (..., 3) of gray values (..., 1), as ``tf.image.grayscale_to_rgb``."""
    if images.shape[-1] != 1:
        raise ValueError(f"grayscale_to_rgb: the last dimension must be 1, got {images.shape}")
    xp: Any = jnp if isinstance(images, jax.Array) else np
    return xp.repeat(images, 3, -1)


@pointwise
def rgb_to_hsv(images: Any, name: str | None = None) -> Any:
    """Hue, saturation, value of colors (..., 3), floats in [0, 1], as ``tf.image.rgb_to_hsv``."""
    _require_colors("rgb_to_hsv", images)
    if np.dtype(images.dtype).kind != "f":
        raise TypeError(f"rgb_to_hsv: colors must be floats in [0, 1], got {images.dtype}")
    return to_hsv(images)


@pointwise
def hsv_to_rgb(images: Any, name: str | None = None) -> Any:
    """Colors of hue, saturation and value (..., 3), as ``tf.image.hsv_to_rgb``."""
    _require_colors("hsv_to_rgb", images)
    return to_rgb(images)


def to_hsv(images: Any) -> Any:
    """As `rgb_to_hsv`, unchecked."""
    xp: Any = jnp if isinstance(images, jax.Array) else np
    red, green, blue = (images[..., channel] for channel in range(3))
    high, low = images.max(-1), images.min(-1)
    spread = high - low
    some = xp.where(spread > 0, spread, 1)
    saturation = xp.where(high > 0, spread / xp.where(high > 0, high, 1), 0)
    sixth = np.array(1 / 6, images.dtype)
    hue = xp.where(
        red == high,
        (green - blue) / some * sixth,
        xp.where(
            green == high,
            (blue - red) / some * sixth + 2 * sixth,
            (red - green) / some * sixth + 4 * sixth,
        ),
    )
    hue = xp.where(spread > 0, hue, 0)
    hue = xp.where(hue < 0, hue + 1, hue)
    return xp.stack([hue, saturation, high], -1).astype(images.dtype)


def to_rgb(images: Any) -> Any:
    """As `hsv_to_rgb`, unchecked."""
    xp: Any = jnp if isinstance(images, jax.Array) else np
    hue, saturation, value = (images[..., channel] for channel in range(3))
    six = hue * 6
    parts = (abs(six - 3) - 1, 2 - abs(six - 2), 2 - abs(six - 4))
    colors = [((xp.clip(part, 0, 1) - 1) * saturation + 1) * value for part in parts]
    return xp.stack(colors, -1).astype(images.dtype)


def _require_colors(called: str, images: Any) -> None:
    if images.ndim < 1 or images.shape[-1] != 3:
        raise ValueError(f"{called}: the last dimension must be 3, got shape {images.shape}")
