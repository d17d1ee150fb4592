"""A server in a thread of the tests, and requests to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import uvicorn


class Answer:
    """What a server has answered."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {key.lower(): value for key, value in response.getheaders()}
        self.data = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class Client:
    """Asks a server, in one connection for each request."""

    def __init__(self, port: int, prefix: str = "", headers: Mapping[str, str] = {}) -> None:
        self.port, self.prefix, self.headers = port, prefix, dict(headers)

    def __call__(
        self,
        method: str,
        path: str,
        document: Any = None,
        data: bytes | None = None,
        headers: Mapping[str, str] = {},
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            body = json.dumps(document).encode() if document is not None else data
            connection.request(method, self.prefix + path, body, {**self.headers, **headers})
            return Answer(connection.getresponse())
        finally:
            connection.close()


@contextlib.contextmanager
def serving(app: Any) -> Iterator[int]:
    """Serve an application in a thread; yields its port."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1024)
        config = uvicorn.Config(app, log_level="warning", lifespan="off", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()
