"""The Flight service of a `TransportServer`."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pyarrow.flight as fl

from drumline._forks import keep_in_child
from drumline.distribute.parameter_server.transport.dropping import drop_connections
from drumline.distribute.parameter_server.transport.errors import (
    AuthenticationError,
    ProtocolError,
)
from drumline.distribute.parameter_server.transport.flight import (
    KEY_HEADER,
    STREAM_ERRORS,
    FrameStream,
)
from drumline.distribute.parameter_server.transport.handshake import (
    receive_wishes,
    refusal,
    stream_key,
)
from drumline.distribute.parameter_server.transport.tls import ServerTls
from drumline.distribute.parameter_server.transport.token import same

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.transport.server import TransportServer

_SECONDS_AFTER_DROPPING = 1.0


class FlightService(fl.FlightServerBase):
    """Hands the streams of clients that know the token to a `TransportServer`."""

    def __init__(
        self, server: TransportServer, address: str, token: str, tls: ServerTls | None
    ) -> None:
        self._server = server
        self._token = token
        scheme, options = ("grpc", {}) if tls is None else ("grpc+tls", _tls_options(tls))
        super().__init__(
            f"{scheme}://{address}", middleware={"drumline": _Doorkeeper(token)}, **options
        )
        keep_in_child(self)
        _let_the_process_end(self)

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Serve a stream until it ends; called by Flight in a thread of its own."""
        stream = FrameStream(writer, reader)
        try:
            wishes = receive_wishes(stream, self._token)
            self._server.serve_stream(stream, wishes, str(context.peer()))
        except AuthenticationError as error:
            raise fl.FlightUnauthenticatedError(str(error)) from None
        except ProtocolError as error:
            raise fl.FlightServerError(f"broken protocol: {error}") from None
        except STREAM_ERRORS as error:
            raise fl.FlightServerError(f"broken stream: {error}") from None
        finally:
            stream.finish()


class _Doorkeeper(fl.ServerMiddlewareFactory):
    """Turns away whoever does not know the token before anything else of theirs is read."""

    def __init__(self, token: str) -> None:
        self._key = stream_key(token)
        self._refusal = refusal(token)

    def start_call(self, info: Any, headers: Any) -> None:
        shown = headers.get(KEY_HEADER) or [""]
        if not same(self._key, shown[0]):
            raise fl.FlightUnauthenticatedError(self._refusal)


def _tls_options(tls: ServerTls) -> dict[str, Any]:
    options: dict[str, Any] = {
        "tls_certificates": [(tls.certificate.read_bytes(), tls.key.read_bytes())]
    }
    if tls.client_authorities is not None:
        options["verify_client"] = True
        options["root_certificates"] = tls.client_authorities.read_bytes()
    return options


def end_service(service: FlightService, seconds: float) -> bool:
    """Stop listening, and end all streams. Returns whether they ended.

    Clients have `seconds` to leave, then their connections are dropped. What remains are handlers
    that go on. Their streams are left behind, and the service too: freeing it would wait for them.
    """
    thread = threading.Thread(target=service.shutdown, name="drumline-shutdown", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        drop_connections(int(service.port))
        thread.join(_SECONDS_AFTER_DROPPING)
    if thread.is_alive():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(service))
    return not thread.is_alive()


def _let_the_process_end(service: FlightService) -> None:
    """pyarrow waits for all streams when the process ends; `registry` sees to it better.

    The list of what is done then is private to Python; without it, pyarrow waits.
    """
    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        watched = finalizer.peek()
        if watched is not None and watched[0] is service:
            finalizer.atexit = False
