"""What a server has done, and how long it took."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.distribute.parameter_server.server.push import Push


class Stats:
    """Counts since the server started. Times are in seconds, waiting for locks included."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._seconds: dict[str, float] = {"push": 0.0, "read": 0.0}

    def pushed(self, pushes: Sequence[Push], applied: Sequence[bool], seconds: float) -> None:
        """Note pushes, and which of them were applied."""
        with self._lock:
            for push, now in zip(pushes, applied, strict=True):
                self._counts["pushes" if now else "repeated_pushes"] += 1
                self._counts["bytes_in"] += push.value.nbytes
                if now and push.rows is not None:
                    self._counts["rows_updated"] += len(push.rows)
            self._seconds["push"] += seconds

    def read(self, rows: int, arrays: Sequence[np.ndarray], seconds: float) -> None:
        """Note an exchange's reply."""
        with self._lock:
            self._counts["exchanges"] += 1
            self._counts["rows_gathered"] += rows
            self._counts["bytes_out"] += sum(array.nbytes for array in arrays)
            self._seconds["read"] += seconds

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        names = ("exchanges", "pushes", "repeated_pushes", "rows_gathered", "rows_updated")
        with self._lock:
            counts = {name: self._counts[name] for name in (*names, "bytes_in", "bytes_out")}
            return {**counts, "seconds": dict(self._seconds)}
