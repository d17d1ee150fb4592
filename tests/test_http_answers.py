"""Bodies of HTTP answers: whole, or an error, wherever their connection is cut."""

from __future__ import annotations

import http.client
import io

import pytest

from drumline._http_answers import read_whole

BODY = b'{"id": 12}'
SIZED = b"HTTP/1.1 201 Created\r\nContent-Length: 10\r\nServer: x\r\n\r\n" + BODY
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n" + BODY[:4]
    + b"\r\n6\r\n" + BODY[4:] + b"\r\n0\r\n\r\n"
)  # fmt: skip


class _Socket:
    """All that comes of a connection before its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def read(data: bytes, most: int = 100, closed_ends: bool = False) -> bytes:
    answer = http.client.HTTPResponse(_Socket(data))  # type: ignore[arg-type]
    answer.begin()
    return read_whole(answer, most, closed_ends)


@pytest.mark.parametrize("whole", [SIZED, CHUNKED], ids=["sized", "chunked"])
def test_an_answer_cut_at_each_byte(whole: bytes) -> None:
    assert read(whole) == BODY
    # The empty line behind the last chunk says nothing that is missing.
    for size in range(len(whole.rstrip(b"\r\n"))):
        with pytest.raises(http.client.HTTPException):
            read(whole[:size])


def test_an_answer_that_ends_with_its_connection() -> None:
    open_ended = b"HTTP/1.0 200 OK\r\n\r\n" + BODY
    assert read(open_ended, closed_ends=True) == BODY
    with pytest.raises(http.client.IncompleteRead):
        read(open_ended)
    for size in range(SIZED.index(BODY), len(SIZED)):
        with pytest.raises(http.client.IncompleteRead):
            read(SIZED[:size], closed_ends=True)


@pytest.mark.parametrize("whole", [SIZED, CHUNKED], ids=["sized", "chunked"])
def test_an_answer_that_is_too_large(whole: bytes) -> None:
    assert read(whole, most=len(BODY)) == BODY
    with pytest.raises(http.client.HTTPException, match="more than 9 bytes"):
        read(whole, most=len(BODY) - 1)


def test_an_answer_without_a_body() -> None:
    assert read(b"HTTP/1.1 204 No Content\r\n\r\n") == b""
    assert read(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") == b""
