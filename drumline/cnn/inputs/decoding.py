"""Windows of JPEG files at a model's size, resized as TensorFlow 1 did, in native code.

tf_cnn_benchmarks resizes by ``tf.compat.v1.image.resize`` without ``align_corners``: pixels are
points at whole numbers. `dl.image.resize` follows TensorFlow 2, whose pixels are squares; the image
would move by up to half a pixel, and a model that was trained on one be evaluated on another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import decode_placed
from drumline.cnn.inputs.options import RESIZE_METHODS
from drumline.data.elements.spec import LEAF_STRUCTURE, ElementSpec, TensorSpec
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


@dataclasses.dataclass(frozen=True)
class Of(NativeOperation):
    """An operation on all arguments but the last, which says in errors what they are of."""

    operation: NativeOperation

    @property
    def name(self) -> str:
        """That of the operation."""
        return self.operation.name

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Those of the operation."""
        return self.operation.results(*arguments[:-1])

    def then(self, arithmetic: tuple[Arithmetic, ...]) -> NativeOperation | None:
        """As the operation."""
        further = self.operation.then(arithmetic)
        return None if further is None else Of(further)

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Runs the operation; an error begins with what the row is of."""
        made = self.operation.run(columns[:-1], n)
        if made.error is None:
            return made
        origin = columns[-1][len(made.columns[0])]
        return OperationResult(made.columns, ValueError(f"{_text(origin)}: {made.error}"))


@dataclasses.dataclass(frozen=True)
class DecodePlaced(NativeOperation):
    """Contents of files, a method's number, and then what is ``True`` of these, to images.

    Attributes:
        height: of the image.
        width: of the image.
        cropped: whether a window int32 (4,) is taken of the file: top, left, height, width.
        placed: whether the image is a part of a larger one, int32 (4,): height and width of that,
            and the first row and column.
        mirrored: whether a bool says if the window is mirrored before it is resized.
        whole: whether all of the file is decoded, and the window taken of that.
        limits: of decoded sizes.
        arithmetic: what is done with values then.
    """

    height: int
    width: int
    cropped: bool
    placed: bool
    mirrored: bool
    whole: bool
    limits: Limits
    arithmetic: tuple[Arithmetic, ...] = ()

    @property
    def name(self) -> str:
        """As ``explain()`` shows it."""
        steps = "image.decode_jpeg, crop" if self.whole else "image.decode_and_crop_jpeg"
        return described(f"{steps}, resize", self.arithmetic)

    def then(self, arithmetic: tuple[Arithmetic, ...]) -> NativeOperation:
        """Return the same operation, with arithmetic on values while they are in the cache."""
        return dataclasses.replace(self, arithmetic=arithmetic)

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Images of one size."""
        col.require_bytes(arguments[0], self.name)
        return col.one((self.height, self.width, 3), np.float32)

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Decodes files on all cores."""
        out = col.empty(n, (self.height, self.width, 3), np.float32)
        contents, methods, *others = columns
        rest = iter(others)
        windows = col.whole_numbers(next(rest), 4) if self.cropped else None
        places = col.whole_numbers(next(rest), 4) if self.placed else None
        flips = np.asarray(next(rest)).tolist() if self.mirrored else None
        made, told = decode_placed(
            col.contents_of(contents),
            windows,
            places,
            flips,
            np.asarray(methods).tolist(),
            self.whole,
            rounded(self.arithmetic),
            self.limits.sizes,
            out,
        )
        return col.rows(out[:made], told, "image/encoded")


def decode_at_size(
    contents: Any,
    size: tuple[int, int],
    method: Any,
    origin: Any,
    window: Any = None,
    place: Any = None,
    flip: Any = None,
    whole: bool = False,
) -> Any:
    """An image float32 (*size, 3), of values in [0, 255], of a JPEG file.

    Args:
        contents: of the file, ``bytes``.
        size: height and width.
        method: the place of a method in `RESIZE_METHODS`; it may differ between elements.
        origin: ``bytes`` by which errors call the file.
        window: int32 (4,): what is taken of the file: top, left, height, width.
        place: int32 (4,): height and width to which it is resized, and the first row and column
            that are taken of that; by default all of ``size``.
        flip: whether the window is mirrored before it is resized.
        whole: whether all of the file is decoded first.

    Raises:
        ValueError: the contents are no JPEG file, or a window does not lie in it.
    """
    operation = DecodePlaced(
        *size, window is not None, place is not None, flip is not None, whole, get_limits()
    )
    optional = [value for value in (window, place, flip) if value is not None]
    return apply(Of(operation), contents, method, *optional, origin)


@dataclasses.dataclass(frozen=True)
class CheckedLabel(NativeOperation):
    """Labels int64 to int32, each from 0 on and less than ``classes``."""

    classes: int
    feature: str = "image/class/label"

    @property
    def name(self) -> str:
        """As ``explain()`` shows it."""
        return "label"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """One integer."""
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec(arguments[0].shape, np.int32),))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Compares all rows."""
        labels = np.asarray(columns[0])
        wrong = np.flatnonzero((labels < 0) | (labels >= self.classes))
        if not len(wrong):
            return OperationResult((labels.astype(np.int32),))
        first = int(wrong[0])
        error = ValueError(
            f"{self.feature}: {labels[first]} is no label of {self.classes} classes, which are 0 "
            f"to {self.classes - 1}; set num_classes where there are more"
        )
        return OperationResult((labels[:first].astype(np.int32),), error)


def _text(origin: Any) -> str:
    return bytes(origin).decode(errors="backslashreplace")


def method_number(name: str, position: Any) -> Any:
    """The number of a resize method, int32, for an image's position in the batch."""
    if name == "round_robin":
        return (position % len(RESIZE_METHODS)).astype(np.int32)
    return np.int32(RESIZE_METHODS.index(name))
