"""A workspace of a server, for the command line and `dl.jobs`, as that of a folder."""

from __future__ import annotations

import json
import secrets
import tarfile
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from drumline.jobs.engines.registry import EngineError, EngineRecord
from drumline.jobs.file.mount_paths import SAVED_NAME
from drumline.jobs.file.reading import read_code
from drumline.jobs.file.values import (
    JobFileError,
    Mistake,
    WrittenValue,
    parse_yaml,
    value_of,
)
from drumline.jobs.logs.reading import LONGEST_LINE
from drumline.jobs.service.connection import RequestRefusedError, ServerConnection
from drumline.jobs.service.documents import row_of
from drumline.jobs.service.following import is_asked, no_process
from drumline.jobs.service.login import Login, login_file
from drumline.jobs.sources.code import CodeError, copied_files
from drumline.jobs.sources.saved import SavedKind
from drumline.jobs.store.database import JobRow

if TYPE_CHECKING:
    from drumline.jobs.metrics.series import MetricSeries

_WAIT_SECONDS = 20
_UPLOAD_IS_GONE = 409
_MOST_UPLOADS = 5
_LEAST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0


class RemoteWorkspace:
    """See `WorkspaceAccess`.

    Args:
        login: the server, the member and the workspace.
    """

    def __init__(self, login: Login) -> None:
        self.place = f"{login.url}, workspace {login.workspace}"
        self.connection = ServerConnection(login.url, login.token, login.ca)
        self._prefix = f"/api/v1/workspaces/{_quoted(login.workspace)}"

    def jobs(
        self, state: str = "", search: str = "", before: int | None = None, limit: int = 100
    ) -> dict[str, Any]:
        """See `WorkspaceService.jobs`."""
        query = {"state": state, "search": search, "limit": limit}
        query |= {} if before is None else {"before": before}
        return self._get(f"/jobs?{urllib.parse.urlencode(query)}")

    def row(self, job: int | str) -> JobRow:
        """See `WorkspaceService.row`."""
        return row_of(self.job(job))

    def rows(self, limit: int) -> list[JobRow]:
        """See `WorkspaceService.rows`."""
        return [self.row(each["id"]) for each in self.jobs(limit=limit)["jobs"]]

    def job(self, job: int | str) -> dict[str, Any]:
        """See `WorkspaceService.job`."""
        return self._get(f"/jobs/{_quoted(str(job))}")

    def reason(self, number: int) -> str:
        """See `WorkspaceService.reason`."""
        return str(self.job(number)["reason"])

    def folder(self, number: int) -> Path:
        """Where the job is on the server's machine."""
        return Path(self.job(number)["folder"])

    def events(self, number: int, after: int = 0) -> dict[str, Any]:
        """See `WorkspaceService.events`."""
        return self._get(f"/jobs/{number}/events?after={after}")

    def lines(self, number: int, process: str | None, follow: bool) -> Iterator[str]:
        """See `JobHandle.logs`."""
        several = sum(role.count for role in self.row(number).job.roles.values()) > 1
        tails: dict[str, _Tail] = {}
        seen = 0
        while True:
            wait = f"?seen={seen}&wait={_WAIT_SECONDS}" if follow else ""
            news = self._get(f"/jobs/{number}/logs{wait}")
            logs = {each["name"]: each["size"] for each in news["logs"]}
            seen = sum(logs.values())
            over = news["ended"] or not follow
            for name, size in logs.items():
                if is_asked(name, process):
                    tail = tails.setdefault(name, _Tail(self, number, name))
                    for line in tail.lines(size, over):
                        yield f"{name} | {line}" if several and process is None else line
            if over:
                break
        if process is not None and not tails:
            raise no_process(number, process, logs)

    def log(self, number: int, name: str, start: int) -> tuple[bytes, int]:
        """Some bytes of a log from a number on, and the number of the first of them."""
        path = f"{self._prefix}/jobs/{number}/logs/{_quoted(name)}?from={start}"
        data, headers = self.connection.ask("GET", path)
        return data, int(headers.get("x-from", start))

    def series(self, number: int) -> dict[str, MetricSeries]:
        """See `JobHandle.metrics`."""
        from drumline.jobs.metrics.documents import series_of

        return series_of(self._get(f"/jobs/{number}/metrics?points=0"))

    def run_file(self, path: Path) -> int:
        """See `WorkspaceService.run_file`; a folder of code is sent along."""
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError as error:
            raise JobFileError([f"{path}: is not UTF-8 (byte {error.start})"]) from None
        whole = parse_yaml(text, str(path))
        return self._submit({"yaml": text}, whole, path.resolve().parent, str(path))

    def run_fields(self, fields: Mapping[str, Any], base: Path, where: str) -> int:
        """See `WorkspaceService.run_fields`; a folder of code is sent along."""
        given = {key: value for key, value in fields.items() if value is not None}
        return self._submit({"job": given}, value_of(given, where), base, where)

    def cancel(self, number: int) -> None:
        """See `WorkspaceService.cancel`."""
        try:
            self.connection.json("POST", f"{self._prefix}/jobs/{number}/cancel")
        except RequestRefusedError as error:
            # It has ended by the first try.
            if not error.repeated or self.row(number).state != "cancelled":
                raise

    def rerun(self, number: int) -> int:
        """See `WorkspaceService.rerun`."""
        path = f"{self._prefix}/jobs/{number}/rerun"
        return int(self.connection.json("POST", path, name=secrets.token_hex(16))["id"])

    def wake(self) -> None:
        """Nothing: the server looks after its supervisors."""

    def wake_if_open(self) -> None:
        """Nothing: the server looks after its supervisors."""

    def pause(self, began: float) -> None:
        """Wait before a state is asked for again."""
        time.sleep(min(_LONGEST_PAUSE, max(_LEAST_PAUSE, (time.monotonic() - began) / 10)))

    def saved(self, kind: SavedKind) -> dict[str, Any]:
        """See `WorkspaceService.saved`."""
        return self._get(f"/{kind}")

    def save(self, kind: SavedKind, name: str, fields: Mapping[str, Any], base: Path) -> None:
        """See `WorkspaceService.save`; paths are those of the server's machine."""
        given = {key: value for key, value in fields.items() if value is not None}
        self.connection.json("POST", f"{self._prefix}/{kind}", {"name": name, **given})

    def remove_saved(self, kind: SavedKind, name: str) -> None:
        """See `WorkspaceService.remove_saved`."""
        self._remove(kind, name, lambda: [each["name"] for each in self.saved(kind)[kind]])

    def secrets(self) -> dict[str, Any]:
        """See `WorkspaceService.secrets`."""
        return self._get("/secrets")

    def set_secret(self, name: str, value: str) -> None:
        """See `WorkspaceService.set_secret`."""
        self.connection.json("POST", f"{self._prefix}/secrets", {"name": name, "value": value})

    def remove_secret(self, name: str) -> None:
        """See `WorkspaceService.remove_secret`."""
        self._remove("secrets", name, lambda: self.secrets()["secrets"])

    def engines(self) -> dict[str, Any]:
        """See `WorkspaceService.engines`."""
        return self._get("/engines")

    def add_engine(self, record: EngineRecord) -> None:
        """An engine has its commands and files on the server's machine, and is added there.

        Raises:
            EngineError: always.
        """
        raise EngineError(
            f"add {record.name} on the server's machine, where its commands and files are: "
            "DRUMLINE_HOME=FOLDER/workspaces/NAME drumline engine add ..."
        )

    def remove_engine(self, name: str) -> None:
        """See `WorkspaceService.remove_engine`."""
        self._remove("engines", name, lambda: [each["name"] for each in self.engines()["engines"]])

    def _remove(self, kind: str, name: str, names: Callable[[], Collection[str]]) -> None:
        try:
            self.connection.json("DELETE", f"{self._prefix}/{kind}/{_quoted(name)}")
        except RequestRefusedError as error:
            # The first try has removed it.
            if not error.repeated or name in names():
                raise

    def _get(self, path: str) -> dict[str, Any]:
        found = self.connection.json("GET", self._prefix + path)
        assert isinstance(found, dict)
        return found

    def _submit(self, asked: dict[str, Any], whole: WrittenValue, base: Path, where: str) -> int:
        folder, code = self._code(whole, base)
        name = secrets.token_hex(16)
        if code is not None:
            asked = {**asked, "code": code}
        try:
            for left in reversed(range(_MOST_UPLOADS)):
                if folder is not None:
                    asked = {**asked, "upload": self._upload(folder)}
                try:
                    path = f"{self._prefix}/jobs"
                    return int(self.connection.json("POST", path, asked, name)["id"])
                except RequestRefusedError as error:
                    # The server was killed after it had moved the upload, and before the end.
                    if error.status != _UPLOAD_IS_GONE or folder is None or not left:
                        raise
        except JobFileError as error:
            # Those of the server say the line alone.
            raise JobFileError(
                [f"{where}{problem}" if problem[:1] == ":" else problem
                 for problem in error.problems]
            ) from None  # fmt: skip
        raise AssertionError("the loop returns or raises")

    def _code(self, whole: WrittenValue, base: Path) -> tuple[Path | None, dict[str, str] | None]:
        """The folder that is sent along, and what takes the place of the job's ``code``."""
        content = whole.content if isinstance(whole.content, dict) else {}
        value = content.get("code")
        if value is None:
            return base, {"folder": "."}
        name = value.content
        if isinstance(name, str) and SAVED_NAME.fullmatch(name) and not (base / name).is_dir():
            if any(each["name"] == name for each in self.saved("code")["code"]):
                return None, None
        try:
            code = read_code(value, base)
        except Mistake as mistake:
            raise JobFileError([str(mistake)]) from None
        if code.folder is None:
            return None, None
        return Path(code.folder), {"folder": ".", **({"at": code.at} if code.at else {})}

    def _upload(self, folder: Path) -> str:
        with tempfile.TemporaryFile() as archive:
            _pack(folder, archive)
            size = archive.tell()
            headers = {"Content-Type": "application/x-tar", "Content-Length": str(size)}
            headers["Idempotency-Key"] = secrets.token_hex(16)
            path = f"{self._prefix}/uploads"
            data, _ = self.connection.ask("POST", path, archive, headers)
        return str(json.loads(data)["upload"])


class _Tail:
    """What is new in a log of a server since one last looked."""

    def __init__(self, workspace: RemoteWorkspace, number: int, name: str) -> None:
        self._workspace = workspace
        self._number = number
        self._name = name
        self._at = 0
        self._unfinished = b""

    def lines(self, size: int, over: bool) -> Iterator[str]:
        """The lines finished up to a size; if the job is over, an unfinished one as well."""
        while self._at != size:
            data, start = self._workspace.log(self._number, self._name, self._at)
            if start > self._at:
                yield f"[drumline: {start - self._at:,} bytes were dropped here]"
            if start != self._at:  # Or another start of the launcher has emptied it.
                self._unfinished = b""
            self._at = start + len(data)
            if not data:
                break
            *finished, self._unfinished = (self._unfinished + data).split(b"\n")
            if len(self._unfinished) > LONGEST_LINE:
                finished, self._unfinished = [*finished, self._unfinished], b""
            yield from (line.decode(errors="replace") for line in finished)
        if over and self._unfinished:
            line, self._unfinished = self._unfinished, b""
            yield line.decode(errors="replace")


def _pack(folder: Path, into: IO[bytes]) -> None:
    """Write a folder as a tar archive, without what git ignores; see `copied_files`."""
    try:
        names = copied_files(folder)
        own = login_file()
        if own.is_relative_to(folder) and str(own.relative_to(folder)) in names:
            raise CodeError(f"{folder} holds your login, {own}: give the folder of the code alone")
        with tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name in names:
                archive.inodes = {}  # type: ignore[attr-defined]  # A hard link is a file as well.
                info = archive.gettarinfo(folder / name, name)
                info.uid = info.gid = 0
                info.uname = info.gname = ""
                if info.isfile():
                    with open(folder / name, "rb") as file:
                        archive.addfile(info, file)
                else:
                    archive.addfile(info)
    except CodeError as error:
        raise JobFileError([f"code: {error}"]) from None
    except OSError as error:
        raise JobFileError([f"code: {folder} cannot be read: {error}"]) from None


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
