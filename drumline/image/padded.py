"""Images resized without distortion, with zeros around."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.native.apply import apply
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.image import columns as col
from drumline.image.resizing import resize

_NAME = "image.resize_with_pad"


@dataclasses.dataclass(frozen=True)
class ResizeWithPad(NativeOperation):
    """Images, or arrays of images, to ones of a size."""

    row_by_row: ClassVar[bool] = True

    height: int
    width: int
    method: str
    antialias: bool

    @property
    def name(self) -> str:
        """As users know it."""
        return _NAME

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Images of one size."""
        (images,) = arguments
        if len(images.shape) != 4:
            col.image_spec(images, self.name)
        dtype = images.dtype if self.method == "nearest" else np.float32
        return col.one((*images.shape[:-3], self.height, self.width, images.shape[-1]), dtype)

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        """Resizes image by image."""
        rows = [self._padded(np.asarray(row)) for row in columns[0]]
        same = len({row.shape for row in rows}) == 1
        return Rows((np.stack(rows) if same else rows,))

    def _padded(self, image: np.ndarray) -> np.ndarray:
        height, width = image.shape[-3:-1]
        ratio = max(width / self.width, height / self.height)
        rows, columns = int(np.floor(height / ratio)), int(np.floor(width / ratio))
        top = int(np.floor((self.height - height / ratio) / 2))
        left = int(np.floor((self.width - width / ratio) / 2))
        size = (max(rows, 1), max(columns, 1))
        part = resize(image, size, self.method, antialias=self.antialias)
        shape = (*image.shape[:-3], self.height, self.width, image.shape[-1])
        whole = np.zeros(shape, part.dtype)
        whole[..., top : top + size[0], left : left + size[1], :] = part
        return whole


def resize_with_pad(
    image: Any,
    target_height: int,
    target_width: int,
    method: str = "bilinear",
    antialias: bool = False,
) -> Any:
    """The image made to fit a size, in the middle of zeros, as ``tf.image.resize_with_pad``.

    Args:
        image: (height, width, channels) or (n, height, width, channels).
        target_height: rows of the result.
        target_width: columns of the result.
        method: as of `resize`.
        antialias: as of `resize`.

    Returns:
        float32, for ``"nearest"`` of the image's type.

    Raises:
        ValueError: an argument is none of these.
    """
    size = operator.index(target_height), operator.index(target_width)
    if min(size) < 1:
        raise ValueError(f"resize_with_pad: the size must be positive, got {size}")
    return apply(ResizeWithPad(*size, method, antialias), image)
