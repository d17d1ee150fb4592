"""What goes wrong, as an answer of HTTP; and bodies of requests, within limits."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from drumline.jobs.engines.registry import EngineError
from drumline.jobs.file.values import JobFileError
from drumline.jobs.service.documents import problems
from drumline.jobs.service.workspace_service import NoSuchJobError
from drumline.jobs.sources.saved import SavedError
from drumline.jobs.sources.secrets import SecretError
from drumline.jobs.store.database import StoreError
from drumline.jobs.store.workspace import WorkspaceError

LARGEST_BODY = 1 << 20
BODY_SECONDS = 30.0
"""In which the whole body of a request has to come, but that of an upload."""

Handler = Callable[[Request], Awaitable[Response]]


class HttpError(Exception):
    """A request that is refused.

    Attributes:
        status: of HTTP.
        document: what is answered.
    """

    def __init__(self, status: int, text: str, **more: Any) -> None:
        super().__init__(text)
        self.status = status
        self.document = {"error": text, **more}


def refusal(error: Exception, tell: Callable[[StoreError], str] = str) -> HttpError:
    """The answer for an error of a workspace.

    Args:
        error: what went wrong.
        tell: what is said of a database, whose place is not for everybody.

    Raises:
        Exception: the error itself, if it is none that a client can mend.
    """
    if isinstance(error, HttpError):
        return error
    if isinstance(error, JobFileError):
        found = problems(error)
        return HttpError(400, str(error), line=found[0]["line"], problems=found)
    if isinstance(error, NoSuchJobError):
        return HttpError(404, str(error))
    if isinstance(error, StoreError):
        return HttpError(503, tell(error))
    if isinstance(error, WorkspaceError):
        return HttpError(503, str(error))
    if isinstance(error, SavedError | SecretError | EngineError | ValueError):
        return HttpError(400, str(error))
    raise error


def answers(handler: Handler) -> Handler:
    """Have what is wrong with a request be answered, as ``{"error": sentence}``.

    The `state.tell` of an application, if it has one, says what is answered of a database.
    """

    @functools.wraps(handler)
    async def answering(request: Request) -> Response:
        try:
            return await handler(request)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:
            tell = getattr(request.app.state, "tell", None)
            found = refusal(error, str if tell is None else functools.partial(tell, request))
            return JSONResponse(found.document, found.status)

    return answering


async def body(request: Request, largest: int = LARGEST_BODY) -> bytes:
    """The body of a request.

    Raises:
        HttpError: it is larger, or comes too slowly.
    """
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > largest:
        raise HttpError(413, f"the request has {length} bytes, and may have {largest}")
    found = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                found += chunk
                if len(found) > largest:
                    raise HttpError(413, f"the request has more than {largest} bytes")
    except TimeoutError:
        raise HttpError(408, f"the request did not come within {BODY_SECONDS:g} s") from None
    return bytes(found)


async def json_body(request: Request) -> dict[str, Any]:
    """The body of a request, which is an object of JSON.

    Raises:
        HttpError: it is none, or `body` raises it.
    """
    raw = await body(request)
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise HttpError(400, f"the request is no JSON: {why}") from None
    if not isinstance(found, dict):
        raise HttpError(400, "the request must be an object of JSON")
    return found


def text_of(document: dict[str, Any], key: str) -> str:
    """A text of a request.

    Raises:
        HttpError: it is missing, or no text.
    """
    value = document.get(key)
    if not isinstance(value, str) or (not value.isprintable() and key != "value"):
        raise HttpError(400, f"{key!r} must be text")
    return value


def number_of(request: Request, key: str, least: int, most: int, otherwise: int) -> int:
    """A whole number of a request's query.

    Raises:
        HttpError: it is none, or out of its range.
    """
    text = request.query_params.get(key)
    if text is None:
        return otherwise
    try:
        value = int(text) if len(text) < 20 else most + 1
    except ValueError:
        raise HttpError(400, f"{key} must be a whole number, not {text[:40]!r}") from None
    if not least <= value <= most:
        raise HttpError(400, f"{key} must be from {least} to {most}, not {text[:40]}")
    return value
