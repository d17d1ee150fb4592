"""Calls as Chrome's trace format (the JSON object form of the Trace Event Format)."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drumline.data.runtime.meter import Event


def save_events(events: Sequence[Event], path: str | os.PathLike[str]) -> None:
    """Writes complete events, times in microseconds from the first, a row for each thread."""
    threads = {thread: i for i, thread in enumerate(dict.fromkeys(e.thread for e in events))}
    first = min((event.start for event in events), default=0.0)
    pid = os.getpid()
    rows: list[dict[str, Any]] = [
        {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
        for (_, name), tid in threads.items()
    ]
    rows += [
        {
            "name": event.name,
            "ph": "X",
            "ts": (event.start - first) * 1e6,
            "dur": event.seconds * 1e6,
            "pid": pid,
            "tid": threads[event.thread],
            "args": {"elements": event.elements},
        }
        for event in events
    ]
    Path(path).write_text(json.dumps({"traceEvents": rows, "displayTimeUnit": "ms"}))
