"""Losses of the contenders of a workload, over the steps they took, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from benchmarks.report.picture import QUIET

matplotlib.use("Agg")


def draw_losses(summary: dict[str, Any], path: Path) -> None:
    """Draws the losses in the evidence of a workload's contenders, and writes a PNG to `path`."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for entry in summary["contenders"]:
        losses = entry.get("evidence", {}).get("losses", [])
        steps = [summary["elements"] * (epoch + 1) for epoch in range(len(losses))]
        axes.plot(steps, losses, marker="o", markersize=3, label=entry["about"])
    axes.set(yscale="log", xlabel="steps of one batch, of all workers together", ylabel="loss")
    axes.set_title(summary["title"], loc="left", fontsize=10, fontweight="bold")
    axes.grid(color=QUIET, alpha=0.25)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130, facecolor="white", metadata={"Software": None})
