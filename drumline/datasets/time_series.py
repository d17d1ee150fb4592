"""Windows of a time series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data import AUTOTUNE, Dataset
from drumline.data.elements.seeds import draw_seed
from drumline.data.elements.spec import as_array


def timeseries_dataset_from_array(
    data: Any,
    targets: Any,
    sequence_length: int,
    sequence_stride: int = 1,
    sampling_rate: int = 1,
    batch_size: int | None = 128,
    shuffle: bool = False,
    seed: int | None = None,
    start_index: int | None = None,
    end_index: int | None = None,
) -> Dataset:
    """Batches of sliding windows, as ``keras.utils.timeseries_dataset_from_array``.

    Elements are windows (n, sequence_length, ...), or pairs of them and targets (n, ...).

    Args:
        data: an array (steps, ...), which is not copied.
        targets: the target of the window that begins at step i, for each i; or ``None``.
        sequence_length: how many steps a window has.
        sequence_stride: how many steps after one window the next begins.
        sampling_rate: how many steps lie between two of a window, and one.
        batch_size: windows in a batch; ``None`` for single ones.
        shuffle: whether windows come in a random order, a new one each epoch.
        seed: of that order.
        start_index: steps before it are not used.
        end_index: nor are it and those after it.

    Raises:
        ValueError: an argument is out of range, or there is no whole window.
    """
    steps = as_array(data)
    numbers = {
        "sequence_length": sequence_length,
        "sequence_stride": sequence_stride,
        "sampling_rate": sampling_rate,
    }
    for name, value in numbers.items():
        if not 0 < value <= len(steps):
            raise ValueError(f"{name} must be from 1 to the {len(steps)} steps, got {value}")
    first = 0 if start_index is None else start_index
    last = len(steps) if end_index is None else end_index
    if not 0 <= first < last <= len(steps):
        raise ValueError(
            f"start_index and end_index must lie within the {len(steps)} steps, in this order; got "
            f"{start_index} and {end_index}"
        )
    used = steps[first:last]
    wanted = None if targets is None else as_array(targets)[first:last]
    windows = len(used) - (sequence_length - 1) * sampling_rate
    windows = windows if wanted is None else min(windows, len(wanted))
    if windows < 1:
        raise ValueError(
            f"no window of {sequence_length} steps, {sampling_rate} apart, with a target if there "
            f"are any, fits into {len(used)} steps"
        )
    starts = np.arange(0, windows, sequence_stride)
    found = Dataset.from_sequence(_Windows(used, wanted, starts, sequence_length, sampling_rate))
    if shuffle:
        chosen = draw_seed() if seed is None else seed
        found = found.shuffle(len(starts), chosen)
    if batch_size is not None:
        found = found.batch(batch_size)
    return found.prefetch(AUTOTUNE)


class _Windows(Sequence[Any]):
    """Windows by number, each a view."""

    def __init__(
        self,
        data: np.ndarray,
        targets: np.ndarray | None,
        starts: np.ndarray,
        length: int,
        rate: int,
    ):
        self._data = data
        self._targets = targets
        self._starts = starts
        self._span = length * rate
        self._rate = rate

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: Any) -> Any:
        start = int(self._starts[number])
        window = self._data[start : start + self._span : self._rate]
        return window if self._targets is None else (window, self._targets[start])
