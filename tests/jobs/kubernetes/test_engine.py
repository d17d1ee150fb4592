"""Jobs on a cluster of processes: their ends, logs, waiting and kills."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drumline.jobs.file.values import JobFileError
from drumline.jobs.sources.secrets import write_secret
from drumline.jobs.store.database import JobRow
from tests.jobs.kubernetes.cluster import ROOT
from tests.jobs.kubernetes.conftest import Bench

pytest.importorskip("kubernetes_validate", reason="the server checks objects by its schemas")

SHOW = """\
import json, os
config = json.loads(os.environ["TF_CONFIG"])
print(json.dumps({"tf": config, "x": os.environ.get("X"), "token": os.environ.get("TOKEN")}))
print("second line")
"""
WAIT = """\
import os, pathlib, signal, sys, time
def save(*_):
    print("saved", flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print("begun", flush=True)
for _ in range(600):
    time.sleep(0.1)
"""
FAIL = """\
import json, os, sys, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
if task == {"type": "worker", "index": 1}:
    raise ValueError("the loss is not finite")
time.sleep(60)
"""


def test_processes_find_each_other_by_names(any_bench: Bench) -> None:
    bench = any_bench
    write_secret(bench.home, "TOKEN", "sesame")
    number = bench.submit(
        SHOW, workers=2, ps=1, evaluator=True, env={"X": "a$(HOME)$$"}, secrets=["TOKEN"]
    )
    row = bench.end(number)
    assert (row.state, row.reason) == ("succeeded", ""), bench.all_logs(number)
    logs = bench.logs(number)
    assert {"worker:0", "worker:1", "ps:0", "evaluator:0", "job", "job.host-1"} <= set(logs)
    first, second = logs["worker:1"].splitlines()
    told = json.loads(first)
    assert (told["x"], told["token"], second) == ("a$(HOME)$$", "sesame", "second line")
    addresses = [a for all_ in told["tf"]["cluster"].values() for a in all_]
    assert len(set(addresses)) == 3 and all(".svc:" in a for a in addresses)
    if bench.cluster:
        assert not bench.left(), "a start leaves nothing in the cluster"


def test_who_failed_first(any_bench: Bench) -> None:
    number = any_bench.submit(FAIL, workers=2, ps=1)
    row = any_bench.end(number)
    assert row.state == "failed"
    assert row.reason.startswith("Failed first: worker:1"), row.reason
    assert row.reason.endswith(
        "it exited with code 1. The others are stopped. See its log, worker:1."
    )
    assert "ValueError: the loss is not finite" in any_bench.logs(number)["worker:1"]


def test_it_is_started_again(any_bench: Bench) -> None:
    script = "import os, sys\nsys.exit(3 if os.environ['DRUMLINE_ATTEMPT'] == '1' else 0)"
    number = any_bench.submit(script, restarts=1)
    row = any_bench.end(number)
    assert (row.state, row.restarts) == ("succeeded", 1), row.reason
    assert set(any_bench.logs(number, 2)) == {"job", "worker:0"}


def test_what_is_saved_at_an_eviction_uses_no_restart_up(bench: Bench) -> None:
    done = "import os\nif os.environ['DRUMLINE_ATTEMPT'] == '2': raise SystemExit\n"
    number = bench.submit(done + WAIT, workers=2)
    began = bench.until(number, lambda row: "begun" in bench.logs(number).get("worker:1", ""))
    time.sleep(max(0, 5.5 - (time.time() - began.submitted)))  # It counts as trained.
    assert bench.cluster is not None
    bench.cluster.evict("worker:1")
    row = bench.end(number)
    assert (row.state, row.restarts) == ("succeeded", 0), row.reason
    assert "saved" in bench.logs(number)["worker:0"]
    texts = [each.text for each in bench.store.events(number)]
    assert any("EvictionByEvictionAPI" in text for text in texts), texts


def test_cancel(any_bench: Bench) -> None:
    number = any_bench.submit(WAIT, workers=2)
    any_bench.until(number, lambda row: "begun" in any_bench.logs(number).get("worker:1", ""))
    with any_bench.store.change():
        any_bench.store.set_stop(number, "cancel")
    assert any_bench.end(number).state == "cancelled"
    assert "saved" in any_bench.logs(number)["worker:0"]
    assert "saved" in any_bench.logs(number)["worker:1"]


def test_cancel_before_the_cluster_has_it(bench: Bench) -> None:
    number = bench.submit(WAIT, workers=2)
    assert bench.cluster is not None
    bench.cluster.server.faults.down = True
    row = bench.until(number, lambda row: row.state == "lost")
    assert "is tried again" in row.reason, row.reason
    with bench.store.change():
        bench.store.set_stop(number, "cancel")
    bench.until(number, lambda row: (bench.engine.folder(f"{number}/attempt-1") / "stopping.json")
                .exists())  # fmt: skip
    bench.cluster.server.faults.down = False
    assert bench.end(number).state == "cancelled"
    assert not bench.left() and "begun" not in bench.all_logs(number)


def test_a_job_that_is_deleted_in_the_cluster(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drumline.jobs.engines.kubernetes.engine._UNSEEN_SECONDS", 1.0)
    script = "import time\nprint('begun', flush=True)\ntime.sleep(600)\n"
    number = bench.submit(script, workers=2)
    bench.until(number, lambda row: "begun" in bench.logs(number).get("worker:1", ""))
    assert bench.cluster is not None
    bench.cluster.delete(("jobs", "team", bench.engine.names(f"{number}/attempt-1").job("workers")),
                         "Foreground")  # fmt: skip
    row = bench.end(number)
    assert row.state == "failed" and row.reason, row
    assert "begun" in bench.logs(number)["worker:0"] and not bench.left()


def test_timeout(any_bench: Bench) -> None:
    number = any_bench.submit(WAIT, timeout="6s", restarts=3)
    row = any_bench.end(number)
    assert (row.state, row.reason) == ("failed", "it ran longer than its timeout, 6 s")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            "OOMKilled",
            r"Failed first: worker:1 ran out of memory \(OOMKilled; its limit is 2 GiB\)",
        ),
        ("Evicted", r"worker:1 was evicted by its node: The node was low on resource: memory"),
    ],
)
def test_what_kubernetes_ends(bench: Bench, what: str, said: str) -> None:
    number = bench.submit(WAIT, workers={"count": 2, "memory": "2GiB"})
    bench.until(number, lambda row: "begun" in bench.logs(number).get("worker:1", ""))
    assert bench.cluster is not None
    bench.cluster.kill("worker:1", what)
    row = bench.end(number)
    assert row.state == "failed"
    assert re.search(said, row.reason), row.reason


def test_a_preempted_pod_uses_no_restart_up(bench: Bench) -> None:
    script = WAIT + "print('again')\n"
    number = bench.submit(
        f"import os\nif os.environ['DRUMLINE_ATTEMPT'] == '2': raise SystemExit\n{script}"
    )
    bench.until(number, lambda row: "begun" in bench.logs(number).get("worker:0", ""))
    assert bench.cluster is not None
    bench.cluster.kill("worker:0", "PreemptionByScheduler")
    row = bench.end(number)
    assert (row.state, row.restarts) == ("succeeded", 0)
    events = [each.text for each in bench.store.events(number)]
    assert any("PreemptionByScheduler" in text for text in events), events


def test_a_node_that_is_lost(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started again elsewhere, and uses no restart up."""
    for name in ("engine._GONE_SECONDS", "closing.QUIET_SECONDS", "closing.HURRIED_SECONDS"):
        monkeypatch.setattr(f"drumline.jobs.engines.kubernetes.{name}", 1.0)
    done = "import os\nif os.environ['DRUMLINE_ATTEMPT'] == '2': raise SystemExit\n"
    number = bench.submit(done + WAIT, workers=1)
    bench.until(number, lambda row: "begun" in bench.logs(number).get("worker:0", ""))
    assert bench.cluster is not None
    bench.cluster.lose_node("worker:0")
    row = bench.end(number)
    assert (row.state, row.restarts) == ("succeeded", 0), row.reason
    texts = [each.text for each in bench.store.events(number)]
    assert any("worker:0 lost its node: DeletionByTaintManager" in text for text in texts), texts
    (torn,) = [text for text in texts if "log" in text]
    assert torn.startswith("the end of the log of worker:0 could not be fetched: "), torn


def test_why_it_waits(bench: Bench) -> None:
    bench.renew(node_selector={"gpu": "a100"})
    assert bench.cluster is not None
    number = bench.submit("print('done')")
    row = bench.until(number, lambda row: row.state == "queued" and row.reason)
    assert row.reason == (
        "worker:0 waits for a node: 0/1 nodes are available: 1 node(s) didn't match Pod's node "
        "selector"
    )
    bench.cluster.labels["gpu"] = "a100"
    bench.cluster.taints.append("spot")
    row = bench.until(number, lambda row: row.state == "queued" and "taint" in row.reason)
    bench.cluster.taints.clear()
    assert bench.end(number).state == "succeeded"


def test_an_image_that_cannot_be_pulled(bench: Bench) -> None:
    bench.renew(image="example.com/none:1")
    number = bench.submit("print('done')")
    row = bench.until(number, lambda row: "ImagePullBackOff" in row.reason)
    assert row.reason == (
        "worker:0: the image example.com/none:1 cannot be pulled (ImagePullBackOff: Back-off "
        'pulling image "example.com/none:1")'
    )
    assert bench.cluster is not None
    bench.cluster.images.add("example.com/none:1")
    assert bench.end(number).state == "succeeded"


def test_a_cluster_that_does_not_answer(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drumline.jobs.engines.kubernetes.engine._QUIET_SECONDS", 0.5)
    assert bench.cluster is not None
    number, release = bench.hold()
    for _ in range(2):
        bench.cluster.server.faults.down = True
        row = bench.until(number, lambda row: row.state == "lost")
        assert "does not answer" in row.reason
        bench.cluster.server.faults.down = False
        bench.until(number, lambda row: row.state == "running")
    bench.cluster.server.faults.down = True
    row = bench.until(number, lambda row: row.state == "lost")
    assert "does not answer" in row.reason
    with pytest.raises(JobFileError, match="does not answer"):
        bench.submit("print(1)")
    assert len(bench.store.jobs()) == 1
    release()
    bench.cluster.server.faults.down = False
    assert bench.end(number).state == "succeeded"
    assert bench.logs(number)["worker:0"].splitlines() == ["begun", "end"]


@pytest.mark.parametrize("seed", range(2))
def test_a_server_that_fails_in_every_way(bench: Bench, seed: int) -> None:
    """Answers are lost, watches and logs are cut, all is forgotten: it runs once, and whole."""
    assert bench.cluster is not None
    server, draw = bench.cluster.server, random.Random(seed)
    server.bookmark_seconds = 0.1
    script = """\
import time
for number in range(70):
    print("line", number, flush=True)
    time.sleep(0.1)
"""
    number = bench.submit(script, workers=2, ps=1)
    kinds = ["overloaded", "unheard", "refused", "cut_watches", "cut_logs", "compact", "down"]
    faults = draw.sample(kinds, len(kinds)) + draw.sample(kinds, len(kinds))
    due = time.monotonic()

    def ready(row: JobRow) -> bool:
        nonlocal due
        if faults and time.monotonic() > due:
            fault = faults.pop()
            if fault == "compact":
                bench.cluster.store.compact()
                server.faults.cut_watches = 1
            elif fault == "down":
                server.faults.down = True
                time.sleep(0.2)
                server.faults.down = False
            else:
                setattr(server.faults, fault, 1)
            due = time.monotonic() + 0.4  # so that it is heard in between, even of a busy machine
        return row.state in ("succeeded", "failed")

    row = bench.until(number, ready)
    assert not faults
    assert row.state == "succeeded", f"{row.reason}\n{bench.all_logs(number)}"
    whole = [f"line {i}" for i in range(70)]
    logs = bench.logs(number)
    for name in ("worker:0", "worker:1", "ps:0"):
        assert logs[name].splitlines() == whole, name
    assert len(bench.store.attempts(number)) == 1
    assert not bench.left()


def test_data(bench: Bench, tmp_path: Path) -> None:
    assert bench.cluster is not None
    claim = tmp_path / "claim"
    (claim / "in").mkdir(parents=True)
    (claim / "in" / "x").write_text("41")
    bench.cluster.add_claim("sets", claim)
    script = """\
import pathlib
x = int(pathlib.Path("/mnt/in/x").read_text())
pathlib.Path("/mnt/out/y").write_text(str(x + 1))
try:
    pathlib.Path("/mnt/in/y").write_text("")
except OSError as error:
    print(error.strerror)
print(pathlib.Path("/opt/code/train.py").exists())
"""
    data = [{"from": "pvc://sets/in", "at": "/mnt/in"},
            {"from": "pvc://sets", "at": "/mnt/out", "write": True}]  # fmt: skip
    number = bench.submit(
        script, data=data, code={"folder": str(bench.home / "code"), "at": "/opt/code"}
    )
    assert bench.end(number).state == "succeeded", bench.all_logs(number)
    assert bench.logs(number)["worker:0"].splitlines() == ["Read-only file system", "True"]
    assert (claim / "y").read_text() == "42"


@pytest.mark.parametrize(
    ("source", "at", "said"),
    [
        ("/tmp", "/mnt/x", "is a folder of this machine, which pods do not see"),
        ("pvc://none/x", "/mnt/x", "there is no claim none in namespace team; there is: none"),
        ("pvc://a/../b", "/mnt/x", "must be pvc://CLAIM"),
        ("nfs://nas/x", "/drumline/x", "which a pod needs itself"),
    ],
)
def test_data_that_pods_cannot_see(bench: Bench, source: str, at: str, said: str) -> None:
    with pytest.raises(JobFileError, match=said):
        bench.submit("print(1)", data=[{"from": source, "at": at}])


def test_a_working_copy_that_starts_share(bench: Bench, tmp_path: Path) -> None:
    assert bench.cluster is not None
    (tmp_path / "work").mkdir()
    bench.cluster.add_claim("work", tmp_path / "work")
    bench.renew(work_claim="work")
    script = """\
import os, pathlib
if os.environ["DRUMLINE_ATTEMPT"] == "1":
    pathlib.Path("saved").write_text("x")
    raise SystemExit(1)
print(pathlib.Path("saved").read_text())
"""
    number = bench.submit(script, workers=2, restarts=1)
    assert bench.end(number).state == "succeeded", bench.all_logs(number)


KILLED = """\
import os, signal, sys
from pathlib import Path
from drumline.jobs.engines.kubernetes.engine import KubernetesEngine
from drumline.jobs.engines.kubernetes.settings import KubernetesSettings
from drumline.jobs.store.database import Store
from drumline.jobs.supervisor.loop import Supervisor
import json, time
home, settings, at = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
def reached(step):
    if step == at:
        os.kill(os.getpid(), signal.SIGKILL)
engine = KubernetesEngine(home, KubernetesSettings.from_json(settings), reached)
supervisor = Supervisor(Store(home), {"kube": engine}, reached)
while True:
    supervisor.step()
    time.sleep(0.05)
"""


@pytest.mark.parametrize(
    "step",
    ["noted", "made", "submitted", "described", "created-0", "created-1", "created-2", "created-4",
     "created", "closing", "deleted"],
)  # fmt: skip
def test_a_killed_supervisor(bench: Bench, tmp_path: Path, step: str) -> None:
    """At each step of a start it may be killed: the job runs once."""
    marks = tmp_path / "marks"
    marks.mkdir()
    assert bench.cluster is not None
    bench.cluster.add_claim("marks", marks)
    script = """\
import os, pathlib, time
pathlib.Path("/mnt/marks", f"{os.environ['TF_CONFIG'].__hash__()}-{time.time_ns()}").touch()
print("done")
"""
    data = [{"from": "pvc://marks", "at": "/mnt/marks", "write": True}]
    number = bench.submit(script, workers=1, ps=1, data=data)
    settings = json.dumps(dataclasses.asdict(bench.settings))
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(bench.home), settings, step],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert killed.returncode == -9, killed.stdout + killed.stderr
    row = bench.end(number)
    assert row.state == "succeeded", f"{row.reason}\n{bench.all_logs(number)}"
    assert len(list(marks.iterdir())) == 2
    assert bench.logs(number)["worker:0"].splitlines() == ["done"]
    assert len(bench.store.attempts(number)) == 1
    assert not bench.left()
