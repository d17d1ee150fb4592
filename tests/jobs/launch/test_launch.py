"""Jobs on one host: what the processes are told, how a job ends, and how it is restarted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.jobs.launch.launching import ROOT, Launcher
from tests.lost_processes import lost_in

_TELL_ENVIRONMENT = """
names = ["DRUMLINE_FAILURE_DIR", "DRUMLINE_RESTART", "DRUMLINE_CPU_DEVICES"]
names += ["DRUMLINE_COMPILATION_CACHE", "DRUMLINE_RENDEZVOUS_TOKEN"]
print("I am", task, index)
tell(f"{task}-{index}", json.dumps([config, {n: os.environ.get(n) for n in names}]))
tell(f"pid-{task}-{index}", os.getpid())
trained = ["worker-0", "worker-1"]
if task == "ps":
    time.sleep(60)
elif task == "evaluator":
    for each in ("chief-0", *trained):
        wait_for_end_of(f"pid-{each}")
    print("evaluated")
else:
    for each in ("ps-0", "evaluator-0", *trained):
        wait_for(each)
    for each in trained * (task == "chief"):
        wait_for_end_of(f"pid-{each}")
"""


def test_every_process_is_told_its_place(launcher: Launcher) -> None:
    done = launcher.run(
        *("--workers", "2", "--ps", "1", "--chief", "--evaluator", "--devices-per-worker", "3"),
        "--prefix-output",
        body=_TELL_ENVIRONMENT,
        env={"JAX_PLATFORMS": "cpu", "XDG_CACHE_HOME": "/caches"},
    )
    assert done.returncode == 0, done.stdout
    names = ["chief-0", "worker-0", "worker-1", "ps-0", "evaluator-0"]
    told = {name: json.loads(launcher.told(name)) for name in names}
    (cluster,) = {json.dumps(config["cluster"]) for config, _ in told.values()}
    addresses = json.loads(cluster)
    assert {kind: len(found) for kind, found in addresses.items()} == {
        "chief": 1,
        "worker": 2,
        "ps": 1,
    }, "the evaluator is not part of the cluster"
    everyone = [address for found in addresses.values() for address in found]
    assert len(set(everyone)) == 4
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+", address) for address in everyone)
    for name, (config, env) in told.items():
        assert config["task"] == {"type": name[:-2], "index": int(name[-1])}
        assert env == {
            "DRUMLINE_FAILURE_DIR": str(launcher.logs / "failures-0"),
            "DRUMLINE_RESTART": "0",
            "DRUMLINE_CPU_DEVICES": "3",
            "DRUMLINE_COMPILATION_CACHE": "/caches/drumline/compilation",
            "DRUMLINE_RENDEZVOUS_TOKEN": None,
        }
        kind, index = config["task"].values()
        assert f"[{kind}:{index}] I am {kind} {index}" in done.stdout
        assert launcher.log(name).startswith(f"I am {kind} {index}\n")
    assert "ps:0 stopped (SIGTERM)" in done.stdout
    assert launcher.log("evaluator-0").endswith("evaluated\n"), "it may finish"


def test_an_evaluator_that_does_not_end_is_stopped(launcher: Launcher) -> None:
    done = launcher.run(
        *("--workers", "1", "--evaluator", "--evaluator-seconds", "0.3"),
        "--no-compilation-cache",
        body="tell(task, os.environ.get('DRUMLINE_COMPILATION_CACHE'))\n"
        "time.sleep(60 * (task == 'evaluator'))",
        env={"DRUMLINE_COMPILATION_CACHE": "/elsewhere", "DRUMLINE_CPU_DEVICES": "5"},
    )
    assert done.returncode == 0, done.stdout
    assert "evaluator:0 stopped (SIGTERM)" in done.stdout
    assert launcher.told("worker") == "None"


def test_a_job_is_restarted_on_other_ports_until_it_ends_well(launcher: Launcher) -> None:
    done = launcher.run(
        *("--workers", "2", "--max-restarts", "5"),
        body="""
attempt = int(os.environ["DRUMLINE_RESTART"])
records = pathlib.Path(os.environ["DRUMLINE_FAILURE_DIR"])
assert not list(records.iterdir())
tell(f"{index}-{attempt}", json.dumps(config["cluster"]["worker"]))
wait_for(f"0-{attempt}"); wait_for(f"1-{attempt}")
if attempt < 2:
    if index == 0:
        wait_for(records / "worker-1.json")
    record(*[("peer lost", "broken"), ("exception", f"failure {attempt}")][index])
    sys.exit(1)
""",
    )
    assert done.returncode == 0, done.stdout
    assert "Restart 2 of 5." in done.stdout and "Restart 3" not in done.stdout
    clusters = [launcher.told(f"0-{attempt}") for attempt in range(3)]
    assert clusters == [launcher.told(f"1-{attempt}") for attempt in range(3)]
    assert len(set(clusters)) == 3
    assert "failure 0 (step 7)" in done.stdout and "failure 1 (step 7)" in done.stdout
    assert (launcher.logs / "worker-1.restart-2.log").read_text() == ""


def test_restarts_run_out(launcher: Launcher) -> None:
    done = launcher.run("--workers", "1", "--max-restarts", "1", "--quiet", body="sys.exit(3)")
    assert done.returncode == 1
    first, restart, second, used_up = done.stdout.splitlines()
    for failed in (first, second):
        assert failed.startswith("Failed first: worker:0 at ")
        assert lost_in(failed, "worker:0")["seen"] == "it exited with code 3"
    assert (restart, used_up) == ("Restart 1 of 1.", "All 1 of --max-restarts are used up.")


def test_a_log_directory_serves_one_launch_at_a_time(launcher: Launcher) -> None:
    first = launcher.start("--workers", "1", body="tell('began'); wait_for('end')")
    launcher.told("began")
    second = launcher.run("--workers", "1", body="")
    assert second.returncode == 2 and "in use by another launch" in second.stdout
    (launcher.directory / "end").touch()
    first.communicate(timeout=30)
    assert first.returncode == 0


def test_nothing_heavy_is_imported() -> None:
    """But what gives arrays to who asks for them, which nothing else imports at its beginning."""
    jobs = ROOT / "drumline" / "jobs"
    those = ("series", "display", "documents", "written")
    arrays = {jobs / "metrics" / f"{name}.py" for name in those}
    rooms = sorted(set(jobs.rglob("*.py")) - arrays)
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in rooms]
    imports = "\n".join(f"import {name.removesuffix('.__init__')}" for name in names)
    code = f"import drumline_command, drumline.cli, sys\n{imports}\n"
    code += "sys.exit(str({'jax', 'keras', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr.strip() == "set()"
    assert len(names) > 10 and Path(ROOT / "drumline/jobs/launch/job.py") in rooms
