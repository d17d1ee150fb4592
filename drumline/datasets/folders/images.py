"""Folders of images, each cut to a ratio and resized as ``keras.utils`` does it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import keras
import numpy as np

from drumline import image, io
from drumline.data.elements.spec import LEAF_STRUCTURE, ElementSpec, TensorSpec
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.datasets.folders.labelled_files import Request


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

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Views of the images."""
        return OperationResult(([self._cropped(np.asarray(image)) for image in columns[0]],))

    def _cropped(self, image: np.ndarray) -> np.ndarray:
        height, width = image.shape[:2]
        rows = max(min(height, int(float(width * self.height) / self.width)), 1)
        columns = max(min(width, int(float(height * self.width) / self.height)), 1)
        top, left = int(float(height - rows) / 2), int(float(width - columns) / 2)
        return image[top : top + rows, left : left + columns]


def crop_to_aspect(image: Any, height: int, width: int) -> Any:
    """The largest part in the middle of an image with the ratio of ``height`` to ``width``."""
    return apply(CropToAspect(height, width), image)


FORMATS = (".bmp", ".gif", ".jpeg", ".jpg", ".png")
_CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}


def image_dataset_from_directory(
    directory: str | bytes | os.PathLike[str],
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    color_mode: str = "rgb",
    batch_size: int | None = 32,
    image_size: int | Sequence[int] = (256, 256),
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    interpolation: str = "bilinear",
    follow_links: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    data_format: str | None = None,
    verbose: bool = True,
) -> Any:
    """Batches of the images in a folder, as ``keras.utils.image_dataset_from_directory``.

    Elements are (images, labels), or images without labels: float32 (n, height, width, channels),
    from 0 to 255 (uint8 for ``interpolation="nearest"``), and labels (n,), (n, classes) or (n, 1)
    by ``label_mode``. The attributes ``class_names`` and ``file_paths`` tell the order of classes
    and files. Files are JPEG, PNG, GIF (the first frame) or BMP.

    Args:
        directory: the folder.
        labels: ``"inferred"``: a folder in it is a class; a list of integers, one for each file in
            alphanumeric order; or ``None``.
        label_mode: ``"int"``: int32; ``"categorical"``: float32, 1 at the class; ``"binary"``:
            float32, of two classes; ``None``: no labels.
        class_names: the folders to read, in the order of their labels; sorted unless given.
        color_mode: ``"grayscale"``, ``"rgb"`` or ``"rgba"``.
        batch_size: images in a batch; ``None`` for single images.
        image_size: (height, width) of the images, or one number for both.
        shuffle: whether the files come in a random order, a new one each epoch.
        seed: of that order.
        validation_split: the part of the files that is for validation.
        subset: ``"training"``, ``"validation"``, or ``"both"`` for a pair of datasets.
        interpolation: a method of ``dl.image.resize``.
        follow_links: whether to look into folders that links lead to.
        crop_to_aspect_ratio: cuts images to the ratio of ``image_size`` before they are resized.
        pad_to_aspect_ratio: puts zeros around images that have another ratio.
        data_format: ``"channels_last"`` or ``"channels_first"``; Keras's own unless given.
        verbose: whether to print how many files were found.

    Raises:
        ValueError: an argument is out of range, or there are no files.
        FileNotFoundError: there is no such folder.
    """
    channels = channels_of(color_mode)
    if crop_to_aspect_ratio and pad_to_aspect_ratio:
        raise ValueError("crop_to_aspect_ratio and pad_to_aspect_ratio cannot both be true")
    layout = keras.config.image_data_format() if data_format is None else data_format
    if layout not in ("channels_last", "channels_first"):
        raise ValueError(
            f"data_format must be 'channels_last' or 'channels_first', got {data_format!r}"
        )
    request = Request(
        os.fsdecode(directory),
        labels,
        label_mode,
        class_names,
        shuffle,
        seed,
        validation_split,
        subset,
        follow_links,
        verbose,
        FORMATS,
    )
    resized = _resizing(
        image_size, interpolation.lower(), crop_to_aspect_ratio, pad_to_aspect_ratio
    )

    def loaded(path: Any) -> Any:
        contents = io.read_file(path)
        pixels = image.decode_image(contents, channels, expand_animations=False)
        ready = resized(pixels)
        return ready if layout == "channels_last" else jnp.transpose(ready, (2, 0, 1))

    return request.datasets(loaded, batch_size)


def channels_of(color_mode: str) -> int:
    """How many channels images of a color mode have.

    Raises:
        ValueError: there is no such mode.
    """
    if color_mode not in _CHANNELS:
        raise ValueError(f"color_mode must be one of {tuple(_CHANNELS)}, got {color_mode!r}")
    return _CHANNELS[color_mode]


def _resizing(size: Any, method: str, crop: bool, pad: bool) -> Callable[[Any], Any]:
    height, width = (size, size) if isinstance(size, int) else size
    if pad:
        return lambda pixels: image.resize_with_pad(pixels, height, width, method)
    if crop:
        return lambda pixels: image.resize(
            crop_to_aspect(pixels, height, width), (height, width), method
        )
    return lambda pixels: image.resize(pixels, (height, width), method)
