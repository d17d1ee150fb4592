"""Decoding JPEG files, as ``tf.io``: the whole image, a window of it, its shape.

`DecodeResized` decodes and resizes at once: rows of the image are decoded when they are needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import decode_jpegs, decode_resized, jpeg_shapes
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.operation import (
    Arithmetic,
    Column,
    NativeOperation,
    OperationResult,
    described,
    rounded,
)
from drumline.image import columns as col
from drumline.image.columns import Limits, get_limits

_METHODS = ("", "INTEGER_FAST", "INTEGER_ACCURATE")


@dataclasses.dataclass(frozen=True)
class DecodeJpeg(NativeOperation):
    """Contents of files, and windows (4,) if ``cropped``, to images."""

    channels: int
    ratio: int
    fancy_upscaling: bool
    try_recover_truncated: bool
    acceptable_fraction: float
    limits: Limits
    cropped: bool = False

    @property
    def name(self) -> str:
        """As users know it."""
        return "image.decode_jpeg"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """An image of any size."""
        col.require_bytes(arguments[0], self.name)
        if self.cropped:
            require_window(arguments[1], self.name)
        return col.one((None, None, self.channels or None), np.uint8)

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Decodes files on all cores."""
        windows = col.whole_numbers(columns[1], 4) if self.cropped else None
        images, told = decode_jpegs(
            col.contents_of(columns[0]),
            windows,
            self.channels,
            self.ratio,
            self.fancy_upscaling,
            self.try_recover_truncated,
            self.acceptable_fraction,
            self.limits.sizes,
        )
        return col.rows(images, told, self.name)


@dataclasses.dataclass(frozen=True)
class ExtractJpegShape(NativeOperation):
    """Contents of files to (height, width, channels)."""

    output_type: np.dtype

    @property
    def name(self) -> str:
        """As users know it."""
        return "image.extract_jpeg_shape"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Three integers."""
        col.require_bytes(arguments[0], self.name)
        return col.one((3,), self.output_type)

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Reads the headers of files."""
        shapes, told = jpeg_shapes(col.contents_of(columns[0]))
        return col.rows(shapes.astype(self.output_type), told, self.name)


def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1.0,
    dct_method: str = "",
    name: str | None = None,
) -> Any:
    """The pixels of a JPEG file, as ``tf.io.decode_jpeg``: uint8 (height, width, channels).

    Args:
        contents: bytes: a baseline, extended or progressive file.
        channels: 1 for gray values, 3 for colors, 0 for those that the file has.
        ratio: 1, 2, 4 or 8: height and width are divided by it, while decoding.
        fancy_upscaling: whether color planes of fewer samples are interpolated.
        try_recover_truncated: whether missing data at the end become gray pixels.
        acceptable_fraction: the part of the rows that must be there; others become black.
        dct_method: one of TensorFlow's; the accurate transform is used for each.

    Raises:
        ValueError: the bytes are no such file or the image is too large (`Limits`); or an argument
            is none of these.
    """
    operation = decoder(
        channels, ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method
    )
    return apply(operation, contents)


def decode_and_crop_jpeg(
    contents: Any,
    crop_window: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1.0,
    dct_method: str = "",
    name: str | None = None,
) -> Any:
    """The pixels of a window of a JPEG file, as ``tf.image.decode_and_crop_jpeg``.

    They are those of `decode_jpeg`; what lies outside is read, but not computed.

    Args:
        crop_window: integers (4,): first row and column, height and width, after the division by
            ``ratio``.
        contents, channels, ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction,
            dct_method: as for `decode_jpeg`.

    Raises:
        ValueError: as `decode_jpeg`; or the window does not lie in the image.
    """
    operation = decoder(
        channels, ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method
    )
    return apply(dataclasses.replace(operation, cropped=True), contents, crop_window)


def extract_jpeg_shape(contents: Any, output_type: Any = np.int32, name: str | None = None) -> Any:
    """(height, width, channels) of a JPEG file from its header, as ``tf.image``'s.

    Args:
        contents: bytes.
        output_type: int32 or int64.

    Raises:
        ValueError: the bytes are no JPEG file.
    """
    kind = np.dtype(output_type)
    if kind not in (np.int32, np.int64):
        raise ValueError(f"extract_jpeg_shape: output_type must be int32 or int64, got {kind}")
    return apply(ExtractJpegShape(kind), contents)


def decoder(
    channels: int,
    ratio: int,
    fancy_upscaling: bool,
    try_recover_truncated: bool,
    acceptable_fraction: float,
    dct_method: str,
) -> DecodeJpeg:
    """The operation, its arguments checked."""
    if channels not in (0, 1, 3):
        raise ValueError(f"decode_jpeg: channels must be 0, 1 or 3, got {channels!r}")
    if ratio not in (1, 2, 4, 8):
        raise ValueError(f"decode_jpeg: ratio must be 1, 2, 4 or 8, got {ratio!r}")
    if dct_method not in _METHODS:
        raise ValueError(f"decode_jpeg: dct_method must be one of {_METHODS}, got {dct_method!r}")
    return DecodeJpeg(
        int(channels),
        int(ratio),
        bool(fancy_upscaling),
        bool(try_recover_truncated),
        float(acceptable_fraction),
        get_limits(),
    )


def require_window(spec: TensorSpec, name: str) -> None:
    """Raises unless an argument is a window.

    Raises:
        TypeError: it is not of integers.
        ValueError: it has not four.
    """
    if spec.dtype.kind not in "iu":
        raise TypeError(f"{name}: the window must be integers, got {spec}")
    if spec.shape != (4,):
        raise ValueError(f"{name}: the window must be (top, left, height, width), got {spec}")


@dataclasses.dataclass(frozen=True)
class DecodeResized(NativeOperation):
    """Contents of files; windows (4,) if ``cropped``; bools if ``mirrored``: to images."""

    height: int
    width: int
    channels: int
    ratio: int
    method: str
    antialias: bool
    cropped: bool
    mirrored: bool
    limits: Limits
    joined: bool = False
    arithmetic: tuple[Arithmetic, ...] = ()

    @property
    def name(self) -> str:
        """As users know it."""
        name = "image.decode_jpeg, image.resize" if self.joined else "image.decode_jpeg_resized"
        return described(name, self.arithmetic)

    def then(self, arithmetic: tuple[Arithmetic, ...]) -> NativeOperation:
        """Return the same operation, with arithmetic on values while they are in the cache."""
        return dataclasses.replace(self, arithmetic=arithmetic)

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Images of one size."""
        col.require_bytes(arguments[0], self.name)
        if self.cropped:
            require_window(arguments[1], self.name)
        if self.mirrored and (arguments[-1].shape != () or arguments[-1].dtype.kind != "b"):
            raise TypeError(f"{self.name}: flip must be a bool, got {arguments[-1]}")
        return col.one((self.height, self.width, self.channels), np.float32)

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Decodes files on all cores."""
        out = col.empty(n, (self.height, self.width, self.channels), np.float32)
        made, told = decode_resized(
            col.contents_of(columns[0]),
            col.whole_numbers(columns[1], 4) if self.cropped else None,
            np.asarray(columns[-1]).tolist() if self.mirrored else None,
            self.channels,
            self.ratio,
            self.method,
            self.antialias,
            rounded(self.arithmetic),
            self.limits.sizes,
            out,
        )
        return col.rows(out[:made], told, "image.decode_jpeg" if self.joined else self.name)


def joined(
    decode: DecodeJpeg, height: int, width: int, method: str, antialias: bool
) -> DecodeResized | None:
    """What decodes and then resizes, with the same results, if there is such an operation."""
    as_default = dataclasses.replace(
        decode, fancy_upscaling=True, try_recover_truncated=False, acceptable_fraction=1.0
    )
    if decode != as_default or decode.channels == 0 or method == "nearest":
        return None
    if decode.cropped and decode.ratio > 1:  # Its windows are of the smaller image.
        return None
    return DecodeResized(
        height,
        width,
        decode.channels,
        decode.ratio,
        method,
        antialias,
        decode.cropped,
        mirrored=False,
        limits=decode.limits,
        joined=True,
    )
