"""A Slurm cluster for all tests of this folder, and a workspace that submits to it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drumline.jobs.engines.children import collect_children
from drumline.jobs.engines.slurm.engine import SlurmEngine
from drumline.jobs.engines.slurm.queue import SlurmQueue
from drumline.jobs.engines.slurm.script import SlurmSettings
from drumline.jobs.store.workspace import identity
from tests.jobs.engines.workspace import LONG, EngineWorkspace
from tests.jobs.launch.launching import ROOT, wait_until
from tests.jobs.slurm.cluster import REQUIRED_VARIABLE, SlurmCluster, missing, slurm_cluster


class SlurmWorkspace(EngineWorkspace):
    """A workspace that submits to a cluster."""

    main: SlurmEngine

    def __init__(self, folder: Path, cluster: SlurmCluster) -> None:
        super().__init__(folder)
        self.cluster = cluster
        self.main = self.engine()

    def services_log(self) -> str:
        return self.cluster.log()

    def settings(self, **changes: object) -> SlurmSettings:
        fields = {
            "folder": str(self.shared),
            "partition": "low",
            "configuration": self.cluster.environment["SLURM_CONF"],
        }
        return SlurmSettings(**{**fields, **changes})  # type: ignore[arg-type]

    def engine(
        self, reached: Callable[[str], None] = lambda step: None, **changes: object
    ) -> SlurmEngine:
        settings = self.settings(**changes)
        # It asks more often than one that shares a cluster with others.
        queue = SlurmQueue(settings, f"-{identity(self.home)}", period=0.5)
        return SlurmEngine(self.home, settings, reached, queue)

    def sacct(self, number: int, what: str = "State", starts: int = 1) -> list[str]:
        """What accounting says of the starts of a job, in order, once it has so many that ended."""
        name = self.main.name(f"{number}/attempt-1")
        options = ("--noheader", "--parsable2", "--allocations", "--duplicates", f"--name={name}")

        def told(column: str) -> list[str]:
            return self.cluster.command("sacct", *options, f"--format={column}").stdout.split()

        # Its own file is there before Slurm has seen its end, and accounting hears of all later.
        def ended() -> bool:
            states = told("State")
            return len(states) >= starts and not {"RUNNING", "PENDING"} & set(states)

        wait_until(ended, LONG)
        return told(what)


@pytest.fixture(scope="session")
def cluster() -> Iterator[SlurmCluster]:
    if why := missing():
        if os.environ.get(REQUIRED_VARIABLE):
            pytest.fail(f"{REQUIRED_VARIABLE} is set, and Slurm cannot run: {why}")
        pytest.skip(why)
    # Not in pytest's own directory: each run of it closes that to other users, as munge and mysql.
    directory = tempfile.TemporaryDirectory(prefix="drumline-slurm-")
    with directory as place, slurm_cluster(Path(place)) as made:
        yield made


@pytest.fixture(scope="module")
def jobs(
    cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SlurmWorkspace]:
    """One for all tests of a file: what one test waits for, another's jobs use."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(ROOT))
        patched.setenv("PATH", cluster.environment["PATH"])
        workspace = SlurmWorkspace(tmp_path_factory.mktemp("jobs"), cluster)
        yield workspace
        workspace.end_all()
        collect_children(timeout=None)
