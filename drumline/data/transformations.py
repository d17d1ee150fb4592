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


def distribute(
    processing_mode: Any, service: str | None = None, workers: int | None = None
) -> Callable[[Any], Any]:
    """``dataset.distribute`` over the Ray cluster at ``service``, for ``dataset.apply``.

    As ``tf.data.experimental.service.distribute``.

    Args:
        processing_mode: a ``ShardingPolicy`` or its name.
        service: the address of a node, as ``drumline data-service start`` prints it.
        workers: how many.
    """
    return lambda dataset: dataset.distribute(processing_mode, service, workers)
