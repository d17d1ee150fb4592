"""What goes wrong in a run: each ends all its processes, with a message that names it."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cnn.commands import SHORT, TOKEN, losses, run, started
from tests.ports import free_addresses
from tests.soak.disk import can_mount, fill, mounted

LONG = [*SHORT, "--num_batches=1000000", "--display_every=1"]
SECONDS = 300
Processes = list[subprocess.Popen[str]]


@pytest.fixture
def running() -> Iterator[Callable[..., Processes]]:
    """Starts processes, and waits until the first trains; what is left at the end is killed."""
    processes: Processes = []

    def start(*commands: list[str]) -> Processes:
        processes.extend(started([*LONG, *command], **TOKEN) for command in commands)
        wait_for_step(processes[0])
        return processes

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def wait_for_step(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("2\timages/sec"):
            return
    raise AssertionError("".join(lines))


def ends(processes: Processes) -> list[str]:
    """What they print to their ends, which come within the limit."""
    return [process.communicate(timeout=SECONDS)[0] for process in processes]


def served(mode: str = "parameter_server", *more: str) -> tuple[list[list[str]], list[str]]:
    """Commands of two workers and a parameter server, and their addresses."""
    addresses = free_addresses(3)
    hosts = [f"--worker_hosts={addresses[0]},{addresses[1]}", f"--ps_hosts={addresses[2]}"]
    tasks = [("worker", 0), ("worker", 1), ("ps", 0)]
    commands = [
        [*hosts, f"--variable_update={mode}", *more, f"--job_name={job}", f"--task_index={index}"]
        for job, index in tasks
    ]
    return commands, addresses


Running = Callable[..., Processes]


@pytest.mark.parametrize(
    ("victim", "why"),
    [(1, "--worker_hosts: worker 1 at {} was lost"), (2, "ps:0 at {} is lost")],
    ids=["worker", "ps"],
)
def test_a_killed_task_ends_all(victim: int, why: str, running: Running) -> None:
    commands, addresses = served()
    processes = running(*commands)
    processes[victim].kill()
    outs = ends(processes)
    assert f"drumline cnn: {why.format(addresses[victim])}" in outs[0]
    assert "Traceback" not in outs[0]
    codes = [process.returncode for process in processes]
    assert codes.pop(victim) == -signal.SIGKILL and codes == [1, 0]
    assert "Worker 0, which leads, has ended the run." in outs[3 - victim]


@pytest.mark.thorough
def test_a_killed_leader_ends_all(running: Running) -> None:
    commands, addresses = served()
    processes = running(*commands)
    processes[0].kill()
    outs = ends(processes)
    for process, out in zip(processes[1:], outs[1:], strict=True):
        assert process.returncode == 1
        assert f"--worker_hosts: worker 0 at {addresses[0]}, which leads, was waited for 60" in out


@pytest.mark.parametrize("asynchronous", [[], ["--nocross_replica_sync"]])
def test_an_interrupted_leader_ends_all(asynchronous: list[str], running: Running) -> None:
    processes = running(*served("parameter_server", *asynchronous)[0])
    processes[0].send_signal(signal.SIGINT)
    outs = ends(processes)
    assert [process.returncode for process in processes] == [130, 0, 0], outs
    assert outs[0].endswith("Interrupted.\n") and "Traceback" not in "".join(outs)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_collectives_lose_a_process(how: signal.Signals, running: Running) -> None:
    hosts = free_addresses(2)
    flags = [f"--worker_hosts={','.join(hosts)}", "--variable_update=collective_all_reduce"]
    flags += ["--job_name=worker"]
    processes = running(*([*flags, f"--task_index={index}"] for index in (0, 1)))
    processes[1].send_signal(how)
    outs = ends(processes)
    assert processes[1].returncode == (130 if how == signal.SIGINT else -how)
    assert processes[0].returncode not in (0, None)
    assert "worker:1" in outs[0] and "is lost" in outs[0]


def test_a_full_disk_ends_collectives(tmp_path: Path) -> None:
    hosts = free_addresses(2)
    flags = [*SHORT, f"--worker_hosts={','.join(hosts)}", "--job_name=worker"]
    flags += ["--variable_update=collective_all_reduce", f"--benchmark_log_dir={full(tmp_path)}"]
    processes = [started([*flags, f"--task_index={index}"]) for index in (0, 1)]
    outs = ends(processes)
    assert all(process.returncode for process in processes)
    assert f"--benchmark_log_dir={tmp_path}: it cannot be written: [Errno 28]" in outs[0]
    assert "worker:0" in outs[1] and "No space left" in outs[1]


def full(folder: Path) -> Path:
    """A log directory on a disk that is full."""
    (folder / "metric.log").symlink_to("/dev/full")
    return folder


def test_an_interrupt_leaves_the_checkpoint(tmp_path: Path, running: Running) -> None:
    kept = [f"--train_dir={tmp_path}", "--save_model_steps=1"]
    (process,) = running(kept)
    process.send_signal(signal.SIGINT)
    (out,) = ends([process])
    assert process.returncode == 130 and out.endswith("Interrupted.\n") and "Traceback" not in out
    check_continued(tmp_path)


def test_a_kill_while_saving_leaves_a_whole_checkpoint(tmp_path: Path, running: Running) -> None:
    (process,) = running([f"--train_dir={tmp_path}", "--save_model_steps=1"])
    time.sleep(0.05)
    process.kill()
    ends([process])
    check_continued(tmp_path)


def check_continued(folder: Path, *more: str) -> None:
    flags = [f"--train_dir={folder}", "--eval", "--num_eval_batches=1", *more]
    process = started([*SHORT, *flags])
    out = process.communicate(timeout=SECONDS)[0]
    assert process.returncode == 0 and "Successfully loaded model from" in out, out


@pytest.mark.skipif(not can_mount(), reason="this machine forbids to mount a small disk")
def test_a_disk_that_is_full_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    small = ["--data_name=cifar10", "--model=alexnet"]
    with mounted(tmp_path):
        kept = tmp_path / "train"
        run(f"--train_dir={kept}", *small)
        fill(tmp_path)
        process = started([*SHORT, f"--train_dir={kept}", "--num_batches=6", *small])
        out = process.communicate(timeout=SECONDS)[0]
        assert process.returncode == 1 and "Traceback" not in out
        assert f"drumline cnn: --train_dir={kept}: it cannot be written: " in out
        assert "No space left" in out
        check_continued(kept, *small)


@pytest.mark.parametrize("flag", ["benchmark_log_dir", "trace_file"])
def test_a_full_disk_is_named(flag: str, tmp_path: Path) -> None:
    value = full(tmp_path) if flag == "benchmark_log_dir" else "/dev/full"
    process = started([*SHORT, f"--{flag}={value}", "--num_warmup_batches=3"])
    out = process.communicate(timeout=SECONDS)[0]
    assert process.returncode == 1 and "Traceback" not in out
    why = f"drumline cnn: --{flag}={value}: it cannot be written: [Errno 28] No space left"
    assert why in out, out
    assert losses(out) or flag == "trace_file"
