"""Results on disk: one JSON file for each workload, so that one may be measured again alone."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.harness.machine import describe_machine


def save(directory: Path, summary: dict[str, Any]) -> Path:
    """Writes a workload's summary with the date and the machine; returns the file."""
    directory.mkdir(parents=True, exist_ok=True)
    result = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": describe_machine(),
        "summary": summary,
    }
    path = directory / f"{summary['workload']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return path


def load_all(directory: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    """The stored results of those of ``names`` that have any, in that order."""
    paths = [directory / f"{name}.json" for name in names]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
