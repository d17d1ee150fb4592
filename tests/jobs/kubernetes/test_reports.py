"""What pods say to the workspace: what was done for their data, what they use, that they hang."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path

import pytest

from drumline.jobs.engines.kubernetes.logs import PodLog
from drumline.jobs.metrics.series import MetricReader
from drumline.jobs.service.workspace_service import WorkspaceService
from drumline.jobs.sources.preparation import read_notes
from drumline.jobs.sources.secrets import write_secret
from tests.jobs.kubernetes.api_server import ApiServer, ObjectStore
from tests.jobs.kubernetes.conftest import ENGINE, Bench
from tests.jobs.kubernetes.test_api import client, until
from tests.jobs.launch.launching import ROOT
from tests.jobs.sources.test_job_stores import PLUGIN, Bucket, bucket

pytest.importorskip("kubernetes_validate", reason="the server checks objects by its schemas")

__all__ = ["bucket"]

BUSY = """\
import json, os, time
block = bytearray(96 << 20)
until = time.monotonic() + 7
while time.monotonic() < until:
    pass
print("[drumline] {\\"note\\": \\"not one\\", \\"number\\": 7}")
"""
STORE = """\
import json, os
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
print(open("/mnt/drum/in/a").read())
open(f"/mnt/drum/out/by-{index}", "w").write("written")
"""


def test_what_pods_use_is_in_the_metrics(any_bench: Bench) -> None:
    number = any_bench.submit(BUSY, workers=2)
    row = any_bench.end(number)
    assert row.state == "succeeded", any_bench.all_logs(number)
    found = MetricReader(any_bench.home).read([any_bench.engine.metrics(f"{number}/attempt-1")[1]])
    assert sorted(found) == [f"{q}/worker:{i}" for q in ("cpu", "memory") for i in range(2)]
    for name, series in found.items():
        least = 96 << 20 if name.startswith("memory") else 0.01
        assert len(series) >= 1 and series.values.max() > least, (name, series)
    # What is for the workspace is in no log, and what a process writes is its own.
    logs = any_bench.logs(number)
    assert logs["worker:1"] == '[drumline] {"note": "not one", "number": 7}\n'
    assert "usage" not in any_bench.all_logs(number)
    assert not [each for each in any_bench.store.events(number) if each.kind == "data"]


CURVES = """\
import json, os, sys, time
from drumline._event_files import SummaryFile
from drumline._event_messages import scalar_message
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
again = os.environ["DRUMLINE_ATTEMPT"] == "2"
file = SummaryFile(f"logs/{index}")
for step in range(5 * again, 5 + 5 * again):
    file.add(scalar_message("sesame-value", index + step / 4), step, 1e9 + step)
file.close()
with open(f"log-{index}.csv", "a") as log:
    log.write("epoch,loss\\n" + "".join(f"{i},{i / 8}\\n" for i in range(3)))
sys.exit(0 if again else 3)
"""


@pytest.mark.parametrize("shared", [False, True])
def test_metric_files_in_pods_are_curves(bench: Bench, tmp_path: Path, shared: bool) -> None:
    """Of each start and process, once, also where all of them share the working copy."""
    assert bench.cluster is not None
    if shared:
        (tmp_path / "work").mkdir()
        bench.cluster.add_claim("work", tmp_path / "work")
        bench.renew(work_claim="work")
    write_secret(bench.home, "NAME", "sesame-value")
    number = bench.submit(CURVES, workers=2, restarts=1)
    assert bench.end(number).state == "succeeded", bench.all_logs(number)
    record = {"kind": "kubernetes", "settings": dataclasses.asdict(bench.settings)}
    (bench.home / "engines").mkdir()
    (bench.home / "engines" / f"{ENGINE}.json").write_text(json.dumps(record))
    with contextlib.closing(WorkspaceService(bench.home)) as service:
        found = service.series(number)
    curves = {name: (series.steps.tolist(), series.values.tolist())
              for name, series in found.items() if name.startswith("log")}  # fmt: skip
    rows = [0, 1, 2, 0, 1, 2]
    assert curves == {
        **{f"logs/{i}/***": (list(range(10)), [i + step / 4 for step in range(10)])
           for i in (0, 1)},
        **{f"log-{i}/loss": (rows, [row / 8 for row in rows]) for i in (0, 1)},
    }  # fmt: skip
    assert "points" not in bench.all_logs(number)


def test_an_object_store(bench: Bench, bucket: Bucket) -> None:
    """Each pod reads it through a cache of its own, and uploads what it has written."""
    assert bench.cluster is not None
    bench.cluster.environment["PYTHONPATH"] = f"{ROOT}:{PLUGIN}"
    bucket.put("in/a", "read")
    data = [{"from": "disk://b/in", "at": "/mnt/drum/in"},
            {"from": "disk://b/out", "at": "/mnt/drum/out", "write": True}]  # fmt: skip
    fields = {"workers": 2, "data": data, "env": {"DISK_STORE": str(bucket.root)}}
    number = bench.submit(STORE, **fields)
    row = bench.end(number)
    assert row.state == "succeeded", f"{row.reason}\n{bench.all_logs(number)}"
    assert [bench.logs(number)[f"worker:{i}"] for i in range(2)] == ["read\n", "read\n"]
    written = {"out/by-0": "written", "out/by-1": "written"}
    assert bucket.all() == {"in/a": "read", **written}
    texts = [each.text for each in bench.store.events(number) if each.kind == "data"]
    for process in ("worker:0", "worker:1"):
        own = [text for text in texts if text.startswith(f"{process}: ")]
        assert len(own) == len(set(own)), "each is said once"
        assert any("disk://b/in" in text for text in own), texts
        assert any("what was written is uploaded" in text for text in own), texts
    bucket.fail("put:by-1")
    row = bench.end(bench.submit(STORE, **fields))
    assert row.state == "failed"
    assert row.reason.startswith("Failed first: worker:1: drumline: not uploaded: "), row.reason
    assert "put of b/out/by-1 is forbidden" in row.reason
    assert row.reason.endswith("what was written is gone with its pod")


def test_an_object_store_that_is_not_there(bench: Bench, bucket: Bucket) -> None:
    assert bench.cluster is not None
    bench.cluster.environment["PYTHONPATH"] = f"{ROOT}:{PLUGIN}"
    bucket.put("in/a", "read")
    data = [{"from": "disk://b/in", "at": "/mnt/drum/in"}]
    number = bench.submit("print(1)", data=data, env={"DISK_STORE": str(bucket.root)})
    bucket.fail("get:a")
    row = bench.end(number)
    assert row.state == "failed"
    assert "disk://b/in" in row.reason, row.reason


def test_a_pod_that_hangs(any_bench: Bench) -> None:
    script = "import time\nprint('begun', flush=True)\ntime.sleep(600)\n"
    number = any_bench.submit(script, workers=2, hang_after="4s")
    row = any_bench.end(number)
    assert row.state == "failed" and "wrote nothing for" in row.reason, row.reason
    assert [each for each in any_bench.store.events(number) if each.kind == "hung"]
    logs = any_bench.logs(number)
    assert 'train.py", line 3' in logs["worker:0"] + logs["worker:1"], "their stacks are there"


@dataclasses.dataclass
class Followed:
    """A log that is followed, and followed again after a kill."""

    server: ApiServer
    folder: Path

    def follow(self) -> None:
        files = tuple(self.folder / "logs" / name for name in ("worker-0.log", "launch-0.log"))
        assert len(files) == 2
        api = client(self.server)
        log = PodLog(api, "p", "worker:0", files, None, lambda: True, lambda: 1)
        until(lambda: log.done)
        for path in self.folder.glob("logs/*.position.json"):
            path.unlink()  # as if it had been killed before it wrote anything down


def test_reports_are_written_once(tmp_path: Path) -> None:
    server = ApiServer(ObjectStore())
    path = tmp_path / "pod.log"
    server.log = lambda pod, container: (path, lambda: True)
    followed = Followed(server, tmp_path / "start")
    lines = [{"note": "brought", "number": 0}, {"usage": {"t": 5.0, "worker:0": [1, 2, None, 3]}}]
    broken = ["{", "[]", '{"note": "x"}', '{"usage": {}}', '{"usage": {"t": "x"}}', "null", "7"]
    said = [*map(json.dumps, lines), *broken]
    said += map(json.dumps, [{"note": "uploaded", "number": 1}, {"usage": {"t": 7.0}}])
    stamp = "2026-11-27T10:00:00.{:09}Z [drumline] {}\n"
    path.write_text("".join(stamp.format(i, each) for i, each in enumerate(said)))
    try:
        followed.follow()
        followed.follow()
    finally:
        server.close()
    assert read_notes(tmp_path / "start") == ("worker:0: brought", "worker:0: uploaded")
    found = MetricReader(tmp_path).read([tmp_path / "start"])
    assert {name: series.values.tolist() for name, series in found.items()} == {
        "cpu/worker:0": [1.0], "memory/worker:0": [2.0], "gpu_memory/worker:0": [3.0]
    }  # fmt: skip
    assert (tmp_path / "start" / "logs" / "worker-0.log").read_text() == ""
