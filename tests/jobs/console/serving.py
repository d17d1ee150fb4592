"""The console of a workspace, answering on loopback while a test asks it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drumline.jobs.console.app import OwnWorkspace, console_app
from drumline.jobs.server.serving import HttpServer

TOKEN = "a-token-of-tests-0123456789"
NAME = "research"


class Console:
    """A console that answers.

    Attributes:
        home: the workspace's folder.
        port: on 127.0.0.1.
        service: the workspace.
    """

    def __init__(self, home: Path, base: Path, port: int = 0) -> None:
        home.mkdir(parents=True, exist_ok=True)
        (home / "jobs").mkdir(exist_ok=True)
        self.home = home
        self.service = OwnWorkspace(home, base)
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(64)
        self.port = listening.getsockname()[1]
        app = console_app(self.service, NAME, TOKEN)
        self._server = HttpServer(app, app.state.end)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]})
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of its page."""
        return f"http://127.0.0.1:{self.port}"

    def end(self) -> None:
        """Stop answering."""
        self._server.should_exit = True
        self._thread.join()
        self.service.close()

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: Any = None,
        token: str | None = TOKEN,
        **headers: str,
    ) -> tuple[int, dict[str, str], bytes]:
        """Ask for a path: the status, the headers in lower case, and the body."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            given["Authorization"] = f"Bearer {token}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            raw = None if body is None else json.dumps(body)
            connection.request(method, path, raw, given)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, names, answer.read()

    def api(self, path: str) -> Any:
        """The JSON of a route of the workspace."""
        status, _, body = self.ask(f"/api/v1/workspaces/{NAME}{path}")
        assert status == 200, body
        return json.loads(body)


@contextlib.contextmanager
def console(home: Path, base: Path, port: int = 0) -> Iterator[Console]:
    """A console that answers until the block ends."""
    made = Console(home, base, port)
    try:
        yield made
    finally:
        made.end()
