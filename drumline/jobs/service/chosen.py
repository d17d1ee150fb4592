"""Which workspace is used: a folder of this machine, or one of a server."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from drumline.jobs.engines.registry import EngineRecord
from drumline.jobs.service.login import Login, read_login, write_login
from drumline.jobs.service.workspace_service import WorkspaceService
from drumline.jobs.sources.saved import SavedKind
from drumline.jobs.store.database import JobRow
from drumline.jobs.store.workspace import HOME_VARIABLE, WorkspaceError, current

if TYPE_CHECKING:
    from drumline.jobs.metrics.series import MetricSeries


class WorkspaceAccess(Protocol):
    """What commands and `dl.jobs` ask of a workspace; see `WorkspaceService`."""

    place: str

    def jobs(
        self, state: str = "", search: str = "", before: int | None = None, limit: int = 100
    ) -> dict[str, Any]: ...

    def row(self, job: int | str) -> JobRow: ...

    def rows(self, limit: int) -> list[JobRow]: ...

    def job(self, job: int | str) -> dict[str, Any]: ...

    def reason(self, number: int) -> str: ...

    def folder(self, number: int) -> Path: ...

    def events(self, number: int, after: int = 0) -> dict[str, Any]: ...

    def lines(self, number: int, process: str | None, follow: bool) -> Iterator[str]: ...

    def series(self, number: int) -> dict[str, MetricSeries]: ...

    def run_file(self, path: Path) -> int: ...

    def run_fields(self, fields: Mapping[str, Any], base: Path, where: str) -> int: ...

    def cancel(self, number: int) -> None: ...

    def rerun(self, number: int) -> int: ...

    def wake(self) -> None: ...

    def wake_if_open(self) -> None: ...

    def pause(self, began: float) -> None: ...

    def saved(self, kind: SavedKind) -> dict[str, Any]: ...

    def save(self, kind: SavedKind, name: str, fields: Mapping[str, Any], base: Path) -> None: ...

    def remove_saved(self, kind: SavedKind, name: str) -> None: ...

    def secrets(self) -> dict[str, Any]: ...

    def set_secret(self, name: str, value: str) -> None: ...

    def remove_secret(self, name: str) -> None: ...

    def engines(self) -> dict[str, Any]: ...

    def add_engine(self, record: EngineRecord) -> None: ...

    def remove_engine(self, name: str) -> None: ...


def chosen() -> WorkspaceAccess:
    """The workspace in use: what ``DRUMLINE_HOME`` names, that of the login, or a folder.

    Raises:
        WorkspaceError: it cannot be used.
    """
    login = None if HOME_VARIABLE in os.environ else read_login()
    if login is None:
        return WorkspaceService(current())
    from drumline.jobs.service.remote import RemoteWorkspace

    return RemoteWorkspace(login)


class ServerWorkspaces:
    """The workspaces of the server of a login.

    Args:
        login: what `drumline login` has stored.
    """

    def __init__(self, login: Login) -> None:
        from drumline.jobs.service.connection import ServerConnection

        self.url, self.used = login.url, login.workspace
        self._login = login
        self._connection = ServerConnection(login.url, login.token, login.ca)

    def names(self) -> list[str]:
        """Those in which the member has a role."""
        return list(self._connection.json("GET", "/api/v1/me")["workspaces"])

    def use(self, name: str) -> str:
        """Have the commands use one; returns what is used in words.

        Raises:
            WorkspaceError: the member has no role in it.
        """
        if name not in (known := self.names()):
            raise WorkspaceError(
                f"you have no role in a workspace {name!r} of {self.url}; you have in: "
                f"{', '.join(known) or 'none'}"
            )
        write_login(dataclasses.replace(self._login, workspace=name))
        return f"{self.url}, workspace {name}"

    def create(self, name: str) -> None:
        """Make one; for who looks after the server."""
        self._connection.json("POST", "/api/v1/workspaces", {"name": name})


def server_workspaces() -> ServerWorkspaces | None:
    """The workspaces of the login, or None where folders are used."""
    login = None if HOME_VARIABLE in os.environ else read_login()
    return None if login is None else ServerWorkspaces(login)
