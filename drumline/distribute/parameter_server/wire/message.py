"""What travels: a header that JSON can hold, and arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import numpy as np

Form = tuple[tuple[int, ...], np.dtype]
"""The shape and the dtype of an array."""


class Lane(Protocol):
    """The connection by which a request came, as a server sees it.

    Attributes:
        number: no two lanes of a server share one.
        peer: the client's address, for messages to the user.
    """

    number: int
    peer: str

    def empties(self, forms: Sequence[Form]) -> list[np.ndarray]:
        """Uninitialised, 64-byte aligned arrays of these shapes and dtypes for one reply.

        It need not copy them.
        """

    def shared(self, shape: Sequence[int], dtype: Any) -> np.ndarray | None:
        """One such array in memory that both sides see; None if there is none, or no room in it."""


@dataclasses.dataclass(slots=True)
class Message:
    """A request or a reply.

    Received arrays are 64-byte aligned and the receiver's own, except within one process: there
    they are the sender's, read-only. A sender must leave its arrays unchanged until the reply to
    them has come, or, for a reply, for good.

    Attributes:
        header: values that JSON has; tuples arrive as lists, keys as strings.
        arrays: in the order in which they were given.
        lane: by which connection a request came; None in replies.
    """

    header: dict[str, Any]
    arrays: Sequence[np.ndarray] = ()
    lane: Lane | None = None


Handler = Callable[[Message], "Message | Future[Message]"]
"""Answers a request, at once or later. It runs in the thread of its lane, so it keeps that lane
alone waiting; other lanes run other handlers, or the same, at the same time."""

Request = tuple[str, dict[str, Any], Sequence[np.ndarray]]
"""Operation, header and arrays."""

Handlers = Mapping[str, Handler]
