"""The rows of a workload's tables, shared by the terminal and Markdown."""

from __future__ import annotations

from typing import Any

from benchmarks.harness.floors import OURS
from benchmarks.report.numbers import delay, floor_name, floor_value, rate_spread, ratio_spread

SPEED_COLUMNS = (
    "contender",
    "first batch",
    "first epoch, {unit}/s",
    "later epochs, {unit}/s",
    "drumline / it, first",
    "drumline / it, later",
    "import",
)
PART_COLUMNS = ("operation", "drumline, us", "{name}, us", "drumline / it")
FLOOR_COLUMNS = ("drumline's", "floor", "aim", "measured", "outcome")


def speed_columns(summary: dict[str, Any]) -> list[str]:
    """The headings of the table of speeds."""
    return [column.format(unit=summary["unit"]) for column in SPEED_COLUMNS]


def speed_rows(summary: dict[str, Any]) -> list[list[str]]:
    """One row for each contender; what did not run says why."""
    return [_speed_row(entry) for entry in summary["contenders"]]


def _speed_row(entry: dict[str, Any]) -> list[str]:
    name = entry["name"]
    if not entry["speeds"]:
        return [name, f"{entry['status']}: {entry['reason']}", "", "", "", "", ""]
    if entry["status"] != "ok":
        name = f"{name} ({entry['status']}: {entry['reason']})"
    speeds = entry["speeds"]
    ratios = {} if entry["name"] == OURS else entry["ratios"]
    return [
        name,
        delay(speeds["first_batch"]),
        rate_spread(speeds["first"]),
        rate_spread(speeds["later"]),
        ratio_spread(ratios.get("first")),
        ratio_spread(ratios.get("later")),
        f"{entry['import_s']['median']:.1f} s",
    ]


def floor_rows(summary: dict[str, Any]) -> list[list[str]]:
    """One row for each floor."""
    return [
        [
            floor_name(floor),
            floor_value(floor, "at_least"),
            floor_value(floor, "aim"),
            floor_value(floor, "measured"),
            outcome(floor),
        ]
        for floor in summary["floors"]
    ]


def outcome(floor: dict[str, Any]) -> str:
    """The outcome in words, with the aim where it was reached beyond a floor."""
    if floor["outcome"] == "pass" and floor["reached_aim"]:
        return "pass, aim reached"
    words = {"reached": "aim reached", "short": "short of the aim"}
    return words.get(floor["outcome"], floor["outcome"])


def part_tables(summary: dict[str, Any]) -> list[tuple[list[str], list[list[str]]]]:
    """The columns and rows of a table for each peer that times the same calls as drumline."""
    contenders = {entry["name"]: entry for entry in summary["contenders"]}
    ours = contenders.get(OURS, {}).get("parts") or {}
    return [
        (
            [column.format(name=name) for column in PART_COLUMNS],
            [
                [
                    part,
                    _microseconds(ours[part]["seconds"]),
                    _microseconds(value["seconds"]),
                    ratio_spread(value["ratio"]),
                ]
                for part, value in entry["parts"].items()
            ],
        )
        for name, entry in contenders.items()
        if name != OURS and entry.get("parts")
    ]


def _microseconds(value: dict[str, float]) -> str:
    return f"{value['median'] * 1e6:.1f}"
