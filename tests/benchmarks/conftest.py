"""Small made-up contenders for the tests of the benchmark harness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.harness.measurement import Measurement

Make = Callable[..., Measurement]


@pytest.fixture
def make() -> Make:
    """Makes a measurement of which only what matters to a test is given."""

    def measurement(**changes: Any) -> Measurement:
        fields: dict[str, Any] = {
            "elements": 100,
            "import_s": 0.5,
            "first_batch_s": 0.01,
            "first_epoch_s": 2.0,
            "later_epochs_s": (1.0, 0.5, 4.0),
            "evidence": {},
            "versions": {"python": "3.11"},
        }
        return Measurement(**(fields | changes))

    return measurement
