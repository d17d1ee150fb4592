"""What goes to one server and back in one message: pushes, rows and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline.distribute.parameter_server.wire import Form, Message

_IDS = np.dtype(np.int32)  # as steps compute them


class Exchange:
    """One message to one server, being put together.

    Args:
        empties: makes arrays of shapes and dtypes that one message to that server can carry without
            a copy.

    Attributes:
        empties: as given.
    """

    def __init__(self, empties: Callable[[Sequence[Form]], list[np.ndarray]]) -> None:
        self.empties = empties
        self._push: list[dict[str, Any]] = []
        self._pushed: list[np.ndarray] = []
        self._pushed_ids: list[np.ndarray] = []
        self._gather: list[dict[str, Any]] = []
        self._gathered_ids: list[np.ndarray] = []
        self._pull: list[dict[str, Any]] = []
        self._on_rows: list[Callable[[np.ndarray], None]] = []
        self._on_value: list[Callable[[int, np.ndarray], None]] = []

    def __bool__(self) -> bool:
        return bool(self._push or self._gather or self._pull)

    def push(self, part: str, kind: str, rule: Any, value: np.ndarray) -> None:
        """Have a part updated."""
        self._push.append({"name": part, "kind": kind, "rule": rule})
        self._pushed.append(value)

    def push_rows(self, part: str, rule: Any, ids: np.ndarray, gradient: np.ndarray) -> None:
        """Have rows of a table updated."""
        self._push.append({"name": part, "kind": "rows", "rule": rule, "ids": len(ids)})
        self._pushed.append(gradient)
        self._pushed_ids.append(ids)

    def gather(self, part: str, ids: np.ndarray, take: Callable[[np.ndarray], None]) -> None:
        """Ask for rows of a table; `take` gets them."""
        self._gather.append({"name": part, "ids": len(ids)})
        self._gathered_ids.append(ids)
        self._on_rows.append(take)

    def pull(self, part: str, version: int, take: Callable[[int, np.ndarray], None]) -> None:
        """Ask for a value if it is newer than `version`; `take` gets its version and it."""
        self._pull.append({"name": part, "version": version})
        self._on_value.append(take)

    def header(self, closure: str | None) -> dict[str, Any]:
        """The message's header; `closure` is the run whose pushes it carries."""
        return {
            "closure": closure,
            "push": self._push,
            "gather": self._gather,
            "pull": self._pull,
        }

    def arrays(self) -> list[np.ndarray]:
        """The message's arrays: all ids are one, the last."""
        ids = [*self._pushed_ids, *self._gathered_ids]
        if not ids:
            return self._pushed
        (together,) = self.empties([((sum(map(len, ids)),), _IDS)])
        np.concatenate(ids, out=together, casting="same_kind")
        return [*self._pushed, together]

    def take(self, reply: Message) -> None:
        """Hand out what the server sent back."""
        arrays = iter(reply.arrays)
        for on_rows in self._on_rows:
            on_rows(next(arrays))
        answers = zip(
            self._on_value, reply.header["changed"], reply.header["versions"], strict=True
        )
        for on_value, changed, version in answers:
            if changed:
                on_value(version, next(arrays))
