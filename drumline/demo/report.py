"""The demo's closing table."""

from __future__ import annotations

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
