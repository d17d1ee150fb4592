"""A profile as a table."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from drumline.data.observe.profile import Profile, StageProfile

_WIDTH = 140


def as_text(profile: Profile) -> str:
    """The table, and the bottleneck in words."""
    console = Console(file=io.StringIO(), width=_WIDTH, color_system=None)
    console.print(_table(profile))
    console.print(_bottleneck(profile), markup=False)
    console.print(_memory(profile), markup=False)
    for decision in profile.decisions:
        console.print(f"autotune: {decision}", markup=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _bottleneck(profile: Profile) -> str:
    if not profile.delivered:
        return "the dataset is empty, which leaves nothing to measure"
    slowest, station = profile.bottleneck, profile.stations[profile.bottleneck.station]
    return (
        f"bottleneck: {slowest.name} ({slowest.how}), in {station.name}, busy "
        f"{station.utilization:.0%} of the time"
    )


def _title(profile: Profile) -> str:
    count, seconds = profile.elements, profile.seconds
    rate = f"{count} elements in {seconds:.3f} s ({profile.throughput:,.0f} a second)"
    if not profile.delivered:
        return f"no element: the end after {profile.first_element_seconds * 1e3:.1f} ms"
    first = f"after {profile.first_element_seconds * 1e3:.1f} ms"
    apart = profile.delivered > count
    return f"{rate}; not counted: the first, {first}" if apart else f"{rate}, the first {first}"


def _table(profile: Profile) -> Table:
    table = Table(title=_title(profile), title_justify="left")
    table.add_column("stage", overflow="fold", ratio=1)
    names = ("runs in", "busy", "waited for", "calls", "elements", "el/s", "MB/s", "workers")
    for name in (*names, "queue", "MB held"):
        table.add_column(name, justify="left" if name == "runs in" else "right")
    for stage in profile.stages:
        table.add_row(*_cells(profile, stage), style="bold" if _is(profile, stage) else None)
    return table


def _is(profile: Profile, stage: StageProfile) -> bool:
    return stage is profile.bottleneck


def _cells(profile: Profile, stage: StageProfile) -> tuple[str, ...]:
    counts, seconds = stage.counts, max(profile.seconds, 1e-9)
    return (
        "  " * stage.depth + stage.name + f": {stage.how}",
        profile.stations[stage.station].name,
        f"{stage.busy:.3f} s",
        f"{stage.waiting:.3f} s" if stage.waiting else "",
        str(counts.calls),
        str(counts.elements),
        f"{counts.elements / seconds:,.0f}",
        f"{counts.nbytes / seconds / 1e6:,.1f}",
        str(stage.workers) if stage.workers else "",
        "" if stage.queue_fill is None else f"{stage.queue_fill:.0%}",
        _held(stage),
    )


def _memory(profile: Profile) -> str:
    """What the stages hold at most, and were seen to, beside the blocks on their way."""
    most = sum(stage.most_nbytes or 0 for stage in profile.stages)
    seen = sum(stage.held_nbytes or 0 for stage in profile.stages)
    open_ = [stage.name for stage in profile.stages if stage.most_nbytes is None]
    rest = f", and as elements are: {', '.join(open_)}" if open_ else ""
    return f"memory: at most {most / 1e6:.1f} MB, {seen / 1e6:.1f} MB seen{rest}"


def _held(stage: StageProfile) -> str:
    """The most that was held, and the most that may be."""
    seen = "" if stage.held_nbytes is None else f"{stage.held_nbytes / 1e6:.1f}"
    match stage.most_nbytes:
        case 0:
            return seen
        case None:
            return f"{seen} (as elements are)".lstrip()
        case most:
            return f"{seen} of {most / 1e6:.1f}".lstrip()
