"""From a request to the outcome of its handler."""

from __future__ import annotations

import traceback
from concurrent.futures import Future
from typing import Any

from drumline.distribute.parameter_server.wire.message import Handlers, Message

_LONGEST_TRACEBACK = 20_000


def answer(handlers: Handlers, op: str, request: Message) -> Message | Future[Message] | Exception:
    """What the handler of `op` returns or raises."""
    handler = handlers.get(op)
    if handler is None:
        return ValueError(f"there is no operation {op[:100]!r} here; there are {sorted(handlers)}")
    try:
        result = handler(request)
    except Exception as error:
        return error
    if isinstance(result, Message | Future):
        return result
    return TypeError(f"the handler of {op!r} returned {type(result).__name__}, not a Message")


def error_header(error: BaseException) -> dict[str, Any]:
    """An exception in words that JSON has."""
    lines = "".join(traceback.format_exception(error))
    return {
        "type": type(error).__name__,
        "message": str(error)[:_LONGEST_TRACEBACK],
        "traceback": lines[-_LONGEST_TRACEBACK:],
    }
