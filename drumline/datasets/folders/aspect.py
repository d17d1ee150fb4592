"""Images cut to a ratio, as ``keras.utils`` does it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.elements.structure import LEAF_STRUCTURE
from drumline.data.native.apply import apply
from drumline.data.native.operation import Column, NativeOperation, Rows


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


def crop_to_aspect(image: Any, height: int, width: int) -> Any:
    """The largest part in the middle of an image with the ratio of ``height`` to ``width``."""
    return apply(CropToAspect(height, width), image)
