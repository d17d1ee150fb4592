"""Frames of a sequence, each an image file, as one array."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec
from drumline.data.elements.structure import LEAF_STRUCTURE
from drumline.data.native.apply import apply
from drumline.data.native.flat import flat
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.data.native.running import run_native
from drumline.image.files import DecodeImage
from drumline.image.limits import get_limits
from drumline.image.resizing import Resize
from drumline.io.whole_files import ReadFile


@dataclasses.dataclass(frozen=True)
class ReadFrames(NativeOperation):
    """Names of files (frames,) to images of one size: (frames, height, width, channels).

    Attributes:
        steps: what is done with each name, one after the other.
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

    def run(self, columns: Sequence[Column], n: int) -> Rows:
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
            return Rows([given.put(column)])
        error.add_note(f"drumline: the file is {given.values[count]!r}")
        rows = given.head(given.row_of(count))
        if not count:
            height, width, channels = (size or 0 for size in specs[-1].shape)
            column = np.empty((0, height, width, channels), specs[-1].dtype)
        return Rows([rows.put(column[: len(rows.values)])], error)


def read_frames(names: Any, channels: int, size: tuple[int, int], method: str) -> Any:
    """The images of these files, resized."""
    decode = DecodeImage(channels, np.dtype(np.uint8), False, get_limits())
    return apply(ReadFrames((ReadFile(), decode, Resize(*size, method, False))), names)
