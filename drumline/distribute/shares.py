"""Cutting rows into shares."""

from __future__ import annotations

import numpy as np


def shares(rows: int, replicas: int) -> list[slice]:
    """Cut `rows` rows into one run for each replica, in order; sizes differ by at most one.

    With fewer rows than replicas the last replicas get none.
    """
    size, extra = divmod(rows, replicas)
    ends = np.cumsum([size + (index < extra) for index in range(replicas)])
    return [slice(int(end) - (size + (i < extra)), int(end)) for i, end in enumerate(ends)]
