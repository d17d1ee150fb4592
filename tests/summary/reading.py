"""Reading summaries back by TensorBoard's own reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

loading = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")


def events(directory: Path) -> Iterator[Any]:
    """The events of all files in a directory that hold a summary; a graph is one, too."""
    for path in sorted(directory.glob("*tfevents*")):
        for event in loading.EventFileLoader(str(path)).Load():
            if event.summary.value:
                yield event


def values(directory: Path) -> list[tuple[str, int, Any]]:
    """Tag, step and array of each summary, by tag and step."""
    from tensorboard.util import tensor_util

    found = [
        (value.tag, event.step, tensor_util.make_ndarray(value.tensor))
        for event in events(directory)
        for value in event.summary.value
    ]
    return sorted(found, key=lambda each: each[:2])


def numbers(directory: Path) -> list[tuple[str, int, float]]:
    """The same of scalars."""
    return [(tag, step, float(array)) for tag, step, array in values(directory)]
