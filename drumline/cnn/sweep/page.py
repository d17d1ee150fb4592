"""The page of a sweep: images per second, scaling, share of the peak, and what to try next."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drumline._extras import import_extra
from drumline.cnn.sweep.cases import Result

PASSES = 3
"""A step computes the network once forward, and about twice as much backward."""

_GOOD = 0.9
_NOTABLE = 1.03
_COSTLY = 0.05


@dataclasses.dataclass(frozen=True)
class Machine:
    """What ran.

    Attributes:
        name: of the device.
        peak_flops: of a matrix product on one device, FLOPs a second.
        copy_bytes: that one device copies in a second.
        shares_processors: whether devices are logical ones of the same processors.
    """

    name: str
    peak_flops: float
    copy_bytes: float
    shares_processors: bool


@dataclasses.dataclass(frozen=True)
class Row:
    """A result beside the others.

    Attributes:
        result: which.
        efficiency: images per second, of so many times those of one device; None without one.
        peak_share: FLOPs of the network, of what products of matrices reach; None if unknown.
        exchange_share: how much of a step goes into keeping devices alike, by the time that
            independent ones take; None without them.
    """

    result: Result
    efficiency: float | None
    peak_share: float | None
    exchange_share: float | None


def rows_of(
    results: Sequence[Result], machine: Machine, multiply_adds: Mapping[str, int]
) -> list[Row]:
    """Return the results beside one another, those that failed left out.

    Args:
        results: of a sweep.
        machine: on which.
        multiply_adds: of each model for one image, forward.
    """
    speeds = {
        (r.case.model, r.case.devices, r.case.mode): r.images_per_second
        for r in results
        if r.images_per_second
    }
    rows = []
    for result in results:
        case, speed = result.case, result.images_per_second
        if not speed:
            continue
        single = next(
            (s for (model, devices, _), s in speeds.items() if (model, devices) == (case.model, 1)),
            None,
        )
        flops = 2 * PASSES * multiply_adds[case.model] if case.model in multiply_adds else None
        peak = machine.peak_flops * (1 if machine.shares_processors else case.devices)
        alone = speeds.get((case.model, case.devices, "independent"))
        ideal = None if single is None else single * _times(machine, case.devices)
        exchange = None
        if alone and case.mode != "independent":
            exchange = max(0.0, 1 - speed / alone)
        rows.append(
            Row(
                result,
                None if ideal is None else speed / ideal,
                None if flops is None or not peak else speed * flops / peak,
                exchange,
            )
        )
    return rows


def _times(machine: Machine, devices: int) -> int:
    return 1 if machine.shares_processors else devices


def advice(rows: Sequence[Row], machine: Machine) -> list[str]:
    """Return what to try next, a sentence each, the reason in it."""
    said = []
    for model in dict.fromkeys(row.result.case.model for row in rows):
        own = [row for row in rows if row.result.case.model == model]
        most = max(row.result.case.devices for row in own)
        alike = [
            row
            for row in own
            if row.result.case.devices == most and row.result.case.mode != "independent"
        ]
        if not alike:
            continue
        best = max(alike, key=lambda row: row.result.images_per_second or 0)
        where = f"{model} on {most} device(s)"
        slowest = min(row.result.images_per_second or 0 for row in alike)
        if slowest * _NOTABLE < (best.result.images_per_second or 0):
            said.append(
                f"{where}: `--variable_update={best.result.case.mode}` is the fastest mode here."
            )
        if best.exchange_share is not None and best.exchange_share > _COSTLY:
            said.append(
                f"{where}: {best.exchange_share:.0%} of a step goes into keeping devices alike. "
                "Try a larger `--batch_size`, `--use_bf16`, whose gradients are half as long, or "
                "`--variable_consistency=relaxed`, which hides them behind the next step."
            )
        if best.peak_share is not None and best.peak_share < 0.3 and not machine.shares_processors:
            said.append(
                f"{where}: {best.peak_share:.0%} of the peak. Try a larger `--batch_size` or "
                "`--use_bf16`."
            )
        scales = best.efficiency is not None and best.efficiency >= _GOOD and most > 1
        if scales and not machine.shares_processors:
            said.append(f"{where}: it scales ({best.efficiency:.0%}); more devices will pay.")
    return said


def markdown(
    rows: Sequence[Row], failed: Sequence[Result], machine: Machine, picture: str | None
) -> str:
    """Return the page.

    Args:
        rows: of `rows_of`.
        failed: results of cases that ended with an error.
        machine: on which.
        picture: the path of the picture from the page; None without one.
    """
    ideal = "of one device alone" if machine.shares_processors else "of as many single devices"
    lines = [
        f"# Networks of images on {machine.name}",
        "",
        f"A matrix product reaches {machine.peak_flops / 1e12:.3g} TFLOP/s on one device, a copy "
        f"{machine.copy_bytes / 1e9:.3g} GB/s; both measured before.",
        "",
    ]
    if machine.shares_processors:
        lines += ["Devices are logical ones, which share this machine's processors.", ""]
    if picture is not None:
        lines += [f"![Images per second]({picture})", ""]
    lines += [
        f"| model | devices | mode | batch | images/s | {ideal} | of the peak | keeping alike |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        case = row.result.case
        lines.append(
            f"| {case.model} | {case.devices} | {case.mode} | {row.result.batch_size} | "
            f"{row.result.images_per_second:,.1f} | {_percent(row.efficiency)} | "
            f"{_percent(row.peak_share)} | {_percent(row.exchange_share)} |"
        )
    if flags := {flag for row in rows for flag in row.result.case.flags}:
        lines += ["", f"All with `{' '.join(sorted(flags))}`."]
    if sentences := advice(rows, machine):
        lines += ["", "## What to try next", "", *(f"- {each}" for each in sentences)]
    if failed:
        lines += ["", "## What failed", ""]
        lines += [
            f"- `{' '.join(each.case.arguments)}`: {each.error.splitlines()[-1]}" for each in failed
        ]
    lines += [
        "",
        "*Of the peak*: three times the network's multiply-adds, beside a matrix product's. "
        "*Keeping alike*: how much longer a step takes than that of independent devices.",
        "",
    ]
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def to_json(rows: Sequence[Row], failed: Sequence[Result], machine: Machine) -> dict[str, Any]:
    """Return the page's numbers."""
    return {
        "machine": dataclasses.asdict(machine),
        "rows": [dataclasses.asdict(row) for row in rows],
        "failed": [dataclasses.asdict(each) for each in failed],
        "advice": advice(rows, machine),
    }


def draw(rows: Sequence[Row], machine: Machine, path: Path) -> None:
    """Draw images per second over devices: a panel for each model, a line for each mode.

    Raises:
        MissingExtraError: without matplotlib.
    """
    figure_module = import_extra("matplotlib.figure", "profile", "The picture of a sweep")
    backend = import_extra("matplotlib.backends.backend_agg", "profile", "The picture of a sweep")
    models = list(dict.fromkeys(row.result.case.model for row in rows))
    columns = min(3, max(1, len(models)))
    height = -(-len(models) // columns)
    figure = figure_module.Figure(figsize=(4.6 * columns, 3.4 * height + 0.6))
    backend.FigureCanvasAgg(figure)
    panels = figure.subplots(height, columns, squeeze=False)
    for number, panel in enumerate(panels.flat):
        if number >= len(models):
            panel.set_visible(False)
            continue
        _draw_model(panel, [r for r in rows if r.result.case.model == models[number]], machine)
        panel.set_title(models[number], loc="left", fontsize=11, fontweight="bold")
    handles = {
        label: h
        for p in panels.flat
        for h, label in zip(*p.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=4, frameon=False)
    figure.suptitle(f"Images per second, {machine.name}", x=0.02, ha="left", fontsize=12)
    figure.tight_layout(rect=(0, 0.08, 1, 0.98))
    figure.savefig(path, dpi=150)


_COLOURS = {"replicated": "#30638e", "parameter_server": "#d1495b", "independent": "#8d96a3"}


def _draw_model(panel: Any, rows: Sequence[Row], machine: Machine) -> None:
    single = next((r for r in rows if r.result.case.devices == 1), None)
    for mode in dict.fromkeys(row.result.case.mode for row in rows):
        own = [r for r in rows if r.result.case.mode == mode]
        if single is not None and single not in own:
            own = [single, *own]
        own.sort(key=lambda row: row.result.case.devices)
        panel.plot(
            [row.result.case.devices for row in own],
            [row.result.images_per_second for row in own],
            marker="o",
            color=_COLOURS.get(mode),
            label=mode,
        )
    devices = sorted({row.result.case.devices for row in rows})
    if single is not None and len(devices) > 1:
        speed = single.result.images_per_second or 0
        panel.plot(
            devices,
            [speed * _times(machine, number) for number in devices],
            color="#bbbbbb",
            linestyle=":",
            label="ideal",
        )
    panel.set_xticks(devices)
    panel.set_xlabel("devices")
    panel.set_ylim(0, 1.15 * max(row.result.images_per_second or 0 for row in rows))
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", alpha=0.3)
