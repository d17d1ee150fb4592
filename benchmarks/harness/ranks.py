"""Contenders that compute in several processes, of which the first one measures.

The process of a run starts the others: itself again, once for each rank, with what its library
needs to know of the cluster in the environment. They stay in its process group, so that a run
that hangs is ended with all of them.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from benchmarks.harness.measurement import Measurement
from benchmarks.harness.workload import Scale

RANK = "BENCHMARKS_RANK"
_LOOK_EVERY_S = 0.02

Environment = Mapping[str, str]


def in_ranks(
    cluster: Callable[[], Sequence[Environment]], run: Callable[[Scale], Measurement]
) -> Callable[[Scale], Measurement]:
    """Makes a contender run in several processes; the measurement is that of rank 0.

    Args:
        cluster: gives the environment of each rank, in their order.
        run: what every rank does.
    """

    @functools.wraps(run)
    def start_or_take_part(scale: Scale) -> Measurement:
        if RANK in os.environ:
            return run(scale)
        again = [sys.executable, "-m", "benchmarks.harness.child", *sys.argv[1:]]
        try:
            line = outcome(again, cluster())
        except RuntimeError as error:
            sys.exit(str(error))
        return Measurement.from_json(line.strip())

    return start_or_take_part


def outcome(
    command: Sequence[str], environments: Sequence[Environment], *, first_ends_all: bool = False
) -> str:
    """Runs a command once for each environment, together; returns what rank 0 wrote.

    Their standard error is this process's. When one fails, all are ended; with `first_ends_all`
    also when rank 0 has written its line, as some libraries take a minute to end by themselves.

    Raises:
        RuntimeError: one failed; the message names the first.
    """
    with ExitStack() as ending:
        ranks = []
        for rank, environment in enumerate(environments):
            process = subprocess.Popen(
                list(command),
                env={**os.environ, **environment, RANK: str(rank)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                text=True,
            )
            ending.enter_context(process)
            ending.callback(process.kill)
            ranks.append(process)
        written = _Line(ranks[0])
        ending.callback(written.join)
        ending.callback(ranks[0].kill)
        _wait(ranks, written if first_ends_all else None)
        written.join()
        return written.text


def tf_config(processes: int) -> list[Environment]:
    """The environment of workers on this machine, on free ports, as TensorFlow names them."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(processes)]
    return [
        {
            "TF_CONFIG": json.dumps(
                {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
            )
        }
        for index in range(processes)
    ]


def torch_ranks(processes: int) -> list[Environment]:
    """The environment of processes on this machine, as ``torchrun`` sets it."""
    (port,) = free_ports(1)
    return [
        {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "RANK": str(rank),
            "WORLD_SIZE": str(processes),
        }
        for rank in range(processes)
    ]


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that no process listens on now."""
    with ExitStack() as probes:
        ports = []
        for _ in range(count):
            probe = probes.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports.append(int(probe.getsockname()[1]))
        return ports


class _Line(threading.Thread):
    """Reads the line that a process writes, while others are waited for."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(daemon=True)
        assert process.stdout is not None
        self._stdout = process.stdout
        self.text = ""
        self.start()

    def run(self) -> None:
        self.text = self._stdout.readline()

    @property
    def is_there(self) -> bool:
        """Whether it was written to its end."""
        return self.text.endswith("\n")


def _wait(ranks: Sequence[subprocess.Popen[str]], result: _Line | None) -> None:
    left = dict(enumerate(ranks))
    while left and not (result is not None and (result.is_there or 0 not in left)):
        for rank, process in list(left.items()):
            code = process.poll()
            if code is None:
                continue
            if code:
                raise RuntimeError(f"rank {rank} of {len(ranks)} ended with exit code {code}")
            del left[rank]
        time.sleep(_LOOK_EVERY_S)
