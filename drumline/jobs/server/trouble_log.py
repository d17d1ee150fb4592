"""What a server says on its standard error of what does not work: each trouble once."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

_AGAIN_SECONDS = 60.0
_MOST_KNOWN = 1000


class TroubleLog:
    """The troubles of a server and its workspaces. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: dict[str, str] = {}
        self._failed: dict[tuple[str, str], float] = {}

    @contextlib.contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Try what is tried again later; say why it failed, and once more when it does not."""
        trouble = ""
        try:
            yield
        except Exception as error:  # as of a database that is away, or of a full disk
            trouble = str(error) or type(error).__name__
        with self._lock:
            if trouble != self._waits.get(name, ""):
                self._waits[name] = trouble
                _say(f"{name} waits: {trouble}" if trouble else f"{name} continues")

    def failed(self, name: str, text: str) -> None:
        """Say why a request failed, unless it was said within the last minute."""
        now = time.monotonic()
        with self._lock:
            last = self._failed.get((name, text))
            if self._waits.get(name) == text or (last is not None and now - last < _AGAIN_SECONDS):
                return
            if len(self._failed) >= _MOST_KNOWN:
                self._failed.clear()
            self._failed[name, text] = now
            _say(f"{name}: {text}")


def _say(text: str) -> None:
    print(time.strftime("%m-%d %H:%M:%S"), text, file=sys.stderr, flush=True)
