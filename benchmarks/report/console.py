"""The report in the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.harness.floors import OURS
from benchmarks.report.rows import FLOOR_COLUMNS, floor_rows, speed_columns, speed_rows

OUTCOME_STYLES = {"pass": "green", "reached": "green", "miss": "bold red", "short": "yellow"}


def print_summary(console: Console, summary: dict[str, Any]) -> None:
    """Prints a workload's table of speeds and, below it, its floors."""
    console.print(speed_table(summary))
    if summary["floors"]:
        console.print(floor_table(summary))
    console.print()


def speed_table(summary: dict[str, Any]) -> Table:
    """Speeds and ratios, ours in bold."""
    heading = f"{summary['title']}\nmedian (least .. greatest) of {summary['rounds']} rounds"
    if summary["quick"]:
        heading += ", quick trial"
    table = Table(title=escape(heading), title_justify="left", title_style="bold")
    for number, column in enumerate(speed_columns(summary)):
        table.add_column(escape(column), justify="left" if number == 0 else "right")
    for row in speed_rows(summary):
        table.add_row(*map(escape, row), style="bold" if row[0] == OURS else "")
    return table


def floor_table(summary: dict[str, Any]) -> Table:
    """Floors and aims beside what was measured."""
    table = Table()
    for number, column in enumerate(FLOOR_COLUMNS):
        table.add_column(column, justify="left" if number in (0, 4) else "right")
    for row, floor in zip(floor_rows(summary), summary["floors"], strict=True):
        table.add_row(*row, style=OUTCOME_STYLES.get(floor["outcome"], ""))
    return table
