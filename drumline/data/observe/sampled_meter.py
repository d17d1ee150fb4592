"""What one running stage did, as far as tuning asks and at little cost."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from drumline.data.observe.meter import Meter

_MEASURED = 100
"""Tasks of a window that are measured, about: the mean of times that vary by their own length is
then known to a tenth."""

_draw = random.Random().random


class SampledMeter(Meter):
    """Measures a share of a stage's tasks; each stands for those that were not, since the last one.

    Measuring takes microseconds in which a task holds Python's lock. Where many threads want it,
    that costs the pipeline ten times as much. The share is drawn at random: every tenth task may be
    unlike the others.
    """

    _share = 1.0
    _unmeasured = 0

    def aim(self, tasks: int) -> None:
        """Measures from now on so many that a window of ``tasks`` is known well enough."""
        self._share = min(1.0, _MEASURED / max(1, tasks))

    def task(self, work: Callable[..., Any], *args: Any) -> Any:
        if self._share < 1.0 and _draw() >= self._share:
            # Threads that lose a count to one another do no harm.
            self._unmeasured += 1
            return work(*args)
        return super().task(work, *args)

    def _done(self, seconds: float, cpu_seconds: float, delay_seconds: float) -> None:
        counts, weight = self.counts, 1 + self._unmeasured
        self._unmeasured = 0
        counts.work_seconds += weight * seconds
        counts.work_cpu_seconds += weight * cpu_seconds
        counts.work_delay_seconds += weight * delay_seconds
        counts.tasks += weight

    def _distribute(self, seconds: float) -> None:
        """Nobody looks at the histogram."""
