"""The report as a picture: one panel for each workload, speeds relative to its baseline."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks.harness.floors import OURS
from benchmarks.report.numbers import rate, times

matplotlib.use("Agg")

Mark = tuple[float, str]

OURS_COLOUR = "#d1495b"
PEER_COLOUR = "#30638e"
QUIET = "#8a8f98"
ROW_INCHES = 0.34
TITLE_COLUMNS = 64


def draw(summaries: Sequence[dict[str, Any]], path: Path) -> None:
    """Draws the summaries, in two columns, and writes a PNG to ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [summaries[i : i + 2] for i in range(0, len(summaries), 2)]
    heights = [max(len(_measured(summary)) for summary in row) + 3.0 for row in rows]
    layout = ConstrainedLayoutEngine(h_pad=0.08, hspace=0.05, wspace=0.03)
    figure = Figure(figsize=(14, 1.0 + ROW_INCHES * sum(heights)), layout=layout)
    grid = figure.add_gridspec(len(rows), 2, height_ratios=heights)
    for number, row in enumerate(rows):
        for column, summary in enumerate(row):
            _panel(figure.add_subplot(grid[number, column]), summary)
    figure.suptitle(
        "Speed relative to each workload's baseline (right is faster, logarithmic)",
        fontsize=14,
        fontweight="bold",
    )
    figure.legend(handles=_legend(), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=130, facecolor="white", metadata={"Software": None})


def _panel(axes: Axes, summary: dict[str, Any]) -> None:
    entries = sorted(_measured(summary), key=lambda entry: entry["speeds"]["later"]["median"])
    title = textwrap.fill(summary["title"], TITLE_COLUMNS)
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold", pad=8)
    if not entries:
        axes.text(0.5, 0.5, "nothing was measured", ha="center", va="center", color=QUIET)
        axes.set_axis_off()
        return
    unit_speed = _unit_speed(summary, entries)
    for place, entry in enumerate(entries):
        marks = _marks(summary, entries, unit_speed) if entry["name"] == OURS else []
        _row(axes, place, entry, unit_speed, summary["unit"], marks)
    axes.set_yticks(range(len(entries)), [entry["name"] for entry in entries])
    for label, entry in zip(axes.get_yticklabels(), entries, strict=True):
        if entry["name"] == OURS:
            label.set(fontweight="bold", color=OURS_COLOUR)
    _style(axes, len(entries))


def _row(
    axes: Axes, place: int, entry: dict[str, Any], unit_speed: float, unit: str, marks: list[Mark]
) -> None:
    colour = OURS_COLOUR if entry["name"] == OURS else PEER_COLOUR
    later = {key: value / unit_speed for key, value in entry["speeds"]["later"].items()}
    first = entry["speeds"]["first"]["median"] / unit_speed
    axes.plot([first, later["median"]], [place, place], color=colour, alpha=0.25, linewidth=2)
    axes.plot([later["low"], later["high"]], [place, place], color=colour, linewidth=4, alpha=0.55)
    axes.plot(first, place, "o", markerfacecolor="white", color=colour, markersize=6)
    axes.plot(later["median"], place, "o", color=colour, markersize=8)
    for wanted, style in marks:
        axes.plot([wanted] * 2, [place - 0.42, place + 0.42], style, color="black", lw=1.6)
    label = f"{times(later['median'])}   {rate(entry['speeds']['later']['median'])} {unit}/s"
    axes.annotate(
        label,
        (max(later["high"], first, *(wanted for wanted, _ in marks)), place),
        xytext=(9, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        color=colour if entry["name"] == OURS else "#333333",
        fontweight="bold" if entry["name"] == OURS else "normal",
    )


def _marks(summary: dict[str, Any], entries: list[dict[str, Any]], unit_speed: float) -> list[Mark]:
    """Where each floor and aim for later epochs lies, and the style of its line."""
    speeds = {entry["name"]: entry["speeds"]["later"]["median"] for entry in entries}
    marks = []
    for floor in summary["floors"]:
        scale = speeds.get(floor["against"]) if floor["against"] else 1.0
        if floor["metric"] != "later" or scale is None:
            continue
        for key, style in (("at_least", "-"), ("aim", ":")):
            if floor[key] is not None:
                marks.append((floor[key] * scale / unit_speed, style))
    return marks


def _style(axes: Axes, count: int) -> None:
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.1, high * (high / low) ** 0.5)
    axes.set_ylim(-0.7, count - 0.3)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 30 else (1.0, 2.0, 5.0)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.axvline(1.0, color=QUIET, linewidth=0.8, zorder=0)
    axes.grid(axis="x", color="#e6e8eb", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _unit_speed(summary: dict[str, Any], entries: list[dict[str, Any]]) -> float:
    for entry in entries:
        if entry["name"] == summary["baseline"]:
            return float(entry["speeds"]["later"]["median"])
    return float(entries[0]["speeds"]["later"]["median"])


def _measured(summary: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry for entry in summary["contenders"] if entry["speeds"]]


def _legend() -> list[Line2D]:
    return [
        Line2D([], [], marker="o", color=QUIET, linestyle="", markersize=8, label="later epochs"),
        Line2D(
            [],
            [],
            marker="o",
            color=QUIET,
            markerfacecolor="white",
            linestyle="",
            label="first epoch",
        ),
        Line2D([], [], color="black", lw=1.6, label="floor for drumline, later epochs"),
        Line2D([], [], color="black", lw=1.6, linestyle=":", label="aim"),
    ]
