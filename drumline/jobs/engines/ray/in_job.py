"""What Ray runs: prepares a job's data, runs its launcher, and prints what all processes write.

Each line has the name of its process in front of it; the last one says how the job has ended.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from drumline.jobs.engines.children import SignalRelay
from drumline.jobs.engines.launching import KILL_SECONDS, launch_command
from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.preparing import preparation
from drumline.jobs.file.model import Job
from drumline.jobs.logs.reading import LogReader
from drumline.jobs.sources.data import data_problems
from drumline.jobs.sources.preparation import NO_DATA, dies_with, read_notes

FILE = ".drumline-job.json"
"""In the package with the code: the job."""

RESULT = "drumline-result "
"""Before the last line: the exit code, the reason, and whether it was silent for too long."""

_PERIOD_SECONDS = 0.3


class _Printer:
    """Prints what is new in the logs of a start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._readers: dict[str, LogReader] = {}
        self._notes = 0

    def print_news(self, ended: bool = False) -> None:
        for text in read_notes(self._folder)[self._notes :]:
            self._notes += 1
            print(f"note | {text}")
        self._readers.setdefault("job", LogReader(self._folder / attempt.LAUNCHER_LOG))
        for path in sorted((self._folder / attempt.LOGS).glob("*-*.log")):
            kind, _, index = path.stem.partition(".")[0].rpartition("-")
            again = path.stem.partition(".")[1] + path.stem.partition(".")[2]
            self._readers.setdefault(f"{kind}:{index}{again}", LogReader(path))
        for name, reader in self._readers.items():
            for line in reader.lines(ended):
                print(f"{name} | {line.decode(errors='replace')}")
        sys.stdout.flush()


def main(arguments: Sequence[str]) -> NoReturn:
    """The program: a folder to keep what the job writes to object stores, or none."""
    described = json.loads(Path(FILE).read_text())
    job = Job.from_json(described["job"])
    with tempfile.TemporaryDirectory(prefix="drumline-ray-") as base:
        code, reason, hung = _run(job, described["env"], Path(base) / "job")
    print(RESULT + json.dumps({"code": code, "reason": reason, "hung": hung}), flush=True)
    sys.exit(code if 0 <= code <= 255 else 1)


def _run(job: Job, env: dict[str, str], job_folder: Path) -> tuple[int, str, bool]:
    if problems := data_problems(job, job_folder.parent):
        return NO_DATA, "; ".join(problems), False
    # Ray gives jobs with the same code the same folder.
    work, folder = job_folder / "work", job_folder / "attempt-1"
    shutil.copytree(os.getcwd(), work, symlinks=True, ignore=shutil.ignore_patterns(FILE))
    folder.mkdir(mode=0o700)
    before = preparation(job, job_folder, folder, work, job_folder.parent)
    log = folder / attempt.LAUNCHER_LOG
    command = launch_command(job, folder / attempt.LOGS, before, launcher_log=log)
    signals = SignalRelay((signal.SIGTERM, signal.SIGINT))
    programs = str(Path(sys.executable).parent)
    path = f"{programs}:{os.environ.get('PATH', os.defpath)}"
    # Ray's signals are for this program's group: the launcher gets each of them once, from here.
    launcher = subprocess.Popen(
        command,
        cwd=work,
        env={**os.environ, "PATH": path, **env},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=dies_with(os.getpid()),
    )
    signals.begin(lambda _: launcher.send_signal(signal.SIGTERM))
    printer = _Printer(folder)
    ended, began, late = os.pidfd_open(launcher.pid), time.monotonic(), False
    while not select.select([ended], [], [], _PERIOD_SECONDS)[0]:
        printer.print_news()
        lasted = time.monotonic() - began
        if job.timeout is not None and lasted > job.timeout:
            if not late:
                launcher.terminate()
            elif lasted > job.timeout + KILL_SECONDS:
                launcher.kill()
            late = True
    code = launcher.wait()
    printer.print_news(ended=True)
    result = attempt.read(folder / attempt.LOGS / "result.json") or {}
    reason = str(result.get("reason", "")) or f"exit code {code}"
    if late and code:
        reason = f"it ran longer than its timeout, {job.timeout:g} s"
    return code, reason if code else "", bool(result.get("hung"))
