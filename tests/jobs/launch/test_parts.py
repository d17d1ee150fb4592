"""The launcher's parts by themselves: ports, logs, shares of GPUs, the script in a command."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import pytest

from drumline.jobs.launch import environment, process
from drumline.jobs.launch.environment import Ports, gpu_shares, visible_gpus
from drumline.jobs.launch.errors import LaunchError
from drumline.jobs.launch.logs import LogDir, LogTail, last_lines, printable
from drumline.jobs.launch.options import python_script
from drumline.jobs.launch.rendezvous.join import split_address
from drumline.jobs.launch.tasks import LaunchedTask, Layout, joined, offered
from drumline.jobs.launch.view import clock


def test_ports_in_use_or_promised_are_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    four = [int(address.rpartition(":")[2]) for address in _closed(Ports("127.0.0.1", 4))]
    monkeypatch.setattr(environment, "_candidates", lambda: iter(four))
    with socket.create_server(("127.0.0.1", four[1])):
        first = Ports("127.0.0.1", 1)
        second = Ports("localhost", 2)
        with pytest.raises(LaunchError, match="1 free ports are needed at 127.0.0.1"):
            Ports("127.0.0.1", 1)
    assert first.addresses == [f"127.0.0.1:{four[0]}"]
    assert second.addresses == [f"localhost:{four[2]}", f"localhost:{four[3]}"]
    first.close()
    assert _closed(Ports("127.0.0.1", 2)) == [f"127.0.0.1:{port}" for port in four[:2]]
    second.close()


def _closed(reserved: Ports) -> list[str]:
    reserved.close()
    return reserved.addresses


def test_ports_lie_outside_the_range_of_outgoing_connections() -> None:
    range_file = Path("/proc/sys/net/ipv4/ip_local_port_range")
    low, high = map(int, range_file.read_text().split())
    if high - low > 50_000:
        pytest.skip("outgoing connections may take any port here")
    for address in _closed(Ports("127.0.0.1", 50)):
        assert not low <= int(address.rpartition(":")[2]) <= high


def test_the_cluster_is_joined_in_the_order_of_the_hosts() -> None:
    layout = Layout(workers=2, ps=1, chief=True, evaluator=True, nodes=2)
    first, second = layout.tasks_of(0), layout.tasks_of(1)
    assert [str(task) for task in first] == [
        "chief:0",
        "worker:0",
        "worker:1",
        "ps:0",
        "evaluator:0",
    ]
    assert [str(task) for task in second] == ["worker:2", "worker:3", "ps:1"]
    parts = [offered(first, ["a:1", "a:2", "a:3", "a:4"]), offered(second, ["b:1", "b:2", "b:3"])]
    assert joined(parts) == {
        "chief": ["a:1"],
        "worker": ["a:2", "a:3", "b:1", "b:2"],
        "ps": ["a:4", "b:3"],
    }


def test_hosts_of_one_process_each() -> None:
    layout = Layout(2, ps=1, chief=True, evaluator=True, nodes=5, process_per_node=True)
    assert [[str(task) for task in layout.tasks_of(node)] for node in range(5)] == [
        ["chief:0"],
        ["worker:0"],
        ["worker:1"],
        ["ps:0"],
        ["evaluator:0"],
    ]


def test_a_log_is_followed_line_by_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = LogTail(log)
    assert tail.new_lines() == [] and tail.last == ""
    with log.open("ab", buffering=0) as file:
        file.write(b"one\ntw")
        assert tail.new_lines() == ["one"] and tail.last == "tw"
        file.write(b"o\n\n")
        assert tail.new_lines() == ["two", ""] and tail.last == "two"
        file.write("naïve".encode()[:4])
        assert tail.new_lines() == []
        file.write("naïve".encode()[4:])
        assert tail.new_lines(ended=True) == ["naïve"]
        assert tail.new_lines(ended=True) == []
        file.write(b"x" * 100_000)
        assert tail.new_lines() == ["x" * 100_000], "no line is waited for without end"
    assert last_lines(log.read_bytes(), 2)[-1].endswith("x") and last_lines(b"", 2) == []


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("10%\r20%\r30%", "30%"),
        ("done\r", "done"),
        ("\x1b[1;31mred\x1b[0m\x07", "red"),
        ("\x1b]0;a title\x07text\x08\x08", "text"),
        ("a\tb  ", "a    b"),
        ("\x9b2Jx\u202e", "2Jx"),
    ],
)
def test_a_log_cannot_steer_the_terminal(line: str, seen: str) -> None:
    assert printable(line) == seen


def test_each_worker_gets_gpus_of_its_own() -> None:
    tasks = [LaunchedTask("chief", 0), LaunchedTask("worker", 0), LaunchedTask("ps", 0)]
    env = {"CUDA_VISIBLE_DEVICES": "3,GPU-ab,5,6,7"}
    name = "CUDA_VISIBLE_DEVICES"
    assert gpu_shares(tasks, 2, env) == {
        tasks[0]: {name: "3,GPU-ab"},
        tasks[1]: {name: "5,6"},
        tasks[2]: {name: ""},
    }
    assert gpu_shares(tasks, None, env) == {}
    assert gpu_shares(tasks, 2, {**env, "JAX_PLATFORMS": "cpu"}) == {}
    assert visible_gpus({name: ""}) == [] and visible_gpus({name: "-1"}) == []
    with pytest.raises(LaunchError, match="3 for 2 processes needs 6 GPUs, and 5 are visible"):
        gpu_shares(tasks, 3, env)


def _run_true(log: Path) -> None:
    started, output = process._start(["true"], os.environ, log, log_limit=1 << 20)
    with contextlib.closing(output):
        started.wait()


# Launchers start processes by a fork, and have no JAX, as other tests in this process may have.
@pytest.mark.filterwarnings("ignore:os.fork.. was called:RuntimeWarning")
def test_logs_and_failure_records_are_their_users_alone(tmp_path: Path) -> None:
    logs = LogDir(tmp_path / "made" / "here", node=0)
    log = logs.log(LaunchedTask("worker", 0), 0)
    with contextlib.closing(logs):
        records = logs.failures(0)
        _run_true(log)
        made = {path: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert made.pop(tmp_path / "made") == made.pop(logs.path) == made.pop(records) == 0o700
    assert made == {logs.path / ".lock-0": 0o600, log: 0o600}


# Launchers start processes by a fork, and have no JAX, as other tests in this process may have.
@pytest.mark.filterwarnings("ignore:os.fork.. was called:RuntimeWarning")
def test_a_directory_that_is_there_stays_as_it_is_and_old_files_are_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with contextlib.closing(LogDir(tmp_path, node=0)) as logs:
        log = logs.log(LaunchedTask("worker", 0), 0)
        log.write_text("of an earlier run")
        log.chmod(0o644)
        _run_true(log)
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert (log.read_text(), log.stat().st_mode & 0o777) == ("", 0o600)


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python train.py --x y", "train.py"),
        ("/usr/bin/python3.11 -u -X dev -Wd train.py", "train.py"),
        ("python -m package", None),
        ("python -c pass", None),
        ("python", None),
        ("bash train.sh", None),
    ],
)
def test_the_script_of_a_command(command: str, script: str | None) -> None:
    assert python_script(tuple(command.split())) == script


def test_addresses_of_the_rendezvous() -> None:
    assert split_address("10.0.0.1:4000") == ("10.0.0.1", 4000)
    assert split_address("[fd00::1]:1") == ("fd00::1", 1)
    for wrong in ("host", "host:", ":1", "host:0", "host:70000", "fd00::1:1", "a:1:2"):
        with pytest.raises(LaunchError, match="HOST:PORT"):
            split_address(wrong)


def test_the_clock() -> None:
    assert [clock(seconds) for seconds in (0.9, 61, 3723)] == ["0:00", "1:01", "1:02:03"]
