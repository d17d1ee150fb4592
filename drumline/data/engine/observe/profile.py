"""What ``Dataset.profile`` reports, as a picture and as a trace in Chrome's format."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from drumline._extras import MissingExtraError, import_extra
from drumline._local_path import local_path
from drumline.data.engine.observe.table import as_html, as_text, label
from drumline.data.runtime.meter import Counts, Event


def save_events(events: Sequence[Event], path: str | os.PathLike[str]) -> None:
    """Writes complete events, times in microseconds from the first, a row for each thread."""
    threads = {thread: i for i, thread in enumerate(dict.fromkeys(e.thread for e in events))}
    first = min((event.start for event in events), default=0.0)
    pid = os.getpid()
    rows: list[dict[str, Any]] = [
        {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
        for (_, name), tid in threads.items()
    ]
    rows += [
        {
            "name": event.name,
            "ph": "X",
            "ts": (event.start - first) * 1e6,
            "dur": event.seconds * 1e6,
            "pid": pid,
            "tid": threads[event.thread],
            "args": {"elements": event.elements},
        }
        for event in events
    ]
    Path(path).write_text(json.dumps({"traceEvents": rows, "displayTimeUnit": "ms"}))


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
class ProfiledWorker:
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
    stations: Sequence[ProfiledWorker]
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
        picture = io.BytesIO()
        try:
            save_picture(self, picture)
        except MissingExtraError as error:
            return as_html(self, str(error))
        return as_html(self, picture.getvalue())

    def save_png(self, path: str | os.PathLike[str]) -> None:
        """Draws how each stage spent the time, as a PNG.

        Raises:
            ImportError: matplotlib is not installed; the extra ``profile`` brings it.
        """
        save_picture(self, local_path(path, "save_png", "the picture"))

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the calls of all threads as JSON that ``chrome://tracing`` and Perfetto show."""
        save_events(self.events, local_path(path, "save_trace", "the trace"))


_WIDEST = 44
_LINES = 2


def save_picture(profile: Profile, path: str | os.PathLike[str] | IO[bytes]) -> None:
    """Bars of the seconds that each stage worked and was waited for, the bottleneck in red."""
    purpose = "The picture of Dataset.profile"
    figure_class = import_extra("matplotlib.figure", "profile", purpose).Figure
    patch = import_extra("matplotlib.patches", "profile", purpose).Patch
    stages = list(profile.stages)
    figure = figure_class(figsize=(9, 1.8 + 0.45 * len(stages)), layout="constrained")
    axes = figure.subplots()
    busy = [stage.busy for stage in stages]
    slowest = profile.bottleneck if profile.delivered and profile.conclusive else None
    colors = ["tab:red" if stage is slowest else "tab:blue" for stage in stages]
    places = range(len(stages))
    axes.barh(places, busy, color=colors)
    axes.barh(places, [stage.waiting for stage in stages], left=busy, color="lightgray")
    axes.set_yticks(places, list(map(_label, stages)))
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.set_xlabel(
        f"seconds, summed over a stage's workers; {profile.seconds:.3f} s went by meanwhile"
    )
    rate = profile.throughput
    shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    limit = profile.bottleneck.name if profile.conclusive else "not known, most was made before"
    found = f"{shown} elements a second; bottleneck: {limit}"
    axes.set_title(found if profile.delivered else "the dataset is empty")
    meanings = {"busy": "tab:blue", "busy, the bottleneck": "tab:red", "waited for": "lightgray"}
    handles = [patch(color=color, label=label) for label, color in meanings.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    figure.savefig(path, format="png", dpi=120)


def _label(stage: StageProfile) -> str:
    """Describe the stage, so that two maps differ."""
    what = label(stage)
    text = what if what != stage.name else f"{stage.name}: {stage.how}"
    return textwrap.fill(text, _WIDEST, max_lines=_LINES, placeholder=" ...")
