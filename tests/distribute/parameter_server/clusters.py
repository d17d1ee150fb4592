"""Clusters of parameter servers and workers, in this process or in others."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time

import drumline as dl
from tests.ports import free_addresses

TOKEN = "a token that these tests' processes share"

SERVE = """
import drumline as dl
from tests.ports import free_addresses
resolver = dl.distribute.cluster_resolver.TFConfigClusterResolver()
dl.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
"""


def cluster_spec(workers, ps):
    addresses = free_addresses(workers + ps)
    return dl.train.ClusterSpec({"worker": addresses[:workers], "ps": addresses[workers:]})


@contextlib.contextmanager
def in_process(workers=1, ps=1, absent=(), **options):
    """A strategy over servers that live in this process, but for workers that are `absent`."""
    spec = cluster_spec(workers, ps)
    servers = [
        dl.distribute.Server(spec, job, index)
        for job, count in (("worker", workers), ("ps", ps))
        for index in range(count)
        if job == "ps" or index not in absent
    ]
    resolver = dl.distribute.cluster_resolver.SimpleClusterResolver(spec)
    strategy = dl.distribute.ParameterServerStrategy(resolver, **options)
    try:
        yield strategy
    finally:
        if strategy.coordinator is not None:
            strategy.coordinator.close()
        for server in servers:
            server.close()


class Processes:
    """The tasks of a cluster, a process each."""

    def __init__(self, workers, ps):
        self.spec = cluster_spec(workers, ps)
        self.tasks = {}
        for job, count in (("ps", ps), ("worker", workers)):
            for index in range(count):
                self.start(job, index)

    def start(self, job, index):
        """Start a task, again if it ran before."""
        config = {"cluster": self.spec.as_dict(), "task": {"type": job, "index": index}}
        environment = {
            **os.environ,
            "TF_CONFIG": json.dumps(config),
            "DRUMLINE_CLUSTER_TOKEN": TOKEN,
        }
        self.tasks[job, index] = subprocess.Popen([sys.executable, "-c", SERVE], env=environment)

    def send(self, job, index, signal):
        self.tasks[job, index].send_signal(signal)

    def kill(self, job, index):
        task = self.tasks[job, index]
        task.kill()
        task.wait()

    def ended(self, seconds):
        """Whether all tasks end by themselves within a time."""
        deadline = time.monotonic() + seconds
        try:
            for task in self.tasks.values():
                task.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self):
        for task in self.tasks.values():
            if task.poll() is None:
                task.kill()
            task.wait()
