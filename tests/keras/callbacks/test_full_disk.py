"""Logs that cannot be written end in an error, not in a wait."""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.event_file_writer import EventsWriter

from drumline.keras.callbacks import EventFile


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Any, event: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = EventFile(tmp_path)
    file.scalar("loss", 1.0, 0)
    monkeypatch.setattr(EventsWriter, "_write_serialized_event", full)

    def write_on() -> None:
        for step in range(1, 200):
            file.scalar("loss", 1.0, step)
            time.sleep(0.01)

    with pytest.raises(OSError, match=r"could not be written.*full disk"):
        write_on()
