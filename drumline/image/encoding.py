"""Writing images as JPEG and PNG files, as ``tf.io``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import encode_jpegs, encode_pngs
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec
from drumline.data.native.apply import apply
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.image import columns as col

_FORMATS = {"": (1, 3), "grayscale": (1,), "rgb": (3,)}


@dataclasses.dataclass(frozen=True)
class EncodeJpeg(NativeOperation):
    """Images, and their qualities if there is a second argument, to contents of files."""

    format: str
    quality: int
    progressive: bool
    optimize_size: bool
    chroma_downsampling: bool
    density: tuple[bool, int, int]
    xmp_metadata: bytes

    @property
    def name(self) -> str:
        """As users know it."""
        return "image.encode_jpeg"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Bytes."""
        _require_pixels(arguments[0], (np.uint8,), self.name)
        channels, known = arguments[0].shape[2], _FORMATS[self.format]
        if channels is not None and channels not in known:
            raise ValueError(f"{self.name}: an image must have {known} channels, got {channels}")
        return col.one((), STRING)

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        """Encodes images on all cores."""
        qualities = [self.quality] * n
        if len(columns) == 2:
            qualities = np.clip(np.asarray(columns[1], np.int64), 0, 100).tolist()
        files, told = encode_jpegs(
            col.contiguous(columns[0]),
            [max(quality, 1) for quality in qualities],
            self.progressive,
            self.optimize_size,
            self.chroma_downsampling,
            self.density,
            self.xmp_metadata,
        )
        return col.rows(_strings(files), told, self.name)


@dataclasses.dataclass(frozen=True)
class EncodePng(NativeOperation):
    """Images to contents of files."""

    compression: int

    @property
    def name(self) -> str:
        """As users know it."""
        return "image.encode_png"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Bytes."""
        _require_pixels(arguments[0], (np.uint8, np.uint16), self.name)
        return col.one((), STRING)

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        """Encodes images on all cores."""
        images = col.contiguous(columns[0])
        files, told = encode_pngs(images, images[0].dtype == np.uint16, self.compression)
        return col.rows(_strings(files), told, self.name)


def encode_jpeg(
    image: Any,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: bytes | str = "",
    name: str | None = None,
) -> Any:
    """A JPEG file of an image, as ``tf.io.encode_jpeg``: bytes.

    Args:
        image: uint8 (height, width, 1 or 3).
        format: ``"grayscale"`` or ``"rgb"``: what the image must be.
        quality: 0 to 100.
        progressive: whether all of the image comes in each of several scans.
        optimize_size: whether codes are made for this image; it takes longer.
        chroma_downsampling: whether four pixels share a color.
        density_unit: ``"in"`` or ``"cm"``, with ``x_density`` and ``y_density`` pixels.
        xmp_metadata: is put into the file.

    Raises:
        ValueError: an argument is none of these, or the image has no pixels.
    """
    if format not in _FORMATS:
        raise ValueError(f"encode_jpeg: format must be one of {tuple(_FORMATS)}, got {format!r}")
    if density_unit not in ("in", "cm"):
        raise ValueError(f"encode_jpeg: density_unit must be 'in' or 'cm', got {density_unit!r}")
    if not 0 <= quality <= 100:
        raise ValueError(f"encode_jpeg: quality must be 0 to 100, got {quality!r}")
    metadata = xmp_metadata.encode() if isinstance(xmp_metadata, str) else xmp_metadata
    operation = EncodeJpeg(
        format,
        int(quality),
        bool(progressive),
        bool(optimize_size),
        bool(chroma_downsampling),
        (density_unit == "in", int(x_density), int(y_density)),
        bytes(metadata),
    )
    return apply(operation, image)


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Any:
    """A PNG file of an image, as ``tf.io.encode_png``: bytes.

    Args:
        image: uint8 or uint16 (height, width, 1 to 4).
        compression: from 0, none, to 9, the most; -1 for a good one.

    Raises:
        ValueError: an argument is none of these, or the image has no pixels.
    """
    if not -1 <= compression <= 9:
        raise ValueError(f"encode_png: compression must be -1 to 9, got {compression!r}")
    return apply(EncodePng(int(compression)), image)


def _require_pixels(spec: TensorSpec, dtypes: tuple[Any, ...], name: str) -> None:
    col.image_spec(spec, name)
    if spec.dtype not in [np.dtype(dtype) for dtype in dtypes]:
        names = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        raise TypeError(f"{name}: an image must be {names}, got {spec}")


def _strings(files: list[bytes]) -> np.ndarray:
    column = np.empty(len(files), object)
    column[:] = files
    return column
