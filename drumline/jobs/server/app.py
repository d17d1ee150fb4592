"""The server of a team: workspaces, who may do what in them, and who looks after that."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from drumline.jobs.server.answers import Handler, HttpError, answers, json_body, number_of, text_of
from drumline.jobs.server.door import COOKIE, Door, address_of
from drumline.jobs.server.guard import LOOPBACK, Guard
from drumline.jobs.server.identity import (
    LIMITS,
    MEMBERS,
    ROLES,
    Grant,
    TeamMember,
    TeamMembers,
    store_limits,
)
from drumline.jobs.server.uploads import CodeUploads
from drumline.jobs.server.workspace_routes import (
    Access,
    JobWatch,
    Need,
    WorkspaceRoutes,
)
from drumline.jobs.service.submission import Allowance
from drumline.jobs.service.workspace_service import WorkspaceService
from drumline.jobs.store.connection import StoreError
from drumline.jobs.store.moving import move_tables, use_database
from drumline.jobs.store.workspace import database_url, opened

_SUPERVISOR_SECONDS = 2.0
_SWEEP_SECONDS = 300.0
_SESSION_SECONDS = 30 * 86400
_AGAIN_SECONDS = 60.0
_MOST_KNOWN = 1000
_NEEDED: dict[Need, tuple[str, ...]] = {
    "read": ROLES,
    "write": ("member", "admin"),
    "admin": ("admin",),
}


class ServerError(RuntimeError):
    """A server that cannot be started; the message says why."""


class TroubleLog:
    """What a server says on its standard error of what does not work: each trouble once.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: dict[str, str] = {}
        self._failed: dict[tuple[str, str], float] = {}

    @contextlib.contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Try what is tried again later; say why it failed, and once more when it does not."""
        trouble = ""
        try:
            yield
        except Exception as error:  # as of a database that is away, or of a full disk
            trouble = str(error) or type(error).__name__
        with self._lock:
            if trouble != self._waits.get(name, ""):
                self._waits[name] = trouble
                _say(f"{name} waits: {trouble}" if trouble else f"{name} continues")

    def failed(self, name: str, text: str) -> None:
        """Say why a request failed, unless it was said within the last minute."""
        now = time.monotonic()
        with self._lock:
            last = self._failed.get((name, text))
            if self._waits.get(name) == text or (last is not None and now - last < _AGAIN_SECONDS):
                return
            if len(self._failed) >= _MOST_KNOWN:
                self._failed.clear()
            self._failed[name, text] = now
            _say(f"{name}: {text}")


def _say(text: str) -> None:
    print(time.strftime("%m-%d %H:%M:%S"), text, file=sys.stderr, flush=True)


class TeamServer:
    """The workspaces and members in a folder.

    It may be killed at any moment. What it was about to submit is not in a queue then, and is
    removed by the next; supervisors and jobs continue without it.

    Args:
        folder: made for its user alone if it is absent.
        database: of PostgreSQL, for the members and the lists of jobs, which are moved there; see
            `use_database`. Without it they are where they were.
        member_hosts: whether the job files of members may name SSH hosts, to which jobs then log
            in with the keys of the server's user; those of admins of a workspace may in any case.

    Raises:
        ServerError: another server uses it.
        StoreError: a database in it cannot be used.
    """

    def __init__(
        self, folder: Path, database: str | None = None, member_hosts: bool = False
    ) -> None:
        self.folder = folder
        self._member_hosts = member_hosts
        self._lock = _only_one(folder)
        try:
            if database is not None:
                move_tables(folder, database, MEMBERS)
            self._database = database_url(folder)
            self.identity = TeamMembers(folder)
        except BaseException:
            os.close(self._lock)
            raise
        self.door = Door(self.identity)
        self._log = TroubleLog()
        self._opened: dict[str, tuple[WorkspaceService, JobWatch, CodeUploads]] = {}
        self._opening = threading.Lock()
        self._ended = threading.Event()
        for name in self.identity.workspaces():
            self._sweep(name)
        self._thread = threading.Thread(target=self._look_after, daemon=True)

    def start(self) -> None:
        """Start looking after the supervisors of the workspaces."""
        self._thread.start()

    def close(self) -> None:
        """Let another server use the folder. Jobs continue."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        for service, _, _ in self._opened.values():
            service.close()
        self.identity.close()
        os.close(self._lock)

    def workspace(self, name: str) -> tuple[WorkspaceService, JobWatch, CodeUploads]:
        """A workspace that the list has."""
        with self._opening:
            if name not in self._opened:
                home = opened(self.folder / "workspaces" / name)
                if self._database is not None:
                    use_database(home, self._database)
                service = WorkspaceService(home)
                self._opened[name] = service, JobWatch(service), CodeUploads(home)
            return self._opened[name]

    def admit(self, request: Request, need: Need) -> Access:
        """Find the workspace of a request, or refuse it; see `workspace_routes.Admit`."""
        member = self.door.member(request)
        name = request.path_params["workspace"]
        grant = self.identity.grant(name, member)
        if grant is None:
            self._refused(request, member, name)
            raise HttpError(403, f"{member.name} has no role in a workspace {name[:80]!r} here")
        if grant.role not in _NEEDED[need]:
            self._refused(request, member, name)
            raise HttpError(
                403, f"{member.name} is {grant.role} in {name}, and this takes: "
                f"{' or '.join(_NEEDED[need])}"
            )  # fmt: skip
        service, watch, uploads = self.workspace(name)
        needs = {each: value for each, value in grant.limits.items() if each != "jobs"}
        jobs = grant.limits.get("jobs")
        any_job = grant.role == "admin"
        hosts = any_job or self._member_hosts
        allowance = Allowance(grant.priority, None if jobs is None else int(jobs), needs, hosts)
        return Access(service, watch, member.name, any_job, allowance, uploads)

    def record(self, request: Request, access: Access, action: str, target: str) -> None:
        """Write down what a request has done in a workspace."""
        name = request.path_params["workspace"]
        self.identity.record(access.member, name, action, target, address_of(request))

    def tell(self, request: Request, error: StoreError) -> str:
        """What is answered of an error of a database; the server's log has all of it."""
        workspace = request.path_params.get("workspace")
        name = "the server" if workspace is None else _named(workspace)
        self._log.failed(name, str(error))
        member = getattr(request.state, "member", None)
        return str(error) if member is not None and member.admin else f"{name}: {error.shown}."

    def write_limits(self, workspace: str) -> None:
        """Have the supervisor of a workspace know what members' running jobs may hold."""
        store_limits(self.identity, self.folder, workspace)

    def _refused(self, request: Request, member: TeamMember, name: str) -> None:
        what = f"{request.method} {request.url.path}"
        self.identity.record(member.name, name[:80], "refuse", what, address_of(request))

    def _sweep(self, name: str) -> None:
        """Remove what a killed server was about to submit."""
        service, _, uploads = self.workspace(name)
        for number in service.store.sweep():
            shutil.rmtree(service.folder(number), ignore_errors=True)
        uploads.sweep_unfinished()
        uploads.sweep()

    def _look_after(self) -> None:
        swept = 0.0
        while not self._ended.wait(_SUPERVISOR_SECONDS):
            swept += _SUPERVISOR_SECONDS
            names: list[str] = []
            with self._log.waiting("the server"):
                names = self.identity.workspaces()
            for name in names:
                with self._log.waiting(_named(name)):
                    service, _, uploads = self.workspace(name)
                    service.wake_if_open()
                    if swept > _SWEEP_SECONDS:
                        uploads.sweep()
            swept = 0.0 if swept > _SWEEP_SECONDS else swept


class _AdminRoutes:
    """Who is there, who they are, and what they may do."""

    def __init__(self, server: TeamServer, secure: bool) -> None:
        self._server = server
        self._identity = server.identity
        self._secure = secure

    def routes(self) -> Iterator[Route]:
        one, of_it = "/api/v1/members/{member}", "/api/v1/workspaces/{workspace}/members"
        table: list[tuple[str, str, Handler]] = [
            ("POST", "/session", self.sign_in),
            ("DELETE", "/session", self.sign_out),
            ("GET", "/api/v1/me", self.me),
            ("GET", "/api/v1/members", self.members),
            ("POST", "/api/v1/members", self.add_member),
            ("DELETE", one, self.remove_member),
            ("GET", f"{one}/tokens", self.tokens),
            ("POST", f"{one}/tokens", self.add_token),
            ("DELETE", f"{one}/tokens", self.revoke),
            ("DELETE", f"{one}/tokens/{{number:int}}", self.revoke),
            ("POST", "/api/v1/workspaces", self.add_workspace),
            ("GET", of_it, self.grants),
            ("POST", of_it, self.set_grant),
            ("DELETE", f"{of_it}/{{member}}", self.remove_grant),
            ("GET", "/api/v1/audit", self.audit),
        ]
        for method, path, handler in table:
            yield Route(path, answers(handler), methods=[method])

    async def sign_in(self, request: Request) -> Response:
        """``POST /session {"token": ...}``: a page exchanges a token for a cookie"""
        token = text_of(await json_body(request), "token").strip()
        member = await run_in_threadpool(self._server.door.member_of, request, token)
        await self._note(request, member, "", "sign in", "")
        answer = JSONResponse({"member": member.name})
        answer.set_cookie(
            COOKIE, token, max_age=_SESSION_SECONDS, path="/", httponly=True, samesite="strict",
            secure=self._secure,
        )  # fmt: skip
        return answer

    async def sign_out(self, request: Request) -> Response:
        """``DELETE /session``"""
        answer = JSONResponse({})
        answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return answer

    async def me(self, request: Request) -> Response:
        """``GET /api/v1/me``: who asks, and in which workspaces they may do something"""
        member = await self._member(request)
        grants = await run_in_threadpool(self._identity.grants_of, member)
        roles = {each.workspace: each.role for each in grants}
        role = "admin" if member.admin else "member"
        document = {"member": member.name, "role": role, "workspaces": list(roles), "roles": roles}
        return JSONResponse(document)

    async def members(self, request: Request) -> Response:
        """``GET /api/v1/members``"""
        await self._admin(request)
        return JSONResponse({"members": await run_in_threadpool(self._identity.members)})

    async def add_member(self, request: Request) -> Response:
        """``POST /api/v1/members {"name": ..., "admin": false}``: answers with their token"""
        admin = await self._admin(request)
        fields = await json_body(request)
        name, also = text_of(fields, "name"), fields.get("admin", False)
        if not isinstance(also, bool):
            raise HttpError(400, "'admin' must be true or false")
        token = await run_in_threadpool(self._identity.add_member, name, also)
        await self._note(request, admin, "", "add admin" if also else "add member", name)
        return JSONResponse({"name": name, "token": token}, 201)

    async def remove_member(self, request: Request) -> Response:
        """``DELETE /api/v1/members/NAME``: their tokens stop at once"""
        admin, name = await self._admin(request), request.path_params["member"]
        await run_in_threadpool(self._identity.remove_member, name)
        await self._note(request, admin, "", "remove member", name)
        for workspace in await run_in_threadpool(self._identity.workspaces):
            await run_in_threadpool(self._server.write_limits, workspace)
        return JSONResponse({"name": name})

    async def tokens(self, request: Request) -> Response:
        """``GET /api/v1/members/NAME/tokens``: their numbers and times"""
        _, name = await self._of(request)
        return JSONResponse({"tokens": await run_in_threadpool(self._identity.tokens, name)})

    async def add_token(self, request: Request) -> Response:
        """``POST /api/v1/members/NAME/tokens {"label": ...}``: answers with it, this once"""
        member, name = await self._of(request)
        label = (await json_body(request)).get("label", "")
        if not isinstance(label, str):
            raise HttpError(400, "'label' must be text")
        token = await run_in_threadpool(self._identity.add_token, name, label)
        await self._note(request, member, "", "add token", f"{name} {label}".strip())
        return JSONResponse({"name": name, "token": token}, 201)

    async def revoke(self, request: Request) -> Response:
        """``DELETE /api/v1/members/NAME/tokens/NUMBER``; without a number all of them"""
        member, name = await self._of(request)
        number = request.path_params.get("number")
        count = await run_in_threadpool(self._identity.revoke, name, number)
        which = "all" if number is None else f"token {number}"
        await self._note(request, member, "", "revoke", f"{name}: {which}")
        return JSONResponse({"revoked": count})

    async def add_workspace(self, request: Request) -> Response:
        """``POST /api/v1/workspaces {"name": ...}``"""
        admin = await self._admin(request)
        name = text_of(await json_body(request), "name")
        await run_in_threadpool(self._identity.add_workspace, name)
        await self._note(request, admin, name, "add workspace", name)
        return JSONResponse({"name": name}, 201)

    async def grants(self, request: Request) -> Response:
        """``GET /api/v1/workspaces/NAME/members``"""
        access = await run_in_threadpool(self._server.admit, request, "read")
        found = await run_in_threadpool(self._identity.grants_in, request.path_params["workspace"])
        mine = [each.document() for each in found if access.any_job or each.member == access.member]
        return JSONResponse({"members": mine})

    async def set_grant(self, request: Request) -> Response:
        """``POST /api/v1/workspaces/NAME/members {"member", "role", "priority", "limits"}``"""
        access = await run_in_threadpool(self._server.admit, request, "admin")
        fields, workspace = await json_body(request), request.path_params["workspace"]
        limits = fields.get("limits", {})
        if not isinstance(limits, dict):
            raise HttpError(400, f"'limits' must be an object with some of {', '.join(LIMITS)}")
        grant = Grant(
            workspace, text_of(fields, "member"), text_of(fields, "role"),
            fields.get("priority", 9), limits,
        )  # fmt: skip
        await run_in_threadpool(self._identity.set_grant, grant)
        await run_in_threadpool(self._server.write_limits, workspace)
        await run_in_threadpool(self._server.record, request, access, "set role", grant.said)
        return JSONResponse(grant.document(), 201)

    async def remove_grant(self, request: Request) -> Response:
        """``DELETE /api/v1/workspaces/NAME/members/MEMBER``"""
        access = await run_in_threadpool(self._server.admit, request, "admin")
        workspace, name = request.path_params["workspace"], request.path_params["member"]
        await run_in_threadpool(self._identity.remove_grant, workspace, name)
        await run_in_threadpool(self._server.write_limits, workspace)
        await run_in_threadpool(self._server.record, request, access, "remove role", name)
        return JSONResponse({"member": name})

    async def audit(self, request: Request) -> Response:
        """``GET /api/v1/audit?before=NUMBER&limit=100``"""
        await self._admin(request)
        before = number_of(request, "before", 0, 2**62, 2**62)
        limit = number_of(request, "limit", 1, 1000, 100)
        return JSONResponse({"audit": await run_in_threadpool(self._identity.audit, before, limit)})

    async def _member(self, request: Request) -> TeamMember:
        return await run_in_threadpool(self._server.door.member, request)

    async def _admin(self, request: Request) -> TeamMember:
        member = await self._member(request)
        if not member.admin:
            what = f"{request.method} {request.url.path}"
            await self._note(request, member, "", "refuse", what)
            raise HttpError(403, f"{member.name} does not look after this server")
        return member

    async def _of(self, request: Request) -> tuple[TeamMember, str]:
        """Who asks, and of whom: themselves, unless they look after the server."""
        name = request.path_params["member"]
        member = await self._member(request)
        if member.name != name:
            await self._admin(request)
        return member, name

    async def _note(
        self, request: Request, member: TeamMember, workspace: str, action: str, target: str
    ) -> None:
        address = address_of(request)
        await run_in_threadpool(
            self._identity.record, member.name, workspace, action, target, address
        )


def team_app(
    server: TeamServer,
    hosts: Collection[str] = LOOPBACK,
    secure: bool = False,
    pages: Sequence[BaseRoute] = (),
) -> Starlette:
    """A server as an application of ASGI.

    Args:
        server: its workspaces and members.
        hosts: the names under which it is asked; others are refused.
        secure: whether it is asked over TLS.
        pages: further routes, as of the console.
    """
    routes = [
        *_AdminRoutes(server, secure).routes(),
        *pages,
        *WorkspaceRoutes(server.admit, server.record).routes(),
    ]
    app = Starlette(routes=routes, middleware=[Middleware(Guard, hosts=hosts)])
    app.state.tell = server.tell
    return app


def _named(workspace: str) -> str:
    return f"the workspace {workspace[:40]!r}"


def _only_one(folder: Path) -> int:
    """The lock of the server of a folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / "workspaces").mkdir(exist_ok=True, mode=0o700)
        lock = os.open(folder / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ServerError(f"{folder} cannot be used: {error.strerror}.") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise ServerError(f"another server uses {folder}; stop it first.") from None
    return lock
