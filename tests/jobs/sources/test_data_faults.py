"""A start with data, with each of its processes killed at each step of bringing and uploading."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from drumline.jobs.engines import preparing
from drumline.jobs.engines.local import attempt
from drumline.jobs.store.database import ENDED
from drumline.jobs.supervisor import uploads
from drumline.jobs.supervisor.loop import Supervisor
from tests.jobs.engines.test_job_engine import KILLED_KEEPER, Killed, Workspace, jobs
from tests.jobs.launch.launching import wait_until
from tests.jobs.sources.killed_program import PROGRAM
from tests.jobs.sources.test_job_data import env, stored
from tests.jobs.sources.test_job_stores import Bucket, bucket

__all__ = ["bucket", "jobs", "stored"]

SIZE = {"cpus": 0.1}
MANY = 240  # Seconds in which so many jobs end, also on a busy machine.
WRITES = """
read = open("/mnt/drum/in/deep/b").read() + open("/mnt/drum/in/a").read()
for name in ("one", "two"):
    with open(f"/mnt/drum/out/{name}", "w") as file:
        file.write(name + read)
"""
WRITTEN = {"one": "oneba", "two": "twoba", "old": "before"}

_PREPARATION = "drumline.jobs.sources.preparation"
_STORE, _SPOOL = "drumline.jobs.sources.object_store", "drumline.jobs.sources.spool"
_REMOTE = "drumline.data.storage.files.remote"

BRINGING = (
    f"with-data:{_PREPARATION}:_bring:before:1",
    f"bring:{_STORE}:list_objects:after:1",
    f"bring:{_REMOTE}:asked_again:after:1",
    f"bring:{_STORE}:_listing:after:1",
    f"bring:{_STORE}:_remove_others:before:1",
    f"bring:{_STORE}:fetch_cached:after:1",
    f"bring:{_SPOOL}:fetch_all:after:1",
    f"bring:{_SPOOL}:Spool._write:after:1",
    f"bring:{_SPOOL}:Spool.prepare:after:1",
    f"bring:{_PREPARATION}:bring:after:1",
    f"with-data:{_PREPARATION}:_bring:after:1",
    f"with-data:{_PREPARATION}:_attend:before:1",
    f"with-data:{_PREPARATION}:enter:after:1",
    f"with-data:{_PREPARATION}:execute:before:1",
)
"""Of what is before the launcher."""

UPLOADING = (
    f"upload:{_PREPARATION}:upload:before:1",
    f"upload:{_REMOTE}:asked_again:before:1",
    f"upload:{_REMOTE}:asked_again:after:1",
    f"upload:{_REMOTE}:asked_again:after:2",
    f"upload:{_SPOOL}:Spool._write:before:1",
    f"upload:{_SPOOL}:Spool.upload:after:1",
)
"""Of the program that uploads."""

AT_THE_END = f"with-data:{_PREPARATION}:os.waitstatus_to_exitcode:before:1"
"""Of what waits for the launcher, which has ended well."""


@pytest.fixture
def faulty(stored: Workspace, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace whose programs for data are killed where a job's variables say."""
    monkeypatch.setattr(preparing, "PROGRAM", PROGRAM)
    monkeypatch.setattr(uploads, "PROGRAM", PROGRAM)
    return stored


def submit(
    jobs: Workspace,
    bucket: Bucket,
    name: str,
    script: str = WRITES,
    fault: str = "",
    **more: object,
) -> int:
    bucket.put(f"{name}/old", "before")
    bucket.put(f"in{name}/a", "a")
    bucket.put(f"in{name}/deep/b", "b")
    variables = {**env(jobs, bucket), "MARK": mark(jobs, name)}
    return jobs.submit(
        script,
        workers=SIZE,
        env=variables | ({"FAULT": fault} if fault else {}),
        data=[
            # Of each an own entry in the cache, so that each fetches.
            {"from": f"disk://b/in{name}", "at": "/mnt/drum/in"},
            {"from": f"disk://b/{name}", "at": "/mnt/drum/out", "write": True},
        ],
        **more,
    )


def mark(jobs: Workspace, name: str) -> str:
    return str(jobs.home.parent / f"{name}-was-killed")


def written(bucket: Bucket, name: str) -> dict[str, str]:
    return {k.partition("/")[2]: v for k, v in bucket.all().items() if k.startswith(f"{name}/")}


def uploaded(jobs: Workspace) -> None:
    """Have a supervisor upload what is left, and see that nothing is."""
    rest = uploads.Uploads(jobs.store)
    wait_until(lambda: rest.step() == 0 and not os.listdir(jobs.home / "uploads"), MANY)


def test_what_brings_data_is_killed_at_each_step(faulty: Workspace, bucket: Bucket) -> None:
    names = {fault: f"o{i}" for i, fault in enumerate(BRINGING)}
    numbers = {
        fault: submit(faulty, bucket, name, fault=fault, restarts=1)
        for fault, name in names.items()
    }
    faulty.supervise(*numbers.values(), seconds=MANY)
    ran = faulty.ran()
    for fault, number in numbers.items():
        row = faulty.row(number)
        assert os.path.exists(mark(faulty, names[fault])), f"{fault} was never reached"
        assert row.state == "succeeded", (fault, row, faulty.store.events(number))
        # Of two starts one had no launcher. Who has given its answer is not missed.
        assert ran.count(f"{number} 1") + ran.count(f"{number} 2") == 1, fault
        assert row.restarts == (":bring:after" not in fault), fault
        assert written(bucket, names[fault]) == WRITTEN, fault
    uploaded(faulty)


def test_what_uploads_is_killed_at_each_step(faulty: Workspace, bucket: Bucket) -> None:
    names = {fault: f"o{i}" for i, fault in enumerate((*UPLOADING, AT_THE_END))}
    numbers = {
        fault: submit(faulty, bucket, name, fault=fault, restarts=1)
        for fault, name in names.items()
    }
    faulty.supervise(*numbers.values(), seconds=MANY)
    for fault, number in numbers.items():
        row = faulty.row(number)
        assert os.path.exists(mark(faulty, names[fault])), f"{fault} was never reached"
        assert row.state == "succeeded", (fault, row, faulty.store.events(number))
        # Not before all is there: the killed one did not count as a success.
        codes = [each.code for each in faulty.store.attempts(number)]
        assert codes == [-9 if fault == AT_THE_END else 74, 0], (fault, codes)
        assert written(bucket, names[fault]) == WRITTEN, fault
    uploaded(faulty)


def test_a_supervisors_upload_is_killed_at_each_step(faulty: Workspace, bucket: Bucket) -> None:
    waits = WRITES + "open(os.environ['MARK'] + '-wrote', 'w')\ntime.sleep(600)"
    names = {fault: f"o{i}" for i, fault in enumerate(UPLOADING)}
    numbers = {fault: submit(faulty, bucket, name, waits, fault) for fault, name in names.items()}
    supervisor = Supervisor(faulty.store, {"local": faulty.engine()})
    wrote = [Path(f"{mark(faulty, name)}-wrote") for name in names.values()]
    faulty.steps(supervisor, lambda: all(path.exists() for path in wrote), MANY)
    for number in numbers.values():
        running = attempt.read(faulty.folder(number) / attempt.RUNNING)
        assert running is not None
        os.kill(running["pid"], signal.SIGKILL)
    faulty.steps(
        supervisor, lambda: all(faulty.row(n).state in ENDED for n in numbers.values()), MANY
    )
    uploaded(faulty)
    for fault, number in numbers.items():
        assert os.path.exists(mark(faulty, names[fault])), f"{fault} was never reached"
        assert faulty.row(number).state == "failed"
        assert written(bucket, names[fault]) == WRITTEN, fault


@pytest.mark.parametrize("step", ["described", "kept", "started", "finishing", "finished"])
def test_a_supervisor_is_killed_at_a_step_of_a_start_with_data(
    faulty: Workspace, bucket: Bucket, step: str
) -> None:
    number = submit(faulty, bucket, "o1")

    def reached(name: str) -> None:
        if name == step:
            raise Killed

    engine = faulty.engine(reached=reached)
    supervisor = Supervisor(faulty.store, {"local": engine}, reached)
    with pytest.raises(Killed):
        faulty.steps(supervisor, lambda: faulty.row(number).state in ENDED)
    faulty.supervise(number)
    assert faulty.row(number).state == "succeeded" and faulty.ran() == [f"{number} 1"]
    assert written(bucket, "o1") == WRITTEN
    uploaded(faulty)


@pytest.mark.parametrize("step", ["launched", "running"])
@pytest.mark.parametrize("fault", ["", UPLOADING[0], AT_THE_END])
def test_a_keeper_is_killed_and_what_was_written_is_not_forgotten(
    faulty: Workspace, bucket: Bucket, step: str, fault: str
) -> None:
    """The keeper is gone when what it would have noted happens: an upload that is killed."""
    gone = faulty.home.parent / "keeper-was-killed"
    code = KILLED_KEEPER.format(step=step, mark=str(gone))
    number = submit(faulty, bucket, "o1", fault=fault, restarts=0)
    faulty.supervise(number, engine=faulty.engine([sys.executable, "-P", "-c", code]))
    assert gone.exists() and faulty.ran() == [f"{number} 1"]
    row = faulty.row(number)
    if fault:
        assert row.state == "failed" and "not uploaded" in row.reason, row
        assert faulty.store.attempts(number)[-1].code == 74
    else:
        assert row.state == "succeeded", row
    uploaded(faulty)
    assert written(bucket, "o1") == WRITTEN
