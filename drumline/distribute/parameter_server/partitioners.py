"""Into how many shards a variable is cut, as ``tf.distribute.experimental.partitioners``."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence

import ml_dtypes  # noqa: F401  # makes numpy know bfloat16 and its like by name
import numpy as np


class Partitioner(abc.ABC):
    """Says into how many shards a variable is cut along each axis; a base for one's own.

    Parameter servers cut along axis 0 only.
    """

    @abc.abstractmethod
    def __call__(self, shape: Sequence[int], dtype: str, axis: int = 0) -> list[int]:
        """The number of shards along each axis of a variable.

        Args:
            shape: of the variable.
            dtype: its name.
            axis: along which to cut.
        """


class FixedShardsPartitioner(Partitioner):
    """The same number of shards for every variable, or one for each row if it has fewer.

    Args:
        num_shards: how many, from 1.

    Raises:
        ValueError: for fewer than one.
    """

    def __init__(self, num_shards: int) -> None:
        self._num_shards = _at_least_one("num_shards", num_shards)

    def __call__(self, shape: Sequence[int], dtype: str, axis: int = 0) -> list[int]:
        return _along(shape, axis, self._num_shards)


class MinSizePartitioner(Partitioner):
    """As many shards as can be of about `min_shard_bytes` or more.

    Args:
        min_shard_bytes: a smaller variable is not cut. As in TensorFlow the number of shards is
            rounded up, so that they may be somewhat smaller.
        max_shards: how many shards at most.
        bytes_per_string: as in TensorFlow; parameter servers keep no strings.

    Raises:
        ValueError: for a number below one.
    """

    def __init__(
        self, min_shard_bytes: int = 256 << 10, max_shards: int = 1, bytes_per_string: int = 16
    ) -> None:
        self._min_shard_bytes = _at_least_one("min_shard_bytes", min_shard_bytes)
        self._max_shards = _at_least_one("max_shards", max_shards)
        _at_least_one("bytes_per_string", bytes_per_string)

    def __call__(self, shape: Sequence[int], dtype: str, axis: int = 0) -> list[int]:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        shards = math.ceil(size / self._min_shard_bytes)
        return _along(shape, axis, min(self._max_shards, shards))


class MaxSizePartitioner(Partitioner):
    """As few shards as can be, each of at most `max_shard_bytes`.

    Args:
        max_shard_bytes: the size that a shard has at most, but for a row that is larger.
        max_shards: how many shards at most, whatever their size; None for no limit.
        bytes_per_string: as in TensorFlow; parameter servers keep no strings.

    Raises:
        ValueError: for a number below one.
    """

    def __init__(
        self, max_shard_bytes: int, max_shards: int | None = None, bytes_per_string: int = 16
    ) -> None:
        self._max_shard_bytes = _at_least_one("max_shard_bytes", max_shard_bytes)
        self._max_shards = None if max_shards is None else _at_least_one("max_shards", max_shards)
        _at_least_one("bytes_per_string", bytes_per_string)

    def __call__(self, shape: Sequence[int], dtype: str, axis: int = 0) -> list[int]:
        rows = shape[axis] if shape else 1
        row_bytes = max(1, math.prod(shape) // max(rows, 1) * np.dtype(dtype).itemsize)
        shards = math.ceil(rows / max(1, self._max_shard_bytes // row_bytes))
        if self._max_shards is not None:
            shards = min(shards, self._max_shards)
        return _along(shape, axis, shards)


def _along(shape: Sequence[int], axis: int, shards: int) -> list[int]:
    counts = [1] * len(shape)
    if shape:
        counts[axis] = max(1, min(shards, shape[axis]))
    return counts


def _at_least_one(name: str, value: int) -> int:
    if value < 1:
        raise ValueError(f"A partitioner needs {name} of at least 1, got {value}.")
    return int(value)
