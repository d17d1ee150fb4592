"""Images resized without distortion, as ``keras.utils`` does it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.native.apply import apply
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.data.spec import ElementSpec, TensorSpec
from drumline.data.structure import LEAF_STRUCTURE
from drumline.image import resize


@dataclasses.dataclass(frozen=True)
class CropToAspect(NativeOperation):
    """Images (height, width, channels) to the largest part in the middle that has a ratio."""

    height: int
    width: int

    @property
    def name(self) -> str:
        """For errors."""
        return "datasets.crop_to_aspect_ratio"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Images of any size."""
        (image,) = arguments
        part = TensorSpec((None, None, image.shape[2]), image.dtype)
        return ElementSpec(LEAF_STRUCTURE, (part,))

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        """Views of the images."""
        return Rows(([self._cropped(np.asarray(image)) for image in columns[0]],))

    def _cropped(self, image: np.ndarray) -> np.ndarray:
        height, width = image.shape[:2]
        rows = max(min(height, int(float(width * self.height) / self.width)), 1)
        columns = max(min(width, int(float(height * self.width) / self.height)), 1)
        top, left = int(float(height - rows) / 2), int(float(width - columns) / 2)
        return image[top : top + rows, left : left + columns]


@dataclasses.dataclass(frozen=True)
class ResizeWithPad(NativeOperation):
    """Images to ones of a size, with zeros around: float32, as ``tf.image.resize_with_pad``."""

    height: int
    width: int
    method: str

    @property
    def name(self) -> str:
        """For errors."""
        return "datasets.pad_to_aspect_ratio"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Images of one size."""
        (image,) = arguments
        dtype = image.dtype if self.method == "nearest" else np.float32
        whole = TensorSpec((self.height, self.width, image.shape[2]), dtype)
        return ElementSpec(LEAF_STRUCTURE, (whole,))

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        """Resizes image by image."""
        images = [self._padded(np.asarray(image)) for image in columns[0]]
        return Rows((np.stack(images),))

    def _padded(self, image: np.ndarray) -> np.ndarray:
        height, width = image.shape[:2]
        ratio = max(width / self.width, height / self.height)
        rows, columns = int(np.floor(height / ratio)), int(np.floor(width / ratio))
        top = int(np.floor((self.height - height / ratio) / 2))
        left = int(np.floor((self.width - width / ratio) / 2))
        part = resize(image, (max(rows, 1), max(columns, 1)), self.method)
        whole = np.zeros((self.height, self.width, image.shape[2]), part.dtype)
        whole[top : top + part.shape[0], left : left + part.shape[1]] = part
        return whole


def crop_to_aspect(image: Any, height: int, width: int) -> Any:
    """The largest part in the middle of an image with the ratio of ``height`` to ``width``."""
    return apply(CropToAspect(height, width), image)


def resize_with_pad(image: Any, height: int, width: int, method: str) -> Any:
    """The image made to fit ``height`` and ``width``, in the middle of zeros."""
    return apply(ResizeWithPad(height, width, method), image)
