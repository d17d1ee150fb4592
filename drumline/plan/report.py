"""A plan as a page: for a terminal, in Markdown, as JSON and as a picture.

Each number says how it was got.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drumline._extras import import_extra
from drumline.plan.changes.suggestions import MEMORY, RATE, STEP, Suggestion
from drumline.plan.compiled.program_text import Collective
from drumline.plan.estimate import (
    SIZES,
    StepEstimate,
    efficiencies,
    loss_of_doubling,
    rate_with_loss,
)
from drumline.plan.hardware import Known
from drumline.plan.plan import SECONDS_AN_HOUR, Plan

LAYERS = 10
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_PLAIN = ("rows", "rows/s", "per epoch", "rate")


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


def sections(plan: Plan) -> tuple[Section, ...]:
    """Return the parts of a plan's page."""
    found = [_head(plan), *_memory(plan)]
    if plan.step is not None:
        found += step_sections(plan.step)
        if plan.measured:
            found.append(_with_loss(plan.step, plan.measured))
    elif plan.memory.fits is not False:
        found.append(
            Section(
                "Collectives",
                _alike(
                    (
                        f"{_described(each)}, over {each.group} devices",
                        Known(each.bytes, "B", "compiled", "as reduced, all times"),
                    )
                    for each in plan.collectives
                ),
            )
        )
    if plan.suggestions:
        found.append(_changes(plan))
    return tuple(found)


def _changes(plan: Plan) -> Section:
    rows: list[tuple[str, Known]] = []
    notes = []
    now = {MEMORY: plan.memory.total.value}
    if plan.step is not None and plan.step.step.value:
        now[STEP] = plan.step.step.value
        now[RATE] = plan.rows / plan.step.step.value
    for each in plan.suggestions:
        options = " ".join(each.options)
        if each.refused:
            notes.append(f"{each.name}: not possible so. {each.refused}")
            continue
        for effect, known in each.effects.items():
            verdict = _verdict(each.fits) if effect == MEMORY else ""
            ratio = f"{known.value / now[effect]:.2f} of the plan's" if now.get(effect) else ""
            said = (verdict, ratio, known.source, f"plan with {options}")
            source = "; ".join(filter(None, said))
            rows.append((f"{each.name}: {effect}", known._replace(source=source)))
        if not each.effects:
            notes.append(f"{each.name}: plan it with {options}")
    if not plan.were_planned:
        notes.append("--suggest plans each of these by itself, and rematerialization")
    return Section("What to change", tuple(rows), tuple(notes))


def _verdict(fits: bool | None) -> str:
    return "" if fits is None else "fits" if fits else "does not fit"


def _head(plan: Plan) -> Section:
    rows: list[tuple[str, Known]] = [
        ("rows of a step, all replicas", Known(plan.rows, "rows", "compiled", "the batch")),
        (
            f"rows of each of {plan.replicas:,} replicas",
            Known(plan.rows / plan.replicas, "rows", "compiled", "the batch"),
        ),
    ]
    if plan.step is not None:
        step = plan.step.step
        per_second = plan.rows / step.value if step.value else 0.0
        rows.append((STEP, step))
        rows.append((RATE, Known(per_second, "rows/s", "model", "")))
        if plan.operations.value:
            rows.append(
                ("share of the chips' peak", plan.step.share_of_peak(plan.operations.value))
            )
        into = plan.batch_bytes.value / plan.group.hosts
        rows.append(
            (
                "input, into each host",
                Known(into / step.value, "B/s", "model", "a batch's bytes over the step's time"),
            )
        )
        of_host = per_second / plan.group.hosts
        rows.append(("rows a second, into each host", Known(of_host, "rows/s", "model", "at best")))
        if plan.rows_of_epoch and per_second:
            seconds = plan.rows_of_epoch / per_second
            rows.append(("an epoch, at best", Known(seconds, "s", "model", "without its input")))
            if plan.price is not None:
                cost = seconds / SECONDS_AN_HOUR * plan.group.chips * plan.price
                rows.append(
                    (
                        "cost of an epoch, at best",
                        Known(cost, "per epoch", "model", f"{plan.price:g} a chip and hour"),
                    )
                )
    if plan.input_rows is not None:
        rows.append(("rows a second that the input makes here", plan.input_rows))
    if plan.largest_rows is not None:
        rows.append(("largest batch that fits", plan.largest_rows))
    rows.append(("lowering and compiling here", plan.seconds))
    notes = list(plan.notes)
    if plan.price is not None and not plan.rows_of_epoch:
        notes.append("--price needs --epoch-rows, of which an epoch consists, to give its cost")
    return Section(f"{plan.what} on {plan.group.name}", tuple(rows), tuple(notes))


def _memory(plan: Plan) -> list[Section]:
    memory = plan.memory
    verdict = {
        True: "It fits.",
        False: "IT DOES NOT FIT.",
        None: "Whether it fits is not known: this hardware's memory is not.",
    }[memory.fits]
    rows = [*memory.parts, ("together", memory.total), ("a chip has", memory.available)]
    if memory.fits is False and not memory.total.value:
        rows = [row for row in rows if row[0] != "together"]
    notes = [verdict] + ([f"The compiler: {memory.message}"] if memory.message else [])
    buffers = tuple((f"{each.name}  {each.shape}", each.bytes) for each in memory.largest)
    return [
        Section("Memory of a chip", tuple(rows), tuple(notes)),
        Section("Largest arrays", buffers),
    ]


def step_sections(step: StepEstimate) -> tuple[Section, ...]:
    """Return the parts of the page that say where a step's time goes."""
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
            _alike((_described(each.collective), each.seconds) for each in step.collectives),
        ),
        Section(
            "Scaling efficiency" + (", upper bounds" if chip.clock.value else ""),
            tuple((f"{chips} chips", known) for chips, known in efficiencies(step)),
        ),
        Section(f"{chip.platform} {chip.name}", hardware),
    )


def _alike(rows: Iterable[tuple[str, Known]]) -> tuple[tuple[str, Known], ...]:
    """The rows, those alike as one with their sum."""
    found: dict[tuple[str, str], list[Known]] = defaultdict(list)
    for name, known in rows:
        found[name, known.source].append(known)
    return tuple(
        (
            name if len(each) == 1 else f"{name}, {len(each)} alike",
            each[0]._replace(value=sum(known.value for known in each)),
        )
        for (name, _), each in found.items()
    )


def _with_loss(step: StepEstimate, measured: Mapping[int, float]) -> Section:
    def bound(chips: int) -> float:
        return step.efficiency(chips).value

    loss = loss_of_doubling(measured, bound)
    source = f"the upper bound, less {loss * 100:.2g} % for each doubling, fitted to the measured"
    return Section(
        "Rate of a chip, with the loss of what was measured",
        tuple(
            (
                f"{chips} chips",
                Known(measured[chips], "rate", "measured", "given")
                if chips in measured
                else Known(rate_with_loss(measured, chips, bound), "rate", "model", source),
            )
            for chips in sorted({*measured, *(n for n in SIZES if n > min(measured))})
        ),
    )


def markdown(page: Sequence[Section]) -> str:
    """Return the page in Markdown."""
    lines = []
    for section in page:
        lines += [f"## {_escaped(section.title)}", ""]
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


def as_json(plan: Plan) -> str:
    """Return the page as JSON: numbers in base units, with unit, origin and source."""
    page: dict[str, Any] = {
        "hardware": plan.group.name,
        "step": plan.what,
        "rows": plan.rows,
        "replicas": plan.replicas,
        "fits": plan.memory.fits,
        "trains": plan.trains,
    }
    page["suggestions"] = [
        {
            "name": each.name,
            "options": list(each.options),
            "fits": each.fits,
            "refused": each.refused,
            "effects": {name: known._asdict() for name, known in each.effects.items()},
        }
        for each in plan.suggestions
    ]
    page["sections"] = [
        {
            "title": section.title,
            "rows": [{"name": name, **known._asdict()} for name, known in section.rows],
            "notes": list(section.notes),
        }
        for section in sections(plan)
    ]
    return json.dumps(page, indent=1, allow_nan=False) + "\n"


def print_report(page: Sequence[Section], console: Console) -> None:
    """Print the page."""
    for section in page:
        if not section.rows and not section.notes:
            continue
        table = Table(title=escape(section.title), title_justify="left", show_header=False)
        sources = {(known.how, known.source) for _, known in section.rows}
        for name, known in section.rows:
            origin = (known.how, known.source) if len(sources) > 1 else ()
            table.add_row(escape(name), shown(known), *map(escape, origin))
        console.print(table)
        notes = list(section.notes)
        if len(sources) == 1:
            notes.insert(0, ": ".join(filter(None, sources.pop())))
        for note in notes:
            console.print(f"  {note}", markup=False, highlight=False)


def write_picture(plan: Plan, path: Path) -> None:
    """Write a PNG: memory, the slowest layers, scaling, what to change.

    Raises:
        MissingExtraError: without matplotlib.
    """
    figure_module = import_extra("matplotlib.figure", "profile", "The picture of a plan")
    backend = import_extra("matplotlib.backends.backend_agg", "profile", "The picture of a plan")
    timed = plan.step is not None
    changes = [each for each in plan.suggestions if MEMORY in each.effects]
    figure = figure_module.Figure(
        figsize=(11 if timed else 6, 9 if changes else 7), layout="constrained", facecolor="white"
    )
    backend.FigureCanvasAgg(figure)
    figure.suptitle(f"{plan.what} on {plan.group.name}, {plan.rows:,} rows a step")
    rows = [["memory", "layers"], ["memory", "scaling"]] if timed else [["memory"], ["memory"]]
    if changes:
        rows.append(["changes"] * len(rows[0]))
    panels = figure.subplot_mosaic(rows)
    _draw_memory(panels["memory"], plan)
    if plan.step is not None:
        _draw_layers(panels["layers"], plan.step)
        _draw_scaling(panels["scaling"], plan.step)
    if changes:
        _draw_changes(panels["changes"], plan, changes)
    figure.savefig(path, dpi=150)


def _draw_memory(axes: Any, plan: Plan) -> None:
    available, total = plan.memory.available, plan.memory.total.value
    comparable = 0 < available.value < 20 * total  # else the bar is too low to be seen beside it
    scale, unit = _scale(total)
    below = 0.0
    for name, known in plan.memory.parts:
        if known.value > 0:
            height = known.value / scale
            axes.bar([0], [height], bottom=[below], label=f"{name}: {shown(known)}")
            below += height
    if comparable:
        axes.axhline(available.value / scale, color="black", linestyle="--")
    has = f"; it has {shown(available)}" if available.value else ""
    axes.set(title=f"Memory of a chip{has}", ylabel=unit, xticks=[], xlim=(-1, 1))
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.01))


def _scale(size: float) -> tuple[float, str]:
    return (1e9, "GB") if size >= 1e9 else (1e6, "MB")


def _draw_layers(axes: Any, step: StepEstimate) -> None:
    slowest = step.layers[:LAYERS][::-1]
    names = [each.name if len(each.name) <= 48 else f"...{each.name[-45:]}" for each in slowest]
    axes.barh(range(len(slowest)), [each.seconds.value * 1e3 for each in slowest])
    axes.set_yticks(range(len(slowest)), names, fontsize=7)
    axes.set(title="Slowest layers", xlabel="ms a step")


def _draw_scaling(axes: Any, step: StepEstimate) -> None:
    points = efficiencies(step)
    axes.plot([chips for chips, _ in points], [known.value * 100 for _, known in points], "o-")
    axes.set(title="Scaling efficiency, at best", xlabel="chips", ylabel="%", xscale="log", ylim=0)


def _draw_changes(axes: Any, plan: Plan, changes: Sequence[Suggestion]) -> None:
    memory = plan.memory
    bars = [("as it is", memory.total, _verdict(memory.fits))]
    for each in changes:
        told = _verdict(each.fits)
        if RATE in each.effects:
            told = ", ".join(filter(None, (told, shown(each.effects[RATE]))))
        bars.append((each.name, each.effects[MEMORY], told))
    bars.reverse()
    scale, unit = _scale(memory.total.value)
    sizes = [known.value / scale for _, known, _ in bars]
    axes.barh(range(len(bars)), sizes, color="lightsteelblue")
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars], fontsize=8)
    for at, (_, known, told) in enumerate(bars):
        text = ", ".join(filter(None, (shown(known), told, known.how)))
        axes.text(0, at, f" {text}", va="center", fontsize=8)
    if 0 < memory.available.value < 20 * memory.total.value:
        axes.axvline(memory.available.value / scale, color="black", linestyle="--")
    axes.set(title="What to change: memory of a chip", xlabel=unit)


def shown(known: Known) -> str:
    """Return a number with its unit, to three digits: ``"1.20 ms"``, ``"97.3 %"``."""
    value, unit = known.value, known.unit
    if not value:
        return "not known" if known.how == "assumed" else f"0 {unit}".rstrip()
    if unit == "":
        return f"{value * 100:.1f} %"
    if unit in _PLAIN:
        return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    for scale, prefix in _SMALL if unit == "s" else _PREFIXES:
        if abs(value) >= scale * (1 - 5e-4):
            return f"{_digits(value / scale)} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def _digits(value: float) -> str:
    value = float(f"{value:.2e}")
    places = max(0, 2 - math.floor(math.log10(abs(value)) + 1e-9))
    return f"{value:.{places}f}"


def _described(collective: Collective) -> str:
    algorithm = f", {collective.algorithm}" if collective.algorithm else ""
    return (
        f"{collective.kind}, {_size(collective.bytes)} of "
        f"{'+'.join(collective.dtypes) or '?'}, {collective.times:g} times{algorithm}"
    )


def _size(value: float) -> str:
    return shown(Known(value, "B", "compiled", "")) if value else "0 B"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
