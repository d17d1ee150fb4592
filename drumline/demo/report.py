"""The demo's closing table, and its picture: both runs' curves, and how little they differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter
from rich.table import Table

from drumline.demo.train import TrainedRun


def results_table(runs: list[TrainedRun]) -> Table:
    """Strategy, replicas, test accuracy and training speed of each run."""
    table = Table(
        title="Results", caption="images/s: training, without the first epoch (compilation)"
    )
    table.add_column("strategy")
    table.add_column("replicas", justify="right")
    table.add_column("test accuracy", justify="right")
    table.add_column("images/s", justify="right")
    for run in runs:
        speed = "-" if run.images_per_second is None else f"{run.images_per_second:,.0f}"
        table.add_row(run.strategy, str(run.replicas), f"{run.test_accuracy:.2%}", speed)
    return table


_COLOURS = ("#1f6f8b", "#e07a3f")
_ROUNDING = 1e-9


def draw_curves(mirrored: TrainedRun, single: TrainedRun, title: str, path: Path) -> None:
    """Write the figure of `make_figure` as a PNG."""
    make_figure(mirrored, single, title).savefig(path, dpi=150)


def make_figure(mirrored: TrainedRun, single: TrainedRun, title: str) -> Figure:
    """Loss, accuracy and the difference of the losses, by epoch."""
    figure = Figure(figsize=(11, 6.5), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    panels = figure.subplot_mosaic(
        [["loss", "accuracy"], ["difference", "difference"]], height_ratios=[2.2, 1]
    )
    figure.suptitle(title, fontsize=14)
    _draw_both(panels["loss"], mirrored, mirrored.loss, single, single.loss)
    panels["loss"].set(title="Training loss", ylabel="cross-entropy", yscale="log")
    _draw_both(panels["accuracy"], mirrored, mirrored.accuracy, single, single.accuracy)
    panels["accuracy"].set(title="Training accuracy", ylabel="share of images")
    panels["accuracy"].axhline(
        mirrored.test_accuracy,
        color="#666666",
        linewidth=1.2,
        linestyle=":",
        label=f"test accuracy after training: {mirrored.test_accuracy:.2%}",
    )
    _draw_difference(panels["difference"], mirrored, single)
    panels["loss"].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panels["loss"].yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panels["loss"].yaxis.set_minor_formatter(NullFormatter())
    for panel in panels.values():
        panel.set_xlabel("epoch")
        panel.set_xlim(0.5, len(mirrored.loss) + 0.5)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(alpha=0.3, linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    panels["loss"].legend(frameon=False)
    panels["accuracy"].legend(frameon=False, loc="lower right")
    return figure


def _draw_both(
    panel: Axes,
    mirrored: TrainedRun,
    mirrored_curve: list[float],
    single: TrainedRun,
    single_curve: list[float],
) -> None:
    epochs = range(1, len(mirrored_curve) + 1)
    panel.plot(
        epochs, mirrored_curve, color=_COLOURS[0], linewidth=5, alpha=0.45, label=_name(mirrored)
    )
    panel.plot(
        epochs, single_curve, color=_COLOURS[1], linewidth=1.6, linestyle="--", label=_name(single)
    )


def _draw_difference(panel: Axes, mirrored: TrainedRun, single: TrainedRun) -> None:
    difference = np.abs(np.subtract(mirrored.loss, single.loss))
    epochs = np.arange(1, len(difference) + 1)
    panel.plot(epochs, difference, color="#444444", marker="o", markersize=3)
    panel.set_yscale("symlog", linthresh=_ROUNDING)
    panel.set_ylim(bottom=0)
    panel.set(
        title=f"Difference of the two losses (largest: {difference.max():.1e})",
        ylabel="absolute difference",
    )


def _name(run: TrainedRun) -> str:
    return f"{run.strategy}, {run.replicas} replica{'s' if run.replicas > 1 else ''}"
