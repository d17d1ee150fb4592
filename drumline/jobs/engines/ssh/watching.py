"""Hosts that are asked in the background what has become of starts; what they write is copied."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from drumline.jobs.engines.engine import Status
from drumline.jobs.engines.ssh.connection import HostConnection, HostError, folder_name
from drumline.jobs.engines.ssh.files import WORK, CopiedFiles

_PERIOD_SECONDS = 0.5
_RETRY_SECONDS = 2.0


@dataclasses.dataclass
class HostView:
    """What a host has said of a start.

    Attributes:
        ranks: those of its processes there.
        asked: when its last answer was asked for, in `time.monotonic` seconds.
        whole: whether all that was written by then is copied.
        statuses: of the processes, by rank; empty before the first answer.
        copies: of their files.
    """

    ranks: tuple[str, ...]
    copies: CopiedFiles
    asked: float = 0.0
    whole: bool = False
    statuses: Mapping[str, Status] = dataclasses.field(default_factory=dict)


class HostWatch:
    """Asks one host, in a thread of its own, as long as a start is wanted.

    Args:
        connection: to the host.

    Attributes:
        problem: why it does not answer; empty if it does.
        heard: when it has answered last, or was asked first, in `time.monotonic` seconds.
    """

    def __init__(self, connection: HostConnection) -> None:
        self.problem = ""
        self.heard = time.monotonic()
        self._connection = connection
        self._views: dict[str, HostView] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def view(self, handle: str, folder: Path, ranks: tuple[str, ...]) -> HostView:
        """What it has said of a start, which is asked for from now on.

        Args:
            handle: of the start.
            folder: of the start in the workspace.
            ranks: of its processes there.
        """
        with self._lock:
            if handle not in self._views:
                if not self._views:
                    self.heard = time.monotonic()
                copies = CopiedFiles(folder, folder_name(self._connection.host))
                self._views[handle] = HostView(ranks, copies)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ssh", daemon=True)
                self._thread.start()
            return self._views[handle]

    def forget(self, handle: str) -> None:
        """Ask for it no more."""
        with self._lock:
            self._views.pop(handle, None)

    def copied(self, handle: str) -> Collection[str]:
        """The files of the working copy that were copied from here."""
        view = self._views.get(handle)
        return [] if view is None else [n for n in list(view.copies.have) if n.startswith(WORK)]

    def set_others(self, others: Collection[HostWatch]) -> None:
        """Name the engine's other hosts, whose files are not written over."""
        self._others = others

    def _run(self) -> None:
        while True:
            with self._lock:
                views = dict(self._views)
                if not views:
                    self._thread = None
                    return
            more = False
            try:
                for handle, view in views.items():
                    more |= self._ask(handle, view)
                self.problem, self.heard = "", time.monotonic()
            except (HostError, OSError, ValueError) as error:
                self.problem = str(error)
                time.sleep(_RETRY_SECONDS)
            if not more:
                time.sleep(_PERIOD_SECONDS)

    def _ask(self, handle: str, view: HostView) -> bool:
        asked = time.monotonic()
        answer, data = self._connection.ask(
            "poll", handle=handle, ranks=view.ranks, have=view.copies.have
        )
        taken = {name for other in self._others for name in other.copied(handle)}
        view.copies.add(answer, data, taken)
        view.statuses = {rank: _status(found) for rank, found in answer["ranks"].items()}
        view.whole = not answer["more"]
        view.asked = asked
        return bool(answer["more"])


def _status(fields: Mapping[str, Any]) -> Status:
    return Status(**{**fields, "notes": tuple(fields["notes"])})


def stop_quietly(connection: HostConnection, handle: str, ranks: tuple[str, ...]) -> None:
    """Have processes asked to end, if the host answers; it is asked again later."""
    with contextlib.suppress(HostError):
        connection.ask("stop", handle=handle, ranks=ranks)
