"""The operation that decodes JPEG files and resizes them: rows are made when they are needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from drumline._core import decode_resized
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.native.arithmetic import Arithmetic, described, rounded
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.image import columns as col
from drumline.image.jpeg import DecodeJpeg, require_window
from drumline.image.limits import Limits


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
        """The same, and values computed on while they are at hand."""
        return dataclasses.replace(self, arithmetic=arithmetic)

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Images of one size."""
        col.require_bytes(arguments[0], self.name)
        if self.cropped:
            require_window(arguments[1], self.name)
        if self.mirrored and (arguments[-1].shape != () or arguments[-1].dtype.kind != "b"):
            raise TypeError(f"{self.name}: flip must be a bool, got {arguments[-1]}")
        return col.one((self.height, self.width, self.channels), np.float32)

    def run(self, columns: Sequence[Column], n: int) -> Rows:
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
