"""``tf.image`` and ``tf.audio``: drumline's functions of images and sound, of tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from drumline import audio, image
from drumline.compat.ops.random.sampling import of_drawing, of_seed
from drumline.compat.values import derivatives
from drumline.compat.values.boundary import of_tensors
from drumline.compat.values.computing import compute
from drumline.compat.values.convert import convert, is_jax
from drumline.compat.values.tensor import Tensor

adjust_brightness = of_tensors(image.adjust_brightness)
adjust_contrast = of_tensors(image.adjust_contrast)
adjust_gamma = of_tensors(image.adjust_gamma)
adjust_hue = of_tensors(image.adjust_hue)
adjust_jpeg_quality = of_tensors(image.adjust_jpeg_quality)
adjust_saturation = of_tensors(image.adjust_saturation)
central_crop = of_tensors(image.central_crop)
convert_image_dtype = of_tensors(image.convert_image_dtype)
crop_to_bounding_box = of_tensors(image.crop_to_bounding_box)
decode_and_crop_jpeg = of_tensors(image.decode_and_crop_jpeg)
decode_bmp = of_tensors(image.decode_bmp)
decode_gif = of_tensors(image.decode_gif)
decode_image = of_tensors(image.decode_image)
decode_jpeg = of_tensors(image.decode_jpeg)
decode_png = of_tensors(image.decode_png)
encode_jpeg = of_tensors(image.encode_jpeg)
encode_png = of_tensors(image.encode_png)
extract_jpeg_shape = of_tensors(image.extract_jpeg_shape)
flip_left_right = of_tensors(image.flip_left_right)
flip_up_down = of_tensors(image.flip_up_down)
grayscale_to_rgb = of_tensors(image.grayscale_to_rgb)
hsv_to_rgb = of_tensors(image.hsv_to_rgb)
pad_to_bounding_box = of_tensors(image.pad_to_bounding_box)
per_image_standardization = of_tensors(image.per_image_standardization)
random_brightness = of_drawing(image.random_brightness)
random_contrast = of_drawing(image.random_contrast)
random_crop = of_drawing(image.random_crop)
random_flip_left_right = of_drawing(image.random_flip_left_right)
random_flip_up_down = of_drawing(image.random_flip_up_down)
random_hue = of_drawing(image.random_hue)
random_jpeg_quality = of_drawing(image.random_jpeg_quality)
random_saturation = of_drawing(image.random_saturation)
resize = of_tensors(image.resize)
resize_with_crop_or_pad = of_tensors(image.resize_with_crop_or_pad)
resize_with_pad = of_tensors(image.resize_with_pad)
rgb_to_grayscale = of_tensors(image.rgb_to_grayscale)
rgb_to_hsv = of_tensors(image.rgb_to_hsv)
rot90 = of_tensors(image.rot90)
sample_distorted_bounding_box = of_drawing(image.sample_distorted_bounding_box)
stateless_random_brightness = of_seed(image.random_brightness)
stateless_random_contrast = of_seed(image.random_contrast)
stateless_random_crop = of_seed(image.random_crop)
stateless_random_flip_left_right = of_seed(image.random_flip_left_right)
stateless_random_flip_up_down = of_seed(image.random_flip_up_down)
stateless_random_hue = of_seed(image.random_hue)
stateless_random_jpeg_quality = of_seed(image.random_jpeg_quality)
stateless_random_saturation = of_seed(image.random_saturation)
stateless_sample_distorted_bounding_box = of_seed(image.sample_distorted_bounding_box)
transpose = of_tensors(image.transpose)
decode_wav = of_tensors(audio.decode_wav)


def sobel_edges(image: Any) -> Tensor:
    """Sobel's edge maps of images.

    Args:
        image: floats ``(batch, height, width, channels)``.

    Returns:
        ``(batch, height, width, channels, 2)``: how values change downwards, and to the right.
    """
    array = convert(image)
    if array.ndim != 4:
        raise ValueError(f"sobel_edges: images have 4 dimensions, got {array.shape}")

    def edges(xp: Any, x: Any) -> Any:
        x = xp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="reflect")
        rows = x[:, :, :-2] + 2 * x[:, :, 1:-1] + x[:, :, 2:]
        columns = x[:, :-2] + 2 * x[:, 1:-1] + x[:, 2:]
        return xp.stack([rows[:, 2:] - rows[:, :-2], columns[:, :, 2:] - columns[:, :, :-2]], -1)

    return _computed(edges, array)


def total_variation(images: Any, name: str | None = None) -> Tensor:
    """The sum of the absolute differences between neighbouring pixels, for each image.

    Args:
        images: ``(height, width, channels)``, or a batch of them.
        name: has no effect.

    Returns:
        A number, or ``(batch,)``.

    Raises:
        ValueError: they have another rank.
    """
    array = convert(images)
    if array.ndim not in (3, 4):
        raise ValueError("'images' must be either 3 or 4-dimensional.")

    def summed(xp: Any, x: Any) -> Any:
        size = np.abs if xp is np else derivatives.absolute
        down = size(x[..., 1:, :, :] - x[..., :-1, :, :]).sum((-3, -2, -1), dtype=x.dtype)
        right = size(x[..., :, 1:, :] - x[..., :, :-1, :]).sum((-3, -2, -1), dtype=x.dtype)
        return down + right

    return _computed(summed, array)


def _computed(function: Callable[[Any, Any], Any], array: Any) -> Tensor:
    """``function(numpy or JAX's numpy, array)``, 64-bit numbers as they are."""
    if is_jax(array):
        return Tensor(compute(functools.partial(function, jnp), array))
    return Tensor(function(np, array))
