"""Plans made into datasets where ``Dataset`` itself cannot be imported."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from drumline.data.plan.node import Node


def as_dataset(plan: Node) -> Any:
    """A ``Dataset`` over ``plan``."""
    return _constructor()(plan)


@functools.cache
def _constructor() -> Callable[[Node], Any]:
    # The class needs the executor, and the executor needs it for datasets inside of datasets.
    from drumline.data.dataset import Dataset

    return Dataset
