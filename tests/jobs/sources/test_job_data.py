"""Jobs with data: what is refused when they are submitted, what they see, and what is kept."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import drumline as dl
from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.local.engine import LocalEngine
from drumline.jobs.engines.preparing import preparation
from drumline.jobs.file.model import Job
from drumline.jobs.file.reading import read_job_file
from drumline.jobs.file.values import JobFileError
from drumline.jobs.service.submission import submit
from drumline.jobs.sources.data import DataError, folder_of
from drumline.jobs.sources.preparation import read_notes
from drumline.jobs.sources.secrets import write_secret
from drumline.jobs.sources.spool import Spool, spool_folder
from drumline.jobs.store.database import ENDED
from drumline.jobs.supervisor.loop import Supervisor
from drumline.jobs.supervisor.uploads import Uploads
from tests.jobs.engines.test_job_engine import Workspace, jobs
from tests.jobs.launch.launching import ROOT, wait_until
from tests.jobs.sources.test_job_mounts import Program
from tests.jobs.sources.test_job_stores import PLUGIN, Bucket, bucket

__all__ = ["bucket", "jobs"]


@pytest.fixture
def stored(jobs: Workspace, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace whose jobs can reach the store of the tests."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{PLUGIN}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(jobs.home / "cache"))
    jobs.code.joinpath("in").mkdir()
    jobs.code.joinpath("in", "a.txt").write_text("a folder")
    return jobs


def env(jobs: Workspace, bucket: Bucket) -> dict[str, str]:
    return {"RUNS": str(jobs.runs), "DISK_STORE": str(bucket.root)}


def events(jobs: Workspace, number: int) -> list[str]:
    return [each.text for each in jobs.store.events(number) if each.kind == "data"]


def test_all_kinds_are_seen_and_what_is_written_is_uploaded(
    stored: Workspace, bucket: Bucket
) -> None:
    bucket.put("set/x/1", "from a store")
    bucket.put("out/old", "before")
    script = """
seen = [open(f"/mnt/drum/{name}").read() for name in ("folder/a.txt", "store/x/1", "out/old")]
for place in ("folder", "store/x"):
    try:
        open(f"/mnt/drum/{place}/new", "w")
    except OSError as error:
        seen.append(error.strerror)
index = os.environ["TF_CONFIG"][-3]
open(f"/mnt/drum/out/by-{index}", "w").write("made")
print(*seen, os.path.exists("/root/code/t.py"), os.getcwd(), sep="|")
"""
    number = stored.submit(
        script,
        workers={"count": 2, "cpus": 0.5},
        env=env(stored, bucket),
        code={"folder": ".", "at": "/root/code"},
        data=[
            {"from": "in", "at": "/mnt/drum/folder"},
            {"from": "disk://b/set", "at": "/mnt/drum/store"},
            {"from": "disk://b/out", "at": "/mnt/drum/out", "write": True},
        ],
    )
    stored.supervise(number)
    log = stored.folder(number) / "logs" / "worker-0.log"
    assert stored.row(number).state == "succeeded", (stored.row(number), log.read_text())
    ro = "Read-only file system"
    work = stored.home / "jobs" / str(number) / "work"
    assert log.read_text() == f"a folder|from a store|before|{ro}|{ro}|True|{work}\n"
    assert bucket.all() == {
        "set/x/1": "from a store",
        **{"out/old": "before", "out/by-0": "made", "out/by-1": "made"},
    }
    assert [text.split(":")[1].split("/")[-1] for text in events(stored, number)[:2]] == [
        "set",
        "out",
    ]
    assert events(stored, number)[2] == "what was written is uploaded to disk://b/out"
    assert not os.path.exists("/mnt/drum")


def test_the_next_job_finds_it_in_the_cache(stored: Workspace, bucket: Bucket) -> None:
    bucket.put("set/1", "1")
    for expected in ("fetched", "in the cache"):
        data = [{"from": "disk://b/set", "at": "/mnt/drum/store"}]
        number = stored.submit("", env=env(stored, bucket), data=data)
        stored.supervise(number)
        assert stored.row(number).state == "succeeded"
        assert expected in events(stored, number)[0]
    assert bucket.took("get") == ["set/1"]


def holders(jobs: Workspace, number: int) -> int:
    """The process that is to become, or attends, the launcher."""
    path = jobs.folder(number) / attempt.RUNNING
    wait_until(path.exists, 60)
    running = attempt.read(path)
    assert running is not None
    return int(running["pid"])


OUT = [{"from": "disk://b/out", "at": "/mnt/drum/out", "write": True}]
WRITES_ONCE = """
open("/mnt/drum/out/before", "w").write("was made")
open(os.environ["RUNS"] + "-wrote", "w")
if os.environ["DRUMLINE_ATTEMPT"] == "1":
    time.sleep(60)
print(os.listdir("/mnt/drum/out"))
"""


def test_what_a_killed_job_has_written_is_uploaded(stored: Workspace, bucket: Bucket) -> None:
    number = stored.submit(WRITES_ONCE, env=env(stored, bucket), data=OUT)
    supervisor = Supervisor(stored.store, {"local": stored.engine()})
    wrote = Path(f"{stored.runs}-wrote")
    stored.steps(supervisor, wrote.exists)
    os.kill(holders(stored, number), signal.SIGKILL)
    stored.steps(supervisor, lambda: stored.row(number).state in ENDED)
    assert stored.row(number).state == "failed" and bucket.all() == {}
    bucket.fail("put:before")
    uploads = Uploads(stored.store)
    wait_until(lambda: uploads.step() > 0 and events(stored, number)[-1].endswith("in 5 s"), 60)
    assert "put of b/out/before is forbidden" in events(stored, number)[-1]
    bucket.fail()
    uploads = Uploads(stored.store)  # another supervisor's
    wait_until(lambda: uploads.step() == 0 and bucket.all() != {}, 60)
    assert bucket.all() == {"out/before": "was made"}
    assert events(stored, number)[-1] == "what its last start had written is uploaded"
    assert os.listdir(stored.home / "uploads") == []


def test_the_next_start_uploads_what_a_killed_one_has_left(
    stored: Workspace, bucket: Bucket
) -> None:
    number = stored.submit(WRITES_ONCE, env=env(stored, bucket), data=OUT, restarts=1)
    supervisor = Supervisor(stored.store, {"local": stored.engine()})
    wrote = Path(f"{stored.runs}-wrote")
    stored.steps(supervisor, wrote.exists)
    os.kill(holders(stored, number), signal.SIGKILL)
    stored.steps(supervisor, lambda: stored.row(number).state in ENDED)
    assert stored.row(number).state == "succeeded"
    assert bucket.all() == {"out/before": "was made"}
    assert "1 files of the start before are uploaded" in events(stored, number)[1]


def test_what_another_node_has_left_is_uploaded(
    stored: Workspace, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = stored.submit("print(open('/mnt/drum/out/late').read())",
                           env=env(stored, bucket), data=OUT)  # fmt: skip
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    job_folder = stored.home / "jobs" / str(number)
    spool = Spool(spool_folder(job_folder, 0))
    (spool.prepare("disk://b/out") / "late").write_text("from n1")
    stored.supervise(number)
    log = stored.folder(number) / "logs" / "worker-0.log"
    assert log.read_text() == "from n1\n" and bucket.all() == {"out/late": "from n1"}
    assert sorted(os.listdir(job_folder / "data")) == ["0-0", "0-n1"]


@pytest.mark.parametrize("end", ["exit 5", "kill -TERM $$"])
def test_what_is_at_rest_is_uploaded_while_the_job_runs(
    end: str, bucket: Bucket, tmp_path: Path
) -> None:
    program = Program(tmp_path)
    out = {"source": "disk://b/out", "at": "/mnt/drum/out", "write": True}
    script = f"""cd /mnt/drum/out; echo 1 > a; touch -d '1 hour ago' a
    until test -e {bucket.root}/b/out/a; do sleep 0.1; done; echo 2 > b; {end}"""
    process = program.start(out, script=script, path=PLUGIN)
    said, wrong = process.communicate(timeout=60)
    assert process.returncode == (5 if end == "exit 5" else -signal.SIGTERM), said + wrong
    assert bucket.all() == {"out/a": "1\n", "out/b": "2\n"}
    assert read_notes(program.attempt)[-1] == "what was written is uploaded to disk://b/out"


def test_a_job_has_not_succeeded_before_it_is_uploaded(stored: Workspace, bucket: Bucket) -> None:
    bucket.fail("put:late")
    script = "open('/mnt/drum/out/late', 'w').write('x')"
    number = stored.submit(script, env=env(stored, bucket), data=OUT)
    stored.supervise(number)
    row = stored.row(number)
    assert row.state == "failed" and "put of b/out/late is forbidden" in row.reason, row
    assert stored.store.attempts(number)[-1].code == 74
    bucket.fail()
    uploads = Uploads(stored.store)
    wait_until(lambda: uploads.step() == 0 and bucket.all() != {}, 60)
    assert bucket.all() == {"out/late": "x"}


def test_data_that_vanish_after_submission(stored: Workspace, bucket: Bucket) -> None:
    bucket.put("set/1", "1")
    data = [{"from": "disk://b/set", "at": "/mnt/drum/store"}]
    number = stored.submit("", env=env(stored, bucket), data=data)
    (bucket.root / "b/set/1").unlink()
    stored.supervise(number)
    row = stored.row(number)
    assert row.reason == "drumline: data: disk://b/set is empty or does not exist", row
    assert stored.ran() == [] and stored.store.attempts(number)[-1].code == 66


def test_a_job_can_be_cancelled_while_data_are_fetched(stored: Workspace, bucket: Bucket) -> None:
    for i in range(200):
        bucket.put(f"set/{i}-slow", "1")
    data = [{"from": "disk://b/set", "at": "/mnt/drum/store"}]
    number = stored.submit("", env=env(stored, bucket), data=data)
    bucket.fail("slow-get:slow")
    supervisor = Supervisor(stored.store, {"local": stored.engine()})
    stored.steps(supervisor, lambda: bool(bucket.took("get")))
    with stored.store.change():
        stored.store.set_stop(number, "cancel")
    stored.steps(supervisor, lambda: stored.row(number).state in ENDED)
    assert stored.row(number).state == "cancelled" and stored.ran() == []
    # What fetches has ended with it.
    bucket.took("get")
    time.sleep(2.5)
    assert bucket.took("get") == []
    bucket.fail()


def mistakes(stored: Workspace, bucket: Bucket, data: str, more: str = "") -> list[str]:
    """Those of a job file whose data begin in the third line."""
    path = stored.code / "job.yaml"
    path.write_text(
        f"command: python -S t.py\ndata:\n{data}\n{more}env: {{DISK_STORE: {bucket.root}}}\n"
    )
    (stored.code / "t.py").write_text("")
    with pytest.raises(JobFileError) as raised:
        submit(stored.store, stored.engine(), read_job_file(path))
    return [each.removeprefix(str(path)) for each in raised.value.problems]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("- {from: none, at: /mnt/x}", ":3: data[0].from: there is no folder {code}/none, and no "
         "data are saved as 'none' (`drumline data list`)"),
        ("- {from: in}", ":3: data[0]: needs at, the absolute path at which the job sees it"),
        ("- {at: /mnt/x}", ":3: data[0]: needs from: a folder, or an address as nfs://, s3://, "
         "dataset://"),
        ("- {from: in, at: mnt}", ":3: data[0].at: must be an absolute path without '..', not "
         "'mnt'"),
        ("- {from: in, at: /mnt/../x}", ":3: data[0].at: must be an absolute path without '..', "
         "not '/mnt/../x'"),
        ("- {from: in, at: /}", ":3: data[0].at: must not be /, which the programs need; take a "
         "folder in it"),
        ("- {from: in, at: /usr/}", ":3: data[0].at: must not be /usr, which the programs need; "
         "take a folder in it"),
        ("- {from: in, at: /proc/x}", ":3: data[0].at: must not be in /proc, which is the "
         "kernel's"),
        ("- {from: in, at: /dir}", ":3: data[0].at: must not be /dir, whose variable has another "
         "meaning"),
        ("- {from: in, at: /mnt/x}\n- {from: in, at: /mnt/x/y}", ":4: data[1].at: /mnt/x/y and "
         "/mnt/x ({file}:3) overlap"),
        ("- {from: in, at: /mnt/a-b}\n- {from: in, at: /mnt/a_b}", ":4: data[1].at: /mnt/a_b and "
         "/mnt/a-b differ in punctuation alone"),
        ("- {from: in, at: /mnt/x, write: 1}", ":3: data[0].write: must be true or false, not 1"),
        ("- {from: in, to: /mnt/x}", ":3: there is no key 'to' in 'data[0]'; known are from, at, "
         "write"),
        ("- {from: 's3://a:b@c/d', at: /mnt/x}", ":3: data[0].from: must hold no password: store "
         "it by `drumline secret set NAME`, and list it in secrets"),
        ("- {from: 'dataset://mnist', at: /mnt/x, write: true}", ":3: data[0].write: dataset:// "
         "can be read only"),
        ("- {from: 'nfs://nas', at: /mnt/x}", ":3: data[0].from: must be nfs://HOST/PATH, not "
         "'nfs://nas'"),
        ("- {from: 'pvc://claim/x', at: /mnt/x}", ":3: data[0].from: pvc://claim/x is a claim of "
         "a Kubernetes cluster, and this job's engine is local: give a folder, nfs:// or an "
         "object store"),
        ("- {from: in, at: '{home}'}", ":3: data[0].at: {home} would hide the workspace, {home}"),
        ("- {from: 'disk://b/none', at: /mnt/x}", ":3: data[0].from: disk://b/none is empty or "
         "does not exist"),
        ("- {from: 'dataset://cifar', at: /mnt/x}", ":3: data[0].from: Unknown dataset 'cifar'"),
        ("- {from: 'memory://a', at: /mnt/x}", ":3: data[0].from: memory:// is a store of one "
         "process; no job could see it"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_line(
    stored: Workspace, bucket: Bucket, data: str, expected: str
) -> None:
    names = {"{code}": str(stored.code), "{home}": str(stored.home)}
    names["{file}"] = str(stored.code / "job.yaml")
    for name, text in names.items():
        data, expected = data.replace(name, text), expected.replace(name, text)
    (found,) = mistakes(stored, bucket, data)
    assert found == expected or ("Unknown dataset" in expected and found.startswith(expected))


def test_a_missing_secret_has_its_line(stored: Workspace, bucket: Bucket) -> None:
    found = mistakes(stored, bucket, "- {from: in, at: /mnt/x}", "secrets: [A]\n")
    assert found == [":4: secrets[0]: there is no secret A; store it by `drumline secret set A`"]


def test_a_store_is_asked_with_the_jobs_own_secrets(stored: Workspace, bucket: Bucket) -> None:
    write_secret(stored.home, "DISK_STORE", str(bucket.root))
    data = [{"from": "disk://b/set", "at": "/mnt/drum/store"}]
    bucket.put("set/1", "1")
    with pytest.raises(JobFileError, match="DISK_STORE"):
        stored.submit("", data=data)
    number = stored.submit("", data=data, secrets=["DISK_STORE"])
    stored.supervise(number)
    assert stored.row(number).state == "succeeded"


def test_a_named_dataset_is_prepared_and_seen(
    jobs: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Squares(dl.datasets.GeneratorBasedBuilder):
        name = "squares_of_a_test"
        VERSION = "1.0.0"

        def _info(self) -> object:
            return self.dataset_info(features={"n": np.int64})

        def _split_generators(self, dl_manager: object) -> object:
            return {"train": ((n, {"n": n * n}) for n in range(5))}

    # Known by its files alone in the job, as one that a colleague has prepared.
    Squares(data_dir=str(tmp_path / "prepared")).download_and_prepare()
    monkeypatch.setenv("DRUMLINE_DATA_DIR", str(tmp_path / "prepared"))
    script = """
import drumline as dl
for where in ("/mnt/drum/sets", None):
    found = dl.datasets.load("squares_of_a_test", split="train", data_dir=where)
    print(sorted(int(each["n"]) for each in found), os.listdir("/mnt/drum/sets"))
"""
    number = jobs.submit(
        script,
        command=[sys.executable, "t.py"],
        env={"RUNS": str(jobs.runs), "JAX_PLATFORMS": "cpu"},
        data=[{"from": "dataset://squares_of_a_test", "at": "/mnt/drum/sets"}],
    )
    jobs.supervise(number)
    assert jobs.row(number).state == "succeeded", jobs.row(number).reason
    log = jobs.folder(number) / "logs" / "worker-0.log"
    line = "[0, 1, 4, 9, 16] ['squares_of_a_test']\n"
    assert log.read_text() == line * 2
    (said,) = events(jobs, number)
    assert said.startswith("dataset://squares_of_a_test: 5 examples in ")


def test_a_dataset_without_files_is_found_by_its_name_alone(
    jobs: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setenv("DRUMLINE_DATA_DIR", str(tmp_path / "prepared"))
    number = jobs.submit("", data=[{"from": "dataset://digits"}])
    other = jobs.submit("", data=[{"from": "dataset://digits", "at": "/mnt/drum/x"}])
    jobs.supervise(number, other)
    assert jobs.row(number).state == "succeeded", jobs.row(number)
    assert "dataset://digits: it has no files" in jobs.row(other).reason


MOUNTS = """\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 21 0:50 / /mnt/team rw,relatime shared:5 - nfs4 nas:/export/team rw,vers=4.2
41 21 0:51 /inner /mnt/with\\040space rw,relatime - nfs nas.example.com:/export/other rw
42 21 0:52 / /mnt/six rw,relatime - nfs4 [fe80::1]:/data rw
43 40 0:53 / {folder} rw,relatime - nfs4 nas:/export/team/deep rw
"""


def test_a_share_is_found_where_it_is_mounted(tmp_path: Path) -> None:
    table, place = tmp_path / "mountinfo", tmp_path / "place"
    (place / "set").mkdir(parents=True)
    table.write_text(MOUNTS.replace("{folder}", str(place)))
    assert folder_of("nfs://nas/export/team/deep", table) == place
    assert folder_of("nfs://NAS/export/team/deep/set/", table) == place / "set"
    for source, folder in [
        ("nfs://nas/export/team/x", "/mnt/team/x"),
        ("nfs://nas.example.com/export/other/inner/y", "/mnt/with space/y"),
        ("nfs://fe80::1/data", "/mnt/six"),
    ]:
        with pytest.raises(DataError, match=f"^there is no folder {folder}$"):
            folder_of(source, table)
    for source in ("nfs://nas/export", "nfs://nas/export/teams", "nfs://other/export/team",
                   "nfs://nas.example.com/export/other"):  # fmt: skip
        with pytest.raises(DataError, match="is not mounted on this machine.*; mounted are") as r:
            folder_of(source, table)
        assert "nas:/export/team" in str(r.value)
    with pytest.raises(DataError, match="is not mounted on this machine"):
        folder_of("nfs://nas/x")


def test_a_job_without_data_starts_as_before(tmp_path: Path) -> None:
    assert preparation(Job("a", ("true",)), tmp_path, tmp_path, tmp_path) == []
    assert LocalEngine(tmp_path).check(Job("a", ("true",))) == []
