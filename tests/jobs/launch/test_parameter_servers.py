"""Jobs with a chief and parameter servers: who ends them, and who is started again alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumline.jobs.launch.environment import cluster_token
from drumline.jobs.launch.errors import LaunchError
from drumline.jobs.launch.options import LaunchOptions
from drumline.jobs.launch.tasks import Layout
from tests.jobs.launch.launching import Launcher
from tests.lost_processes import lost_in

_OPTIONS = ("--workers", "2", "--ps", "1", "--chief")
_SERVE = """
start = int(os.environ["DRUMLINE_RESTART"])
tell(f"{task}-{index}-{start}", json.dumps([config, os.environ["DRUMLINE_CLUSTER_TOKEN"]]))
def die():
    os.kill(os.getpid(), signal.SIGKILL)
def everyone(start):
    for each in ("chief-0", "worker-0", "worker-1", "ps-0"):
        wait_for(f"{each}-{start}")
"""


def test_a_killed_worker_is_started_again_alone(launcher: Launcher) -> None:
    done = launcher.run(
        *(*_OPTIONS, "--max-restarts", "2"),
        body=_SERVE
        + """
if task == "chief":
    everyone(0); wait_for("worker-1-1"); wait_for("worker-1-2"); time.sleep(0.2)
elif (task, index) == ("worker", 1) and start < 2:
    everyone(0)
    record("exception", "of its last start"); die()
else:
    time.sleep(60)
""",
    )
    assert done.returncode == 0, done.stdout
    assert "it was killed by SIGKILL" in str(lost_in(done.stdout, "worker:1")["seen"])
    assert lost_in(done.stdout, "worker:1")["follows"] == "The others continue"
    assert "worker:1 is started again, 2 of 2; the others continue." in done.stdout
    assert len({launcher.told(f"worker-1-{start}") for start in range(3)}) == 1
    started = [path.name for path in sorted(launcher.logs.glob("*.log"))]
    assert started == [
        *("chief-0.log", "ps-0.log", "worker-0.log"),
        *("worker-1.log", "worker-1.restart-1.log", "worker-1.restart-2.log"),
    ]
    for served in ("worker:0", "worker:1", "ps:0"):
        assert f"{served} stopped (SIGTERM)" in done.stdout
    assert not list((launcher.logs / "failures-0").iterdir())


def test_a_worker_that_fails_too_often_fails_the_job(launcher: Launcher) -> None:
    done = launcher.run(
        *(*_OPTIONS, "--max-restarts", "1"),
        body=_SERVE + "sys.exit(3) if (task, index) == ('worker', 1) else time.sleep(60)",
    )
    assert done.returncode == 1
    assert done.stdout.count("worker:1 is started again, 1 of 1; the others continue.") == 2
    assert lost_in(done.stdout, "worker:1")["seen"] == "it exited with code 3"
    assert done.stdout.count("Failed first: worker:1 at ") == 2
    assert "Restart 1 of 1." in done.stdout


@pytest.mark.parametrize("who", ["worker", "chief"])
def test_what_is_suspended_for_long_is_killed_and_started_again(
    launcher: Launcher, who: str
) -> None:
    ends = 'wait_for("worker-0-1")' if who == "worker" else "assert start == 1"
    done = launcher.run(
        *("--workers", "1", "--ps", "1", "--chief", "--max-restarts", "1"),
        *("--suspended-seconds", "0.5"),
        body=_SERVE
        + f"""
for each in ("chief-0", "worker-0", "ps-0"):
    wait_for(each + "-0")
if start == 0 and task == "{who}":
    os.kill(os.getpid(), signal.SIGSTOP)
if task != "chief":
    time.sleep(60)
{ends}
""",
    )
    assert done.returncode == 0, done.stdout
    seen = str(lost_in(done.stdout, f"{who}:0")["seen"])
    assert seen.startswith("it was suspended (SIGSTOP) for ") and "killed" in seen
    assert ("the others continue" in done.stdout) == (who == "worker")
    assert ("Restart 1 of 1." in done.stdout) == (who == "chief")


@pytest.mark.parametrize("who", ["ps", "chief"])
def test_a_killed_server_or_chief_restarts_the_job(launcher: Launcher, who: str) -> None:
    done = launcher.run(
        *(*_OPTIONS, "--max-restarts", "1"),
        body=_SERVE
        + f"""
everyone(start)
if start == 0 and task == "{who}":
    die()
if start == 0 and task == "worker":
    wait_for("never") if index else time.sleep(0.3)
    record("peer lost", "broken", "{who}:0"); sys.exit(1)
if task != "chief" or start == 0:
    time.sleep(60)
""",
    )
    assert done.returncode == 0, done.stdout
    assert f"Failed first: {who}:0 at " in done.stdout
    assert "it was killed by SIGKILL" in str(lost_in(done.stdout, f"{who}:0")["seen"])
    assert "Restart 1 of 1." in done.stdout
    assert "the others continue" not in done.stdout
    tokens = {
        launcher.told(f"{each}-{start}")[-66:] for each in ("ps-0", "worker-1") for start in (0, 1)
    }
    assert len(tokens) == 2, "each start of the job has a token of its own"


def test_the_end_of_the_servers_says_nothing_once_the_chief_is_done(launcher: Launcher) -> None:
    done = launcher.run(
        *_OPTIONS,
        body=_SERVE
        + """
signal.signal(signal.SIGTERM, lambda *_: (record("peer lost", "gone"), sys.exit(1)))
if task == "chief":
    everyone(0)
else:
    time.sleep(60)
""",
    )
    assert done.returncode == 0, done.stdout
    assert "Failed" not in done.stdout


def options(ps: int, nodes: int, token: str | None) -> LaunchOptions:
    return LaunchOptions(("true",), Layout(1, ps, True, nodes=nodes), Path(), token=token)


def test_the_token_of_a_cluster() -> None:
    cluster = {"chief": ["10.0.0.1:20000"], "ps": ["10.0.0.1:20001", "10.0.0.2:20001"]}
    name = "DRUMLINE_CLUSTER_TOKEN"
    assert cluster_token(options(0, 2, None), cluster, {}) == {}, "nobody else would know it"
    here = [cluster_token(options(ps, 1, None), cluster, {})[name] for ps in (0, 1)]
    assert here[0] != here[1] and all(len(token) == 64 for token in here)
    for own in (name, f"{name}_FILE"):
        assert cluster_token(options(1, 2, None), cluster, {own: "the user's"}) == {}
    shared = cluster_token(options(1, 2, "secret"), cluster, {})
    assert shared == cluster_token(options(1, 2, "secret"), dict(reversed(cluster.items())), {})
    assert shared != cluster_token(options(1, 2, "another"), cluster, {})
    assert shared != cluster_token(options(1, 2, "secret"), {**cluster, "chief": ["a:1"]}, {})
    assert len(cluster_token(options(0, 2, "secret"), cluster, {})[name]) == 64
    with pytest.raises(LaunchError, match="DRUMLINE_RENDEZVOUS_TOKEN on all hosts"):
        cluster_token(options(1, 2, None), cluster, {})
