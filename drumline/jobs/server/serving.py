"""Answering over HTTP with uvicorn, until it is asked to end."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

_GRACE_SECONDS = 1
"""What streams, which have no end of their own, are given at the end."""

_HEADER_SECONDS = 20.0
_MOST_CONNECTIONS = 2000


class _PatientProtocol(H11Protocol):
    """HTTP, where a client that does not say what it wants is not waited for without an end."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timer = self.loop.call_later(_HEADER_SECONDS, self._close_unless_asked)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _close_unless_asked(self) -> None:
        # Between two requests uvicorn has a limit of its own.
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()


class HttpServer(uvicorn.Server):
    """Answers requests.

    Args:
        app: what answers them.
        ending: is called when it is asked to end, before it waits for what is being answered.
        cert: a file with a certificate, for TLS.
        key: the certificate's private key.
    """

    def __init__(
        self,
        app: ASGIApp,
        ending: Callable[[], None] = lambda: None,
        cert: Path | None = None,
        key: Path | None = None,
    ) -> None:
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            http=_PatientProtocol,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            h11_max_incomplete_event_size=64 << 10,
            ssl_certfile=None if cert is None else str(cert),
            ssl_keyfile=None if key is None else str(key),
        )
        super().__init__(config)
        self._ending = ending

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`."""
        self._ending()
        await super().shutdown(sockets)


def serve(
    app: ASGIApp,
    listening: socket.socket,
    ending: Callable[[], None] = lambda: None,
    cert: Path | None = None,
    key: Path | None = None,
) -> None:
    """Answer requests on a socket that listens, until SIGINT or SIGTERM.

    Args:
        app: see `HttpServer`.
        listening: the socket.
        ending: see `HttpServer`, as the others.
        cert: see there.
        key: see there.
    """
    HttpServer(app, ending, cert, key).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        OSError: the address is not of this machine, or the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while ")[0]  # Python adds the address.
        raise OSError(
            f"port {port} of {host} cannot be used: {why}. Choose another by --port (0 is a free "
            "one), or an address of this machine by --host."
        ) from None


def tls_problem(cert: Path, key: Path) -> str:
    """Why a certificate and its key cannot be used; empty if they can."""
    for path in (cert, key):
        if not path.is_file():
            return f"there is no file {path}"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=lambda: "")
    except (ssl.SSLError, OSError) as error:
        return f"{cert} and {key} are no certificate and its key without a password: {error}"
    return ""
