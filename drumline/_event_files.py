"""Event files of TensorBoard whose names nobody else has."""

from __future__ import annotations

import itertools
import os

from tensorboardX import SummaryWriter

from drumline._local_path import local_path

_opened = itertools.count()


def summary_writer(directory: str | os.PathLike[str]) -> SummaryWriter:
    """A writer of a new event file in `directory`.

    Raises:
        ValueError: `directory` is a URL.

    tensorboardX names a file after the second and the host, and empties one that exists: of two
    opened in one second the first would be lost. The process and a count follow, as in
    TensorFlow's names (`create_file_writer`: "<seconds>.<host>.<pid>.<unique id>.v2").
    """
    plain = local_path(directory, "TensorBoard's event files", "an event file")
    return SummaryWriter(plain, filename_suffix=f".{os.getpid()}.{next(_opened)}.v2")
