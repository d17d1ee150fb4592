"""A metadata service of our own, in the place of a cloud's."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any

Answer = tuple[int, str]


class Service:
    """Answers by path; whatever is not there is 404.

    Attributes:
        answers: of each path, the status and the text.
        asked: method, path and headers of each request.
        needs: headers, with their values, without which it answers 401.
        cut: so many bytes of each answer are not sent.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.cut = 0
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.needs: dict[str, str] = {}
        self.address = ""

    def answer(self, method: str, path: str, headers: dict[str, str]) -> Answer:
        self.asked.append((method, path, headers))
        if method == "GET" and not self.needs.items() <= headers.items():
            return 401, ""
        return self.answers.get(path, (404, "not found"))


@contextlib.contextmanager
def serving() -> Iterator[Service]:
    """A service at an address of this machine's, until the end of the block."""
    found = Service()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, text = found.answer(self.command, self.path, headers)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode()[: len(text.encode()) - found.cut])

        do_PUT = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the requests are in `asked`."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    found.address = f"http://127.0.0.1:{server.server_port}"
    yield found
    server.shutdown()
    thread.join()
    server.server_close()
