"""The console of one workspace on this machine: on loopback, for who has its token."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from drumline.jobs.console.pages import ConsoleRoutes
from drumline.jobs.engines.registry import engine_names
from drumline.jobs.file.model import Job
from drumline.jobs.file.reading import read_job
from drumline.jobs.file.values import JobFileError, parse_yaml, value_of
from drumline.jobs.server.answers import HttpError, answers, json_body
from drumline.jobs.server.guard import LOOPBACK, Guard
from drumline.jobs.server.workspace_routes import Access, JobWatch, Need, WorkspaceRoutes
from drumline.jobs.service import documents
from drumline.jobs.service.workspace_service import WorkspaceService
from drumline.jobs.sources.saved import saved

_LARGEST_FILE = 64 << 10
_SESSION_SECONDS = 30 * 86400


class OwnWorkspace(WorkspaceService):
    """A workspace whose user is the one who asks: a job's folders are those of this machine.

    Args:
        home: its folder.
        base: the folder from which relative ones in a job file are seen.
    """

    def __init__(self, home: Path, base: Path) -> None:
        super().__init__(home)
        self._base = base

    def _read_request(self, asked: Any, base: Path, uploaded: bool) -> Job:
        text, where = asked.get("yaml"), documents.JOB_FILE
        if isinstance(text, str):
            if len(text.encode(errors="replace")) > _LARGEST_FILE:
                raise JobFileError([f"{where}: a job has at most {_LARGEST_FILE} bytes"])
            whole = parse_yaml(text, where)
        else:
            whole = value_of(asked.get("job"), where)
        seen_from = base if uploaded and base.name != "jobs" else self._base
        return read_job(whole, seen_from, engine_names(self.home), saved(self.home))


class _Door:
    """Who may come in: who has the token, once exchanged for a cookie."""

    def __init__(self, token: str, service: WorkspaceService, name: str) -> None:
        self._token = token
        self._name = name
        # Cookies are of a host, not of its port: two consoles have two.
        self._cookie = f"drumline-{hashlib.sha256(token.encode()).hexdigest()[:8]}"
        self._session = secrets.token_urlsafe(32)
        self._access = Access(service, JobWatch(service))

    def admit(self, request: Request, need: Need) -> Access:
        """See `Admit`."""
        self._check(request)
        if request.path_params.get("workspace", self._name) != self._name:
            raise HttpError(404, "there is no such workspace here")
        return self._access

    def _check(self, request: Request) -> None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and _equal(token.strip(), self._token):
            return
        if not _equal(request.cookies.get(self._cookie, ""), self._session):
            raise HttpError(401, "this needs the token that `drumline console` has printed")

    async def me(self, request: Request) -> Response:
        """``GET /api/v1/me``"""
        self._check(request)
        return JSONResponse({"member": "", "role": "admin", "workspaces": [self._name]})

    async def sign_in(self, request: Request) -> Response:
        """``POST /session {"token": ...}``"""
        token = (await json_body(request)).get("token")
        if not isinstance(token, str) or not _equal(token, self._token):
            raise HttpError(401, "this is not the token of this console; it prints it at its start")
        answer = JSONResponse({})
        options: dict[str, Any] = {"httponly": True, "samesite": "strict", "path": "/"}
        answer.set_cookie(self._cookie, self._session, max_age=_SESSION_SECONDS, **options)
        return answer

    async def sign_out(self, request: Request) -> Response:
        """``DELETE /session``"""
        answer = JSONResponse({})
        answer.delete_cookie(self._cookie, path="/", httponly=True, samesite="strict")
        return answer


def console_app(
    service: WorkspaceService, name: str, token: str, hosts: Collection[str] = LOOPBACK
) -> Starlette:
    """The console of a workspace, as an application of ASGI.

    Args:
        service: the workspace.
        name: what it is called on the pages.
        token: who has it may do all that the workspace's user may.
        hosts: the names under which it is asked.

    Returns:
        Its `state.end` ends all streams.
    """
    door = _Door(token, service, name)
    pages = ConsoleRoutes(door.admit)
    routes = [
        Route("/session", answers(door.sign_in), methods=["POST"]),
        Route("/session", answers(door.sign_out), methods=["DELETE"]),
        Route("/api/v1/me", answers(door.me)),
        *pages.routes(),
        *WorkspaceRoutes(door.admit).routes(),
    ]
    app = Starlette(routes=routes, middleware=[Middleware(Guard, hosts=hosts)])
    app.state.end = pages.end
    return app


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
