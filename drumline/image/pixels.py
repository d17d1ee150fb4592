"""Brightness, contrast, colors, types and quality of images, as ``tf.image``.

A function of the pixels of one image is written once, for numpy and for JAX (`Pointwise`).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from drumline import random
from drumline._lazy import jax, jnp
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.functions.native.apply import apply, is_symbol
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.image import columns as col
from drumline.image.files import EncodeJpeg
from drumline.image.jpeg import decode_jpeg

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Pointwise(NativeOperation):
    """Images of varying shapes, and numbers for each, through a function of numpy arrays.

    It costs a few calls of numpy for each image, and is meant for images that were not resized
    yet: those of a fixed shape are compiled.
    """

    function: Callable[..., Any]
    options: tuple[tuple[str, Any], ...]
    numbers: tuple[str, ...]
    row_by_row: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """As users know it."""
        return f"image.{self.function.__name__}"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """What the function makes of an image of three by three pixels; sizes stay."""
        spec = col.image_spec(arguments[0], self.name)
        sample = np.zeros((3, 3, spec.shape[2] or 3), spec.dtype)
        ones = dict.fromkeys(self.numbers, np.float32(1))
        made = np.asarray(self.function(sample, **dict(self.options), **ones))
        channels = made.shape[2] if spec.shape[2] or made.shape != sample.shape else None
        return col.one((*spec.shape[:2], channels), made.dtype)

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """One image after the other."""
        made = []
        for row in range(n):
            given = zip(self.numbers, columns[1:], strict=True)
            numbers = {name: np.asarray(column[row])[()] for name, column in given}
            try:
                image = np.asarray(columns[0][row])
                made.append(np.asarray(self.function(image, **dict(self.options), **numbers)))
            except ValueError as error:
                return OperationResult((made,), error)
        return OperationResult((made,))


def pointwise(function: Function) -> Function:
    """Lets a function of an array be called with arrays, tracers and images of varying shape."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        name, image = next(iter(bound.arguments.items()))
        others = {key: value for key, value in bound.arguments.items() if key != name}
        if is_symbol(image):
            varying = {k: v for k, v in others.items() if isinstance(v, jax.core.Tracer)}
            fixed = tuple((k, v) for k, v in others.items() if k not in varying)
            return apply(Pointwise(function, fixed, tuple(varying)), image, *varying.values())
        return function(image if isinstance(image, jax.Array) else np.asarray(image), **others)

    return called  # type: ignore[return-value]


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
