"""The objects of one kind as the cluster has them, listed once and watched from there.

https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from drumline.jobs.engines.kubernetes.api import (
    ApiRefusal,
    KubernetesApi,
    KubernetesError,
    NoAnswer,
    is_temporary,
)

WATCH_SECONDS = 60
"""How long one watch lasts before the next one continues it: a dead connection is known by then."""

_PAGE = 500
_SHORTEST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.2, 5.0


class ObjectWatch:
    """What is known of the objects of one kind, kept up by a thread.

    Args:
        api: the cluster.
        kind: as ``"Pod"``.
        selector: of labels.

    Attributes:
        listed: when the list was made from which the rest follows, in `time.monotonic` seconds;
            None before.
        problem: why the cluster says nothing now, or the empty string.
        problem_since: since when, in `time.monotonic` seconds.
        refused: whether it has said no.
    """

    def __init__(self, api: KubernetesApi, kind: str, selector: str) -> None:
        self.listed: float | None = None
        self.problem = ""
        self.problem_since = time.monotonic()
        self.refused = False
        self._api = api
        self._path = api.place(kind)
        self._selector = selector
        self._objects: dict[str, dict[str, Any]] = {}
        self._gone: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._listing = threading.Lock()
        self._version = ""
        self._lists = 0
        self._thread = threading.Thread(target=self._run, name=f"watch-{kind}", daemon=True)

    def start(self) -> None:
        """Begin to list and to watch."""
        self._thread.start()

    def close(self) -> None:
        """Watch no more."""
        self._closed.set()

    def catch_up(self) -> None:
        """List, unless that was begun after this call: what is known is of now, or newer.

        Raises:
            KubernetesError: the cluster does not answer, or refuses to.
        """
        called = time.monotonic()
        with self._listing:
            if self.listed is None or self.listed < called:
                self._list()

    def objects(self, label: str, value: str) -> dict[str, dict[str, Any]]:
        """Those with a label, by name; also those that were deleted, as they were last seen."""
        with self._lock:
            known = {**self._gone, **self._objects}
        return {
            name: each
            for name, each in known.items()
            if (each["metadata"].get("labels") or {}).get(label) == value
        }

    def exists(self, name: str) -> bool:
        """Whether there is an object, and it was not deleted."""
        with self._lock:
            return name in self._objects

    def forget(self, label: str, value: str) -> None:
        """Forget those that were deleted, with a label."""
        with self._lock:
            self._gone = {
                name: each
                for name, each in self._gone.items()
                if (each["metadata"].get("labels") or {}).get(label) != value
            }

    def _run(self) -> None:
        wait = _SHORTEST_WAIT_SECONDS
        while not self._closed.is_set():
            try:
                with self._listing:
                    if not self._version:
                        self._list()
                self._watch()
                wait = _SHORTEST_WAIT_SECONDS
            except KubernetesError as error:
                if isinstance(error, ApiRefusal) and error.code == 410:
                    self._version = ""  # It is forgotten what has happened since: list again.
                    self._closed.wait(_SHORTEST_WAIT_SECONDS)
                    continue
                if not self.problem:
                    self.problem_since = time.monotonic()
                self.problem = str(error)
                self.refused = isinstance(error, ApiRefusal) and not is_temporary(error)
                self._closed.wait(wait)
                wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    def _list(self) -> None:
        query = {"labelSelector": self._selector, "limit": str(_PAGE)}
        began = time.monotonic()
        found: dict[str, dict[str, Any]] = {}
        try:
            while True:
                page = self._api.request("GET", self._path, query)
                found |= {str(each["metadata"]["name"]): each for each in page.get("items") or []}
                metadata = page["metadata"]
                if not metadata.get("continue"):
                    break
                query["continue"] = str(metadata["continue"])
            version = str(metadata["resourceVersion"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NoAnswer(f"the cluster says what Kubernetes would not: {error!r}") from None
        with self._lock:
            self._gone |= {n: each for n, each in self._objects.items() if n not in found}
            self._objects = found
            self._version = version
            self._lists += 1
        self.listed = began
        self.problem = ""

    def _watch(self) -> None:
        with self._lock:
            version, lists = self._version, self._lists
        query = {
            "watch": "true",
            "labelSelector": self._selector,
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        for line in self._api.lines(self._path, query, WATCH_SECONDS + 15):
            self.problem = ""
            try:
                if not self._heed(json.loads(line), lists):
                    return
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise NoAnswer(f"the cluster says what is no event: {error!r}") from None
            if self._closed.is_set():
                return

    def _heed(self, event: Mapping[str, Any], lists: int) -> bool:
        """Take what has happened; False if it may be older than a list that was made since."""
        what, each = event["type"], event["object"]
        if what == "ERROR":
            raise ApiRefusal(
                int(each.get("code", 0)), str(each.get("reason", "")), str(each.get("message", ""))
            )
        with self._lock:
            if lists != self._lists:
                return False
            name = str(each["metadata"].get("name", ""))
            if what == "DELETED":
                self._objects.pop(name, None)
                self._gone[name] = each
            elif what in ("ADDED", "MODIFIED"):
                self._objects[name] = each
                self._gone.pop(name, None)
            self._version = str(each["metadata"]["resourceVersion"])
            return True
