"""Decoding PNG, GIF, BMP and any of these, and encoding JPEG and PNG, as ``tf.io``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import (
    decode_bmps,
    decode_gifs,
    decode_jpegs,
    decode_pngs,
    encode_jpegs,
    encode_pngs,
)
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.image import columns as col
from drumline.image.columns import Limits, get_limits


@dataclasses.dataclass(frozen=True)
class DecodeFile(NativeOperation):
    """Contents of files of one kind, ``"png"``, ``"bmp"`` or ``"gif"``, to images."""

    kind: str
    channels: int
    dtype: np.dtype
    limits: Limits

    @property
    def name(self) -> str:
        """As users know it."""
        return f"image.decode_{self.kind}"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Images of any size; for GIF with a dimension of frames before."""
        col.require_bytes(arguments[0], self.name)
        if self.kind == "gif":
            return col.one((None, None, None, 3), np.uint8)
        return col.one((None, None, self.channels or None), self.dtype)

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Decodes files on all cores."""
        contents, sizes = col.contents_of(columns[0]), self.limits.sizes
        if self.kind == "png":
            wide = self.dtype == np.uint16
            images, told = decode_pngs(contents, self.channels, wide, sizes)
        elif self.kind == "bmp":
            images, told = decode_bmps(contents, self.channels, sizes)
        else:
            images, told = decode_gifs(contents, False, sizes)
        return col.rows(images, told, self.name)


@dataclasses.dataclass(frozen=True)
class DecodeImage(NativeOperation):
    """Contents of files of any kind, known by their first bytes, to images."""

    channels: int
    dtype: np.dtype
    expand_animations: bool
    limits: Limits

    @property
    def name(self) -> str:
        """As users know it."""
        return "image.decode_image"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Images of any size: three dimensions."""
        col.require_bytes(arguments[0], self.name)
        return col.one((None, None, self.channels or None), self.dtype)

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Decodes runs of files of one kind on all cores."""
        images: list[np.ndarray] = []
        contents = col.contents_of(columns[0])
        while len(images) < n:
            kind = kind_of(contents[len(images)])
            end = len(images) + 1
            while end < n and kind_of(contents[end]) == kind:
                end += 1
            made, told = self._decode(kind, contents[len(images) : end])
            images += [_converted(image, self.dtype) for image in made]
            if told is not None:
                return col.rows(images, told, self.name)
        return OperationResult((images,))

    def _decode(self, kind: str, contents: list[bytes]) -> tuple[list[np.ndarray], col.Told]:
        sizes = self.limits.sizes
        if kind == "png":
            return decode_pngs(contents, self.channels, self.dtype == np.uint16, sizes)
        if kind == "bmp":
            return decode_bmps(contents, self.channels, sizes)
        if kind == "gif":
            if self.channels not in (0, 3):
                return [], ("request", f"channels is {self.channels}; a GIF has 3")
            if self.expand_animations:
                return decode_gifs(contents, False, sizes)
            return decode_gifs(contents, True, sizes)
        if kind == "jpeg":
            if self.channels == 4:
                return [], ("request", "channels is 4; a JPEG has 1 or 3")
            return decode_jpegs(contents, None, self.channels, 1, True, False, 1.0, sizes)
        return [], ("unsupported", f"no JPEG, PNG, GIF or BMP; it begins with {contents[0][:4]!r}")


def kind_of(contents: bytes) -> str:
    """``"jpeg"``, ``"png"``, ``"gif"``, ``"bmp"``, or ``""`` for others."""
    starts = {b"\xff\xd8\xff": "jpeg", b"\x89PNG": "png", b"GIF8": "gif", b"BM": "bmp"}
    return next((kind for start, kind in starts.items() if contents.startswith(start)), "")


def decode_png(
    contents: Any, channels: int = 0, dtype: Any = np.uint8, name: str | None = None
) -> Any:
    """The pixels of a PNG file, as ``tf.io.decode_png``: (height, width, channels).

    Args:
        contents: bytes.
        channels: 1 for gray, 3 for colors, 4 for colors and alpha, 0 for those of the file.
        dtype: uint8 or uint16.

    Raises:
        ValueError: the bytes are no such file or the image is too large (`Limits`); or an argument
            is none of these.
    """
    kind = np.dtype(dtype)
    if kind not in (np.uint8, np.uint16):
        raise ValueError(f"decode_png: dtype must be uint8 or uint16, got {kind}")
    _require_channels("decode_png", channels, (0, 1, 3, 4))
    return apply(DecodeFile("png", int(channels), kind, get_limits()), contents)


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Any:
    """The pixels of a BMP file of 8, 24 or 32 bits, as ``tf.io.decode_bmp``.

    Args:
        contents: bytes.
        channels: 1, 3 or 4, which must be what the file has; or 0.

    Returns:
        uint8 (height, width, channels).

    Raises:
        ValueError: as `decode_png`.
    """
    _require_channels("decode_bmp", channels, (0, 1, 3, 4))
    return apply(DecodeFile("bmp", int(channels), np.dtype(np.uint8), get_limits()), contents)


def decode_gif(contents: Any, name: str | None = None) -> Any:
    """The frames of a GIF file, as ``tf.io.decode_gif``: uint8 (frames, height, width, 3).

    Raises:
        ValueError: the bytes are no such file or the image is too large (`Limits`).
    """
    return apply(DecodeFile("gif", 3, np.dtype(np.uint8), get_limits()), contents)


def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = np.uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Any:
    """The pixels of a JPEG, PNG, GIF or BMP file, as ``tf.io.decode_image``.

    Args:
        contents: bytes.
        channels: 1, 3 or 4: those that the kind of file can have; ``None`` or 0: what the file has.
        dtype: uint8, uint16 or a float type, for which values are scaled to [0, 1].
        expand_animations: whether a GIF has a dimension of frames before the others; without it
            the result is the first frame. In a function that is traced it must be false.

    Raises:
        ValueError: the bytes are no such file or the image is too large (`Limits`); or an argument
            is none of these.
    """
    kind = np.dtype(dtype)
    if kind not in (np.uint8, np.uint16, np.float16, np.float32, np.float64):
        raise ValueError(f"decode_image: dtype must be uint8, uint16 or a float, got {kind}")
    wanted = channels or 0
    _require_channels("decode_image", wanted, (0, 1, 3, 4))
    expand = bool(expand_animations)
    if expand and not isinstance(contents, bytes | np.ndarray | np.generic):
        raise ValueError(
            "decode_image: in a function that is traced the number of dimensions must be known; "
            "pass expand_animations=False, or decode_gif"
        )
    return apply(DecodeImage(int(wanted), kind, expand, get_limits()), contents)


def _converted(image: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if image.dtype == dtype:
        return image
    if dtype.kind == "f":
        return (image * np.float32(1 / np.iinfo(image.dtype).max)).astype(dtype)
    return image.astype(dtype) * np.array(257, dtype)


def _require_channels(name: str, channels: int, known: tuple[int, ...]) -> None:
    if channels not in known:
        raise ValueError(f"{name}: channels must be one of {known}, got {channels!r}")


_FORMATS = {"": (1, 3), "grayscale": (1,), "rgb": (3,)}


@dataclasses.dataclass(frozen=True)
class EncodeJpeg(NativeOperation):
    """Images, and their qualities if there is a second argument, to contents of files."""

    format: str = ""
    quality: int = 95
    progressive: bool = False
    optimize_size: bool = False
    chroma_downsampling: bool = True
    density: tuple[bool, int, int] = (True, 300, 300)
    xmp_metadata: bytes = b""

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

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
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

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
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
