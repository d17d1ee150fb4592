"""Functions of the pixels of one image, written once for numpy and for JAX."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import jax
import numpy as np

from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.native.apply import apply, is_symbol
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.image import columns as col

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Pointwise(NativeOperation):
    """Images of varying shapes, and numbers for each, through a function of numpy arrays.

    It costs a few calls of numpy for each image, and is meant for images that were not resized
    yet: those of a fixed shape are compiled.
    """

    function: Callable[..., Any]
    options: tuple[tuple[str, Any], ...]
    numbers: tuple[str, ...]
    row_by_row: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """As users know it."""
        return f"image.{self.function.__name__}"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """What the function makes of an image of three by three pixels; sizes stay."""
        spec = col.image_spec(arguments[0], self.name)
        sample = np.zeros((3, 3, spec.shape[2] or 3), spec.dtype)
        ones = dict.fromkeys(self.numbers, np.float32(1))
        made = np.asarray(self.function(sample, **dict(self.options), **ones))
        channels = made.shape[2] if spec.shape[2] or made.shape != sample.shape else None
        return col.one((*spec.shape[:2], channels), made.dtype)

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        """One image after the other."""
        made = []
        for row in range(n):
            given = zip(self.numbers, columns[1:], strict=True)
            numbers = {name: np.asarray(column[row])[()] for name, column in given}
            try:
                image = np.asarray(columns[0][row])
                made.append(np.asarray(self.function(image, **dict(self.options), **numbers)))
            except ValueError as error:
                return Rows((made,), error)
        return Rows((made,))


def pointwise(function: Function) -> Function:
    """Lets a function of an array be called with arrays, tracers and images of varying shape."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        name, image = next(iter(bound.arguments.items()))
        others = {key: value for key, value in bound.arguments.items() if key != name}
        if is_symbol(image):
            varying = {k: v for k, v in others.items() if isinstance(v, jax.core.Tracer)}
            fixed = tuple((k, v) for k, v in others.items() if k not in varying)
            return apply(Pointwise(function, fixed, tuple(varying)), image, *varying.values())
        return function(image if isinstance(image, jax.Array) else np.asarray(image), **others)

    return called  # type: ignore[return-value]
