"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.report.rows import (
    FLOOR_COLUMNS,
    floor_rows,
    part_tables,
    speed_columns,
    speed_rows,
)

INTRODUCTION = """\
# Benchmark results

Written by `python -m benchmarks`; `benchmarks/README.md` tells how. The machine's speed drifts,
so only ratios count: each is taken within a round, in which the contenders ran in turn,
in processes of their own, and the median over the rounds is shown, with the least and the
greatest. A ratio above 1 means that drumline is faster. Starting a process and importing
libraries is part of no epoch; the time of importing is stated.

![The speed of every contender relative to the baseline of its workload](results.png)
"""


def render(results: Iterable[dict[str, Any]]) -> str:
    """The Markdown page for the stored results of one or more workloads."""
    return "\n".join([INTRODUCTION, *(_workload(result) for result in results)])


def _workload(result: dict[str, Any]) -> str:
    summary, machine = result["summary"], result["machine"]
    where = (
        f"{result['date']}, {summary['rounds']} rounds, {machine['cores']} cores of "
        f"{machine['processor']}, {machine['memory_gib']} GiB, {machine['system']}"
    )
    parts = [f"## {summary['title']}\n", f"{where}; {_versions(summary)}.\n"]
    if summary["quick"]:
        parts.append("A quick trial at a small scale: its figures mean nothing.\n")
    parts.append(table(speed_columns(summary), speed_rows(summary)))
    if summary["floors"]:
        parts.append(table(FLOOR_COLUMNS, floor_rows(summary)))
    parts += [table(columns, rows) for columns, rows in part_tables(summary)]
    parts.append(
        "\n".join(f"- **{entry['name']}**: {entry['about']}." for entry in summary["contenders"])
        + "\n"
    )
    return "\n".join(parts)


def _versions(summary: dict[str, Any]) -> str:
    found: dict[str, set[str]] = {}
    for entry in summary["contenders"]:
        for name, version in entry.get("versions", {}).items():
            found.setdefault(name, set()).add(version)
    return ", ".join(f"{name} {'/'.join(sorted(seen))}" for name, seen in sorted(found.items()))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [_line(columns), _line(["---"] + ["---:"] * (len(columns) - 1))]
    lines += [_line(row) for row in rows]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
