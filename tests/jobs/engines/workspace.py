"""Jobs in a folder of the test, and supervisors that run in the test itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from drumline.jobs.engines.engine import Engine
from drumline.jobs.file.reading import make_job
from drumline.jobs.service.submission import submit
from drumline.jobs.store.database import ENDED, JobRow, Store
from drumline.jobs.supervisor.loop import Supervisor
from tests.jobs.launch.launching import wait_until

# Each start of a job leaves a line, so that one that runs twice is seen.
COUNTED = """
import json, os, signal, sys, time
with open(os.environ["RUNS"], "a") as file:
    file.write(os.environ["DRUMLINE_JOB"] + " " + os.environ["DRUMLINE_ATTEMPT"] + "\\n")
again = int(os.environ.get("SLURM_RESTART_COUNT", 0))
"""
LONG = 150  # Seconds in which anything happens, also on a busy machine.


class EngineWorkspace:
    """A workspace with one engine, ``lab``.

    Args:
        folder: of the test.
        seconds: in which anything happens.
    """

    main: Engine

    def __init__(self, folder: Path, seconds: float = LONG) -> None:
        self.home = folder / "home"
        (self.home / "jobs").mkdir(parents=True)
        self.code = folder / "code"
        self.code.mkdir()
        self.runs = folder / "runs"
        self.shared = folder / "shared"
        self.store = Store(self.home)
        self.seconds = seconds

    def submit(self, script: str, engine: Engine | None = None, **fields: object) -> int:
        (self.code / "t.py").write_text(COUNTED + script)
        command = [sys.executable, "-S", "t.py"]
        wanted = {"command": command, "env": {"RUNS": str(self.runs)}, "engine": "lab", **fields}
        job = make_job(wanted, self.code, engines=["local", "lab"])
        return submit(self.store, engine or self.main, job)

    def supervisor(self, engine: Engine | None = None) -> Supervisor:
        return Supervisor(self.store, {"lab": engine or self.main})

    def services_log(self) -> str:
        """What is worth knowing when a test fails."""
        return ""

    def steps(self, until: Callable[[], object], engine: Engine | None = None) -> None:
        supervisor = self.supervisor(engine)

        def step() -> object:
            supervisor.step()
            return until()

        try:
            wait_until(step, self.seconds)
        except AssertionError:
            rows = "\n".join(map(str, self.store.jobs()))
            text = f"it did not happen\n{rows}\n{self.services_log()}"
            raise AssertionError(text) from None

    def ends(self, *numbers: int, engine: Engine | None = None) -> list[str]:
        """Their last states."""
        self.steps(lambda: all(self.row(n).state in ENDED for n in numbers), engine)
        return [self.row(n).state for n in numbers]

    def stop(self, number: int) -> None:
        with self.store.change():
            assert self.store.set_stop(number, "cancel")

    def end_all(self) -> None:
        """Cancel what is open, and see it end."""
        for row in self.store.open_jobs():
            self.stop(row.id)
        self.steps(lambda: not self.store.open_jobs())

    def row(self, number: int) -> JobRow:
        row = self.store.job(number)
        assert row is not None
        return row

    def ran(self, number: int) -> int:
        lines = self.runs.read_text().splitlines() if self.runs.exists() else []
        return sum(line.split()[0] == str(number) for line in lines)

    def log(self, number: int, process: str = "worker:0", attempt: int = 1) -> str:
        return self.main.logs(f"{number}/attempt-{attempt}")[process].read_text()

    def events(self, number: int) -> list[str]:
        return [f"{event.kind}: {event.text}" for event in self.store.events(number)]
