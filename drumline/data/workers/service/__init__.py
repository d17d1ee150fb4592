"""Parts of a plan on other machines; the names of ``tf.data.experimental.service``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumline.data.workers.remote.cluster import ShardingPolicy

__all__ = ["ShardingPolicy", "distribute"]


def distribute(
    processing_mode: Any, service: str | None = None, workers: int | None = None
) -> Callable[[Any], Any]:
    """Return ``dataset.distribute`` over the Ray cluster at ``service``, for ``dataset.apply``.

    As ``tf.data.experimental.service.distribute``.

    Args:
        processing_mode: a ``ShardingPolicy`` or its name.
        service: the address of a node, as ``drumline data-service start`` prints it.
        workers: how many.
    """
    return lambda dataset: dataset.distribute(processing_mode, service, workers)
