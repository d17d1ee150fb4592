"""What ``Dataset.profile`` reports."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Sequence

from drumline._local_path import local_path
from drumline.data.observe.table import as_html, as_text
from drumline.data.observe.trace import save_events
from drumline.data.runtime.meter import Counts, Event


@dataclasses.dataclass(frozen=True)
class StageProfile:
    """One stage of a profile.

    Attributes:
        name: the operation.
        how: how it ran, as ``explain()`` says it.
        depth: how many stages are above it.
        station: which of the profile's stations it belongs to.
        counts: what it did.
        busy: seconds it worked, in its own threads if it has some.
        waiting: seconds that its consumer waited for elements it makes ahead.
        workers: how many threads or processes worked for it; 0 for none of its own.
        queue_fill: the mean share of its queue that was full, ``None`` without a queue.
        held_nbytes: the most bytes that it was seen to hold beside its blocks, ``None`` if it does
            not say.
        most_nbytes: how many it holds at most, as ``explain()`` states it; ``None`` for as many as
            the elements ask for.
    """

    name: str
    how: str
    depth: int
    station: int
    counts: Counts
    busy: float
    waiting: float
    workers: int
    queue_fill: float | None
    held_nbytes: int | None
    most_nbytes: int | None


@dataclasses.dataclass(frozen=True)
class Station:
    """What works at the same time as the rest: a thread with its stages, or a stage's workers.

    Attributes:
        name: for the table.
        busy: seconds worked, summed over workers.
        workers: how many can work at once.
        utilization: the share of the time in which it worked, 0 to 1.
    """

    name: str
    busy: float
    workers: int
    utilization: float


@dataclasses.dataclass(frozen=True, repr=False)
class Profile:
    """Where a dataset's time went: a table where it is shown, in a notebook with a picture.

    Attributes:
        elements: how many were delivered in the measured time.
        seconds: the measured time. The first element and the time to it are left out, unless
            everything came with the first block.
        delivered: how many elements there were, with the first.
        first_element_seconds: from the start to the first element; compiling included.
        stages: consumers before producers.
        stations: what could work at the same time.
        bottleneck: the stage that limits the rest; says nothing where no element was delivered,
            nor unless ``conclusive``.
        conclusive: whether the stages worked while was counted: not where most elements had been
            made ahead when the first one came, as of an epoch that fits the prefetch buffer.
        decisions: what AUTOTUNE changed, in order.
        events: single calls, for ``save_trace``.
    """

    elements: int
    seconds: float
    delivered: int
    first_element_seconds: float
    stages: Sequence[StageProfile]
    stations: Sequence[Station]
    bottleneck: StageProfile
    conclusive: bool
    decisions: Sequence[str]
    events: Sequence[Event]

    @property
    def throughput(self) -> float:
        """Elements per second."""
        return self.elements / self.seconds if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from drumline.data.observe.picture import save_picture

        picture = io.BytesIO()
        save_picture(self, picture)
        return as_html(self, picture.getvalue())

    def save_png(self, path: str | os.PathLike[str]) -> None:
        """Draws how each stage spent the time, as a PNG."""
        # Loading matplotlib takes a moment, which only those who use it should wait.
        from drumline.data.observe.picture import save_picture

        save_picture(self, local_path(path, "save_png", "the picture"))

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the calls of all threads as JSON that ``chrome://tracing`` and Perfetto show."""
        save_events(self.events, local_path(path, "save_trace", "the trace"))
