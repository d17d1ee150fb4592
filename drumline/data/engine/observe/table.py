"""A profile as a table of 80 columns."""

from __future__ import annotations

import base64
import html
import re
import textwrap
from typing import TYPE_CHECKING

from drumline._lazy import lazy_module

if TYPE_CHECKING:
    from drumline.data.engine.observe.profile import Profile, StageProfile

rich_cells = lazy_module("rich.cells")

_WIDTH = 80
_STAGE = 24
_BAR = 6
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_CONSUMER = "the consumer's thread"


def as_text(profile: Profile) -> str:
    """The table, what stages run as, and the bottleneck in words."""
    notes = [_wrapped(f"[{i}] {_note(stage)}", 4) for i, stage in _noted(profile)]
    decisions = [_wrapped(f"autotune: {decision}") for decision in profile.decisions]
    last = [_wrapped(_bottleneck(profile)), _wrapped(_memory(profile)), *decisions]
    return "\n".join([_wrapped(_title(profile)), "", *_table(profile), *notes, "", *last])


def as_html(profile: Profile, picture: bytes | str) -> str:
    """The picture, or why there is none, and the table below it, for a notebook."""
    if isinstance(picture, str):
        above = f"<p>{html.escape(picture)}</p>"
    else:
        source = base64.b64encode(picture).decode()
        above = f'<img alt="profile" style="max-width: 100%" src="data:image/png;base64,{source}">'
    return f'{above}<pre style="line-height: 1.2">{html.escape(as_text(profile))}</pre>'


def label(stage: StageProfile) -> str:
    """Describe the stage in a few words, so that two maps differ."""
    what = re.split(r" \(|:", stage.how)[0]
    return what if what.startswith(stage.name) else stage.name


def _noted(profile: Profile) -> list[tuple[int, StageProfile]]:
    """The stages of which there is more to say, by the numbers of their notes."""
    told = (s for s in profile.stages if s.how != label(s) or _held(s))
    return list(enumerate(told, start=1))


def _note(stage: StageProfile) -> str:
    held = _held(stage)
    return f"{stage.how}; holds {held} MB" if held else stage.how


def _bottleneck(profile: Profile) -> str:
    if not profile.delivered:
        return "the dataset is empty, which leaves nothing to measure"
    if not profile.conclusive:
        return (
            "bottleneck: not known, since most of what was counted had been made before counting "
            "began, while the first element was waited for. Measure for longer: "
            "dataset.repeat().profile(seconds=5), or more elements"
        )
    slowest, station = profile.bottleneck, profile.stations[profile.bottleneck.station]
    note = next((f" [{i}]" for i, stage in _noted(profile) if stage is slowest), "")
    return (
        f"bottleneck: {slowest.name} ({label(slowest)}){note}, in {station.name}, busy "
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


def _table(profile: Profile) -> list[str]:
    noted = {id(stage): i for i, stage in _noted(profile)}
    columns = {
        "stage": [_stage(stage, noted.get(id(stage))) for stage in profile.stages],
        "in": [_place(profile, stage) for stage in profile.stages],
        "busy s": [_busy(profile, stage) for stage in profile.stages],
        "wait s": [f"{s.waiting:.3f}" if s.waiting else "" for s in profile.stages],
        "el/s": [_rate(profile, s.counts.elements, 0) for s in profile.stages],
        "MB/s": [_rate(profile, s.counts.nbytes / 1e6, 1) for s in profile.stages],
        "queue": ["" if s.queue_fill is None else f"{s.queue_fill:.0%}" for s in profile.stages],
    }
    drawn = [""] * (len(profile.stages) + 1)
    for name, cells in columns.items():
        if not any(cells):
            continue
        left = name in ("stage", "in", "busy s")
        width = max(map(rich_cells.cell_len, (name, *cells)))
        for row, cell in enumerate((name, *cells)):
            room = " " * (width - rich_cells.cell_len(cell))
            drawn[row] += (cell + room + "  ") if left else (room + cell + " ")
    drawn = [line.rstrip() for line in drawn]
    return [drawn[0], "─" * max(map(rich_cells.cell_len, drawn)), *drawn[1:]]


def _stage(stage: StageProfile, note: int | None) -> str:
    mark = "" if note is None else f" [{note}]"
    text = " " * min(stage.depth, 10) + label(stage)
    room = _STAGE - rich_cells.cell_len(mark)
    return (text if rich_cells.cell_len(text) <= room else text[: room - 1] + "…") + mark


def _place(profile: Profile, stage: StageProfile) -> str:
    name = profile.stations[stage.station].name
    return "consumer" if name == _CONSUMER else name.replace(" thread", "")


def _busy(profile: Profile, stage: StageProfile) -> str:
    """The share of the time as a bar, and the seconds."""
    workers = profile.stations[stage.station].workers
    share = min(1.0, stage.busy / max(profile.seconds, 1e-9) / max(1, workers))
    eighths = round(share * _BAR * 8)
    bar = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return f"{bar:{_BAR}} {stage.busy:.3f}"


def _rate(profile: Profile, amount: float, digits: int) -> str:
    rate = amount / max(profile.seconds, 1e-9)
    return "" if not amount else f"{rate:,.{digits}f}" if rate < 1e6 else f"{rate / 1e6:,.1f} M"


def _memory(profile: Profile) -> str:
    """What the stages hold at most, and were seen to, beside the blocks on their way."""
    most = sum(stage.most_nbytes or 0 for stage in profile.stages)
    seen = sum(stage.held_nbytes or 0 for stage in profile.stages)
    open_ = [stage.name for stage in profile.stages if stage.most_nbytes is None]
    rest = f", and as elements are: {', '.join(open_)}" if open_ else ""
    return f"memory: at most {most / 1e6:.1f} MB, {seen / 1e6:.1f} MB seen{rest}"


def _held(stage: StageProfile) -> str:
    """The most that was held, and the most that may be."""
    seen = f"{(stage.held_nbytes or 0) / 1e6:.1f}"
    match stage.most_nbytes:
        case 0:
            return "" if stage.held_nbytes is None else seen
        case None:
            return f"{seen} (as elements are)"
        case most:
            return f"{seen} of {most / 1e6:.1f}"


def _wrapped(text: str, indent: int = 0) -> str:
    return textwrap.fill(text, _WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False)
