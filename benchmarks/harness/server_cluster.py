"""Contenders with a chief, which measures, and servers, which end with it."""

from __future__ import annotations

import functools
import json
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness.measurement import Measurement
from benchmarks.harness.ranks import RANK, Environment, free_ports, outcome
from benchmarks.harness.workload import Scale


def in_server_cluster(
    workers: int, servers: int, serve: Callable[[], None], run: Callable[[Scale], Measurement]
) -> Callable[[Scale], Measurement]:
    """Makes a contender run as the chief of workers and parameter servers, each a process.

    Args:
        workers, servers: how many of each.
        serve: what workers and parameter servers do; it need not return.
        run: what the chief does.
    """

    @functools.wraps(run)
    def start_or_take_part(scale: Scale) -> Measurement:
        rank = os.environ.get(RANK)
        if rank == "0":
            return run(scale)
        if rank is not None:
            serve()
            sys.exit(0)
        again = [sys.executable, "-m", "benchmarks.harness.child", *sys.argv[1:]]
        try:
            line = outcome(again, server_cluster(workers, servers), first_ends_all=True)
        except RuntimeError as error:
            sys.exit(str(error))
        return Measurement.from_json(line.strip())

    return start_or_take_part


def server_cluster(workers: int, servers: int) -> list[Environment]:
    """The environment of a chief, of workers and of parameter servers on this machine."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(1 + workers + servers)]
    cluster = {
        "chief": addresses[:1],
        "worker": addresses[1 : 1 + workers],
        "ps": addresses[1 + workers :],
    }
    token = secrets.token_hex(16)
    return [
        {
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": job, "index": index}}),
            "DRUMLINE_CLUSTER_TOKEN": token,
        }
        for job, tasks in cluster.items()
        for index in range(len(tasks))
    ]


def resident_bytes() -> dict[int, int]:
    """The resident memory of every rank of this run, by rank, in bytes."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.getpgid(int(entry.name)) != os.getpgrp():
                continue
            environment = (entry / "environ").read_bytes().split(b"\0")
            pages = int((entry / "statm").read_text(encoding="ascii").split()[1])
        except (OSError, ValueError):
            continue
        for setting in environment:
            name, _, value = setting.partition(b"=")
            if name.decode() == RANK:
                found[int(value)] = pages * os.sysconf("SC_PAGE_SIZE")
    return found
