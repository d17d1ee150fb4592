"""``tf.image``: how alike images are, their gradients, and colors of television."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.compat.io.images import convert_image_dtype
from drumline.compat.ops.arrays import concat, convert_to_tensor, pad, reshape, stack, zeros_like
from drumline.compat.ops.elementwise import cast, log, multiply, power, squared_difference, subtract
from drumline.compat.ops.linalg.matrices import tensordot
from drumline.compat.ops.math.reductions import reduce_mean, reduce_prod
from drumline.compat.ops.nn.convolutions import avg_pool, conv2d
from drumline.compat.ops.nn.functions import relu
from drumline.compat.ops.rearranging import patches_of
from drumline.compat.values.convert import convert, static
from drumline.compat.values.tensor import Tensor

_SCALES = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
_YIQ = [[0.299, 0.59590059, 0.2115], [0.587, -0.27455667, -0.52273617]]
_YIQ += [[0.114, -0.32134392, 0.31119955]]
_YIQ_TO_RGB = [[1, 1, 1], [0.95598634, -0.27201283, -1.10674021]]
_YIQ_TO_RGB += [[0.6208248, -0.64720424, 1.70423049]]
_YUV = [[0.299, -0.14714119, 0.61497538], [0.587, -0.28886916, -0.51496512]]
_YUV += [[0.114, 0.43601035, -0.10001026]]
_YUV_TO_RGB = [[1, 1, 1], [0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0]]


def _colors(images: Any, kernel: list[Any]) -> Any:
    value = convert_to_tensor(images)
    axis = len(value.shape) - 1
    return tensordot(value, np.asarray(kernel, convert(value).dtype), [[axis], [0]])


def rgb_to_yiq(images: Any) -> Any:
    """Images ``(..., 3)`` of red, green and blue as ones of YIQ."""
    return _colors(images, _YIQ)


def yiq_to_rgb(images: Any) -> Any:
    """Images ``(..., 3)`` of YIQ as ones of red, green and blue."""
    return _colors(images, _YIQ_TO_RGB)


def rgb_to_yuv(images: Any) -> Any:
    """Images ``(..., 3)`` of red, green and blue as ones of YUV."""
    return _colors(images, _YUV)


def yuv_to_rgb(images: Any) -> Any:
    """Images ``(..., 3)`` of YUV as ones of red, green and blue."""
    return _colors(images, _YUV_TO_RGB)


def image_gradients(image: Any) -> tuple[Any, Any]:
    """The differences of neighbors, zero in the last row of the first and column of the second.

    Args:
        image: ``(batch, height, width, channels)``.

    Raises:
        ValueError: it is no batch of images.
    """
    value = convert_to_tensor(image)
    if len(value.shape) != 4:
        raise ValueError(
            "`image_gradients` expects a 4D tensor [batch_size, h, w, d], not " + str(value.shape)
        )
    down = subtract(value[:, 1:], value[:, :-1])
    across = subtract(value[:, :, 1:], value[:, :, :-1])
    return (
        concat([down, zeros_like(value[:, :1])], 1),
        concat([across, zeros_like(value[:, :, :1])], 2),
    )


def extract_patches(
    images: Any, sizes: Any, strides: Any, rates: Any, padding: str, name: Any = None
) -> Tensor:
    """Blocks of images, as channels.

    Args:
        images: ``(batch, height, width, channels)``.
        sizes: the block's, ``[1, rows, columns, 1]``.
        strides: the steps between blocks, in the same way.
        rates: the steps between a block's elements.
        padding: ``"VALID"`` or ``"SAME"``.
        name: accepted.

    Returns:
        ``(batch, rows, columns, block's elements)``.
    """
    inner = [static(each)[1:-1] for each in (sizes, strides, rates)]
    return patches_of(convert(images), inner[0], inner[1], padding, inner[2])


def _scaled(*images: Any, max_val: Any) -> tuple[list[Any], Any]:
    """Images as floats, and the greatest value in their scale."""
    values = [convert_to_tensor(each) for each in images]
    most = convert_image_dtype(cast(max_val, values[0].dtype), "float32")
    return [convert_image_dtype(each, "float32") for each in values], most


def _check_alike(one: Any, other: Any) -> None:
    a, b = convert(one).shape, convert(other).shape
    if len(a) < 3 or len(b) < 3:
        raise ValueError(f"images have 3 dimensions or more, not {a} and {b}")
    if a[-3:] != b[-3:]:
        raise ValueError(f"images of shapes {a} and {b} cannot be compared")


def psnr(a: Any, b: Any, max_val: Any, name: Any = None) -> Any:
    """The ratio of the greatest value and the images' difference, in decibels.

    Args:
        a: ``(..., height, width, channels)``.
        b: the same.
        max_val: the difference of the greatest and the least value that are possible.
        name: accepted.

    Raises:
        ValueError: the images are of different shapes.
    """
    _check_alike(a, b)
    (one, other), most = _scaled(a, b, max_val=max_val)
    error = reduce_mean(squared_difference(one, other), [-3, -2, -1])
    return subtract(
        multiply(log(most), np.float32(20 / np.log(10))),
        multiply(log(error), np.float32(10 / np.log(10))),
    )


def _window(size: int, sigma: float) -> np.ndarray:
    places = np.arange(size, dtype=np.float32) - (size - 1) / 2
    row = places**2 * (-0.5 / sigma**2)
    found = np.exp((row[None] + row[:, None]) - (row[None] + row[:, None]).max())
    return (found / found.sum()).astype(np.float32)[..., None, None]


def _similar(
    x: Any, y: Any, most: Any, size: int, sigma: float, k1: float, k2: float
) -> tuple[Any, Any]:
    """Maps ``(batch, height, width, channels)`` of similarity, and of contrast and structure."""
    if min(*convert(x).shape[-3:-1], *convert(y).shape[-3:-1]) < size:
        raise ValueError(f"images of {convert(x).shape} are smaller than filter_size={size}")
    window = _window(size, sigma)
    leading, channels = convert(x).shape[:-3], convert(x).shape[-1]

    def averaged(each: Any) -> Any:
        value = convert(each)
        one = value.swapaxes(-1, -2).swapaxes(-2, -3)
        made = convert(
            conv2d(Tensor(one.reshape((-1, *value.shape[-3:-1], 1))), window, 1, "VALID")
        )
        made = made.reshape((*leading, channels, *made.shape[1:3]))
        return Tensor(made.swapaxes(-3, -2).swapaxes(-2, -1))

    c1, c2 = power(multiply(most, np.float32(k1)), 2.0), power(multiply(most, np.float32(k2)), 2.0)
    mean_x, mean_y = averaged(x), averaged(y)
    product, squares = mean_x * mean_y * 2.0, mean_x * mean_x + mean_y * mean_y
    luminance = (product + c1) / (squares + c1)
    mixed, spread = averaged(x * y) * 2.0, averaged(x * x + y * y)
    contrast = (mixed - product + c2) / (spread - squares + c2)
    return luminance * contrast, contrast


def ssim(
    img1: Any,
    img2: Any,
    max_val: Any,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Any:
    """The structural similarity of images, from -1 to 1 (Wang et al. 2004).

    Args:
        img1: ``(..., height, width, channels)``.
        img2: the same.
        max_val: the difference of the greatest and the least value that are possible.
        filter_size: of the window.
        filter_sigma: its spread.
        k1: keeps quotients finite where images are dark.
        k2: the same where they are even.
        return_index_map: whether to give the similarity at each place.

    Raises:
        ValueError: the images are of different shapes, or smaller than the window.
    """
    _check_alike(img1, img2)
    (x, y), most = _scaled(img1, img2, max_val=max_val)
    found, _ = _similar(x, y, most, filter_size, filter_sigma, k1, k2)
    return reduce_mean(found, [-1]) if return_index_map else reduce_mean(found, [-3, -2, -1])


def ssim_multiscale(
    img1: Any,
    img2: Any,
    max_val: Any,
    power_factors: Sequence[float] = _SCALES,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Any:
    """The structural similarity of images at several scales (Wang et al. 2003).

    Args:
        img1: ``(..., height, width, channels)``.
        img2: the same.
        max_val: the difference of the greatest and the least value that are possible.
        power_factors: how much each scale counts, the finest first.
        filter_size: see `ssim`.
        filter_sigma: see `ssim`.
        k1: see `ssim`.
        k2: see `ssim`.

    Raises:
        ValueError: the images are of different shapes, or at one scale smaller than the window.
    """
    _check_alike(img1, img2)
    (x, y), most = _scaled(img1, img2, max_val=max_val)
    parts: list[Any] = []
    for scale in range(len(power_factors)):
        if scale:
            x, y = _halved(x), _halved(y)
        similar, contrast = _similar(x, y, most, filter_size, filter_sigma, k1, k2)
        last = scale == len(power_factors) - 1
        parts.append(relu(reduce_mean(similar if last else contrast, [-3, -2])))
    factors = np.asarray(power_factors, np.float32)
    return reduce_mean(reduce_prod(power(stack(parts, -1), factors), [-1]), [-1])


def _halved(images: Any) -> Any:
    """Images of half the size, odd ones with their edge twice."""
    value = convert(images)
    flat = reshape(images, (-1, *value.shape[-3:]))
    odd = [size % 2 for size in value.shape[-3:-1]]
    if any(odd):
        flat = pad(flat, [[0, 0], [0, odd[0]], [0, odd[1]], [0, 0]], "SYMMETRIC")
    small = avg_pool(flat, 2, 2, "VALID")
    return reshape(small, (*value.shape[:-3], *small.shape[1:]))
