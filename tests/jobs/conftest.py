"""A launcher for each test, and workspaces whose list of jobs is in SQLite or in PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drumline.jobs.store.workspace import write_database_url
from tests.jobs.launch.launching import Launcher
from tests.jobs.store.cluster import REQUIRED_VARIABLE, PostgresCluster, programs


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path)
    yield launcher
    launcher.end()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresCluster]:
    """A server, where one is asked for; then it must be installed."""
    if not os.environ.get(REQUIRED_VARIABLE):
        pytest.skip(f"make test-postgresql runs it (without {REQUIRED_VARIABLE} it is not started)")
    if programs() is None:
        pytest.fail("PostgreSQL is required and missing: scripts/install_services.sh")
    cluster = PostgresCluster()
    yield cluster
    cluster.end()


_DATABASES = ["sqlite", "postgresql"] if os.environ.get(REQUIRED_VARIABLE) else ["sqlite"]


@pytest.fixture(scope="session", params=_DATABASES)
def database(request: pytest.FixtureRequest) -> Callable[[Path], Path]:
    """Has the list of jobs of a workspace's folder be in one or the other, and returns it."""
    if request.param == "sqlite":
        return lambda home: home
    url = request.getfixturevalue("postgresql").database()

    def prepare(home: Path) -> Path:
        write_database_url(home, url)
        return home

    return prepare


@pytest.fixture
def home(tmp_path: Path, database: Callable[[Path], Path]) -> Path:
    """The folder of a workspace, whose list of jobs is in one or the other."""
    return database(tmp_path)
