"""A worker's process: how many threads it computes with, and what it does with freed memory."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

import drumline as dl
from drumline.distribute.parameter_server.servers import collect_only_what_is_new

PROGRAM = """
import os, resource, sys, threading
import numpy as np
from drumline.distribute.cluster_resolver import ClusterSpec
from drumline.distribute.parameter_server.task import Server

cores = len(os.sched_getaffinity(0))
workers = [f"127.0.0.1:{port}" for port in range(40001, 40001 + max(2, cores))]
spec = ClusterSpec({"ps": ["127.0.0.1:40000"], "worker": workers})
server = Server(spec, "worker", 0, start=False)
server.close()
server.join()

import jax
multiples = jax.jit(lambda x: [x * factor for factor in range(2, 8)])
x = np.ones((320, 1024), np.float32)

def calls(count):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(count):
        sum(np.asarray(each)[0, 0] for each in multiples(x))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

calls(5)
faults = calls(20)
names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
print(os.environ.get("NPROC"), sum("XLAEigen" in name for name in names), faults)
"""


def process_of_a_worker(**environment: str) -> tuple[str, int, int]:
    """Its `NPROC`, how many threads XLA computes with, and page faults while it computes."""
    given = {key: value for key, value in os.environ.items() if key not in ("XLA_FLAGS", "NPROC")}
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**given, **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert process.returncode == 0, process.stderr
    setting, threads, faults = process.stdout.split()
    return setting, int(threads), int(faults)


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's accounts are read")
def test_a_worker_takes_its_share_of_the_cores_and_keeps_memory() -> None:
    setting, threads, faults = process_of_a_worker()
    assert setting == "1"
    assert threads <= 1
    pages = 20 * 6 * 320 * 4096 // os.sysconf("SC_PAGE_SIZE")
    assert faults < pages // 4


def test_a_worker_beside_others_changes_nothing_of_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NPROC", raising=False)
    spec = {"ps": ["127.0.0.1:40000"], "worker": ["127.0.0.1:40001", "127.0.0.1:40002"]}
    server = dl.distribute.Server(spec, "worker", 1, start=False)
    server.close()
    thread = threading.Thread(target=server.join)
    thread.start()
    thread.join()
    assert "NPROC" not in os.environ


def test_the_collector_passes_over_what_was_there_before(
    monkeypatch: pytest.MonkeyPatch, real_freeze: Callable[[], None]
) -> None:
    monkeypatch.setattr(gc, "freeze", real_freeze)
    collect_only_what_is_new.cache_clear()
    try:
        collect_only_what_is_new()
        frozen = gc.get_freeze_count()
        assert frozen > 10_000
        new = [[] for _ in range(20_000)]
        collect_only_what_is_new()
        assert gc.get_freeze_count() < frozen + len(new) // 2, "what came later is passed over too"
    finally:
        gc.unfreeze()
