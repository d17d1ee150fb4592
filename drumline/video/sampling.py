"""Taking frames of a sequence, which begins again where it is too short."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline import random as draws
from drumline._lazy import jax, jnp
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import LEAF_STRUCTURE, ElementSpec, TensorSpec, as_array
from drumline.data.functions.native.apply import apply, is_symbol
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.plan.node import count_of


def strided(length: int, num_steps: int, stride: int, fraction: float) -> np.ndarray:
    """``num_steps`` frames, each ``stride`` after the one before: int64 (num_steps,).

    Args:
        length: of the sequence, at least 1.
        num_steps: how many frames.
        stride: from one to the next.
        fraction: in [0, 1): where the first one is, among the places from which all frames lie
            within the sequence, or among all if there is none.
    """
    start = first_place(length, num_steps, stride, fraction, np)
    return (int(start) + np.arange(num_steps) * stride) % length


def linspace(length: int, num_windows: int, num_steps: int, stride: int) -> np.ndarray:
    """The frames of windows at equal distances: int64 (num_windows * num_steps,)."""
    last = max(0, length - num_steps * stride)
    starts = np.linspace(0.0, last, num_windows, dtype=np.float32).astype(np.int64)
    return ((starts[:, None] + np.arange(num_steps) * stride) % length).reshape(-1)


def first_place(length: int, num_steps: int, stride: int, fraction: Any, numbers: Any) -> Any:
    """The first frame for a fraction, computed by numpy or ``jax.numpy`` (``numbers``)."""
    span = (num_steps - 1) * stride
    places = length - span if length > span else length
    place = numbers.floor(numbers.asarray(fraction, np.float32) * np.float32(places))
    return numbers.minimum(place, places - 1).astype(np.int32)


@dataclasses.dataclass(frozen=True)
class SampleFrames(NativeOperation):
    """Sequences, and the place of their first frame, to frames.

    Attributes:
        num_windows: how many windows at equal distances; 0 for one at the place given.
        num_steps: frames of each.
        stride: from one frame to the next.
    """

    num_windows: int
    num_steps: int
    stride: int

    @property
    def name(self) -> str:
        """As users know it."""
        return "video.sample_linspace_sequence" if self.num_windows else "video.sample_sequence"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """As many frames as are taken."""
        sequence = arguments[0]
        if not sequence.shape:
            raise ValueError(f"{self.name}: a sequence has frames as first dimension: {sequence}")
        taken = max(1, self.num_windows) * self.num_steps
        frames = TensorSpec((taken, *sequence.shape[1:]), sequence.dtype)
        return ElementSpec(LEAF_STRUCTURE, (frames,))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Copies the frames of each sequence."""
        found: list[np.ndarray] = []
        error: Exception | None = None
        fractions = np.asarray(columns[1], np.float32)
        for sequence, fraction in zip(columns[0], fractions, strict=True):
            if not len(sequence):
                error = ValueError(f"{self.name}: a sequence without frames")
                break
            found.append(np.asarray(sequence)[self.places(len(sequence), float(fraction))])
        column = columns[0]
        taken = found if isinstance(column, list) else self._joined(column, found)
        return OperationResult((taken,), error)

    def _joined(self, column: np.ndarray | RaggedArray, found: list[np.ndarray]) -> np.ndarray:
        """Frames of one shape, which does not depend on there being any."""
        taken = max(1, self.num_windows) * self.num_steps
        whole = np.empty((len(found), taken, *column.shape[2:]), column.dtype)
        for row, frames in enumerate(found):
            whole[row] = frames
        return whole

    def places(self, length: int, fraction: float) -> np.ndarray:
        """Which frames of a sequence of ``length``."""
        if self.num_windows:
            return linspace(length, self.num_windows, self.num_steps, self.stride)
        return strided(length, self.num_steps, self.stride, fraction)


def sample_sequence(
    sequence: Any, num_steps: int, random: bool = False, stride: int = 1, seed: int | None = None
) -> Any:
    """Frames at equal distances, as ``sample_sequence`` of TensorFlow's model garden.

    Args:
        sequence: (frames, ...): images (frames, height, width, channels), names of files, numbers.
        num_steps: how many frames to take. A sequence that is too short begins again.
        random: takes the first frame at random (``dl.random``), so that all lie within the
            sequence if it is long enough; otherwise the sequence's first.
        stride: the distance from one frame to the next.
        seed: of the draw.

    Returns:
        (num_steps, ...), of the sequence's dtype.

    Raises:
        ValueError: a number is out of range, or the sequence has no frames.
    """
    operation = SampleFrames(
        0,
        count_of(num_steps, "sample_sequence", "num_steps", least=1),
        count_of(stride, "sample_sequence", "stride", least=1),
    )
    fraction = draws.uniform((), seed=seed) if random else np.float32(0)
    return _sampled(operation, sequence, fraction)


def sample_linspace_sequence(
    sequence: Any, num_windows: int, num_steps: int = 1, stride: int = 1
) -> Any:
    """Windows at equal distances over a whole sequence, as TensorFlow's model garden has it.

    With ``num_steps=1`` these are single frames, the first and the last among them.

    Args:
        sequence: (frames, ...), as of ``sample_sequence``.
        num_windows: how many windows.
        num_steps: the frames of each; a sequence that is too short begins again.
        stride: the distance from one frame of a window to the next.

    Returns:
        (num_windows * num_steps, ...), of the sequence's dtype.

    Raises:
        ValueError: a number is out of range, or the sequence has no frames.
    """
    name = "sample_linspace_sequence"
    operation = SampleFrames(
        count_of(num_windows, name, "num_windows", least=1),
        count_of(num_steps, name, "num_steps", least=1),
        count_of(stride, name, "stride", least=1),
    )
    return _sampled(operation, sequence, np.float32(0))


def _sampled(operation: SampleFrames, sequence: Any, fraction: Any) -> Any:
    if is_symbol(sequence):
        return apply(operation, sequence, fraction)
    if isinstance(sequence, jax.Array):
        return _sampled_by_jax(operation, sequence, fraction)
    array = as_array(sequence)
    return apply(operation, array, fraction)


def _sampled_by_jax(operation: SampleFrames, sequence: jax.Array, fraction: Any) -> jax.Array:
    operation.results(TensorSpec(sequence.shape, sequence.dtype))
    length = sequence.shape[0]
    if not length:
        raise ValueError(f"{operation.name}: a sequence without frames")
    if operation.num_windows:
        return jnp.take(sequence, operation.places(length, 0.0), 0)
    steps, stride = operation.num_steps, operation.stride
    start = first_place(length, steps, stride, fraction, jnp)
    places = (start + jnp.arange(steps, dtype=jnp.int32) * stride) % length
    return jnp.take(sequence, places, 0)
