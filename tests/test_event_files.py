"""Event files: each has a name of its own, and a full disk loses nothing that was recorded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import drumline as dl
from drumline.data.runtime.statistics import Statistics
from drumline.keras.callbacks.tensorboard import EventFile


def a_training(directory: Path) -> None:
    file = EventFile(directory)
    file.scalar("loss", 1.0, 0)
    file.close()


def statistics_of_a_dataset(directory: Path) -> None:
    statistics = Statistics("train")
    options = dl.data.Options()
    options.experimental_statistics = statistics
    list(dl.data.Dataset.range(3).map(lambda x: x + 1).with_options(options))
    statistics.write_tensorboard(directory, step=0)


@pytest.mark.parametrize("write", [a_training, statistics_of_a_dataset])
def test_what_was_written_within_the_second_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    clock = SimpleNamespace(time=lambda: 1_700_000_000.0, monotonic=lambda: 0.0)
    monkeypatch.setattr("drumline._event_files.time", clock)
    write(tmp_path)
    (first,) = tmp_path.iterdir()
    content = first.read_bytes()
    write(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert first.read_bytes() == content


def test_a_name_that_another_host_took_is_not_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As containers do that are called alike, share a directory, and are process 1 each."""
    clock = SimpleNamespace(time=lambda: 1_700_000_000.0, monotonic=lambda: 0.0)
    monkeypatch.setattr("drumline._event_files.time", clock)
    for _ in range(2):
        monkeypatch.setattr("drumline._event_files._opened", iter(range(1_000_000, 1_000_010)))
        a_training(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


FULL = """
import os, resource, signal, sys
from drumline._event_files import SummaryFile
from drumline._event_messages import scalar_message
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = SummaryFile(sys.argv[1], max_queue=1)
file.add(scalar_message("loss", 0.0), 0)
room = os.path.getsize(file.path) + 100  # a record, and a part of the next
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
failed = 0
for step in range(1, 6):
    try:
        file.add(scalar_message("loss", float(step)), step)
    except OSError as error:
        failed += 1
        message = str(error)
assert failed >= 3, failed
assert file.path in message and "wait in memory" in message, message
assert os.path.getsize(file.path) == room
if sys.argv[2] == "again":
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    file.add(scalar_message("loss", 6.0), 6)
    file.close()
else:
    os._exit(1)
"""


@pytest.mark.parametrize(("then", "steps"), [("again", 7), ("dies", 2)])
def test_a_full_disk_loses_no_event(tmp_path: Path, then: str, steps: int) -> None:
    """Written in full when there is room again; what was whole before can be read at any time."""
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), then], capture_output=True, text=True
    )
    assert done.returncode == (0 if then == "again" else 1), done.stderr
    (path,) = tmp_path.iterdir()
    events = list(loader.EventFileLoader(str(path)).Load())
    assert [event.step for event in events if event.summary.value] == list(range(steps))


def test_files_that_are_closed_take_nothing(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.scalar("loss", 1.0, 0)
    opened = file._open()
    file.close()
    with pytest.raises(ValueError, match="is closed"):
        opened.add(b"", 0)
