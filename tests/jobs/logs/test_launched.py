"""The logs of launched processes and of jobs: limits, following, a full disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import drumline as dl
from tests.jobs.launch.launching import Launcher
from tests.jobs.test_job_commands import Commands, command

__all__ = ["command"]


def test_a_process_that_writes_much_has_a_log_within_its_limit(launcher: Launcher) -> None:
    done = launcher.run(
        *("--workers", "1", "--log-limit", "64KiB", "--prefix-output"),
        body="""
for i in range(4000):
    print(f"line {i:06} " + "x" * 50)
sys.exit(3)
""",
    )
    assert done.returncode == 1
    assert "    line 003999 " in done.stdout, "the end of its log is shown with the failure"
    shown = [line for line in done.stdout.splitlines() if line.startswith("[worker:0] ")]
    assert len(shown) > 100 and shown[-1].startswith("[worker:0] line 003999 ")
    parts = sorted(launcher.logs.glob("worker-0.log*"))
    assert sum(part.stat().st_size for part in parts) <= 64 << 10
    assert parts[0].read_text().startswith("line 000000 ")


def test_what_processes_leave_behind_writes_to_the_log(launcher: Launcher) -> None:
    done = launcher.run(
        *("--workers", "2"),
        body="""
if index == 0:
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(0.2); print('late')"])
else:
    time.sleep(1)
""",
    )
    assert done.returncode == 0 and launcher.log("worker-0") == "late\n"


@pytest.mark.parametrize("size", ["64", "1KiB", "none"])
def test_a_limit_that_is_none_is_refused(launcher: Launcher, size: str) -> None:
    done = launcher.run("--workers", "1", "--log-limit", size, body="")
    assert done.returncode == 2 and "--log-limit: must be" in done.stdout


def test_following_reads_across_parts(command: Commands) -> None:
    (command.code / "t.py").write_text(
        "import time\nfor i in range(3000):\n    print(f'{i:06}', 'x' * 40, flush=True)\n"
        "    if i % 500 == 0: time.sleep(0.5)\n"
    )
    (command.code / "job.yaml").write_text(
        f"command: [{sys.executable}, -S, t.py]\nlog_limit: 1MiB\nworkers: {{cpus: 0.5}}\n"
    )
    job = dl.jobs.run(command.code / "job.yaml")
    lines = [line.split()[0] for line in job.logs(follow=True)]
    assert lines == [f"{i:06}" for i in range(3000)]
    assert (job.folder / "attempt-1" / "logs" / "worker-0.log.1").exists()
    assert list(job.logs("worker:0")) == list(job.logs())
    said = list(job.logs("job"))
    assert any(line.startswith("worker:0 done") for line in said)
    (command.code / "job.yaml").write_text("command: a\nlog_limit: 1KiB\n")
    with pytest.raises(dl.jobs.JobFileError, match=r"job.yaml:2: log_limit: must be at least 4KiB"):
        dl.jobs.run(command.code / "job.yaml")


# A file system of 256 KiB that the process itself fills.
FULL = """
import os, signal, subprocess, sys
from pathlib import Path
folder, logs, repository = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
script = folder / "t.py"
script.write_text('''
import sys
try:
    with open(sys.argv[1] + "/ballast", "wb", buffering=0) as file:
        while file.write(bytes(4096)): pass
except OSError as error:
    print("full:", error)
for i in range(9000): print("much more", i)
open(sys.argv[2] + "/trained", "w").close()
print("the last words")
sys.exit(3)
''')
logs.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", logs], check=True)
sys.path.insert(0, repository)
import drumline_command
from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.local.engine import LocalEngine
from drumline.jobs.engines.local.keeper import keep
start = logs / "jobs" / "1" / "attempt-1"
start.mkdir(parents=True)
lock = attempt.take_lock(start)
argv = [sys.executable, "-P", "-m", "drumline_command", "launch", "--workers", "1"]
argv += ["--log-dir", str(start / "logs"), "--launcher-log", str(start / "launch.log")]
argv += ["--", sys.executable, "-S", str(script), str(logs), str(folder)]
env = {**os.environ, "PYTHONPATH": repository}
attempt.write(start / attempt.START, {"argv": argv, "cwd": str(folder), "env": env, "boot": ""})
keep(start, lock)
os.close(lock)
print((start / "exit.json").read_text())
print((start / "logs" / "result.json").read_text())
print(LocalEngine(logs).poll("1/attempt-1"))
"""


def test_a_full_disk_ends_no_training_and_loses_no_reason(tmp_path: Path) -> None:
    program = [sys.executable, "-P", "-c", FULL, str(tmp_path), str(tmp_path / "disk")]
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    done = subprocess.run(
        ["unshare", *user, "--mount", *program, str(Path(__file__).parents[3])],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "trained").exists()
    exited, result, status = done.stdout.splitlines()
    assert json.loads(exited)["code"] == json.loads(result)["code"] == 1
    assert json.loads(result)["failed"][0]["what"] == "exited with code 3"
    assert "Failed first: worker:0" in status and "exited with code 3" in status
