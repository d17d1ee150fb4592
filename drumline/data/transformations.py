"""Functions that ``Dataset.apply`` takes, as guides write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def assert_cardinality(expected_cardinality: int) -> Callable[[Any], Any]:
    """``dataset.assert_cardinality`` of the number, for ``dataset.apply``."""
    return lambda dataset: dataset.assert_cardinality(expected_cardinality)


def prefetch_to_device(device: Any, buffer_size: int | None = None) -> Callable[[Any], Any]:
    """``dataset.prefetch_to_device`` with these arguments, for ``dataset.apply``."""
    return lambda dataset: dataset.prefetch_to_device(device, buffer_size)
