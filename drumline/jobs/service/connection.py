"""A connection to a server, by the token that `drumline login` has stored."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Mapping
from typing import IO, Any

from drumline._http_answers import read_whole
from drumline.jobs.file.values import JobFileError

_RETRY_SECONDS = 10.0
_ANSWER_SECONDS = 120.0
_LARGEST_ANSWER = 256 << 20


class RequestRefusedError(RuntimeError):
    """A server has refused a request; the message says why.

    Attributes:
        status: of HTTP.
        repeated: whether it had been sent before, and its answer was lost: then it may be refused
            for what it has done itself.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.repeated = False


class NotOnServerError(RequestRefusedError, LookupError):
    """A server has no such thing."""


class _HeldConnection:
    """A connection that is closed when the thread that uses it ends, or what holds it."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.close()


class ServerConnection:
    """Sends requests. Threads may share it; each has a connection.

    A server that does not answer is asked again for 10 s, as it may be restarting: requests that
    submit something have a name, so that they do it once.

    Args:
        url: the server's, from `checked_url`.
        token: of a member.
        ca: see `Login`.
    """

    def __init__(self, url: str, token: str, ca: str = "") -> None:
        self.url = url
        self._token = token
        self._parts = urllib.parse.urlsplit(url)
        self._threads = threading.local()
        self._context: ssl.SSLContext | None = None
        if self._parts.scheme == "https":
            self._context = ssl.create_default_context()
            if ca:
                self._context.load_verify_locations(ca)

    def json(self, method: str, path: str, document: Any = None, name: str = "") -> Any:
        """The answer to a request, as JSON.

        Args:
            method: of HTTP.
            path: with its query.
            document: what is sent.
            name: of a request that submits something.

        Raises:
            RequestRefusedError: the server has refused it; of a job file `JobFileError`.
            OSError: it does not answer.
        """
        body = None if document is None else json.dumps(document).encode()
        headers = {"Content-Type": "application/json"} if body is not None else {}
        headers |= {"Idempotency-Key": name} if name else {}
        data, _ = self.ask(method, path, body, headers)
        try:
            return json.loads(data)
        except ValueError:
            raise RequestRefusedError(0, f"{self.url} has not answered with JSON") from None

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | IO[bytes] | None = None,
        headers: Mapping[str, str] = {},
    ) -> tuple[bytes, Mapping[str, str]]:
        """The answer to a request, and its headers; raises as `json` does."""
        until = time.monotonic() + _RETRY_SECONDS
        wait, repeated = 0.1, False
        while True:
            sent = False
            try:
                connection = self._connection()
                sent = True
                return self._once(connection, method, path, body, headers)
            except RequestRefusedError as error:
                error.repeated = repeated
                raise
            except (ssl.SSLCertVerificationError, ssl.SSLError) as error:
                self._drop()
                raise OSError(
                    f"{self.url} is not trusted: {getattr(error, 'verify_message', error)}. Give "
                    "its certificate by `drumline login --ca FILE`"
                ) from None
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                repeated |= sent
                if time.monotonic() + wait > until:
                    raise OSError(f"the server {self.url} does not answer: {error}") from None
                time.sleep(wait)
                wait = min(2 * wait, 2.0)

    def _once(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | IO[bytes] | None,
        headers: Mapping[str, str],
    ) -> tuple[bytes, Mapping[str, str]]:
        if body is not None and not isinstance(body, bytes):
            body.seek(0)
        sent = {**headers, "Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        try:
            connection.request(method, self._parts.path + path, body, sent)
        except (BrokenPipeError, ConnectionResetError):
            # It may have refused the rest, and have said why.
            if connection.sock is None:
                raise
        answer = connection.getresponse()
        data = read_whole(answer, _LARGEST_ANSWER)
        if answer.will_close:
            self._drop()
        if answer.status >= 400:
            raise _refusal(answer.status, data)
        return data, {key.lower(): value for key, value in answer.getheaders()}

    def _connection(self) -> http.client.HTTPConnection:
        held: _HeldConnection | None = getattr(self._threads, "held", None)
        if held is None:
            host, port = str(self._parts.hostname), self._parts.port
            connection: http.client.HTTPConnection
            if self._context is not None:
                connection = http.client.HTTPSConnection(
                    host, port, timeout=_ANSWER_SECONDS, context=self._context
                )
            else:
                connection = http.client.HTTPConnection(host, port, timeout=_ANSWER_SECONDS)
            held = _HeldConnection(connection)
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._threads.held = held
        return held.connection

    def _drop(self) -> None:
        self._threads.held = None


def _refusal(status: int, data: bytes) -> Exception:
    try:
        found = json.loads(data)
        text = str(found["error"])
    except (ValueError, KeyError, TypeError):
        return RequestRefusedError(status, f"the server has answered with status {status}")
    if found.get("problems"):
        return JobFileError([_problem(each) for each in found["problems"]])
    if status == 404:
        return NotOnServerError(status, text)
    return RequestRefusedError(status, text)


def _problem(each: Mapping[str, Any]) -> str:
    line = each.get("line")
    # What the client calls the file comes before it.
    return f":{line}: {each['text']}" if line else f": {each['text']}"
