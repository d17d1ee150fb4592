"""A plan as a page: for a terminal, in Markdown, and as JSON. Each number says how it was got."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from drumline.plan.estimate import StepEstimate, efficiencies
from drumline.plan.hardware import Known

LAYERS = 10
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


class Section(NamedTuple):
    """A table of the page.

    Attributes:
        title: above it.
        rows: a name and a number each.
        notes: lines below it.
    """

    title: str
    rows: tuple[tuple[str, Known], ...]
    notes: tuple[str, ...] = ()


def sections(step: StepEstimate) -> tuple[Section, ...]:
    """Return the parts of the page of a step."""
    chip = step.group.chip
    slowest = step.layers[:LAYERS]
    missing = len(step.without_estimate)
    notes = [
        f"{name}: how often it runs is not known, and counts once" for name in step.unknown_loops
    ]
    if missing:
        notes.append(f"{missing} parts have no estimate of the compiler's: counted by their bytes")
    hardware = (
        ("peak of bfloat16", chip.peak),
        ("memory", chip.memory),
        ("memory bandwidth", chip.memory_bandwidth),
        ("a link, one direction", chip.link),
        ("network, a chip's share", chip.network),
        ("clock", chip.clock),
    )
    return (
        Section(
            f"A step on {step.group.name}, at best",
            (
                ("step", step.step),
                ("computing", step.computing),
                ("waiting for collectives", step.waiting),
                ("collectives beside work", step.hidden),
            ),
            tuple(notes),
        ),
        Section("Slowest layers", tuple((each.name, each.seconds) for each in slowest)),
        Section(
            "Collectives",
            tuple(
                (
                    f"{each.collective.kind}, {_size(each.collective.bytes)} of "
                    f"{'+'.join(each.collective.dtypes) or '?'}, {each.collective.times:g} times"
                    f"{', ' + each.collective.algorithm if each.collective.algorithm else ''}",
                    each.seconds,
                )
                for each in step.collectives
            ),
        ),
        Section(
            "Scaling efficiency, upper bounds",
            tuple((f"{chips} chips", known) for chips, known in efficiencies(step)),
        ),
        Section(f"{chip.platform} {chip.name}", hardware),
    )


def markdown(step: StepEstimate) -> str:
    """Return the page in Markdown."""
    lines = []
    for section in sections(step):
        lines += [f"## {section.title}", ""]
        if section.rows:
            lines += ["| | | how | from |", "| --- | --- | --- | --- |"]
            lines += [
                f"| {_escaped(name)} | {shown(known)} | {known.how} | {_escaped(known.source)} |"
                for name, known in section.rows
            ]
        else:
            lines.append("None.")
        lines += ["", *(f"- {_escaped(note)}" for note in section.notes), ""]
    return "\n".join(lines).rstrip() + "\n"


def as_json(step: StepEstimate) -> str:
    """Return the page as JSON: numbers in base units, with unit, origin and source."""
    page: dict[str, Any] = {"hardware": step.group.name, "compiled_for": step.compiled_for}
    page["sections"] = [
        {
            "title": section.title,
            "rows": [{"name": name, **known._asdict()} for name, known in section.rows],
            "notes": list(section.notes),
        }
        for section in sections(step)
    ]
    return json.dumps(page, indent=1, allow_nan=False)


def print_report(step: StepEstimate, console: Console) -> None:
    """Print the page."""
    for section in sections(step):
        table = Table(title=section.title, title_justify="left", show_header=False)
        for name, known in section.rows:
            table.add_row(name, shown(known), known.how, known.source)
        console.print(table)
        for note in section.notes:
            console.print(f"  {note}", markup=False)


def shown(known: Known) -> str:
    """Return a number with its unit, to three digits: ``"1.20 ms"``, ``"97.3 %"``."""
    value, unit = known.value, known.unit
    if not value:
        return "not known" if known.how == "assumed" else f"0 {unit}".rstrip()
    if unit == "":
        return f"{value * 100:.1f} %"
    for scale, prefix in _SMALL if unit == "s" else _PREFIXES:
        if abs(value) >= scale * (1 - 5e-4):
            return f"{_digits(value / scale)} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def _digits(value: float) -> str:
    value = float(f"{value:.2e}")
    places = max(0, 2 - math.floor(math.log10(abs(value)) + 1e-9))
    return f"{value:.{places}f}"


def _size(value: float) -> str:
    return shown(Known(value, "B", "compiled", "")) if value else "0 B"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
