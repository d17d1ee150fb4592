"""What no request may do, whoever asks: come under a foreign name, or from another site."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

# Nothing from other hosts, no script or style within a page, and no text that becomes HTML.
CONTENT_SECURITY_POLICY = "; ".join(
    [
        *("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'"),
        *("connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
        *("require-trusted-types-for 'script'", "trusted-types 'none'"),
    ]
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]/@]+)(?::(\d{1,5}))?")
_READING = ("GET", "HEAD")


def refusal(method: str, headers: Headers, hosts: Collection[str]) -> tuple[int, str] | None:
    """Why a request is refused, as a status of HTTP and a sentence; None if it is not.

    Args:
        method: of the request.
        headers: its headers.
        hosts: the names under which it may ask, lower case. A page of another site, whose name its
            owner lets point here, asks under that.
    """
    found = _HOST.fullmatch(headers.get("host", ""))
    if found is None or found[1].lower() not in hosts:
        return 421, "This server is not asked under that name; see --host-name."
    if method in _READING:
        return None
    site = headers.get("sec-fetch-site")
    if site not in (None, "same-origin", "none"):
        return 403, "Pages of other sites may change nothing here."
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != headers["host"].lower():
        return 403, "Pages of other sites may change nothing here."
    bearer = headers.get("authorization", "").lower().startswith("bearer ")
    if not bearer and headers.get("x-drumline") != "1":
        # No form and no simple request of another site can send it.
        return 403, "The header X-Drumline: 1 is missing."
    return None


class Guard:
    """Refuses requests (see `refusal`), and gives all answers the headers that protect a page.

    Args:
        app: what answers the others.
        hosts: see `refusal`.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] = LOOPBACK) -> None:
        self._app = app
        self._hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = refusal(scope["method"], Headers(scope=scope), self._hosts)
        if refused is None:
            await self._app(scope, receive, protected)
        else:
            status, text = refused
            await JSONResponse({"error": text}, status)(scope, receive, protected)
