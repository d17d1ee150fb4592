"""Mirroring and turning images, as ``tf.image``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.data import random
from drumline.data.native.apply import is_symbol
from drumline.data.native.symbol import ValueNeedsPython
from drumline.image.arranging import MIRRORED, TRANSPOSED, UPSIDE_DOWN, arranged


def flip_left_right(image: Any) -> Any:
    """The image with its columns in reverse order, or each image of a batch.

    Args:
        image: (height, width, channels) or (n, height, width, channels).

    Raises:
        ValueError: it has other dimensions.
    """
    return _turned("flip_left_right", image, MIRRORED)


def flip_up_down(image: Any) -> Any:
    """The image with its rows in reverse order, or each image of a batch.

    Args, raises: as `flip_left_right`.
    """
    return _turned("flip_up_down", image, UPSIDE_DOWN)


def transpose(image: Any, name: str | None = None) -> Any:
    """The image with rows and columns exchanged, or each image of a batch.

    Args, raises: as `flip_left_right`.
    """
    return _turned("transpose", image, TRANSPOSED)


_QUARTERS = (0, TRANSPOSED + UPSIDE_DOWN, UPSIDE_DOWN + MIRRORED, TRANSPOSED + MIRRORED)


def rot90(image: Any, k: Any = 1, name: str | None = None) -> Any:
    """The image turned by ``k`` quarters, counter-clockwise, or each image of a batch.

    Args, raises: as `flip_left_right`. Where an element says ``k``, batches of images that are not
    square are turned in Python: no operation makes batches of images whose shape varies.
    """
    if not isinstance(k, jax.core.Tracer):
        return _turned("rot90", image, _QUARTERS[int(k) % 4])
    height, width = image.shape[-3:-1]
    square = height is not None and height == width
    if is_symbol(image) or (not square and len(image.shape) == 3):
        side = height if square else None
        turn = jnp.array(_QUARTERS, jnp.int32)[k % 4]
        return arranged("rot90", image, turn=turn, size=(side, side))
    if not square:
        raise ValueNeedsPython("rot90 by such a k changes the shape of the image", varying=True)
    turned = [jnp.asarray(_turned("rot90", image, turn)) for turn in _QUARTERS]
    return jax.lax.select_n((k % 4).astype(jnp.int32), *turned)


def random_flip_left_right(image: Any, seed: int | None = None) -> Any:
    """`flip_left_right` of every second image or so, as ``tf.image.random_flip_left_right``."""
    return _by_chance("random_flip_left_right", image, MIRRORED, seed)


def random_flip_up_down(image: Any, seed: int | None = None) -> Any:
    """`flip_up_down` of every second image or so, as ``tf.image.random_flip_up_down``."""
    return _by_chance("random_flip_up_down", image, UPSIDE_DOWN, seed)


def _by_chance(called: str, image: Any, turn: int, seed: int | None) -> Any:
    if len(np.shape(image) if not hasattr(image, "shape") else image.shape) == 4:
        flips = random.bernoulli(0.5, (image.shape[0], 1, 1, 1), seed)
        return jnp.where(flips, _turned(called, image, turn), image)
    flip = random.bernoulli(0.5, seed=seed)
    if is_symbol(image) or not isinstance(flip, jax.core.Tracer):
        number = flip.astype(jnp.int32) * turn
        return arranged(called, image, turn=number, size=tuple(image.shape[:2]))
    return jnp.where(flip, _turned(called, image, turn), image)


def _turned(called: str, image: Any, turn: int) -> Any:
    if is_symbol(image):
        height, width = image.shape[:2]
        size = (width, height) if turn & TRANSPOSED else (height, width)
        return arranged(called, image, turn=turn, size=size)
    array = image if isinstance(image, jax.Array) else np.asarray(image)
    if array.ndim not in (3, 4):
        raise ValueError(f"{called}: an image has 3 dimensions, a batch 4; got {array.shape}")
    if turn & TRANSPOSED:
        array = array.swapaxes(-3, -2)
    if turn & UPSIDE_DOWN:
        array = array[..., ::-1, :, :]
    return array[..., ::-1, :] if turn & MIRRORED else array
