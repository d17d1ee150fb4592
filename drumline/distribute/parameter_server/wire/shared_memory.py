"""Whether two processes share a machine, and the memory they then share."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.distribute.parameter_server.wire.arena import Arena
from drumline.distribute.parameter_server.wire.buffers import aligned_empty
from drumline.distribute.parameter_server.wire.codec import Place, Spec
from drumline.distribute.parameter_server.wire.errors import ProtocolError
from drumline.distribute.parameter_server.wire.mapped_arena import MappedArena
from drumline.distribute.parameter_server.wire.message import Form
from drumline.distribute.sealed_memory import is_wanted, machine

_log = logging.getLogger("drumline")


class SharedMemory:
    """The memory of one connection, as one of its sides sees it.

    It is set up while the connection is: each side describes its own (`offer`), tries to open the
    other's (`accept`), and says whether it could (`confirm`). Without it, all arrays travel.

    Raises:
        ValueError: if the environment's ``DRUMLINE_SHARED_MEMORY`` is neither 0 nor 1.
    """

    def __init__(self) -> None:
        self._own: Arena | None = None
        self._theirs: MappedArena | None = None
        self._confirmed = False
        self._told = False
        if is_wanted():
            try:
                self._own = Arena()
            except OSError as error:
                self._tell(f"there is none: {error}")

    def offer(self) -> dict[str, Any] | None:
        """What the other side needs to know, for JSON."""
        if self._own is None:
            return None
        place = {"process": os.getpid(), "descriptor": self._own.descriptor}
        memory = {"nbytes": self._own.nbytes, "nonce": self._own.nonce}
        return {"machine": machine(), **place, **memory}

    def accept(self, offered: object) -> bool:
        """Open the other side's memory. Returns whether that worked."""
        match offered:
            case {
                "machine": str(theirs),
                "process": int(process),
                "descriptor": int(descriptor),
                "nbytes": int(nbytes),
                "nonce": str(nonce),
            } if theirs == machine() and is_wanted():
                try:
                    self._theirs = MappedArena(process, descriptor, nbytes, nonce)
                except (OSError, ValueError) as error:
                    self._tell(f"the other process's cannot be opened: {error}")
        return self._theirs is not None

    def confirm(self, accepted: object) -> None:
        """Whether the other side could open this side's memory."""
        self._confirmed = accepted is True
        if not self._confirmed:
            self.close()

    def put(self, arrays: Sequence[np.ndarray]) -> list[Place | None]:
        """Send the arrays of a message: the place of each, or None if it has to travel."""
        own = self._own  # which another thread may close
        if own is None or not self._confirmed:
            return [None] * len(arrays)
        places = own.put(arrays)
        for array, place in zip(arrays, places, strict=True):
            if place is None:
                self._tell(f"an array of {array.nbytes} bytes found no room")
        return places

    def arrays(self, specs: Sequence[Spec]) -> list[np.ndarray]:
        """The arrays of a message that the other side put into its memory.

        Raises:
            ProtocolError: if it did not.
        """
        if self._theirs is None:
            raise ProtocolError("this connection has no shared memory")
        return self._theirs.arrays(specs)

    def empties(self, forms: Sequence[Form]) -> list[np.ndarray]:
        """Arrays to be filled and sent in one message, without a copy where there is room."""
        own = self._own
        made = own.empties(forms) if own is not None and self._confirmed else None
        return [aligned_empty(*form) for form in forms] if made is None else made

    def shared(self, shape: Sequence[int], dtype: Any) -> np.ndarray | None:
        """One array to be filled and sent without a copy, or None if there is no room."""
        own = self._own
        if own is None or not self._confirmed:
            return None
        made = own.empties([(tuple(map(int, shape)), np.dtype(dtype))])
        return None if made is None else made[0]

    def trim(self) -> None:
        """Give memory back that was not used for a while."""
        own = self._own
        if own is not None:
            own.trim()

    def close(self) -> None:
        """Use it no more."""
        own, self._own = self._own, None
        if own is not None:
            own.close()

    def _tell(self, what: str) -> None:
        if not self._told:
            self._told = True
            _log.warning("Arrays go by the network instead of shared memory: %s", what)
