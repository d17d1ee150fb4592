"""Several hosts: who may join, and that they fail, restart and end together."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumline.jobs.launch.environment import Ports
from drumline.jobs.launch.rendezvous.messages import Ping, parse
from tests.jobs.launch.launching import LAUNCH, Launcher, wait_until
from tests.lost_processes import lost_in
from tests.network_namespaces import two_hosts
from tests.processes import gone


@pytest.fixture
def rendezvous() -> Iterator[str]:
    """An address that no other test uses meanwhile."""
    reserved = Ports("127.0.0.1", 1)
    yield reserved.addresses[0]
    reserved.close()


class Host:
    """One host's launcher."""

    def __init__(self, launcher: Launcher, rank: int, rendezvous: str) -> None:
        self._launcher = launcher
        self._rank = rank
        self._options = ["--nodes", "2", "--node-rank", str(rank), "--rendezvous", rendezvous]

    def start(self, *options: str, body: str, token: str = "") -> subprocess.Popen[str]:
        env = {"DRUMLINE_RENDEZVOUS_TOKEN": token} if token else {}
        return self._launcher.start(
            *(*self._options, "--log-dir", str(self._launcher.logs / str(self._rank)), *options),
            body=body,
            env=self._launcher.environment(env),
        )


def output(job: subprocess.Popen[str]) -> str:
    return job.communicate(timeout=60)[0]


def test_hosts_start_fail_restart_and_end_together(launcher: Launcher, rendezvous: str) -> None:
    options = ["--workers", "1", "--chief", "--ps", "1", "--max-restarts", "2"]
    body = """
attempt = os.environ["DRUMLINE_RESTART"]
tell(f"{task}-{index}-{attempt}", json.dumps(config["cluster"]))
tell(f"token-{task}-{index}-{attempt}", os.environ["DRUMLINE_CLUSTER_TOKEN"])
assert "DRUMLINE_RENDEZVOUS_TOKEN" not in os.environ
for each in ("chief-0", "worker-0", "worker-1", "ps-0", "ps-1"):
    wait_for(f"{each}-{attempt}")
if task == "ps" and attempt == "1":
    time.sleep(60)
elif attempt == "0":
    if task == "ps" and index == 1:
        print("the \\x1b[31mlast words")
        sys.exit(3)
    record("peer lost", "broken", "ps:1"); time.sleep(60)  # until it is stopped
"""
    late = Host(launcher, 1, rendezvous).start(*options, body=body, token="open sesame")
    jobs = [Host(launcher, 0, rendezvous).start(*options, body=body, token="open sesame"), late]
    outputs = [output(job) for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], outputs
    for text in outputs:
        assert lost_in(text, "ps:1")["seen"] == "it exited with code 3"
        assert "See its log, on host 1" in text and "    the last words\n" in text
        assert "Restart 1 of 2." in text and "Restart 2" not in text
    assert "Stopping: host 1: ps:1 failed" in outputs[0]
    clusters = [json.loads(launcher.told(f"chief-0-{attempt}")) for attempt in (0, 1)]
    assert clusters[0] != clusters[1]
    assert [len(clusters[1][kind]) for kind in ("chief", "worker", "ps")] == [1, 2, 2]
    assert json.loads(launcher.told("ps-1-1")) == clusters[1]
    tokens = [
        {launcher.told(f"token-{each}-{attempt}") for each in ("chief-0", "worker-1", "ps-1")}
        for attempt in (0, 1)
    ]
    assert list(map(len, tokens)) == [1, 1] and tokens[0] != tokens[1]


def test_hosts_of_one_process_each_end_together(launcher: Launcher, rendezvous: str) -> None:
    """A parameter server alone on its host is stopped when the workers of others are done."""
    body = """
tell(f"{task}-{index}", json.dumps(config["cluster"]))
for each in ("worker-0", "worker-1", "ps-0"):
    wait_for(each)
if task == "ps":
    time.sleep(60)
"""
    options = ["--process-per-node", "--workers", "2", "--ps", "1", "--rendezvous", rendezvous]
    jobs = [
        launcher.start(
            *(*options, "--node-rank", str(rank), "--log-dir", str(launcher.logs / str(rank))),
            body=body,
            env=launcher.environment({"DRUMLINE_RENDEZVOUS_TOKEN": "secret"}),
        )
        for rank in range(3)
    ]
    outputs = [output(job) for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0, 0], outputs
    cluster = json.loads(launcher.told("ps-0"))
    assert {kind: len(addresses) for kind, addresses in cluster.items()} == {"worker": 2, "ps": 1}
    logs = sorted(path.name for path in launcher.logs.glob("*/*.log"))
    assert logs == ["ps-0.log", "worker-0.log", "worker-1.log"]


def test_more_hosts_than_processes_are_refused(launcher: Launcher) -> None:
    wrong = launcher.start("--process-per-node", "--workers", "2", "--nodes", "3", body="pass")
    text = output(wrong)
    assert wrong.returncode == 2 and "there are 2 processes" in text


def test_who_was_started_differently_is_refused_and_the_others_wait_on(
    launcher: Launcher, rendezvous: str
) -> None:
    body = "print('trained')"
    first = Host(launcher, 0, rendezvous).start("--workers", "1", body=body, token="secret")
    host, port = rendezvous.split(":")

    def refused(rank: int, *options: str, token: str = "secret") -> str:
        wrong = Host(launcher, rank, rendezvous).start(*options, body=body, token=token)
        text = output(wrong)
        assert wrong.returncode == 2, text
        return text

    assert "--workers is 2 there and 1 on host 0" in refused(1, "--workers", "2")
    assert "does not know the same --rendezvous-token" in refused(
        1, "--workers", "1", token="guess"
    )
    assert "it was started with a --rendezvous-token and this host without one" in refused(
        1, "--workers", "1", token=""
    )
    assert "is another launch using it" in refused(0, "--workers", "1", "--log-dir", "else")
    for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"x" * 100_000, b'{"kind":"ping"}\n', b"\xff\n"):
        with socket.create_connection((host, int(port)), timeout=30) as stranger:
            try:
                stranger.sendall(nonsense)
                while stranger.recv(4096):
                    pass
            except ConnectionResetError:  # it was cut off before it had said all
                continue
    second = Host(launcher, 1, rendezvous).start("--workers", "1", body=body, token="secret")
    text = output(first)
    assert (first.returncode, second.wait(timeout=60)) == (0, 0), text
    assert "Host 1 (127.0.0.1) cannot join: --workers is 2 there and 1 on host 0" in text
    assert "it does not know the same --rendezvous-token" in text
    assert text.count("it is no drumline launcher") == 3
    assert "it sent a line of more than 65536 bytes" in text


def test_hosts_that_do_not_come_are_named(launcher: Launcher, rendezvous: str) -> None:
    options = ["--workers", "1", "--rendezvous-seconds", "1"]
    nowhere = rendezvous.replace("127.0.0.1", "127.0.0.2")
    alone = Host(launcher, 1, nowhere).start(*options, body="")
    waiting = Host(launcher, 0, rendezvous).start(*options, body="")
    assert "host 0 did not answer at" in output(alone) and alone.returncode == 2
    text = output(waiting)
    assert waiting.returncode == 2
    assert "not all hosts came within 1 s; missing: --node-rank 1." in text


def test_a_message_out_of_the_ordinary_is_refused() -> None:
    assert parse(b'{"kind":"ping"}') == Ping()
    for line in (
        b"",
        b"[]",
        b'{"kind":"ping","more":1}',
        b'{"kind":"greeting","protocol":"drumline-launch-3","nonce":"12","has_token":true}',
        b'{"kind":"part","addresses":{"worker":["no port"]}}',
        b'{"kind":"part","addresses":{"master":["a:1"]}}',
        b'{"kind":"trouble","text":"' + b"x" * 10_001 + b'"}',
        b'{"kind":"report","trained":"yes","suspects":[],"interrupted":0}',
    ):
        with pytest.raises(ValueError, match="not a launcher's message"):
            parse(line)


_TRAIN_TOGETHER = """
tell(f"pid-{index}", os.getpid())
wait_for(f"pid-{1 - index}")
while not gone(int((here / f"pid-{1 - index}").read_text())):
    time.sleep(0.01)
sys.exit("the peer is gone")
"""


def test_two_machines_and_the_death_of_a_launcher(launcher: Launcher) -> None:
    with two_hosts() as hosts:
        listening = "import sys; print(open('/proc/net/tcp').read())"
        command = launcher.script(_TRAIN_TOGETHER)
        jobs = []
        for rank in (0, 1):
            options = ["--workers", "1", "--nodes", "2", "--node-rank", str(rank)]
            options += ["--rendezvous", f"{hosts.addresses[0]}:4000", "--grace-seconds", "5"]
            options += ["--log-dir", str(launcher.logs / str(rank))]
            if rank == 1:  # by now host 0 waits for it
                wait_until(lambda: ":0FA0 00000000:0000 0A" in _output_on(hosts, 0, listening))
            jobs.append(
                hosts.run(
                    rank,
                    [*LAUNCH, *options, *command],
                    launcher.environment(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        pids = [int(launcher.told(f"pid-{index}")) for index in (0, 1)]
        environ = Path(f"/proc/{pids[1]}/environ").read_text()
        config = json.loads(environ.split("TF_CONFIG=")[1].split("\0")[0])
        names = [address.split(":")[0] for address in config["cluster"]["worker"]]
        assert names == list(hosts.addresses)
        jobs[1].kill()
        text = output(jobs[0])
        assert jobs[0].returncode == 1
        lost = f"the launcher of host 1 at {hosts.addresses[1]} is lost"
        # Its worker's end may be noticed before its own.
        assert f"Stopping: {lost}" in text or "the peer is gone" in text
        assert f"It cannot be restarted: {lost}" in text
        wait_until(lambda: all(map(gone, pids)))
        output(jobs[1])


def _output_on(hosts, host: int, code: str) -> str:  # type: ignore[no-untyped-def]
    process = hosts.run(host, [sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, text=True)
    return str(process.communicate(timeout=30)[0])


@pytest.mark.parametrize("interrupted", [0, 1])
def test_an_interrupted_launcher_ends_the_job_everywhere(
    launcher: Launcher, rendezvous: str, interrupted: int
) -> None:
    jobs = [
        Host(launcher, rank, rendezvous).start(
            "--workers", "1", "--max-restarts", "9", body=_TRAIN_TOGETHER
        )
        for rank in (0, 1)
    ]
    pids = [int(launcher.told(f"pid-{index}")) for index in (0, 1)]
    jobs[interrupted].terminate()
    outputs = [output(job) for job in jobs]
    assert jobs[interrupted].returncode == 143
    assert jobs[1 - interrupted].returncode == 1
    other = outputs[1 - interrupted]
    assert f"Stopping: host {interrupted}: the launcher was ended by SIGTERM" in other
    assert f"The launcher of host {interrupted} was interrupted." in other
    assert all(map(gone, pids))
