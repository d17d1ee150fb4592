"""The events in a trace that JAX's profiler wrote (``*.xplane.pb``).

The format is ``tsl/profiler/protobuf/xplane.proto``. It is read here and not by
`jax.profiler.ProfileData`, which aborts the process at statistics that JAX 0.11 and 0.12 write.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from drumline._event_messages import fields_of_message

_NAME = 2  # of planes, lines, and what is known of events and statistics
_LINES, _OF_EVENTS, _OF_STATISTICS = 3, 4, 5
_EVENTS = _STATISTICS = 4
_DURATION = 3


class TraceEvent(NamedTuple):
    """Something that a thread or a device did.

    Attributes:
        name: such as that of an operation.
        duration: seconds; 0 for a moment.
        statistics: what is noted of it, by name; such as ``hlo_op``, the operation's name, or
            ``step_num``. None where the file has no value.
    """

    name: str
    duration: float
    statistics: dict[str, Any]


def read_trace(file: Path, having: str = "") -> Iterator[TraceEvent]:
    """Read the events of all threads and devices.

    Args:
        file: a file of JAX's profiler.
        having: only events with this statistic, if one is given.

    Raises:
        ValueError: the file is no such trace, or is cut off; it names the file.
    """
    content = file.read_bytes()
    try:
        for plane in fields_of_message(content).get(1, []):
            yield from _events_of_plane(fields_of_message(plane), having)
    except (IndexError, KeyError, TypeError, UnicodeDecodeError, struct.error) as error:
        raise ValueError(
            f"{file}: it is no trace of JAX's profiler, or was cut off ({error!r})."
        ) from error


def _events_of_plane(plane: dict[int, list[Any]], having: str) -> Iterator[TraceEvent]:
    statistics = _named(plane, _OF_STATISTICS)
    wanted = {number for number, name in statistics.items() if name == having}
    if having and not wanted:
        return
    events = _named(plane, _OF_EVENTS)
    for line in plane.get(_LINES, []):
        for message in fields_of_message(line).get(_EVENTS, []):
            event = fields_of_message(message)
            noted = [fields_of_message(each) for each in event.get(_STATISTICS, [])]
            if having and wanted.isdisjoint(each.get(1, [0])[0] for each in noted):
                continue
            yield TraceEvent(
                events.get(event.get(1, [0])[0], ""),
                event.get(_DURATION, [0])[0] / 1e12,
                dict(_statistic(each, statistics) for each in noted),
            )


def _named(plane: dict[int, list[Any]], field: int) -> dict[int, str]:
    """The names in a map from numbers to descriptions."""
    found = {}
    for entry in plane.get(field, []):
        pair = fields_of_message(entry)
        description = fields_of_message(pair.get(2, [b""])[0])
        found[pair.get(1, [0])[0]] = description.get(_NAME, [b""])[0].decode()
    return found


def _statistic(fields: dict[int, list[Any]], names: dict[int, str]) -> tuple[str, Any]:
    name = names.get(fields.get(1, [0])[0], "")
    if 2 in fields:
        return name, struct.unpack("<d", fields[2][0])[0]
    if 3 in fields:
        return name, fields[3][0]
    if 4 in fields:
        value = fields[4][0]
        return name, value - 2**64 if value >= 2**63 else value
    if 5 in fields:
        return name, fields[5][0].decode()
    if 6 in fields:
        return name, fields[6][0]
    if 7 in fields:
        return name, names.get(fields[7][0], "")
    return name, None
