"""Jobs on SSH hosts: code, logs and results, ends, restarts, room, secrets."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from drumline.jobs.file.values import JobFileError
from drumline.jobs.sources.secrets import write_secret
from tests.jobs.engines.ssh.conftest import SshWorkspace
from tests.jobs.launch.launching import wait_until

# As large as a host, so that two of them are on two hosts.
TWO = {"count": 2, "cpus": 2}
ADDRESSES = "print('cluster', json.loads(os.environ['TF_CONFIG'])['cluster'])\n"


def test_a_job_that_fits_on_one_host_runs_on_one(jobs: SshWorkspace) -> None:
    (jobs.code / "helper.py").write_text("text = 'of the code'\n")
    script = ADDRESSES + "sys.path.insert(0, os.getcwd())\nimport helper; print(helper.text)"
    number = jobs.submit(script, workers={"count": 2, "cpus": 1})
    assert jobs.ends(number) == ["succeeded"], jobs.events(number)
    assert jobs.ran(number) == 2
    cluster = json.loads(jobs.log(number).splitlines()[0].partition(" ")[2].replace("'", '"'))
    assert {each.rpartition(":")[0] for each in cluster["worker"]} == {"10.77.0.1"}
    assert "of the code" in jobs.log(number, "worker:1")
    assert "all processes ended" not in jobs.log(number, "job")


def test_a_larger_one_runs_on_both_and_its_results_come_back(jobs: SshWorkspace) -> None:
    script = (
        ADDRESSES
        + """
task = json.loads(os.environ["TF_CONFIG"])["task"]
os.makedirs("out", exist_ok=True)
with open(f"out/{task['index']}.txt", "w") as file:
    file.write("x" * 3_000_000 if task["index"] else "first")
with open("both.txt", "w") as file:
    file.write(str(task["index"]))
until = time.monotonic() + 6  # Two samples of what is used.
while time.monotonic() < until:
    pass
"""
    )
    number = jobs.submit(script, workers=TWO)
    assert jobs.ends(number) == ["succeeded"], jobs.events(number)
    assert jobs.ran(number) == 2
    for process in ("worker:0", "worker:1"):
        assert "10.77.0.1:" in jobs.log(number, process), jobs.log(number, process)
        assert "10.77.0.2:" in jobs.log(number, process)
    work = jobs.home / "jobs" / str(number) / "work"
    assert (work / "out" / "0.txt").read_text() == "first"
    assert (work / "out" / "1.txt").read_text() == "x" * 3_000_000
    assert (work / "both.txt").read_text() == "0", "of two, the first host's is brought"
    assert not (work / "t.py").exists(), "what was sent is no result"
    events = "\n".join(jobs.events(number))
    assert "1 file (2.9 MiB) of b are in" in events, events
    places = [jobs.main.metrics(f"{number}/attempt-1")]
    from drumline.jobs.metrics.series import MetricReader

    found = MetricReader(places[0][0]).read([places[0][1]])
    assert {"cpu/worker:0", "cpu/worker:1", "memory/worker:1"} <= set(found), found


def test_who_failed_first_is_named_and_a_restart_finds_the_files(jobs: SshWorkspace) -> None:
    script = """
if os.path.exists("seen"):
    sys.exit(0)
open("seen", "w").close()
if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
    sys.exit(7)
time.sleep(600)
"""
    number = jobs.submit(script, workers=TWO, restarts=1)
    assert jobs.ends(number) == ["succeeded"], jobs.events(number)
    assert jobs.ran(number) == 4
    restart = next(text for text in jobs.events(number) if text.startswith("restart: "))
    assert "worker:1" in restart and "7" in restart, restart
    (jobs.code / "t.py").unlink()
    failing = jobs.submit("sys.exit(3)", workers=TWO)
    assert jobs.ends(failing) == ["failed"]
    assert "code 3" in jobs.row(failing).reason, jobs.row(failing).reason


def test_a_job_is_cancelled_and_may_save(jobs: SshWorkspace) -> None:
    script = """
def save(signum, frame):
    open("saved-" + str(json.loads(os.environ["TF_CONFIG"])["task"]["index"]), "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(600)
"""
    number = jobs.submit(script, workers=TWO)

    def ready() -> bool:
        logs = jobs.main.logs(f"{number}/attempt-1")
        return all("ready" in logs[p].read_text() for p in ("worker:0", "worker:1") if p in logs) \
            and {"worker:0", "worker:1"} <= set(logs)  # fmt: skip

    jobs.steps(ready)
    jobs.stop(number)
    jobs.ends(number)
    work = jobs.home / "jobs" / str(number) / "work"
    assert sorted(path.name for path in work.iterdir()) == ["saved-0", "saved-1"]


def test_a_job_that_hangs_is_ended(jobs: SshWorkspace) -> None:
    number = jobs.submit("print('then silent', flush=True); time.sleep(600)", hang_after="3s")
    assert jobs.ends(number) == ["failed"]
    assert any(text.startswith("hung: ") for text in jobs.events(number)), jobs.events(number)


def test_room_is_shared_between_jobs_and_workspaces(
    jobs: SshWorkspace, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> None:
    wait = "while not os.path.exists(os.environ['GO']): time.sleep(0.1)\n"
    wait += "print('gpus', os.environ['CUDA_VISIBLE_DEVICES'])"
    go = jobs.runs.with_name("go")
    fields = {"env": {"RUNS": str(jobs.runs), "GO": str(go)}}
    other = SshWorkspace(tmp_path_factory.mktemp("other"), jobs.hosts)
    request.addfinalizer(other.close)
    other.shared = jobs.shared
    other.main = other.engine()
    size = {"count": 1, "cpus": 1, "gpus": 2}
    first = jobs.submit(wait, workers=size, **fields)
    jobs.steps(lambda: jobs.ran(first))
    foreign = other.submit(wait, workers=size, **fields)
    assert foreign == first, "they are numbered alike"
    other.steps(lambda: jobs.ran(first) == 2)
    # All GPUs are held, half of them by the other workspace.
    second = jobs.submit(wait, workers=size, **fields)
    jobs.steps(lambda: "waits" in jobs.row(second).reason)
    assert jobs.row(second).state == "queued"
    assert "0 gpus" in jobs.row(second).reason, jobs.row(second).reason
    go.touch()
    assert jobs.ends(first, second) == ["succeeded", "succeeded"]
    assert other.ends(foreign) == ["succeeded"]
    assert jobs.log(first).split() == ["gpus", "0,1"]


def test_secrets_are_in_no_command_line_and_in_no_file_afterwards(jobs: SshWorkspace) -> None:
    secret = "hunter2-0123456789"
    write_secret(jobs.home, "PASSWORD", secret)
    go = jobs.runs.with_name("go")
    script = "while not os.path.exists(os.environ['GO']): time.sleep(0.1)\n"
    script += f"assert len(os.environ['PASSWORD']) == {len(secret)}"
    env = {"RUNS": str(jobs.runs), "GO": str(go)}
    number = jobs.submit(script, workers=TWO, secrets=["PASSWORD"], env=env)
    seen = set()

    def running() -> bool:
        for name in ("a", "b"):
            for pid in jobs.hosts.pids(name):
                line = _command_line(pid)
                assert secret not in line
                seen.add(line)
        for path in jobs.shared.rglob("secrets.json"):
            assert path.stat().st_mode & 0o777 == 0o600
        return jobs.ran(number) == 2

    jobs.steps(running)
    go.touch()
    assert jobs.ends(number) == ["succeeded"], jobs.row(number).reason
    assert any("keeper" in line for line in seen)
    for folder in (jobs.shared, jobs.home / "jobs"):
        for path in folder.rglob("*"):
            if path.is_file():
                assert secret.encode() not in path.read_bytes(), path


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # It has ended.
        return ""


def test_folders_that_hosts_lack_are_brought_and_come_back(jobs: SshWorkspace) -> None:
    data, models = jobs.hosts.hidden / "data", jobs.hosts.hidden / "models"
    for folder in (data, models):
        folder.mkdir()
    (data / "numbers.txt").write_text("42")
    (models / "old.txt").write_text("old")
    script = """
with open("/mnt/numbers/numbers.txt") as numbers, open("/mnt/models/new.txt", "w") as new:
    new.write(numbers.read())
assert os.listdir("/mnt/models") and open("/mnt/models/old.txt").read() == "old"
try:
    open("/mnt/numbers/more.txt", "w")
    sys.exit("it can be written")
except OSError:
    pass
"""
    wanted = [
        {"from": str(data), "at": "/mnt/numbers"},
        {"from": str(models), "at": "/mnt/models", "write": True},
    ]
    for _ in range(2):
        number = jobs.submit(script, data=wanted)
        assert jobs.ends(number) == ["succeeded"], jobs.row(number).reason
    assert (models / "new.txt").read_text() == "42"
    assert (models / "old.txt").read_text() == "old"
    copies = list(jobs.shared.glob("*/*/data/*/numbers.txt"))
    assert len(copies) == 1, "the second job finds the first one's copy"
    assert not os.path.exists("/mnt/numbers")


def test_what_does_not_fit_or_is_not_there_is_refused(jobs: SshWorkspace) -> None:
    with pytest.raises(JobFileError, match=r"do not fit on the hosts.*a: 2 cpus.*b: 2 cpus"):
        jobs.submit("", workers={"count": 1, "cpus": 3})
    with pytest.raises(JobFileError, match="program 'no-such-program' was not found on PATH"):
        jobs.submit("", command=["no-such-program"])
    with pytest.raises(JobFileError, match="a: .*workers: image: "):
        jobs.submit("", workers={"count": 1, "image": "x"})
    assert not jobs.store.jobs()


def test_what_ended_jobs_have_left_is_removed(jobs: SshWorkspace) -> None:
    first = jobs.submit("")
    assert jobs.ends(first) == ["succeeded"]
    assert list(jobs.shared.glob(f"a/*/{first}/work"))
    second = jobs.submit("")
    assert jobs.ends(second) == ["succeeded"]
    wait_until(lambda: not list(jobs.shared.glob(f"a/*/{first}")), 10)
