"""Nothing outlives a job: signals to the launcher, its death, and what its processes started."""

from __future__ import annotations

import codecs
import os
import pty
import select
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from drumline.jobs.launch.coordination import SingleHost
from drumline.jobs.launch.job import Attempt
from drumline.jobs.launch.loop import Loop
from drumline.jobs.launch.options import LaunchOptions
from drumline.jobs.launch.process import Child
from drumline.jobs.launch.tasks import Layout
from drumline.jobs.launch.view import View
from tests.jobs.launch.launching import Launcher, wait_until
from tests.processes import gone


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_is_passed_on_and_waited_for(
    launcher: Launcher, signum: signal.Signals, code: int
) -> None:
    job = launcher.start(
        *("--workers", "2", "--max-restarts", "3"),
        body="""
def end(number, frame):
    time.sleep(0.1); print("saved after", signal.Signals(number).name); sys.exit(0)
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, end)
tell(f"began-{index}"); time.sleep(60)
""",
    )
    launcher.told("began-0"), launcher.told("began-1")
    job.send_signal(signum)
    output, _ = job.communicate(timeout=30)
    assert job.returncode == code, output
    for name in ("worker-0", "worker-1"):
        assert launcher.log(name) == f"saved after {signum.name}\n"
    assert "Failed first" not in output and "Restart" not in output


def test_a_job_that_has_saved_before_its_end_ends_with_75(launcher: Launcher) -> None:
    job = launcher.start(
        *("--workers", "2"),
        body="""
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
tell(f"began-{index}"); time.sleep(60)
""",
    )
    launcher.told("began-0"), launcher.told("began-1")
    job.send_signal(signal.SIGTERM)
    output, _ = job.communicate(timeout=30)
    assert job.returncode == 75, output
    assert "Failed first" not in output


def test_shared_signals_are_not_passed_on(launcher: Launcher) -> None:
    """As Slurm's, which reach each process of a step: handlers run once."""
    job = launcher.start(
        *("--workers", "2", "--shared-signals"),
        body="""
def save(*_):
    print("saves", flush=True); tell(f"saves-{index}"); wait_for("end"); sys.exit(75)
signal.signal(signal.SIGTERM, save)
tell(f"pid-{index}", os.getpid()); time.sleep(60)
""",
    )
    pids = [int(launcher.told(f"pid-{index}")) for index in (0, 1)]
    for pid in (job.pid, *pids):
        os.kill(pid, signal.SIGTERM)
    launcher.told("saves-0"), launcher.told("saves-1")
    time.sleep(0.5)  # A second signal would have come by then.
    (launcher.directory / "end").touch()
    output, _ = job.communicate(timeout=30)
    assert job.returncode == 75 and "SIGTERM: has reached all processes" in output, output
    assert [launcher.log(f"worker-{index}") for index in (0, 1)] == ["saves\n"] * 2


def test_a_process_that_ends_with_75_is_started_again(launcher: Launcher) -> None:
    body = """
if os.environ["DRUMLINE_RESTART"] == "0":
    time.sleep(0.3 * (1 - index)); sys.exit(75)
"""
    done = launcher.run("--workers", "2", "--max-restarts", "1", body=body)
    assert done.returncode == 0, done.stdout
    assert "All is saved, and a machine is taken away: started again." in done.stdout
    assert "Failed first" not in done.stdout
    done = launcher.run("--workers", "1", body="sys.exit(75)")
    assert done.returncode == 1, "it would be started again for ever"
    assert "in which it can hardly have trained" in done.stdout


_DEAF = """
signal.signal(signal.SIGINT, lambda *_: tell(f"heard-{index}"))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
tell(f"pid-{index}", os.getpid())
while True:
    time.sleep(60)
"""


def test_who_does_not_end_is_killed_after_the_grace(launcher: Launcher) -> None:
    job = launcher.start("--workers", "1", "--grace-seconds", "0.2", body=_DEAF)
    pid = int(launcher.told("pid-0"))
    job.terminate()
    output, _ = job.communicate(timeout=30)
    assert job.returncode == 143
    assert "worker:0 did not end when asked to: killed" in output
    assert gone(pid)


def test_a_second_interrupt_kills_at_once(launcher: Launcher) -> None:
    job = launcher.start("--workers", "2", "--grace-seconds", "1000", body=_DEAF)
    pids = [int(launcher.told(f"pid-{index}")) for index in (0, 1)]
    job.send_signal(signal.SIGINT)
    launcher.told("heard-0"), launcher.told("heard-1")
    time.sleep(0.3)
    assert not any(map(gone, pids))
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=30)
    assert job.returncode == 130
    assert all(map(gone, pids))


def test_one_key_pressed_that_arrives_twice_does_not_kill(tmp_path: Path) -> None:
    heard: list[str] = []
    child = SimpleNamespace(
        stop=lambda signum, grace: heard.append(signal.Signals(signum).name),
        kill=lambda: heard.append("killed"),
    )
    loop = SimpleNamespace(signals=[signal.SIGINT, signal.SIGINT, signal.SIGTERM])
    view = SimpleNamespace(note=lambda text: None)
    options = LaunchOptions(("true",), Layout(1), tmp_path)
    attempt = Attempt(
        *([cast(Child, child)], options, cast(Loop, loop), cast(View, view), SingleHost()),
        failures=tmp_path,
        again=lambda task: cast(Child, child),
    )
    attempt._heed_signals()
    assert heard == ["SIGINT"] and attempt.interrupted == signal.SIGINT
    attempt._interrupted_at -= 1
    loop.signals += [signal.SIGTERM, signal.SIGINT]
    attempt._heed_signals()
    assert heard == ["SIGINT", "killed"], "the key, not what batch systems send"


_DETACHED = """
nap = "import time; time.sleep(100)"
child = subprocess.Popen([sys.executable, "-S", "-c", nap], start_new_session=True)
tell(f"detached-{index}", child.pid)
tell(f"pid-{index}", os.getpid())
"""


def pids_told(launcher: Launcher) -> list[int]:
    names = [f"{kind}-{index}" for kind in ("detached", "pid") for index in (0, 1)]
    return [int(launcher.told(name)) for name in names]


@pytest.mark.parametrize("whole_group", [False, True])
def test_a_killed_launcher_leaves_nothing_behind(launcher: Launcher, whole_group: bool) -> None:
    body = _DETACHED + "time.sleep(60)"
    job = launcher.start("--workers", "2", body=body, start_new_session=True)
    pids = pids_told(launcher)
    assert not any(map(gone, pids))
    if whole_group:
        os.killpg(job.pid, signal.SIGKILL)
    else:
        job.kill()
    wait_until(lambda: all(map(gone, pids)))
    job.communicate(timeout=30)  # and nobody holds its output open


@pytest.mark.parametrize("launcher_too", [True, False])
def test_a_killed_guardian_is_not_needed(launcher: Launcher, launcher_too: bool) -> None:
    body = "tell(f'pid-{index}', os.getpid()); wait_for('end')"
    job = launcher.start("--workers", "2", body=body)
    pids = [int(launcher.told(f"pid-{index}")) for index in (0, 1)]
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children")
    if not children.exists():
        pytest.skip("this kernel does not list a process's children")
    (guardian,) = set(map(int, children.read_text().split())) - set(pids)
    os.kill(guardian, signal.SIGKILL)
    wait_until(lambda: gone(guardian))
    assert not any(map(gone, pids))
    if launcher_too:
        job.kill()
        wait_until(lambda: all(map(gone, pids)))
    else:
        (launcher.directory / "end").touch()
        output, _ = job.communicate(timeout=30)
        assert job.returncode == 0, output


def test_what_processes_leave_behind_is_ended_with_the_job(launcher: Launcher) -> None:
    done = launcher.run("--workers", "2", body=_DETACHED)
    assert done.returncode == 0, done.stdout
    assert all(map(gone, pids_told(launcher)))


def test_at_a_terminal_there_is_a_line_for_each_process(launcher: Launcher) -> None:
    ours, theirs = pty.openpty()
    body = "print('step 1\\rstep \\x1b[31m2'); wait_for(f'end-{index}'); sys.exit(index)"
    env = {**launcher.environment(), "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    job = launcher.start("--workers", "2", body=body, stdout=theirs, env=env)
    os.close(theirs)
    decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end within a character
    shown = ""

    def ended() -> bool:
        """Reads on; whether the launcher has ended, before which its writes must not fail."""
        nonlocal shown
        try:
            if select.select([ours], [], [], 1)[0]:
                shown += decoder.decode(os.read(ours, 65536))
        except OSError:
            return True
        return False

    def row(name: str, *words: str) -> bool:
        lines = [line for line in shown.splitlines() if name in line]
        return any(all(word in line for word in words) for line in lines)

    with os.fdopen(ours, "rb", buffering=0):
        for index in (0, 1):
            wait_until(lambda name=f"worker:{index}": row(name, "step 2") or ended())
        (launcher.directory / "end-0").touch()
        wait_until(lambda: row("worker:0", "done") or ended())  # a failure would stop it
        (launcher.directory / "end-1").touch()
        wait_until(ended)
    assert job.wait(timeout=30) == 1
    assert "Failed first: worker:1 at " in shown and "is lost: it exited with code 1" in shown
    assert "last line of its log" in shown and "step 1" not in shown
    assert row("worker:1", "failed (exit 1)")
    assert shown.count("\x1b[?25h") >= 1, "the cursor is shown again"


_TELLS_WHAT_IT_IGNORES = """
names = ("SIGHUP", "SIGINT", "SIGTERM")
ignored = [name for name in names if signal.getsignal(getattr(signal, name)) is signal.SIG_IGN]
tell(f"pid-{index}", os.getpid()); tell(f"ignored-{index}", " ".join(ignored)); wait_for("end")
"""


@pytest.mark.parametrize(
    ("started_by", "signum"),
    [
        (["nohup"], signal.SIGHUP),
        (["sh", "-c", 'trap "" INT; exec "$@"', "sh"], signal.SIGINT),  # as its `&` does
    ],
)
def test_what_its_starter_ignores_stays_ignored(
    launcher: Launcher, started_by: list[str], signum: signal.Signals
) -> None:
    job = launcher.start("--workers", "2", body=_TELLS_WHAT_IT_IGNORES, started_by=started_by)
    for index in (0, 1):
        assert launcher.told(f"ignored-{index}") == signum.name
    pids = [int(launcher.told(f"pid-{index}")) for index in (0, 1)]
    for pid in (job.pid, *pids):
        os.kill(pid, signum)
    # What a process does with a signal it does before anything that comes later.
    (launcher.directory / "end").touch()
    output, _ = job.communicate(timeout=30)
    assert job.returncode == 0, output
    assert signum.name not in output


def test_a_job_in_the_background_is_ended_by_sigterm(launcher: Launcher) -> None:
    both = ["nohup", "sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    job = launcher.start("--workers", "2", body=_TELLS_WHAT_IT_IGNORES, started_by=both)
    pids = [int(launcher.told(f"pid-{index}")) for index in (0, 1)]
    assert launcher.told("ignored-0") == "SIGHUP SIGINT"
    job.terminate()
    output, _ = job.communicate(timeout=30)
    assert job.returncode == 143, output
    assert all(map(gone, pids))
