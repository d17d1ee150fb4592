"""What the launcher refuses, and what ends it from outside."""

from __future__ import annotations

import signal


class LaunchError(Exception):
    """A job that cannot be started as asked; the message says what is wrong and the remedy."""


class Interrupted(Exception):
    """The launcher was asked to end before its processes had started.

    Attributes:
        signum: the signal that asked for it.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum
