"""Decoding, cropping, resizing and mirroring JPEG files in one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drumline.data.native.apply import apply
from drumline.image.limits import get_limits
from drumline.image.resized import DecodeResized
from drumline.image.resizing import METHODS, size_of


def decode_jpeg_resized(
    contents: Any,
    size: Sequence[int],
    crop_window: Any = None,
    flip: Any = None,
    channels: int = 3,
    ratio: int | str = 1,
    method: str = "bilinear",
    antialias: bool = False,
) -> Any:
    """A JPEG file, or a window of it, at another size: float32 (height, width, channels).

    The same as `decode_and_crop_jpeg`, `resize` and `flip_left_right` one after the other, without
    the images between them. TensorFlow has no such function.

    Args:
        contents: bytes.
        size: two integers: height and width.
        crop_window: integers (4,): first row and column, height and width, in pixels of the whole
            image, whatever the ratio.
        flip: a bool: whether the result is mirrored.
        channels: 1 or 3.
        ratio: 1, 2, 4 or 8: by how much the image is made smaller while it is decoded, which is
            faster and not the same; or ``"auto"``, the largest at which the window is not smaller
            than ``size``.
        method: as for `resize`, but not ``"nearest"``.
        antialias: as for `resize`.

    Raises:
        ValueError: as `decode_and_crop_jpeg` and `resize`.
    """
    height, width = size_of("decode_jpeg_resized", size)
    if method not in METHODS or method == "nearest":
        raise ValueError(f"decode_jpeg_resized: no method {method!r} interpolates")
    if channels not in (1, 3):
        raise ValueError(f"decode_jpeg_resized: channels must be 1 or 3, got {channels!r}")
    if ratio not in (1, 2, 4, 8, "auto"):
        raise ValueError(f"decode_jpeg_resized: ratio must be 1, 2, 4, 8 or 'auto', got {ratio!r}")
    operation = DecodeResized(
        height,
        width,
        int(channels),
        0 if ratio == "auto" else int(ratio),
        method,
        bool(antialias),
        crop_window is not None,
        flip is not None,
        get_limits(),
    )
    optional = [value for value in (crop_window, flip) if value is not None]
    return apply(operation, contents, *optional)
