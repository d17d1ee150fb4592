"""Statistics in TensorBoard's event files."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

from drumline._event_files import summary_writer
from drumline.data.runtime.meter import BUCKETS, Meter


def write_events(
    dataset: str, meters: Mapping[str, Meter], log_dir: str | os.PathLike[str], step: int
) -> None:
    """A scalar for each count of each stage, and the histogram of its calls."""
    writer = summary_writer(log_dir)
    for label, meter in meters.items():
        tag = f"{dataset}/{label.replace(' ', '_')}"
        for name, value in dataclasses.asdict(meter.snapshot()).items():
            writer.add_scalar(f"{tag}/{name}", value, step)
        counts = list(meter.histogram)
        # The last bucket has no bound, which TensorBoard cannot draw: it is given the next power.
        bounds = [*BUCKETS, BUCKETS[-1] * 2]
        writer.add_histogram_raw(
            f"{tag}/call_seconds",
            min=0.0,
            max=bounds[-1],
            num=sum(counts),
            sum=meter.snapshot().seconds,
            sum_squares=sum(c * b * b for c, b in zip(counts, bounds, strict=True)),
            bucket_limits=bounds,
            bucket_counts=counts,
            global_step=step,
        )
    writer.close()
