"""Where the tests run jobs: a cluster of processes, or the one that KUBECONFIG names.

With ``DRUMLINE_KUBERNETES_IMAGE``, an image with drumline, the tests that need no faults run on the
cluster of ``KUBECONFIG`` (its current context and namespace), too.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from drumline.jobs.engines.kubernetes.engine import KubernetesEngine
from drumline.jobs.engines.kubernetes.settings import KubernetesSettings
from drumline.jobs.file.reading import make_job
from drumline.jobs.service.submission import submit
from drumline.jobs.store.database import JobRow, Store
from drumline.jobs.store.workspace import opened
from drumline.jobs.supervisor.loop import Supervisor
from tests.jobs.kubernetes.api_server import Key
from tests.jobs.kubernetes.cluster import IMAGE, ProcessCluster, missing, process_cluster
from tests.jobs.sources.test_job_sources import repository, server  # noqa: F401  (fixtures)

ENGINE = "kube"
KEPT = ("events", "persistentvolumeclaims", "localqueues")
"""Kinds of objects that are no job's."""


_HELD = """\
import pathlib, time
print("begun", flush=True)
while not pathlib.Path("/mnt/shared/end").exists():
    time.sleep(0.1)
print("end")
"""


@dataclasses.dataclass
class Bench:
    """A workspace with an engine on a cluster.

    Attributes:
        cluster: of processes; None if it is a real one.
    """

    home: Path
    settings: KubernetesSettings
    cluster: ProcessCluster | None
    python: str

    def __post_init__(self) -> None:
        self.store = Store(self.home)
        self.renew()

    def renew(self, reached: Callable[[str], None] = lambda step: None, **changes: Any) -> None:
        """Another supervisor, as after the last one was killed."""
        self.settings = dataclasses.replace(self.settings, **changes)
        self.engine = KubernetesEngine(self.home, self.settings, reached)
        self.supervisor = Supervisor(self.store, {ENGINE: self.engine})

    def submit(self, script: str, **fields: Any) -> int:
        """Submit a job that runs a script."""
        code = self.home / "code"
        code.mkdir(exist_ok=True)
        (code / "train.py").write_text(script)
        given = {"command": [self.python, "train.py"], "engine": ENGINE, **fields}
        return submit(self.store, self.engine, make_job(given, code, engines=[ENGINE]))

    def hold(self) -> tuple[int, Callable[[], None]]:
        """Have a job begin that ends after a call, however slow the machine; give both."""
        assert self.cluster is not None
        (shared := self.home.parent / "shared").mkdir()
        self.cluster.add_claim("shared", shared)
        data = [{"from": "pvc://shared", "at": "/mnt/shared"}]
        number = self.submit(_HELD, data=data)
        self.until(number, lambda row: "begun" in self.logs(number).get("worker:0", ""))
        return number, (shared / "end").touch

    def until(self, number: int, ready: Callable[[JobRow], object], seconds: float = 300) -> JobRow:
        """Supervise until a job is as it should be."""
        until = time.monotonic() + seconds
        while True:
            self.supervisor.step()
            row = self.store.job(number)
            assert row is not None
            if ready(row):
                return row
            if time.monotonic() > until:
                raise AssertionError(f"{row.state}: {row.reason}\n{self.all_logs(number)}")
            time.sleep(0.05)

    def end(self, number: int, seconds: float = 300) -> JobRow:
        """The job once it has ended."""
        ended = ("succeeded", "failed", "cancelled")
        return self.until(number, lambda row: row.state in ended, seconds)

    def left(self, seconds: float = 60) -> list[Key]:
        """What is in the cluster that jobs have made, once they have had time to go."""
        assert self.cluster is not None
        until = time.monotonic() + seconds
        while True:
            found = [key for key in list(self.cluster.store.objects) if key[0] not in KEPT]
            if not found or time.monotonic() > until:
                return found
            time.sleep(0.05)

    def logs(self, number: int, attempt: int = 1) -> Mapping[str, str]:
        found = self.engine.logs(self.engine.handle(number, attempt))
        return {name: path.read_text() for name, path in found.items()}

    def all_logs(self, number: int) -> str:
        return "\n".join(f"== {k}\n{v}" for k, v in self.logs(number).items())


def on_processes(tmp_path: Path, **capacity: float) -> Iterator[Bench]:
    if why := missing():
        # Where they have to run, they may not be left out without a word.
        (pytest.fail if "DRUMLINE_REQUIRE_PODS" in os.environ else pytest.skip)(why)
    with process_cluster(tmp_path / "cluster", **capacity) as cluster:
        kubeconfig = str(cluster.kubeconfig(tmp_path / "kubeconfig"))
        settings = KubernetesSettings(IMAGE, kubeconfig, python=sys.executable)
        yield Bench(opened(tmp_path / "home"), settings, cluster, sys.executable)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """On the cluster of processes."""
    yield from on_processes(tmp_path)


@pytest.fixture(params=["processes", "KUBECONFIG"])
def any_bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """On each cluster that there is."""
    if request.param == "processes":
        yield from on_processes(tmp_path)
        return
    image, kubeconfig = (os.environ.get(n) for n in ("DRUMLINE_KUBERNETES_IMAGE", "KUBECONFIG"))
    if not image or not kubeconfig:
        pytest.skip("no real cluster: KUBECONFIG and DRUMLINE_KUBERNETES_IMAGE name none")
    settings = KubernetesSettings(image, kubeconfig)
    yield Bench(opened(tmp_path / "home"), settings, None, "python")  # noqa: PT022


@pytest.fixture(name="git_server")
def git_over_http(server: str) -> str:  # noqa: F811
    """The address of a repository, which user ada has a password for."""
    return server
