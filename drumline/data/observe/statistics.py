"""Counters and histograms of a dataset's stages, for programs that watch."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping

from drumline.data.observe.prometheus import as_prometheus
from drumline.data.runtime.meter import BUCKETS, Counts, Meter, Observation


@dataclasses.dataclass(frozen=True)
class Histogram:
    """How long a stage's calls took, without the stages it pulls from.

    Attributes:
        bounds: upper bounds of the buckets, in seconds, ascending; the last bucket has none.
        counts: calls in each bucket, one more than bounds.
        total: seconds of all calls.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


class Statistics:
    """What the stages of datasets did, over all their epochs, readable while they run.

    Set one as ``Options.experimental_statistics``. Several datasets may share one if they are to
    be counted together. While ``None`` is set nothing is counted, which costs nothing.

    Args:
        name: of the dataset, in what is exported.
    """

    def __init__(self, name: str = "dataset"):
        self.name = name
        self.observation = Observation()

    def counters(self) -> Mapping[str, Counts]:
        """For each stage, by its place and operation (such as ``"0.0 map"``), what it did."""
        return {label: meter.snapshot() for label, meter in self._meters()}

    def histograms(self) -> Mapping[str, Histogram]:
        """For each stage, as in ``counters``, the durations of its calls."""
        return {
            label: Histogram(BUCKETS, tuple(meter.histogram), meter.snapshot().seconds)
            for label, meter in self._meters()
        }

    def prometheus(self) -> str:
        """All of it in Prometheus's text format, to be served or written for a collector."""
        return as_prometheus(self.name, dict(self._meters()))

    def write_tensorboard(self, log_dir: str | os.PathLike[str], step: int) -> None:
        """Adds all of it to TensorBoard's logs in ``log_dir`` as of ``step``."""
        # Loading the writer takes a moment, which only those who use it should wait.
        from drumline.data.observe.tensorboard import write_events

        write_events(self.name, dict(self._meters()), log_dir, step)

    def _meters(self) -> Iterator[tuple[str, Meter]]:
        for (trail, name), meter in sorted(self.observation.meters.items()):
            if meter.counts.calls:
                yield f"{'.'.join(map(str, trail)) or 'end'} {name}", meter

    def __repr__(self) -> str:
        return f"Statistics({self.name!r})"
