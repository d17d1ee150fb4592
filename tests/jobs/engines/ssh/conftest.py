"""SSH hosts for all tests of this folder, and a workspace that uses them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drumline.jobs.engines.ssh.engine import SshEngine
from drumline.jobs.engines.ssh.settings import SshSettings
from tests.jobs.engines.ssh.hosts import SshHosts, missing, ssh_hosts_of_tests
from tests.jobs.engines.workspace import LONG, EngineWorkspace
from tests.jobs.launch.launching import ROOT
from tests.jobs.sources.ssh_server import REQUIRED_VARIABLE


class SshWorkspace(EngineWorkspace):
    """A workspace whose engine has two hosts, of two CPUs and two GPUs each."""

    main: SshEngine

    def __init__(self, folder: Path, hosts: SshHosts) -> None:
        super().__init__(folder, seconds=2 * LONG)
        self.hosts = hosts
        self._engines: list[SshEngine] = []
        self.main = self.engine()

    def engine(
        self, reached: Callable[[str], None] = lambda step: None, **changes: object
    ) -> SshEngine:
        fields = {
            "hosts": ("a", "b"),
            "folder": str(self.shared),
            "options": self.hosts.options,
            "cpus": 2.0,
            "gpus": 2,
        }
        made = SshEngine(self.home, SshSettings(**{**fields, **changes}), reached)  # type: ignore[arg-type]
        self._engines.append(made)
        return made

    def services_log(self) -> str:
        return self.hosts.log()

    def close(self) -> None:
        for engine in self._engines:
            engine.close()


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    if why := missing():
        if os.environ.get(REQUIRED_VARIABLE):
            pytest.fail(f"{REQUIRED_VARIABLE} is set, and SSH hosts cannot run: {why}")
        pytest.skip(why)
    with ssh_hosts_of_tests(tmp_path_factory.mktemp("ssh")) as made:
        yield made


@pytest.fixture
def jobs(
    hosts: SshHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SshWorkspace]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    workspace = SshWorkspace(tmp_path, hosts)
    yield workspace
    workspace.end_all()
    workspace.close()
