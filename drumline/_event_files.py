"""Event files of TensorBoard with unique names."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

from drumline._extras import import_extra
from drumline._forks import never_freed, tell_in_child
from drumline._local_path import local_path

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter

_opened = itertools.count()


def summary_writer(directory: str | os.PathLike[str]) -> SummaryWriter:
    """A writer of a new event file in `directory`.

    Raises:
        ValueError: `directory` is a URL.
        ImportError: tensorboardX is not installed.

    tensorboardX names a file after the second and the host, and empties one that exists: of two
    opened in one second the first would be lost. The process and a count follow, as in
    TensorFlow's names (`create_file_writer`: "<seconds>.<host>.<pid>.<unique id>.v2").
    """
    plain = local_path(directory, "TensorBoard's event files", "an event file")
    tensorboard = import_extra("tensorboardX", "tensorboard", "Writing TensorBoard's event files")
    writer = tensorboard.SummaryWriter(plain, filename_suffix=f".{os.getpid()}.{next(_opened)}.v2")
    tell_in_child(_Events(writer.file_writer.event_writer))
    return writer


class _Events:
    """What writes a file's events, in a thread that a forked child lacks and would wait for."""

    def __init__(self, events: Any) -> None:
        self._events = events
        events.drumline = self  # lives as long as they do

    def forked(self) -> None:
        """See `Forked`: the child has nothing to write there."""
        self._events._closed = True
        never_freed(self._events)
