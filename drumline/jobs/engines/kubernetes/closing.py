"""The end of a start in the cluster: its pods may go when their logs are here.

What a watch says may be old: its connection may have been cut, and those of the logs with it. So
the cluster is asked once more before anything is removed, and a log is followed to its end, or it
is said why that could not be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from drumline.jobs.engines.kubernetes.api import ApiRefusal, KubernetesError
from drumline.jobs.engines.kubernetes.connection import ConnectionSettingsError
from drumline.jobs.engines.kubernetes.ends import PodView
from drumline.jobs.engines.kubernetes.logs import PodLog, torn_logs
from drumline.jobs.engines.kubernetes.watching import ObjectWatch

QUIET_SECONDS = 120.0
"""How long nothing may come of a log that has not ended: longer than a dead connection is kept."""

HURRIED_SECONDS = 10.0
"""The same while other pods of the start run still, and are to be ended."""

_MOST_SECONDS = 3600.0
_LIST_SECONDS = 5.0
_PERIOD_SECONDS = 0.1
_RETRY_SECONDS = 2.0
_MOST_NAMED = 5
_FORBIDDEN = 403


class StartClosing:
    """What has to be here of a start before its objects are removed.

    Args:
        watches: of Jobs and of pods.
        views: gives its pods that are known, of each process the newest one.
        follow: begins to read the logs of pods that have begun.
        logs: gives those that are read, by the names of pods.
        say: is given why the cluster cannot be asked; an empty text when it can again.
    """

    def __init__(
        self,
        watches: Sequence[ObjectWatch],
        views: Callable[[], list[PodView]],
        follow: Callable[[Sequence[PodView]], None],
        logs: Callable[[], Mapping[str, PodLog]],
        say: Callable[[str], None],
    ) -> None:
        self._watches = watches
        self._views = views
        self._follow = follow
        self._logs = logs
        self._say = say

    def catch_up(self) -> None:
        """Know what the cluster has now, however long it does not answer."""
        while True:
            try:
                for watch in self._watches:
                    watch.catch_up()
                break
            except (KubernetesError, ConnectionSettingsError) as error:
                if isinstance(error, ApiRefusal) and error.code == _FORBIDDEN:
                    break  # Who may not ask any more can have it end all the same.
                self._say(str(error))
            time.sleep(_RETRY_SECONDS)
        self._follow(self._views())
        self._say("")

    def fetch_logs(self) -> None:
        """Read the logs of all pods that have ended to their ends, or until nothing more comes.

        While the cluster does not answer that is no reason to give up.
        """
        began = heard = listed = time.monotonic()
        known = -1
        while pending := self._pending():
            now = time.monotonic()
            if now - listed > _LIST_SECONDS:
                self.catch_up()
                listed = time.monotonic()
                heard += listed - now
            lines = sum(log.lines for log in pending)
            if lines != known:
                known, heard = lines, time.monotonic()
            quiet = HURRIED_SECONDS if self._alive() else QUIET_SECONDS
            if time.monotonic() - heard > quiet or time.monotonic() - began > _MOST_SECONDS:
                return
            time.sleep(_PERIOD_SECONDS)

    def await_gone(self, seconds: float) -> None:
        """Wait until there is no pod of it any more."""
        until = time.monotonic() + seconds
        listed = time.monotonic()
        while any(view.present for view in self._views()) and time.monotonic() < until:
            if time.monotonic() - listed > _LIST_SECONDS:
                self.catch_up()
                listed = time.monotonic()
            time.sleep(_PERIOD_SECONDS)

    def _alive(self) -> set[str]:
        return {view.name for view in self._views() if view.present and not view.ended}

    def _pending(self) -> list[PodLog]:
        alive = self._alive()
        return [log for name, log in self._logs().items() if name not in alive and not log.done]


def torn_notes(folder: Path) -> list[str]:
    """Sentences that say of which logs the ends may be missing, and why.

    Args:
        folder: with the logs of a start that has ended.
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in torn_logs(folder).items():
        by_reason.setdefault(reason, []).append(name)
    said = []
    for reason, names in by_reason.items():
        listed = ", ".join(names[:_MOST_NAMED])
        others = len(names) - _MOST_NAMED
        listed += f" and {others} others" if others > 0 else ""
        logs = "log" if len(names) == 1 else "logs"
        said.append(f"the end of the {logs} of {listed} could not be fetched: {reason}")
    return said
