"""Windows of images, turned and mirrored: one native operation for all of these."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from drumline._core import arrange_images
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.native.apply import apply, is_symbol
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.image import columns as col

TRANSPOSED, UPSIDE_DOWN, MIRRORED = 1, 2, 4


@dataclasses.dataclass(frozen=True)
class Arrange(NativeOperation):
    """Images to windows of them, zeros beyond their edges; then transposed, turned over, mirrored.

    A second argument, integers (5,), says for each where the window begins, its height and width
    (-1: to the end of the image), and the sum of what is done.

    Attributes:
        called: the name of the function for which this is done.
        height: of all results, if known.
        width: likewise.
        rule: ``"within"`` if windows must lie in their images, ``"around"`` if images must lie in
            their windows, or ``""``.
    """

    called: str
    height: int | None
    width: int | None
    rule: str = ""

    @property
    def name(self) -> str:
        """As users know it."""
        return f"image.{self.called}"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Images of the known size, or of any."""
        spec = col.image_spec(arguments[0], self.name)
        return col.one((self.height, self.width, spec.shape[2]), spec.dtype)

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        """Copies pixels on all cores."""
        images = col.contiguous(columns[0])
        placements = np.array(columns[1], np.int64).reshape(n, 5)
        shapes = np.array([image.shape for image in images], np.int64).reshape(n, 3)
        rest = shapes[:, :2] - placements[:, :2]
        placements[:, 2:4] = np.where(placements[:, 2:4] < 0, rest, placements[:, 2:4])
        good = self._first_bad(shapes[:, :2], placements[:, :2], placements[:, 2:4])
        made = self._arranged(images[:good], placements[:good], images[0])
        if good == n:
            return Rows((made,))
        (top, left, height, width, _), shape = placements[good], shapes[good]
        what = (
            f"{self.name}: the window of {height} x {width} pixels at ({top}, {left}) does not "
            f"fit an image of {shape[0]} x {shape[1]}"
        )
        return Rows((made,), ValueError(what))

    def _arranged(self, images: Any, placements: np.ndarray, like: np.ndarray) -> Column:
        found = arrange_images(images, placements.tolist())
        made = [image.view(like.dtype) for image in found]
        if self.width is None:
            return made
        if self.height is None:
            # A column of arrays of which the first dimension alone varies is ragged.
            splits = np.cumsum([0, *map(len, made)])
            none = np.empty((0, self.width, like.shape[2]), like.dtype)
            return RaggedArray(np.concatenate([none, *made]), splits)
        out = col.empty(len(made), (self.height, self.width, like.shape[2]), like.dtype)
        if made:
            np.stack(made, out=out)
        return out

    def _first_bad(self, shapes: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> int:
        bad = sizes < 1
        if self.rule == "within":
            bad |= (starts < 0) | (starts + sizes > shapes)
        if self.rule == "around":
            bad |= (starts > 0) | (starts + sizes < shapes)
        found = np.flatnonzero(bad.any(axis=1) & (self.rule != ""))
        return int(found[0]) if len(found) else len(shapes)


def arranged(
    called: str,
    image: Any,
    place: Sequence[Any] = (0, 0, -1, -1),
    turn: Any = 0,
    size: tuple[int | None, int | None] = (None, None),
    rule: str = "",
) -> Any:
    """The native operation on an image of varying shape, or of numpy."""
    numbers = [*place, turn]
    traced = any(not isinstance(number, int | np.integer) for number in numbers)
    given = jnp.stack([jnp.asarray(n, jnp.int32) for n in numbers]) if traced else numbers
    return apply(Arrange(called, *size, rule), image, given)


def shape_of(image: Any) -> Any:
    """(height, width, channels): Python numbers, or an array where the shape varies."""
    if is_symbol(image) and None in image.shape:
        return apply(ShapeOf(), image)
    return tuple(image.shape)


@dataclasses.dataclass(frozen=True)
class ShapeOf(NativeOperation):
    """Images to their shapes."""

    @property
    def name(self) -> str:
        """As users know it."""
        return "image.shape"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Three integers."""
        col.image_spec(arguments[0], self.name)
        return col.one((3,), np.int32)

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        """Looks at shapes."""
        return Rows((np.array([image.shape for image in columns[0]], np.int32).reshape(n, 3),))
