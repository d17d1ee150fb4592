"""Object stores that are written by a job on two nodes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from drumline.jobs.engines import preparing
from drumline.jobs.file.reading import make_job
from drumline.jobs.service.submission import submit
from drumline.jobs.supervisor.uploads import Uploads
from tests.jobs.launch.launching import ROOT, wait_until
from tests.jobs.slurm.conftest import LONG, SlurmWorkspace
from tests.jobs.sources.killed_program import PROGRAM
from tests.jobs.sources.test_data_faults import AT_THE_END
from tests.jobs.sources.test_job_stores import PLUGIN, Bucket, bucket

__all__ = ["bucket"]

SCRIPT = """
import json, os
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
node = os.environ["SLURMD_NODENAME"]
seen = sorted(os.listdir("/mnt/drum/out"))
open(f"/mnt/drum/out/by-{index}", "w").write(node)
print(seen, open("/mnt/drum/in/a").read())
"""


def test_a_job_has_not_succeeded_where_what_uploads_is_killed(
    jobs: SlurmWorkspace, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(preparing, "PROGRAM", PROGRAM)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{PLUGIN}")
    number = jobs.submit(
        "open('/mnt/drum/out/made', 'w').write('whole')",
        workers={"cpus": 1, "memory": "100MiB"},
        restarts=1,
        data=[{"from": "disk://b/out", "at": "/mnt/drum/out", "write": True}],
        env={
            **{"RUNS": str(jobs.runs), "DISK_STORE": str(bucket.root)},
            **{"FAULT": AT_THE_END, "MARK": str(tmp_path / "was-killed")},
        },
    )
    assert jobs.ends(number) == ["succeeded"], (jobs.row(number), jobs.cluster.log())
    assert (tmp_path / "was-killed").exists() and bucket.all() == {"out/made": "whole"}
    assert [each.code for each in jobs.store.attempts(number)] == [74, 0]
    assert any("what was written is not uploaded yet" in text for text in jobs.events(number))


def test_what_both_nodes_write_is_uploaded(
    jobs: SlurmWorkspace, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{PLUGIN}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (jobs.code / "t.py").write_text(SCRIPT)
    bucket.put("in/a", "read")
    bucket.put("out/old", "before")

    def writes() -> int:
        fields = {
            "command": [sys.executable, "-S", "t.py"],
            # More than half of a node's, so that each has one.
            "workers": {"count": 2, "cpus": 3, "memory": "100MiB"},
            "env": {"DISK_STORE": str(bucket.root)},
            "data": [
                {"from": "disk://b/in", "at": "/mnt/drum/in"},
                {"from": "disk://b/out", "at": "/mnt/drum/out", "write": True},
            ],
            "engine": "lab",
        }
        job = make_job(fields, jobs.code, engines=["local", "lab"])
        return submit(jobs.store, jobs.main, job)

    first = writes()
    assert jobs.ends(first) == ["succeeded"], (jobs.row(first), jobs.cluster.log())
    assert {jobs.log(first, f"worker:{i}") for i in range(2)} == {"['old'] read\n"}
    written = bucket.all()
    assert {written.pop(f"out/by-{i}") for i in range(2)} == {"n1", "n2"}
    assert written == {"in/a": "read", "out/old": "before"}
    assert any("what was written is uploaded" in text for text in jobs.events(first))

    bucket.fail("put:by-1")
    second = writes()
    assert jobs.ends(second) == ["failed"]
    assert "put of b/out/by-1 is forbidden" in jobs.row(second).reason
    bucket.fail()
    before = os.stat(bucket.root / "b/out/by-1").st_mtime_ns
    uploads = Uploads(jobs.store)
    wait_until(
        lambda: uploads.step() == 0 and os.stat(bucket.root / "b/out/by-1").st_mtime_ns != before,
        LONG,
    )
    assert "what its last start had written is uploaded" in jobs.events(second)[-1]
