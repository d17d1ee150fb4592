"""The error of a process whose peer has gone."""

from __future__ import annotations

import re

import jax

_SIGNS = re.compile(
    r"[A-Z_]+: .*(?i:gloo|nccl|drumline_all_reduce|coordination ?service"
    r"|stopped sending heartbeats)",
    re.DOTALL,
)


class PeerLostError(RuntimeError):
    """A collective failed because another process of the group ended, stopped or fell silent.

    The group cannot go on: end this process, and restart all from the last checkpoint.

    Attributes:
        peer: the task to blame, as ``"worker:1"``, or None if it could not be found out.
        what: what happened to the peer, as a sentence without its subject.
        step: the step that failed, if known.
    """

    def __init__(
        self,
        message: str,
        *,
        peer: str | None = None,
        what: str = "is lost",
        step: int | None = None,
    ) -> None:
        super().__init__(message)
        self.peer = peer
        self.what = what
        self.step = step


def is_about_a_peer(error: BaseException) -> bool:
    """Whether JAX's runtime says that a collective or the coordination of processes failed.

    A collective that fails as it is called, not as it is waited for, comes as a ``ValueError``.
    """
    from_runtime = isinstance(error, (jax.errors.JaxRuntimeError, ValueError))
    return from_runtime and bool(_SIGNS.match(str(error)))
