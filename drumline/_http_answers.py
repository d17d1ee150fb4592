"""Bodies of HTTP answers that are whole, or an error."""

from __future__ import annotations

import http.client


def read_whole(answer: http.client.HTTPResponse, most: int, closed_ends: bool = False) -> bytes:
    """The body of an answer.

    `HTTPResponse.read` with a number gives what has come as if it were all, when the connection
    was cut before the end that the headers say: by a server that was killed while it answered.

    Args:
        answer: with its headers; nothing of its body was read.
        most: the largest number of bytes it may have.
        closed_ends: whether it may end where the connection does, without a word on its length:
            whether that was its end is not known then.

    Raises:
        HTTPException: it was cut off, or is larger.
        OSError: the connection was lost.
    """
    if answer.length is None and not answer.chunked and not closed_ends:
        # Cut within the headers, which are taken for whole as well.
        raise http.client.IncompleteRead(b"")
    data = answer.read(most + 1)
    if len(data) > most:
        raise http.client.HTTPException(f"the answer has more than {most:,} bytes")
    if answer.length:
        raise http.client.IncompleteRead(data, answer.length)
    return data
