"""What a browser loads, and what its pages ask of a workspace beside its JSON.

It loads HTML, CSS, JavaScript and SVG of this package, and no other files. It asks for the stream,
for whole logs, for text in them, and for the checkpoints of a job.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from weakref import WeakKeyDictionary

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from drumline.jobs.console.stream import stream
from drumline.jobs.console.watching import Watcher
from drumline.jobs.logs.searching import FoundLines
from drumline.jobs.server.answers import answers, number_of
from drumline.jobs.server.workspace_routes import Access, Admit
from drumline.jobs.service.workspace_service import WorkspaceService

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PIECE = 1 << 20
_LARGEST = 2**53
_MOST_FOUND = 1000
_FOREVER = "public, max-age=31536000, immutable"


@functools.cache
def _files() -> dict[str, bytes]:
    paths = (path for path in sorted(_FOLDER.rglob("*")) if path.suffix in _TYPES)
    return {path.relative_to(_FOLDER).as_posix(): path.read_bytes() for path in paths}


@functools.cache
def version() -> str:
    """What changes whenever one of the files does; it is part of their addresses."""
    digest = hashlib.sha256()
    for name, content in _files().items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


@functools.cache
def _compressed(name: str) -> bytes:
    return gzip.compress(_files()[name], 9, mtime=0)


def _answer(request: Request, name: str, content: bytes, cache: str) -> Response:
    headers = {"Cache-Control": cache, "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", "") and name in _files():
        content, headers["Content-Encoding"] = _compressed(name), "gzip"
    return Response(content, headers=headers, media_type=_TYPES[Path(name).suffix])


async def _page(request: Request) -> Response:
    page = _files()["index.html"].replace(b'"static/', f'"static/{version()}/'.encode())
    headers = {"Cache-Control": "no-cache"}
    return Response(page, headers=headers, media_type=_TYPES[".html"])


async def _file(request: Request) -> Response:
    name = request.path_params["path"]
    if name not in _files():
        return PlainTextResponse("There is no such file.", 404)
    # Of an older page, whose server was replaced, the file is another than it asked for.
    same = request.path_params["version"] == version()
    return _answer(request, name, _files()[name], _FOREVER if same else "no-cache")


async def _mark(request: Request) -> Response:
    return _answer(request, "mark.svg", _files()["mark.svg"], "public, max-age=86400")


def page_routes() -> list[Route]:
    """The page itself, and what it loads."""
    return [
        Route("/", _page),
        Route("/favicon.ico", _mark),
        Route("/static/{version}/{path:path}", _file),
    ]


class ConsoleRoutes:
    """The handlers of these routes.

    Args:
        admit: see `Admit`; asked again every few seconds for a stream, so that it ends when a
            token is revoked.
    """

    def __init__(self, admit: Admit) -> None:
        self._admit = admit
        self._watchers: WeakKeyDictionary[WorkspaceService, Watcher] = WeakKeyDictionary()

    def routes(self, prefix: str = "/api/v1/workspaces/{workspace}") -> list[Route]:
        """All that the pages take beside the routes of workspaces, who we are, and sessions.

        Args:
            prefix: of a workspace's routes.
        """
        return [
            *page_routes(),
            Route(f"{prefix}/stream", answers(self.stream)),
            Route(f"{prefix}/jobs/{{job:int}}/checkpoints", answers(self.checkpoints)),
            Route(f"{prefix}/jobs/{{job:int}}/logs/{{name}}/whole", answers(self.whole_log)),
            Route(f"{prefix}/jobs/{{job:int}}/logs/{{name}}/search", answers(self.search_log)),
        ]

    def end(self) -> None:
        """End all streams, which have no end of their own."""
        for watcher in list(self._watchers.values()):
            watcher.end()

    async def stream(self, request: Request) -> Response:
        """``GET /stream?jobs=1&job=ID&events=N&log=ID/NAME@BYTES``"""
        access = await self._access(request)
        watcher = self._watchers.get(access.service)
        if watcher is None:
            watcher = self._watchers[access.service] = Watcher(access.service)
        return await stream(request, watcher, self._still(request))

    async def checkpoints(self, request: Request) -> Response:
        """``GET /jobs/ID/checkpoints``"""
        access = await self._access(request)
        number = request.path_params["job"]
        return JSONResponse(await run_in_threadpool(access.service.checkpoints, number))

    async def whole_log(self, request: Request) -> Response:
        """``GET /jobs/ID/logs/NAME/whole``: all of it that there is, as a file."""
        access = await self._access(request)
        number, name = request.path_params["job"], request.path_params["name"]
        first = await run_in_threadpool(access.service.log, number, name, 0, _PIECE)

        async def pieces() -> AsyncIterator[bytes]:
            part = first
            end = first.size  # What is written meanwhile could have it never end.
            while part.data:
                yield part.data
                at = part.start + len(part.data)
                if at >= end:
                    return
                part = await run_in_threadpool(access.service.log, number, name, at, _PIECE)

        headers = {"Content-Disposition": "attachment"}
        return StreamingResponse(pieces(), media_type="text/plain; charset=utf-8", headers=headers)

    async def search_log(self, request: Request) -> Response:
        """``GET /jobs/ID/logs/NAME/search?text=...&from=BYTE&limit=1&back=0&aligned=1``

        Answers where the nearest lines with the text begin and end, and between which bytes it has
        looked: not at all of a long log, so that who asks continues.
        """
        access = await self._access(request)
        at = number_of(request, "from", 0, _LARGEST, 0)
        most = number_of(request, "limit", 1, _MOST_FOUND, 1)
        back = number_of(request, "back", 0, 1, 0)
        aligned = bool(number_of(request, "aligned", 0, 1, 1))
        number, name = request.path_params["job"], request.path_params["name"]
        text = request.query_params.get("text", "")

        def look() -> FoundLines:
            search = access.service.log_search(number, name, text)
            return search.before(at, most) if back else search.after(at, most, aligned)

        found = await run_in_threadpool(look)
        looked = {"from": found.start, "to": found.end, "size": found.size}
        return JSONResponse({"lines": found.lines, **looked})

    async def _access(self, request: Request) -> Access:
        return await run_in_threadpool(self._admit, request, "read")

    def _still(self, request: Request) -> Callable[[], bool]:
        def still() -> bool:
            try:
                self._admit(request, "read")
            except Exception:  # whatever it is, the page learns it when it connects again
                return False
            return True

        return still
