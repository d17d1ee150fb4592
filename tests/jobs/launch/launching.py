"""Running ``drumline launch`` on small scripts that know nothing of JAX."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
LAUNCH = [sys.executable, "-m", "drumline_command", "launch"]

_PRELUDE = """
import json, os, pathlib, signal, subprocess, sys, time
from tests.processes import gone, state_of
config = json.loads(os.environ["TF_CONFIG"])
task, index = config["task"]["type"], config["task"]["index"]
here = pathlib.Path(os.environ["TEST_DIR"])
def record(kind, message, peer=None):
    found = dict(task_type=task, task_index=index, kind=kind, message=message, traceback="")
    found |= dict(step=7, time=time.time(), peer=peer)
    path = pathlib.Path(os.environ["DRUMLINE_FAILURE_DIR"], f"{task}-{index}.json")
    path.with_suffix(".part").write_text(json.dumps(found))
    path.with_suffix(".part").rename(path)
def wait_for(name):
    while not (here / name).exists():
        time.sleep(0.01)
def wait_for_end_of(name):
    "Of the process that told its number under that name."
    wait_for(name)
    while not gone(int((here / name).read_text())):
        time.sleep(0.01)
def tell(name, text=""):
    (here / (name + ".part")).write_text(str(text))
    (here / (name + ".part")).rename(here / name)
"""


class Launcher:
    """Launches one script in a directory of its own.

    Args:
        directory: the working directory, for logs and for files the processes exchange.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.logs = directory / "logs"
        self._started: list[subprocess.Popen[str]] = []

    def script(self, body: str) -> list[str]:
        """The command of a script with `body`, after ``--``."""
        path = self.directory / "train.py"
        path.write_text(_PRELUDE + body)
        return ["--", sys.executable, "-S", str(path)]

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """What the launcher is started with."""
        ours = {"PYTHONPATH": str(ROOT), "TEST_DIR": str(self.directory), "COLUMNS": "200"}
        steering = ("DRUMLINE", "TF_CONFIG", "PYTHON")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(steering)}
        return {**kept, **ours, **(extra or {})}

    def arguments(self, *options: str, body: str) -> list[str]:
        """The whole command line."""
        logs = [] if "--log-dir" in options else ["--log-dir", str(self.logs)]
        return [*LAUNCH, *options, *logs, *self.script(body)]

    def run(
        self, *options: str, body: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end."""
        return subprocess.run(
            self.arguments(*options, body=body),
            cwd=self.directory,
            env=self.environment(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )

    def start(
        self, *options: str, body: str, started_by: Sequence[str] = (), **popen: Any
    ) -> subprocess.Popen[str]:
        """Start, with its output in a pipe; by another command that ends in an ``exec``."""
        popen.setdefault("env", self.environment())
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.STDOUT)
        command = [*started_by, *self.arguments(*options, body=body)]
        job = subprocess.Popen(command, cwd=self.directory, text=True, **popen)
        self._started.append(job)
        return job

    def end(self) -> None:
        """Leave nothing running, however a test has ended."""
        for job in self._started:
            job.kill()
            job.wait()
            if job.stdout is not None:
                job.stdout.close()

    def told(self, name: str) -> str:
        """What a process told under `name`, once it has."""
        wait_until((self.directory / name).exists)
        return (self.directory / name).read_text()

    def log(self, name: str) -> str:
        """The log of a process, as ``"worker-0"``."""
        return (self.logs / f"{name}.log").read_text()


def wait_until(ready: Callable[[], object], seconds: float = 30) -> None:
    """Wait for `ready`; the limit only guards against a hang."""
    limit = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < limit, "it did not happen"
        time.sleep(0.02)
