"""Metrics for people: a small curve in a line of text, a table, CSV, a picture."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from drumline._extras import import_extra
from drumline.jobs.metrics.series import MetricSeries

_BARS = "▁▂▃▄▅▆▇█"
_CURVE_WIDTH = 24
_SAMPLED = re.compile(r"(cpu|memory|gpu|gpu_memory)/(\w+:\d+)$")
_COLOURS = ("#1f6f8b", "#e07a3f", "#3a7d44", "#7b5ea7", "#d1495b", "#8d96a3")
_TITLES = {
    "cpu": "CPUs in use (cores)",
    "memory": "memory (GiB)",
    "gpu": "GPUs: share of time computing",
    "gpu_memory": "memory taken on GPUs (GiB)",
}
_PLAIN_WIDTH = 110
_MOST_PANELS = 24
_MOST_POINTS = 2000


def sparkline(values: Sequence[float] | np.ndarray, width: int = _CURVE_WIDTH) -> str:
    """A curve of at most `width` characters, from the lowest value to the highest.

    Each character stands for the mean of equally many values; one that is no number for a gap.

    Example:
        >>> sparkline([0, 1, 2, 3])
        '▁▃▆█'
    """
    array = np.asarray(values, np.float64)
    if len(array) > width:
        edges = np.linspace(0, len(array), width + 1).astype(int)
        array = np.array([array[a:b].mean() for a, b in itertools.pairwise(edges)])
    real = array[np.isfinite(array)]
    if not real.size:
        return " " * len(array)
    # In halves, since the difference of two large numbers may be no number.
    low, span = real.min() / 2, real.max() / 2 - real.min() / 2
    scaled = (array / 2 - low) / span if span else np.where(np.isfinite(array), 0, np.nan)
    return "".join(
        _BARS[round(float(x) * (len(_BARS) - 1))] if math.isfinite(x) else " " for x in scaled
    )


def value_text(name: str, value: float) -> str:
    """A value with its unit: ``"1.5 GiB"``, ``"87 %"``."""
    quantity = _quantity(name)
    if quantity in ("memory", "gpu_memory"):
        return f"{value / 2**30:.3g} GiB" if value >= 2**30 else f"{value / 2**20:.3g} MiB"
    if quantity == "gpu":
        return f"{value:.0%}"
    if quantity == "cpu":
        return f"{value:.2f} cores"
    return f"{value:.5g}"


def table(metrics: Mapping[str, MetricSeries]) -> Table:
    """A line for each metric: its name, step, latest value, and a small curve."""
    made = Table(box=None, pad_edge=False)
    made.add_column("METRIC", overflow="fold")
    for name in ("STEP", "LATEST"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("", no_wrap=True, min_width=_CURVE_WIDTH)
    for name, series in sorted(metrics.items(), key=_order):
        step = f"{series.steps[-1]} s" if _quantity(name) else str(series.steps[-1])
        curve = Text(sparkline(series.values), style="cyan")
        # The name is the program's: nothing in it is markup, or steers a terminal.
        plain = "".join(c for c in name if c.isprintable())
        made.add_row(Text(plain), step, value_text(name, series.last), curve)
    return made


def as_csv(metrics: Mapping[str, MetricSeries]) -> str:
    """Lines of ``metric,step,time,value``; a time that is not known is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("metric", "step", "time", "value"))
    for name, series in metrics.items():
        for step, moment, value in zip(series.steps, series.times, series.values, strict=True):
            when = "" if np.isnan(moment) else f"{moment:.3f}"
            writer.writerow((name, step, when, repr(float(value))))
    return text.getvalue()


def draw(metrics: Mapping[str, MetricSeries], path: Path, title: str) -> None:
    """Write a PNG with a panel for each quantity, and in it a line for each run or process.

    Raises:
        MissingExtraError: without matplotlib.
        ValueError: there are no metrics.
    """
    if not metrics:
        raise ValueError("there are no metrics to draw yet")
    figures = import_extra("matplotlib.figure", "profile", "drumline metrics --png")
    backend = import_extra("matplotlib.backends.backend_agg", "profile", "drumline metrics --png")
    panels = panels_of(metrics)
    shown = dict(list(panels.items())[:_MOST_PANELS])
    columns = 1 if len(shown) == 1 else 2 if len(shown) <= 6 else 3
    rows = -(-len(shown) // columns)
    figure = figures.Figure(
        figsize=(4.6 * columns + 1, 2.6 * rows + 0.6), layout="constrained", facecolor="white"
    )
    backend.FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, (quantity, lines) in zip(grid, shown.items(), strict=False):
        _draw_panel(panel, quantity, lines)
    for panel in grid[len(shown) :]:
        panel.set_visible(False)
    left_out = len(panels) - len(shown)
    more = f" (and {left_out} more)" if left_out else ""
    figure.suptitle(f"{title}{more}", x=0.01, ha="left", fontsize=13)
    figure.savefig(path, dpi=150)


def panels_of(metrics: Mapping[str, MetricSeries]) -> dict[str, dict[str, MetricSeries]]:
    """The lines of each panel, by their labels: the program's metrics first, then what it uses."""
    found: dict[str, dict[str, MetricSeries]] = {}
    for name, _ in sorted(metrics.items(), key=_order):
        sampled = _SAMPLED.fullmatch(name)
        if sampled:
            quantity, label = sampled[1], sampled[2]
        else:
            label, _, quantity = name.rpartition("/")
            quantity, space, who = quantity.partition(" (")
            label += f" ({who}" if space else ""
        found.setdefault(quantity, {})[label] = metrics[name]
    order = [q for q in found if q not in _TITLES] + [q for q in _TITLES if q in found]
    return {quantity: found[quantity] for quantity in order}


def _draw_panel(panel: Any, quantity: str, lines: Mapping[str, MetricSeries]) -> None:
    scale = 2**30 if quantity in ("memory", "gpu_memory") else 1
    positive = []
    for number, (label, series) in enumerate(lines.items()):
        every = max(1, -(-len(series) // _MOST_POINTS))
        steps = series.steps[::every] / (60 if quantity in _TITLES else 1)
        values = series.values[::every] / scale
        marker = "o" if len(values) <= 30 and quantity not in _TITLES else None
        colour = _COLOURS[number % len(_COLOURS)]
        style = "-" if number < len(_COLOURS) else "--"
        panel.plot(steps, values, color=colour, linestyle=style, linewidth=1.6, marker=marker,
                   markersize=3, label=label)  # fmt: skip
        positive.append(values[np.isfinite(values)])
    everything = np.concatenate(positive)
    if quantity in _TITLES:
        panel.set_ylim(bottom=0)
        panel.set_xlabel("minutes", fontsize=8)
    elif everything.size and everything.min() > 0 and everything.max() > 100 * everything.min():
        panel.set_yscale("log")
    panel.set_title(_TITLES.get(quantity, quantity), loc="left", fontsize=10)
    panel.tick_params(labelsize=8)
    panel.margins(x=0.02)
    panel.grid(alpha=0.3, linewidth=0.6)
    panel.spines[["top", "right"]].set_visible(False)
    if any(lines):
        panel.legend(frameon=False, fontsize=8)


def _order(item: tuple[str, MetricSeries]) -> tuple[bool, str]:
    """The program's own metrics first."""
    return _quantity(item[0]) is not None, item[0]


def show(metrics: Mapping[str, MetricSeries]) -> None:
    """Print `table`, as wide as the terminal is, and 110 characters where there is none."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PLAIN_WIDTH)
    console.print(table(metrics))


def _quantity(name: str) -> str | None:
    sampled = _SAMPLED.fullmatch(name)
    return sampled[1] if sampled else None
