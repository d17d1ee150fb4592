"""What ``drumline._core`` offers for images."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

def decode_jpegs(
    contents: Sequence[bytes],
    windows: Sequence[Sequence[int]] | None,
    channels: int,
    ratio: int,
    smooth: bool,
    recover: bool,
    acceptable: float,
    limits: tuple[int, int, int],
) -> tuple[list[np.ndarray], tuple[str, str] | None]:
    """Decode JPEG files on all cores, each whole or a window of it.

    Args:
        windows: (top, left, height, width) for each, after the division by ``ratio``.
        channels: 0 for those of the file, 1 or 3.
        ratio: 1, 2, 4 or 8.
        smooth: whether color planes of fewer samples are interpolated.
        recover: whether data that are missing at the end become gray.
        acceptable: the part of the rows that must be there.
        limits: pixels, bytes, and decoded bytes for each byte.

    Returns:
        uint8 (height, width, channels) for each up to the first that failed; and why that failed:
        ``"damaged"``, ``"unsupported"``, ``"too large"`` or ``"request"``, and a message.
    """

def jpeg_shapes(
    contents: Sequence[bytes],
) -> tuple[npt.NDArray[np.int64], tuple[str, str] | None]:
    """Heights, widths and channels (n, 3) of JPEG files; failures as `decode_jpegs`."""

def resize_spans(
    input: int, output: int, method: str, antialias: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """For each pixel of a resized line the first of those it is made of, and their weights.

    Returns:
        Positions (output,), and weights (output, taps) of the pixels from there on.
    """

def decode_resized(
    contents: Sequence[bytes],
    windows: Sequence[Sequence[int]] | None,
    mirrored: Sequence[bool] | None,
    channels: int,
    ratio: int,
    method: str,
    antialias: bool,
    arithmetic: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    limits: tuple[int, int, int],
    out: npt.NDArray[np.float32],
) -> tuple[int, tuple[str, str] | None]:
    """Decode windows of JPEG files, resize them, mirror some, and write them to rows of `out`.

    Args:
        windows: in pixels of the whole image, whatever the ratio.
        ratio: as `decode_jpegs`; 0 for the largest at which the window is not smaller than `out`.
        arithmetic: what is done with the values then: ``"add"`` or ``"mul"``, and one constant or
            one for each channel; or ``"mul_add"``, which rounds once, and the constants of both.
        out: shape (n, height, width, channels).

    Returns:
        How many rows were written; failures as `decode_jpegs`.
    """

def decode_placed(
    contents: Sequence[bytes],
    windows: Sequence[Sequence[int]] | None,
    resized: Sequence[Sequence[int]] | None,
    mirrored: Sequence[bool] | None,
    methods: Sequence[int],
    whole: bool,
    arithmetic: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    limits: tuple[int, int, int],
    out: npt.NDArray[np.float32],
) -> tuple[int, tuple[str, str] | None]:
    """Decode windows of JPEG files, resize them as TensorFlow 1 did, and write parts of that.

    Args:
        windows: (top, left, height, width) for each; all of the image by default.
        resized: height and width to which each is resized, and the first row and column of the part
            of it that is written to a row of `out`; by default the size of that, and all of it.
        mirrored: whether the window is mirrored before it is resized.
        methods: 0 for nearest, 1 for bilinear, 2 for bicubic, 3 for area.
        whole: whether all of the file is decoded, and the window taken of that.
        arithmetic: as of `decode_resized`.
        out: shape (n, height, width, 3).

    Returns:
        How many rows were written; failures as `decode_jpegs`.
    """

def resize_images(
    images: npt.NDArray[Any] | Sequence[npt.NDArray[Any]],
    method: str,
    antialias: bool,
    arithmetic: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    out: npt.NDArray[np.float32],
) -> tuple[int, tuple[str, str] | None]:
    """Resize images (height, width, channels), or (n, ...), to rows of `out` (n, ...).

    The caller must not write them from another thread meanwhile. Arithmetic and what it returns:
    as `decode_resized`.
    """

def resize_nearest(
    images: npt.NDArray[Any] | Sequence[npt.NDArray[Any]], out: npt.NDArray[np.uint8]
) -> tuple[int, tuple[str, str] | None]:
    """Copy nearest pixels to rows of `out`: (n, height, width, bytes of a pixel)."""

def arrange_images(
    images: npt.NDArray[Any] | Sequence[npt.NDArray[Any]], placements: Sequence[Sequence[int]]
) -> list[npt.NDArray[np.uint8]]:
    """Windows of images, with zeros beyond their edges: (height, width, bytes of a pixel).

    Args:
        placements: for each first row and column, height, width, and what is done then: 1 to
            transpose, 2 to turn upside down, 4 to mirror, added.
    """

def decode_pngs(
    contents: Sequence[bytes], channels: int, wide: bool, limits: tuple[int, int, int]
) -> tuple[list[npt.NDArray[Any]], tuple[str, str] | None]:
    """Decode PNG files to uint8, or uint16 if `wide`; returns as `decode_jpegs`."""

def decode_bmps(
    contents: Sequence[bytes], channels: int, limits: tuple[int, int, int]
) -> tuple[list[npt.NDArray[Any]], tuple[str, str] | None]:
    """Decode BMP files; returns as `decode_jpegs`."""

def decode_gifs(
    contents: Sequence[bytes], first_only: bool, limits: tuple[int, int, int]
) -> tuple[list[npt.NDArray[Any]], tuple[str, str] | None]:
    """Decode GIF files to (frames, height, width, 3), or the first frame; as `decode_jpegs`."""

def encode_jpegs(
    images: npt.NDArray[Any] | Sequence[npt.NDArray[Any]],
    qualities: Sequence[int],
    progressive: bool,
    optimize: bool,
    downsample: bool,
    density: tuple[bool, int, int],
    xmp: bytes,
) -> tuple[list[bytes], tuple[str, str] | None]:
    """Encode images as JPEG files; failures as `decode_jpegs`.

    Args:
        qualities: 1 to 100, for each.
        density: whether it is for each inch, and pixels along and down.
    """

def encode_pngs(
    images: npt.NDArray[Any] | Sequence[npt.NDArray[Any]], wide: bool, level: int
) -> tuple[list[bytes], tuple[str, str] | None]:
    """Encode images as PNG files, of 16 bits if `wide`; failures as `decode_jpegs`."""
