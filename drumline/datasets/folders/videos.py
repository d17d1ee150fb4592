"""Folders of videos whose frames are image files, read as one array."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from drumline import video
from drumline.data import RaggedArray
from drumline.data.elements.spec import LEAF_STRUCTURE, STRING, ElementSpec, TensorSpec
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.flat import flat
from drumline.data.functions.native.operation import (
    Column,
    NativeOperation,
    OperationResult,
    run_native,
)
from drumline.data.plan.node import count_of
from drumline.datasets.folders.images import FORMATS, channels_of
from drumline.datasets.folders.labelled_files import LabelledFiles, Request
from drumline.image.columns import get_limits
from drumline.image.files import DecodeImage
from drumline.image.resizing import METHODS, Resize, size_of
from drumline.io.whole_files import ReadFile


@dataclasses.dataclass(frozen=True)
class ReadFrames(NativeOperation):
    """Names of files (frames,) to images of one size: (frames, height, width, channels).

    Attributes:
        steps: what is done with each name, in order.
    """

    steps: tuple[NativeOperation, ...]

    @property
    def name(self) -> str:
        """For errors."""
        return "datasets.read_frames"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Images, a row of them for a row of names."""
        (names,) = arguments
        image = self._specs()[-1]
        whole = TensorSpec((*names.shape, *image.shape), image.dtype)
        return ElementSpec(LEAF_STRUCTURE, (whole,))

    def _specs(self) -> list[TensorSpec]:
        specs = [TensorSpec((), STRING)]
        for step in self.steps:
            specs += step.results(specs[-1]).leaves
        return specs

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Takes all names of all rows through one step after the other."""
        given, specs = flat(columns[0]), self._specs()
        column: Any = given.values
        count, error = len(column), None
        for i, step in enumerate(self.steps):
            if count:
                pair = [specs[i]], [specs[i + 1]]
                (column,), count, failure = run_native(step, [column[:count]], *pair, count)
                error = failure or error
        if error is None:
            return OperationResult([given.put(column)])
        error.add_note(f"drumline: the file is {given.values[count]!r}")
        rows = given.head(given.row_of(count))
        if not count:
            height, width, channels = (size or 0 for size in specs[-1].shape)
            column = np.empty((0, height, width, channels), specs[-1].dtype)
        return OperationResult([rows.put(column[: len(rows.values)])], error)


def read_frames(names: Any, channels: int, size: tuple[int, int], method: str) -> Any:
    """The images of these files, resized."""
    decode = DecodeImage(channels, np.dtype(np.uint8), False, get_limits())
    return apply(ReadFrames((ReadFile(), decode, Resize(*size, method, False))), names)


_NAME = "video_dataset_from_directory"

SAMPLING = ("uniform", "strided", "random")


def video_dataset_from_directory(
    directory: str | bytes | os.PathLike[str],
    num_frames: int,
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    color_mode: str = "rgb",
    batch_size: int | None = 32,
    image_size: int | Sequence[int] = (256, 256),
    sampling: str = "uniform",
    stride: int = 1,
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    interpolation: str = "bilinear",
    follow_links: bool = False,
    verbose: bool = True,
) -> Any:
    """Batches of videos, each a folder of images: frames sampled in time.

    Arguments are those of ``keras.utils.image_dataset_from_directory``, with folders that hold
    images in place of images. Elements are (videos, labels), or videos without labels: float32
    (n, num_frames, height, width, channels), from 0 to 255 (uint8 for ``interpolation="nearest"``).
    Only the frames that are taken are read. The attributes ``class_names`` and ``file_paths`` tell
    the order of classes and of the videos' folders.

    Args:
        directory: the folder. A video's frames are ordered by name, numbers in names by value.
        num_frames: how many frames to take of each; one that is too short begins again.
        labels: ``"inferred"``: a folder in it is a class; a list of integers, one for each video in
            alphanumeric order; or ``None``.
        label_mode: ``"int"``: int32; ``"categorical"``: float32, 1 at the class; ``"binary"``:
            float32, of two classes; ``None``: no labels.
        class_names: the folders to read, in the order of their labels; sorted unless given.
        color_mode: ``"grayscale"``, ``"rgb"`` or ``"rgba"``.
        batch_size: videos in a batch; ``None`` for single videos.
        image_size: (height, width) of the frames, or one number for both.
        sampling: ``"uniform"``: at equal distances over the whole video, the first and the last
            frame among them; ``"strided"``: from the first on, each ``stride`` after the one
            before; ``"random"``: the same from a random one on, another one each epoch.
        stride: of ``"strided"`` and ``"random"``.
        shuffle: whether the videos come in a random order, a new one each epoch.
        seed: of that order, and of ``"random"``.
        validation_split: the part of the videos that is for validation.
        subset: ``"training"``, ``"validation"``, or ``"both"`` for a pair of datasets.
        interpolation: a method of ``dl.image.resize``.
        follow_links: whether to look into folders that links lead to.
        verbose: whether to print how many videos were found.

    Raises:
        ValueError: an argument is out of range, or there are no videos.
        FileNotFoundError: there is no such folder.
    """
    channels = channels_of(color_mode)
    method = interpolation.lower()
    if method not in METHODS:
        raise ValueError(f"interpolation must be one of {METHODS}, got {interpolation!r}")
    both = (image_size, image_size) if isinstance(image_size, int) else image_size
    size = size_of(_NAME, both)
    sampled = _sampler(sampling, num_frames, stride, seed)
    request = _Videos(
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

    def loaded(names: Any) -> Any:
        return read_frames(sampled(names), channels, size, method)

    return request.datasets(loaded, batch_size)


def _sampler(sampling: str, num_frames: int, stride: int, seed: int | None) -> Callable[[Any], Any]:
    if sampling not in SAMPLING:
        raise ValueError(f"sampling must be one of {SAMPLING}, got {sampling!r}")
    count_of(num_frames, _NAME, "num_frames", least=1)
    count_of(stride, _NAME, "stride", least=1)
    if sampling == "uniform":
        if stride != 1:
            raise ValueError("stride goes with sampling='strided' and 'random'")
        return lambda names: video.sample_linspace_sequence(names, num_frames)
    random = sampling == "random"
    return lambda names: video.sample_sequence(names, num_frames, random, stride, seed)


def _is_frame(name: str) -> bool:
    return name.lower().endswith(FORMATS)


def _frames(folder: str) -> list[str]:
    names = filter(_is_frame, os.listdir(folder))
    return [os.path.join(folder, name) for name in sorted(names, key=_natural)]


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """A key by which "2" comes before "10"; the name itself tells "01" from "1"."""
    parts = re.split("([0-9]+)", name)
    return [(int(part), "") if i % 2 else (0, part) for i, part in enumerate(parts)], name


@dataclasses.dataclass(frozen=True)
class _Videos(Request):
    """The folders that hold images themselves."""

    what: ClassVar[str] = "videos"

    def _walk(self, folder: str) -> Iterator[str]:
        for root, _, files in sorted(os.walk(folder, followlinks=self.follow_links)):
            if any(map(_is_frame, files)):
                yield root

    def _rows(self, files: LabelledFiles) -> RaggedArray:
        return RaggedArray.from_rows([_frames(folder) for folder in files.paths])
