"""How a start of a job is asked to end: once, and killed when its time is over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumline.jobs.engines.launching import KILL_SECONDS
from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.local.start_folder import stop_kept
from tests.jobs.launch.launching import wait_until

# A window's new size has a larger number than SIGTERM: of both, it is heard of last.
MARK = signal.SIGWINCH

SAVING = f"""
import os, signal, sys
def heard(number, frame):
    os.write(1, b"asked " if number == signal.SIGTERM else b"marked ")
signal.signal(signal.SIGTERM, heard)
signal.signal(signal.Signals({int(MARK)}), heard)
os.write(1, b"begun ")
while True:
    signal.pause()
"""


class Saving:
    """A launcher whose job saves its checkpoint for as long as it is let."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "heard"
        lock = attempt.take_lock(folder)
        assert lock is not None
        with open(self.log, "wb") as log:
            command = [sys.executable, "-c", SAVING]
            self.process = subprocess.Popen(command, stdout=log, pass_fds=[lock])
        os.close(lock)
        self.wait_for("begun")
        started = attempt.started_at(self.process.pid)
        attempt.write(folder / attempt.RUNNING, {"pid": self.process.pid, "started": started})

    def wait_for(self, word: str) -> list[str]:
        wait_until(lambda: word in self.log.read_text().split())
        return self.log.read_text().split()


@pytest.fixture
def saving(tmp_path: Path) -> Iterator[Saving]:
    made = Saving(tmp_path)
    yield made
    made.process.kill()
    made.process.wait()


def test_a_job_that_saves_is_asked_once(saving: Saving) -> None:
    stop_kept(saving.folder)
    saving.wait_for("asked")
    for _ in range(3):
        stop_kept(saving.folder)
    saving.process.send_signal(MARK)
    assert saving.wait_for("marked") == ["begun", "asked", "marked"]


def test_a_job_that_does_not_end_is_killed(saving: Saving) -> None:
    stop_kept(saving.folder)
    saving.wait_for("asked")
    (asked,) = saving.folder.glob("stopping*")
    attempt.write(asked, {"time": time.time() - KILL_SECONDS - 1})
    stop_kept(saving.folder)
    assert saving.process.wait(60) == -signal.SIGKILL
    stop_kept(saving.folder)  # Nothing is left of it.


def test_nothing_is_sent_to_a_process_of_the_same_number(saving: Saving) -> None:
    attempt.write(saving.folder / attempt.RUNNING, {"pid": saving.process.pid, "started": 1})
    stop_kept(saving.folder)
    saving.process.send_signal(MARK)
    assert saving.wait_for("marked") == ["begun", "marked"]
    assert not list(saving.folder.glob("stopping*"))
