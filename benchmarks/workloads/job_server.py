"""The team's server: submissions a second, and clients that follow logs at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from benchmarks.harness.measurement import Measurement
from benchmarks.harness.process import ROOT
from benchmarks.harness.workload import Problems, Scale
from benchmarks.workloads.jobs import DRUMLINE, supervisors
from benchmarks.workloads.one_contender import once, other_than, workload

_LIBRARIES = ("drumline", "starlette", "uvicorn")
_CLIENTS = 8
_LINES = 50
_SECONDS_A_LINE = 0.2
_WRITER = f"""
import time
time.sleep(3)
for i in range({_LINES}):
    print(repr(time.time()), flush=True)
    time.sleep({_SECONDS_A_LINE})
"""


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[tuple[int, str]]:
    """The port of a server in a process of its own, and a token."""
    home = folder / "server"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder)}
    add = [*DRUMLINE, "member", "add", "ada", "-w", "team", "--folder", str(home)]
    said = subprocess.run(add, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    serve = [*DRUMLINE, "server", "--folder", str(home), "--port", "0"]
    server = subprocess.Popen(serve, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline().rpartition(":")[2])
        yield port, said.split()[-1]
    finally:
        server.terminate()
        server.wait()
        for supervisor in supervisors(home / "workspaces" / "team"):
            os.kill(supervisor, signal.SIGKILL)


def by_submissions(scale: Scale) -> Measurement:
    """Clients that send a folder and a job each time, behind one that has all CPUs."""
    from drumline.jobs.service.login import Login
    from drumline.jobs.service.remote import RemoteWorkspace

    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        code = folder / "code"
        code.mkdir()
        (code / "train.py").write_text("import time\ntime.sleep(600)\n")
        with _server(folder) as (port, token):
            remote = RemoteWorkspace(Login(f"http://127.0.0.1:{port}", token, "team"))
            cpus = len(os.sched_getaffinity(0))
            fields = {"command": "python train.py", "workers": {"cpus": cpus}}
            began = time.perf_counter()
            numbers = [remote.run_fields(fields, code, "benchmark")]
            first = time.perf_counter() - began
            left = iter(range(scale.elements))

            def submit() -> None:
                numbers.extend(remote.run_fields(fields, code, "benchmark") for _ in left)

            threads = [threading.Thread(target=submit) for _ in range(_CLIENTS)]
            began = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            took = time.perf_counter() - began
            listed = remote.jobs(limit=1000)
            remote.cancel(numbers[0])
    counts = {"listed": sum(listed["counts"].values()), "numbers": len(set(numbers))}
    return once(scale, first, took, counts, _LIBRARIES)


def check_submissions(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Each submission is one job."""
    wanted = {"listed": scale.elements + 1, "numbers": scale.elements + 1}
    return other_than(wanted, measurements)


def by_followers(scale: Scale) -> Measurement:
    """Clients that all follow one log: how long after it was written each has each line."""
    from drumline.jobs.service.login import Login
    from drumline.jobs.service.remote import RemoteWorkspace

    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        code = folder / "code"
        code.mkdir()
        (code / "write.py").write_text(_WRITER)
        with _server(folder) as (port, token):
            remote = RemoteWorkspace(Login(f"http://127.0.0.1:{port}", token, "team"))
            fields = {"command": "python write.py", "workers": {"cpus": 0.5}}
            number = remote.run_fields(fields, code, "benchmark")
            began = time.perf_counter()
            late = asyncio.run(_follow_all(port, token, number, scale.elements))
            took = time.perf_counter() - began
    lines = [len(each) for each in late]
    delays = np.concatenate([np.asarray(each) for each in late])
    median, slow = (float(np.quantile(delays, share)) for share in (0.5, 0.99))
    evidence = {
        "fewest_lines": min(lines),
        "median_ms": 1000 * median,
        "slowest_hundredth_ms": 1000 * slow,
    }
    return once(scale, median, took, evidence, _LIBRARIES)


async def _follow_all(port: int, token: str, number: int, clients: int) -> list[list[float]]:
    each = (_follow(port, token, number) for _ in range(clients))
    return list(await asyncio.gather(*each))


async def _follow(port: int, token: str, number: int) -> list[float]:
    """The delays of the lines of a job's log, as one client sees them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    delays: list[float] = []
    seen = at = 0
    over = False

    async def ask(path: str) -> bytes:
        head = f"GET /api/v1/workspaces/team/jobs/{number}/logs{path} HTTP/1.1\r\n"
        head += f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
        writer.write(head.encode())
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.split("content-length: ")[1].split("\r\n")[0])
        return await reader.readexactly(length)

    while not over:
        news = json.loads(await ask(f"?seen={seen}&wait=20"))
        over = news["ended"]
        seen = sum(log["size"] for log in news["logs"])
        sizes = {log["name"]: log["size"] for log in news["logs"]}
        if sizes.get("worker:0", 0) > at:
            data = await ask(f"/worker:0?from={at}")
            now = time.time()
            at += len(data)
            delays += [now - float(line) for line in data.split()]
    writer.close()
    return delays


def check_followers(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Each client has seen each line."""
    return other_than({"fewest_lines": _LINES}, measurements)


WORKLOADS = (
    workload(
        "server_submissions",
        "Jobs submitted to a server by 8 clients, each with its folder of code",
        "jobs",
        full=Scale(elements=400, batch_size=8, later_epochs=1),
        quick=Scale(elements=80, batch_size=8, later_epochs=1),
        contender=("drumline server", ("drumline",), by_submissions),
        at_least=50.0,
        check=check_submissions,
    ),
    workload(
        "server_followers",
        "200 clients that follow one job's log on a server, 5 lines a second",
        "clients",
        full=Scale(elements=200, batch_size=1, later_epochs=1),
        quick=Scale(elements=200, batch_size=1, later_epochs=1),
        contender=("drumline server", ("drumline",), by_followers),
        # A job of 10 s has been followed to its end by all within 20 s.
        at_least=10.0,
        check=check_followers,
    ),
)
