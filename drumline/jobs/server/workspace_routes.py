"""The routes of one workspace: JSON, and logs as bytes. docs/jobs/server.md lists them."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from drumline.jobs.engines.registry import EngineRecord
from drumline.jobs.server.answers import Handler, HttpError, answers, json_body, number_of, text_of
from drumline.jobs.server.uploads import CodeUploads
from drumline.jobs.service.submission import ANYTHING, Allowance
from drumline.jobs.service.workspace_service import MOST_POINTS, WorkspaceService
from drumline.jobs.sources.saved import SavedKind
from drumline.jobs.store.database import ENDED

Need = Literal["read", "write", "admin"]
"""What a request does: look; submit, cancel and save; or change what others rely on."""

_LARGEST = 2**63 - 1
_LARGEST_LOG = 1 << 20
_LONGEST_WAIT = 60
_PERIOD_SECONDS = 0.1
_ADMITTED_SECONDS = 1.0


def _is_news(found: dict[str, Any], seen: int) -> bool:
    """Whether a job has ended, or its logs have another size together."""
    return bool(found["ended"]) or sum(each["size"] for each in found["logs"]) != seen


class JobWatch:
    """The states and logs of jobs of a workspace, not older than 0.1 s.

    Args:
        service: the workspace.
    """

    def __init__(self, service: WorkspaceService) -> None:
        self._service = service
        self._looks: dict[int, tuple[float, asyncio.Task[dict[str, Any]]]] = {}

    async def look(self, number: int) -> dict[str, Any]:
        """A job's state and its logs: ``{"state", "ended", "logs": [{"name", "size"}]}``.

        Raises:
            NoSuchJobError: there is no such job.
        """
        now = time.monotonic()
        known = self._looks.get(number)
        if known is None or (now - known[0] > _PERIOD_SECONDS and known[1].done()):
            for old in [n for n, (at, task) in self._looks.items() if now - at > 5 and task.done()]:
                del self._looks[old]
            known = now, asyncio.create_task(run_in_threadpool(self._look, number))
            self._looks[number] = known
        # One client that leaves does not end it for the others.
        return await asyncio.shield(known[1])

    def _look(self, number: int) -> dict[str, Any]:
        # Asked before the logs are: what it has written at its end is among them.
        state = self._service.row(number).state
        return {"state": state, "ended": state in ENDED, **self._service.logs(number)}

    async def news(self, number: int, seen: int, seconds: float) -> dict[str, Any]:
        """The same, once its logs have other sizes than so many bytes together, or it has ended."""
        until = time.monotonic() + seconds
        while True:
            found = await self.look(number)
            if _is_news(found, seen) or time.monotonic() >= until:
                return found
            await asyncio.sleep(_PERIOD_SECONDS)


@dataclasses.dataclass(frozen=True)
class Access:
    """What a request may use.

    Attributes:
        service: the workspace.
        watch: looks at its jobs.
        member: who asks; empty where there are no members.
        any_job: whether others' jobs may be cancelled, too.
        allowance: what jobs that are submitted may ask for.
        uploads: folders of code that were sent; None where none are taken.
    """

    service: WorkspaceService
    watch: JobWatch
    member: str = ""
    any_job: bool = True
    allowance: Allowance = ANYTHING
    uploads: CodeUploads | None = None


Admit = Callable[[Request, Need], Access]
"""Finds the workspace of a request, or raises `HttpError` if it may not do that there."""


class WorkspaceRoutes:
    """The handlers of one workspace's routes.

    Args:
        admit: see `Admit`.
        record: is called with each change that was made: by what access, what, and of what.
    """

    def __init__(
        self, admit: Admit, record: Callable[[Request, Access, str, str], None] | None = None
    ) -> None:
        self._admit = admit
        self._record = record or (lambda request, access, action, target: None)

    def routes(self, prefix: str = "/api/v1/workspaces/{workspace}") -> list[Route]:
        """All routes beneath a path."""
        table: dict[str, dict[str, Handler]] = {
            "/jobs": {"GET": self.jobs, "POST": self.submit},
            "/jobs/check": {"POST": self.check},
            "/jobs/{job}": {"GET": self.job},
            "/jobs/{job}/events": {"GET": self.events},
            "/jobs/{job}/logs": {"GET": self.logs},
            "/jobs/{job}/logs/{name}": {"GET": self.log},
            "/jobs/{job}/metrics": {"GET": self.metrics},
            "/jobs/{job}/cancel": {"POST": self.cancel},
            "/jobs/{job}/rerun": {"POST": self.rerun},
            "/code": {"GET": partial(self.saved, "code"), "POST": partial(self.save, "code")},
            "/data": {"GET": partial(self.saved, "data"), "POST": partial(self.save, "data")},
            "/secrets": {"GET": self.secrets, "POST": self.set_secret},
            "/engines": {"GET": self.engines, "POST": self.add_engine},
            "/uploads": {"POST": self.upload},
            "/code/{name}": {"DELETE": partial(self.remove_saved, "code")},
            "/data/{name}": {"DELETE": partial(self.remove_saved, "data")},
            "/secrets/{name}": {"DELETE": self.remove_secret},
            "/engines/{name}": {"DELETE": self.remove_engine},
        }
        return [
            Route(prefix + path, answers(handler), methods=[method])
            for path, handlers in table.items()
            for method, handler in handlers.items()
        ]

    async def jobs(self, request: Request) -> Response:
        """``GET /jobs?state=&search=&before=ID&limit=100``"""
        query = request.query_params
        before = number_of(request, "before", 0, _LARGEST, _LARGEST)
        limit = number_of(request, "limit", 1, 1000, 100)
        access = await self._access(request, "read")
        asked = (query.get("state", ""), query.get("search", ""), before, limit)
        return JSONResponse(await run_in_threadpool(access.service.jobs, *asked))

    async def job(self, request: Request) -> Response:
        """``GET /jobs/ID``, or a name, which stands for the latest job of it."""
        access = await self._access(request, "read")
        found = await run_in_threadpool(access.service.job, request.path_params["job"])
        return JSONResponse(found)

    async def events(self, request: Request) -> Response:
        """``GET /jobs/ID/events?after=N``"""
        access, number = await self._job(request, "read")
        after = number_of(request, "after", 0, _LARGEST, 0)
        return JSONResponse(await run_in_threadpool(access.service.events, number, after))

    async def logs(self, request: Request) -> Response:
        """``GET /jobs/ID/logs``; with ``?seen=BYTES&wait=SECONDS`` once there is more than that."""
        access, number = await self._job(request, "read")
        seen = number_of(request, "seen", 0, _LARGEST, 0)
        wait = number_of(request, "wait", 0, _LONGEST_WAIT, 0)
        found = await access.watch.look(number)
        until = time.monotonic() + wait
        while (left := until - time.monotonic()) > 0 and not _is_news(found, seen):
            found = await access.watch.news(number, seen, min(left, _ADMITTED_SECONDS))
            # Meanwhile the token may have been revoked.
            await self._access(request, "read")
        return JSONResponse(found)

    async def log(self, request: Request) -> Response:
        """``GET /jobs/ID/logs/NAME?from=BYTES&limit=BYTES``; negative: from the end."""
        access, number = await self._job(request, "read")
        start = number_of(request, "from", -_LARGEST, _LARGEST, 0)
        limit = number_of(request, "limit", 1, _LARGEST_LOG, _LARGEST_LOG)
        name = request.path_params["name"]
        part = await run_in_threadpool(access.service.log, number, name, start, limit)
        headers = {"X-From": str(part.start), "X-Size": str(part.size)}
        return Response(part.data, headers=headers, media_type="application/octet-stream")

    async def metrics(self, request: Request) -> Response:
        """``GET /jobs/ID/metrics?points=1000``; 0 for all."""
        access, number = await self._job(request, "read")
        points = number_of(request, "points", 0, 1_000_000, MOST_POINTS)
        return JSONResponse(await run_in_threadpool(access.service.metrics, number, points))

    async def check(self, request: Request) -> Response:
        """``POST /jobs/check {"yaml": text}``"""
        access = await self._access(request, "read")
        text = (await json_body(request)).get("yaml")
        if not isinstance(text, str):
            raise HttpError(400, "'yaml' must be text")
        found = await run_in_threadpool(access.service.check, text, access.allowance)
        return JSONResponse(found)

    async def submit(self, request: Request) -> Response:
        """``POST /jobs {"yaml": text} | {"job": {...}}``; an ``Idempotency-Key`` names it."""
        access = await self._access(request, "write")
        asked = await json_body(request)
        key = self._key(request, access)
        number = await run_in_threadpool(_submit, access, asked, key)
        await self._note(request, access, "submit", f"job {number}")
        return JSONResponse({"id": number}, 201)

    async def cancel(self, request: Request) -> Response:
        """``POST /jobs/ID/cancel``"""
        access, number = await self._job(request, "write")
        if not access.any_job:
            by = (await run_in_threadpool(access.service.row, number)).by
            if by != access.member:
                raise HttpError(403, f"job {number} is of {by or 'another'}, not of yours")
        try:
            await run_in_threadpool(access.service.cancel, number)
        except RuntimeError as error:  # It has ended already.
            raise HttpError(409, str(error)) from None
        await self._note(request, access, "cancel", f"job {number}")
        return JSONResponse({"id": number})

    async def rerun(self, request: Request) -> Response:
        """``POST /jobs/ID/rerun``"""
        access, number = await self._job(request, "write")
        key = self._key(request, access)
        fresh = await run_in_threadpool(
            access.service.rerun, number, access.member, key, access.allowance
        )
        await self._note(request, access, "rerun", f"job {number} as job {fresh}")
        return JSONResponse({"id": fresh}, 201)

    async def upload(self, request: Request) -> Response:
        """``POST /uploads``: a folder's tar archive, as it is; an ``Idempotency-Key`` names it."""
        access = await self._access(request, "write")
        if access.uploads is None:
            raise HttpError(404, "no uploads are taken here: name the folder in the job")
        key = self._key(request, access)
        name = await access.uploads.receive(access.member, request.stream(), key)
        return JSONResponse({"upload": name}, 201)

    async def saved(self, kind: SavedKind, request: Request) -> Response:
        """``GET /code`` and ``GET /data``"""
        access = await self._access(request, "read")
        return JSONResponse(await run_in_threadpool(access.service.saved, kind))

    async def save(self, kind: SavedKind, request: Request) -> Response:
        """``POST /code {"name": ..., "git": ...}`` and ``POST /data {"name": ..., "from": ...}``"""
        access = await self._access(request, "write")
        fields = await json_body(request)
        name = text_of(fields, "name")
        del fields["name"]
        for key in ("folder", "from", "git"):
            path = fields.get(key)
            if isinstance(path, str) and "://" not in path and "@" not in path:
                if not path.startswith("/"):
                    raise HttpError(
                        400, f"{key}: {path!r} must be a whole path of the server's machine"
                    )
        await run_in_threadpool(access.service.save, kind, name, fields, Path("/"))
        await self._note(request, access, f"save {kind}", name)
        return JSONResponse({"name": name}, 201)

    async def secrets(self, request: Request) -> Response:
        """``GET /secrets``: their names"""
        access = await self._access(request, "read")
        return JSONResponse(await run_in_threadpool(access.service.secrets))

    async def set_secret(self, request: Request) -> Response:
        """``POST /secrets {"name": ..., "value": ...}``"""
        access = await self._access(request, "write")
        fields = await json_body(request)
        name = text_of(fields, "name")
        await run_in_threadpool(access.service.set_secret, name, text_of(fields, "value"))
        await self._note(request, access, "set secret", name)
        return JSONResponse({"name": name}, 201)

    async def engines(self, request: Request) -> Response:
        """``GET /engines``"""
        access = await self._access(request, "read")
        return JSONResponse(await run_in_threadpool(access.service.engines))

    async def add_engine(self, request: Request) -> Response:
        """``POST /engines {"name": ..., "kind": ..., "settings": {...}}``"""
        access = await self._access(request, "admin")
        fields = await json_body(request)
        settings = fields.get("settings", {})
        if not isinstance(settings, Mapping):
            raise HttpError(400, "'settings' must be an object")
        record = EngineRecord(text_of(fields, "name"), text_of(fields, "kind"), settings)
        await run_in_threadpool(access.service.add_engine, record)
        await self._note(request, access, "add engine", record.name)
        return JSONResponse({"name": record.name}, 201)

    async def remove_saved(self, kind: SavedKind, request: Request) -> Response:
        """``DELETE /code/NAME`` and ``DELETE /data/NAME``"""
        access, name = await self._access(request, "write"), request.path_params["name"]
        await run_in_threadpool(access.service.remove_saved, kind, name)
        return await self._removed(request, access, kind, name)

    async def remove_secret(self, request: Request) -> Response:
        """``DELETE /secrets/NAME``"""
        access, name = await self._access(request, "write"), request.path_params["name"]
        await run_in_threadpool(access.service.remove_secret, name)
        return await self._removed(request, access, "secret", name)

    async def remove_engine(self, request: Request) -> Response:
        """``DELETE /engines/NAME``"""
        access, name = await self._access(request, "admin"), request.path_params["name"]
        await run_in_threadpool(access.service.remove_engine, name)
        return await self._removed(request, access, "engine", name)

    async def _removed(self, request: Request, access: Access, kind: str, name: str) -> Response:
        await self._note(request, access, f"remove {kind}", name)
        return JSONResponse({"name": name})

    async def _note(self, request: Request, access: Access, action: str, target: str) -> None:
        await run_in_threadpool(self._record, request, access, action, target)

    async def _access(self, request: Request, need: Need) -> Access:
        return await run_in_threadpool(self._admit, request, need)

    async def _job(self, request: Request, need: Need) -> tuple[Access, int]:
        """The access, and the number of the job in the path."""
        access = await self._access(request, need)
        text = request.path_params["job"]
        if text.isascii() and text.isdecimal() and len(text) < 19:
            return access, int(text)
        return access, (await run_in_threadpool(access.service.row, text)).id

    def _key(self, request: Request, access: Access) -> str | None:
        key = request.headers.get("idempotency-key")
        if key is None:
            return None
        if not 8 <= len(key) <= 100 or not key.isprintable():
            raise HttpError(400, "Idempotency-Key must have 8 to 100 characters")
        # That of one member says nothing of another's.
        return f"{access.member} {key}"


def _submit(access: Access, asked: dict[str, Any], key: str | None) -> int:
    name, service = asked.pop("upload", None), access.service
    # A repeated request finds its job, though its upload is that job's by now.
    if key is not None and (earlier := service.submitted(key)) is not None:
        return earlier
    folder = None
    if name is not None:
        if access.uploads is None or not isinstance(name, str):
            raise HttpError(400, "'upload' must be what POST /uploads has answered")
        folder = access.uploads.of(access.member, name)
    return service.submit(asked, access.member, key, folder, access.allowance)
