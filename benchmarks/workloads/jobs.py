"""Jobs: from the command to its end, a queue of a thousand, submissions, and an idle supervisor."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.floors import Floor
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.process import ROOT
from benchmarks.harness.workload import Contender, Problems, Scale, Workload
from benchmarks.workloads.one_contender import once, other_than, repeated, workload

IDLE_SECONDS = 10.0
MOST_MEGABYTES = 60.0
MOST_CPU = 0.01
DRUMLINE = [sys.executable, "-P", "-m", "drumline_command"]


def by_job(scale: Scale) -> Measurement:
    """``drumline run --follow -- true``, where a supervisor runs already; then what that takes."""
    with tempfile.TemporaryDirectory() as directory:
        home, code = Path(directory, "home"), Path(directory, "code")
        code.mkdir()
        env = {**os.environ, "PYTHONPATH": str(ROOT), "DRUMLINE_HOME": str(home)}
        command = [*DRUMLINE, "run", "--worker-size", "cpus=0.5", "--follow", "--", "true"]
        took, said = _runs(command, code, env, scale)
        (supervisor,) = supervisors(home)
        time.sleep(1)
        before = _cpu_seconds(supervisor)
        time.sleep(IDLE_SECONDS)
        share = (_cpu_seconds(supervisor) - before) / IDLE_SECONDS
        megabytes = _resident(supervisor) / 1e6
        os.kill(supervisor, 15)
    evidence = {"said": said, "supervisor_megabytes": megabytes, "supervisor_cpu": share}
    return repeated(scale, took, evidence)


def by_launch(scale: Scale) -> Measurement:
    """``drumline launch -- true``, without a queue: what of it the launcher takes."""
    with tempfile.TemporaryDirectory() as directory:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [*DRUMLINE, "launch", "--workers", "1", "--log-dir", "logs", "--", "true"]
        took, said = _runs(command, Path(directory), env, scale)
    return repeated(scale, took, {"said": said})


def _runs(
    command: list[str], folder: Path, env: Mapping[str, str], scale: Scale
) -> tuple[list[float], list[str]]:
    took, said = [], []
    for _ in range(1 + scale.later_epochs):
        began = time.monotonic()
        done = subprocess.run(
            command, cwd=folder, env=env, check=True, stdout=subprocess.PIPE, text=True
        )
        took.append(time.monotonic() - began)
        said.append(done.stdout.splitlines()[-1])
    return took, said


def supervisors(home: Path) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended meanwhile
            continue
        if b"supervisor" in words and os.fsencode(home) in words:
            found.append(int(process.name))
    return found


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def check_run(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Each job has succeeded, and the supervisor takes little when it has nothing to do."""
    problems = {}
    ours = measurements.get("drumline")
    if ours is not None:
        numbers = range(1, 2 + scale.later_epochs)
        if ours.evidence["said"] != [f"Job {number} has succeeded" for number in numbers]:
            problems["drumline"] = f"said {ours.evidence['said']}"
        elif ours.evidence["supervisor_megabytes"] > MOST_MEGABYTES:
            problems["drumline"] = f"supervisor: {ours.evidence['supervisor_megabytes']:.0f} MB"
        elif ours.evidence["supervisor_cpu"] > MOST_CPU:
            problems["drumline"] = f"idle supervisor: {ours.evidence['supervisor_cpu']:.1%} CPU"
    return problems


class _EndsAtOnce:
    """An engine whose jobs have ended as soon as they are started, on a machine with 4 cores."""

    queues = False
    remote = False

    def __init__(self) -> None:
        self.started: list[str] = []
        self._ended: set[str] = set()

    def capacity(self) -> Mapping[str, float]:
        return {"cpus": 4.0, "memory": 2.0**33, "gpus": 0.0}

    def check(self, job: Any) -> list[str]:
        return []

    def handle(self, number: int, attempt: int) -> str:
        return f"{number}/{attempt}"

    def start(self, start: Any) -> None:
        self.started.append(start.handle)
        self._ended.add(start.handle)

    def poll(self, handle: str) -> Any:
        from drumline.jobs.engines.engine import Status

        return Status("ended", 0) if handle in self._ended else Status("absent")

    def cancel(self, handle: str) -> None:
        raise AssertionError("no job is cancelled")

    def logs(self, handle: str) -> dict[str, Path]:
        return {}

    def metrics(self, handle: str) -> tuple[Path, Path]:
        return Path(), Path()


def by_queue(scale: Scale) -> Measurement:
    """The supervisor's own steps, from a full queue until it is empty."""
    from drumline.jobs.file.reading import make_job
    from drumline.jobs.store.database import Store
    from drumline.jobs.supervisor.loop import Supervisor

    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        (home / "jobs").mkdir()
        store = Store(home)
        for number in range(scale.elements):
            job = make_job({"command": f"true {number}", "priority": 1 + number % 9}, home)
            store.queue(store.submit(job), job)
        engine = _EndsAtOnce()
        supervisor = Supervisor(store, {"local": engine})
        began = time.perf_counter()
        supervisor.step()
        first = time.perf_counter() - began
        while supervisor.step():
            pass
        took = time.perf_counter() - began
        states = {row.state for row in store.jobs(scale.elements)}
        store.close()
    started = engine.started
    evidence = {"started": len(started), "once": len(set(started)), "states": sorted(states)}
    return once(scale, first, took, evidence)


def check_queue(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Each job was started once, and has succeeded."""
    wanted = {"started": scale.elements, "once": scale.elements, "states": ["succeeded"]}
    return other_than(wanted, measurements)


_CLIENTS = 4


def by_submissions(scale: Scale) -> Measurement:
    """Whole submissions of a folder with one file, by four clients, to a list in SQLite."""
    with tempfile.TemporaryDirectory() as directory:
        return _submissions(scale, Path(directory))


def by_submissions_to_postgresql(scale: Scale) -> Measurement:
    """The same, to a PostgreSQL of its own that writes each commit to the disk."""
    from drumline.jobs.store.workspace import write_database_url
    from tests.jobs.store.cluster import PostgresCluster

    cluster = PostgresCluster(fsync=True)
    try:
        with tempfile.TemporaryDirectory() as directory:
            write_database_url(Path(directory), cluster.database())
            return _submissions(scale, Path(directory))
    finally:
        cluster.end()


def _submissions(scale: Scale, home: Path) -> Measurement:
    from drumline.jobs.file.reading import make_job
    from drumline.jobs.service.submission import submit
    from drumline.jobs.store.database import Store

    code = home / "code"
    for folder in (home / "jobs", code):
        folder.mkdir()
    (code / "train.py").write_text("print(1)\n")
    job = make_job({"command": ["python", "train.py"]}, code)
    store = Store(home)
    numbers = list[int]()

    def client() -> None:
        own = Store(home)
        for _ in range(scale.elements // _CLIENTS):
            numbers.append(submit(own, _EndsAtOnce(), job))
        own.close()

    began = time.perf_counter()
    first = submit(store, _EndsAtOnce(), job)
    one = time.perf_counter() - began
    threads = [threading.Thread(target=client) for _ in range(_CLIENTS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    queued = sorted(row.id for row in store.open_jobs())
    store.close()
    evidence = {"queued": queued == sorted([first, *numbers]), "jobs": len(queued)}
    return once(scale, one, took, evidence)


def check_submissions(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Each submission came to a job of its own in the queue."""
    return other_than({"queued": True, "jobs": scale.elements + 1}, measurements)


WORKLOADS = (
    Workload(
        name="job_submissions",
        title="Submissions of a job with its code by 4 clients at once",
        unit="jobs",
        baseline="drumline",
        full=Scale(elements=400, batch_size=1, later_epochs=1),
        quick=Scale(elements=40, batch_size=1, later_epochs=1),
        contenders=(
            Contender("drumline", "a list in SQLite", ("drumline",), by_submissions),
            Contender(
                "PostgreSQL",
                "a list in PostgreSQL, with fsync",
                ("drumline", "psycopg"),
                by_submissions_to_postgresql,
            ),
        ),
        floors=(Floor("later", at_least=50.0),),
        check=check_submissions,
    ),
    Workload(
        name="job_run",
        title="`drumline run --follow -- true` to its end, with a supervisor that runs already",
        unit="jobs",
        baseline="launch alone",
        full=Scale(elements=1, batch_size=1, later_epochs=5),
        quick=Scale(elements=1, batch_size=1, later_epochs=1),
        contenders=(
            Contender("drumline", "drumline run, with its queue", ("drumline",), by_job),
            Contender("launch alone", "drumline launch, without one", ("drumline",), by_launch),
        ),
        floors=(Floor("later", at_least=1 / 1.5),),
        check=check_run,
    ),
    workload(
        "job_queue",
        "1,000 jobs of 9 priorities through the queue, 4 at a time, that end at once",
        "jobs",
        full=Scale(elements=1000, batch_size=4, later_epochs=1),
        quick=Scale(elements=100, batch_size=4, later_epochs=1),
        contender=("the supervisor's steps", ("drumline",), by_queue),
        at_least=50.0,
        check=check_queue,
    ),
)
