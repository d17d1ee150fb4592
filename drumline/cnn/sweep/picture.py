"""The picture of a sweep: images per second, and what the time of a step goes to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drumline._extras import import_extra
from drumline.cnn.sweep.page import Machine, Row, ideal_name, times

_MODES = {"replicated": "#30638e", "parameter_server": "#d1495b", "independent": "#8d96a3"}
_PARTS = {
    "computing": "#3a7d44",
    "communication": "#edae49",
    "input": "#7b5ea7",
    "rest": "#dfe3e8",
}
_ALONE = "#46505a"
_LEAST_WRITTEN = 0.06
_FEW = 2
"""With so many numbers of devices and fewer, speeds are bars beside those of the steps' time."""
_BAR_INCHES = 0.34


def draw(rows: Sequence[Row], machine: Machine, path: Path) -> None:
    """Draw two panels for each model.

    On the left are images per second: a bar for each case, or where there are more than two numbers
    of devices a line over them for each mode. On the right is a bar for each case, split into what
    the time of its steps went to.

    Raises:
        MissingExtraError: without matplotlib.
    """
    figure_module = import_extra("matplotlib.figure", "profile", "The picture of a sweep")
    backend = import_extra("matplotlib.backends.backend_agg", "profile", "The picture of a sweep")
    models = list(dict.fromkeys(row.result.case.model for row in rows))
    by_model = [[row for row in rows if row.result.case.model == model] for model in models]
    few = len({row.result.case.devices for row in rows}) <= _FEW
    least = 1.2 if few else 2.3
    heights = [max(least, 0.5 + _BAR_INCHES * len(own)) for own in by_model] or [1.0]
    figure = figure_module.Figure(figsize=(10.5, sum(heights) + 1.1), layout="constrained")
    backend.FigureCanvasAgg(figure)
    panels = figure.subplots(
        max(1, len(models)),
        2,
        squeeze=False,
        gridspec_kw={"height_ratios": heights, "width_ratios": [1, 1.35]},
    )
    for (speeds, shares), model, own in zip(panels, models, by_model, strict=False):
        title = f"{model}: images per second"
        if few:
            _draw_bars(speeds, own)
            title += f" ({ideal_name(machine)})" if any(r.efficiency for r in own) else ""
        else:
            _draw_lines(speeds, own, machine)
        speeds.set_title(title, loc="left", fontsize=11)
        _draw_shares(shares, own)
        shares.set_title("what the time of a step goes to", loc="left", fontsize=11)
        if few:  # they are at the left bars
            shares.set_yticklabels([])
    if models and not few:
        panels[-1][0].set_xlabel("devices")
    handles = {
        label: handle
        for panel in panels.flat
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    if handles:
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=len(handles),
            frameon=False,
            fontsize=9,
        )
    title = f"Training networks of images on {machine.name}"
    if machine.software:
        title += f"\n{machine.software}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    figure.savefig(path, dpi=150)


def _draw_bars(panel: Any, rows: Sequence[Row]) -> None:
    most = max(row.result.images_per_second or 0 for row in rows)
    for place, row in enumerate(rows):
        case, speed = row.result.case, row.result.images_per_second or 0
        color = _ALONE if case.devices == 1 else _MODES.get(case.mode)
        panel.barh(place, speed, 0.72, color=color)
        text = f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}"
        if row.efficiency is not None and case.devices > 1:
            text += f"  ({row.efficiency:.0%})"
        panel.text(speed + most / 60, place, text, va="center", fontsize=9)
    panel.set_yticks(range(len(rows)), [_name(row) for row in rows], fontsize=9)
    panel.invert_yaxis()
    panel.set_xlim(0, 1.35 * most)
    panel.set_xticks([])
    panel.spines[["top", "right", "bottom"]].set_visible(False)
    panel.tick_params(axis="y", length=0)


def _draw_lines(panel: Any, rows: Sequence[Row], machine: Machine) -> None:
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
            color=_MODES.get(mode),
            label=mode,
        )
    devices = sorted({row.result.case.devices for row in rows})
    if single is not None and len(devices) > 1:
        speed = single.result.images_per_second or 0
        panel.plot(
            devices,
            [speed * times(machine, number) for number in devices],
            color="#999999",
            linestyle=":",
            label="ideal",
        )
    panel.set_xticks(devices)
    panel.margins(x=0.1)
    panel.set_ylim(0, 1.15 * max(row.result.images_per_second or 0 for row in rows))
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", alpha=0.3)


def _draw_shares(panel: Any, rows: Sequence[Row]) -> None:
    names = [_name(row) for row in rows]
    left = [0.0] * len(rows)
    for part, color in _PARTS.items():
        shares = [getattr(row, part) or 0.0 for row in rows]
        panel.barh(range(len(rows)), shares, 0.72, left=left, color=color, label=part)
        for place, (start, share) in enumerate(zip(left, shares, strict=True)):
            if share >= _LEAST_WRITTEN:
                dark = part in ("computing", "input")
                panel.text(
                    start + share / 2,
                    place,
                    f"{share:.0%}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="white" if dark else "black",
                )
        left = [start + share for start, share in zip(left, shares, strict=True)]
    for place, row in enumerate(rows):
        if row.computing is None:
            panel.text(0.01, place, "not known", va="center", fontsize=8, color="#666666")
    panel.set_yticks(range(len(rows)), names, fontsize=9)
    panel.invert_yaxis()
    panel.set_xlim(0, 1)
    panel.set_xticks([])
    panel.spines[["top", "right", "bottom"]].set_visible(False)
    panel.tick_params(axis="y", length=0)


def _name(row: Row) -> str:
    case = row.result.case
    return "1 device" if case.devices == 1 else f"{case.devices} x {case.mode}"
