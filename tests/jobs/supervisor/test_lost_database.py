"""A supervisor whose database is killed, and one that is killed itself, while jobs run."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from drumline.jobs.engines.children import collect_children
from drumline.jobs.engines.local.engine import LocalEngine
from drumline.jobs.file.reading import make_job
from drumline.jobs.service.submission import submit
from drumline.jobs.store.database import ENDED, Store
from drumline.jobs.store.workspace import write_database_url
from drumline.jobs.supervisor.loop import ensure_supervisor
from tests.jobs.launch.launching import ROOT, wait_until
from tests.jobs.store.cluster import PostgresCluster

# A start of a job leaves a line, so that one that runs twice is seen; it ends when it may.
SCRIPT = """
import os, time
with open(os.environ["RUNS"], "a") as file:
    file.write(os.environ["DRUMLINE_JOB"] + "\\n")
while not os.path.exists(os.environ["MAY_END"]):
    time.sleep(0.05)
"""
LONG = 300


class Supervised:
    """A workspace with a supervisor in the background."""

    def __init__(self, folder: Path) -> None:
        self.home, self.code, self.runs = folder / "home", folder / "code", folder / "runs"
        self.may_end = folder / "may-end"
        (self.home / "jobs").mkdir(parents=True)
        self.code.mkdir()
        (self.code / "t.py").write_text(SCRIPT)

    def submit(self, store: Store, cpus: float) -> int:
        env = {"RUNS": str(self.runs), "MAY_END": str(self.may_end)}
        fields = {"command": [sys.executable, "-S", "t.py"], "env": env, "workers": {"cpus": cpus}}
        return submit(store, LocalEngine(self.home), make_job(fields, self.code))

    def ran(self) -> list[int]:
        return sorted(map(int, self.runs.read_text().split())) if self.runs.exists() else []

    def supervisors(self) -> list[int]:
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if "supervisor" in words and str(self.home) in words:
                found.append(process.pid)
        return found

    def said(self) -> str:
        log = self.home / "supervisor.log"
        return log.read_text() if log.exists() else ""


@pytest.fixture
def supervised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervised]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    workspace = Supervised(tmp_path)
    yield workspace
    workspace.may_end.touch()
    for pid in workspace.supervisors():
        os.kill(pid, signal.SIGKILL)
    collect_children(timeout=None)


def test_jobs_go_on_while_the_database_is_away_and_their_ends_are_written_later(
    supervised: Supervised, postgresql: PostgresCluster
) -> None:
    write_database_url(supervised.home, postgresql.database())
    store = Store(supervised.home)
    numbers = [supervised.submit(store, 0.01) for _ in range(3)]
    assert ensure_supervisor(supervised.home)
    wait_until(lambda: supervised.ran() == numbers, LONG)
    wait_until(lambda: all(row.state == "running" for row in store.open_jobs()), LONG)
    postgresql.kill()
    try:
        wait_until(lambda: "waits: " in supervised.said(), LONG)
        assert "cannot be reached" in supervised.said()
        supervised.may_end.touch()
        exits = supervised.home / "jobs" / str(numbers[0]) / "attempt-1" / "exit.json"
        wait_until(exits.exists, LONG)
        (pid,) = supervised.supervisors()
    finally:
        postgresql.start()
    wait_until(lambda: not store.open_jobs(), LONG)
    assert [row.state for row in store.jobs()] == ["succeeded"] * 3
    assert supervised.ran() == numbers
    wait_until(lambda: "continues" in supervised.said(), LONG)
    assert supervised.said().count("waits: ") == 1
    assert supervised.supervisors() == [pid] and "Traceback" not in supervised.said()
    store.close()


def test_a_supervisor_that_starts_while_the_database_is_away_waits_for_it(
    supervised: Supervised, postgresql: PostgresCluster
) -> None:
    write_database_url(supervised.home, postgresql.database())
    store = Store(supervised.home)
    number = supervised.submit(store, 0.01)
    supervised.may_end.touch()
    postgresql.kill()
    try:
        assert ensure_supervisor(supervised.home)
        wait_until(lambda: "waits: " in supervised.said(), LONG)
    finally:
        postgresql.start()
    wait_until(lambda: not store.open_jobs(), LONG)
    assert supervised.ran() == [number]
    store.close()


@pytest.mark.thorough
def test_a_soak_of_kills(
    supervised: Supervised,
    database: Callable[[Path], Path],
    request: pytest.FixtureRequest,
) -> None:
    database(supervised.home)
    server = (supervised.home / "database.json").exists()
    cluster = request.getfixturevalue("postgresql") if server else None
    draw = random.Random(26)
    store = Store(supervised.home)
    supervised.may_end.touch()
    numbers = [supervised.submit(store, 0.5) for _ in range(12)]
    kills = 0

    def over() -> bool:
        nonlocal kills
        ensure_supervisor(supervised.home)
        time.sleep(draw.uniform(0.3, 4.0))
        if cluster is not None and draw.random() < 0.3:
            cluster.kill()
            time.sleep(draw.uniform(0.0, 2.0))
            cluster.start()
        for pid in supervised.supervisors():
            os.kill(pid, signal.SIGKILL)
            kills += 1
        return all(row is not None and row.state in ENDED for row in map(store.job, numbers))

    wait_until(over, 1200)
    assert {row.state for row in store.jobs()} == {"succeeded"} and kills > 0
    assert supervised.ran() == numbers
    store.close()
