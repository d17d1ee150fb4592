"""Looking at a workspace for all pages that follow it: each thing once, however many look on."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumline.jobs.logs.reading import LogBytes
from drumline.jobs.service import documents
from drumline.jobs.service.workspace_service import NoSuchJobError, WorkspaceService
from drumline.jobs.sources.secrets import Masking
from drumline.jobs.store.database import ENDED, StoreUnavailable

if TYPE_CHECKING:
    from drumline.jobs.metrics.series import MetricSeries

_PERIOD_SECONDS = 0.1
_SAMPLES_SECONDS = 2.0
_SHARE_OF_TIME = 0.2
_KEPT_CHANGES = 2000

LogKey = tuple[int, str]
"""The number of a job, and the name of one of its logs."""


@dataclasses.dataclass
class WatchedJob:
    """A job that at least one page shows.

    Attributes:
        document: see `WorkspaceService.job`; None if there is no such job.
        changes: how often the document has changed.
        events: the events so far.
        series: its metrics.
        measured: how often these have been read.
        logs: the first parts of its logs by their names.
    """

    document: dict[str, Any] | None = None
    changes: int = 0
    events: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    series: dict[str, MetricSeries] = dataclasses.field(default_factory=dict)
    measured: int = 0
    logs: dict[str, Path] = dataclasses.field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether it has; its logs grow no more."""
        return self.document is None or self.document["state"] in ENDED


class Listing:
    """Which jobs of a workspace have changed, in the order in which that was seen.

    Attributes:
        number: of the last change.
        counts: how many jobs there are in each state.
    """

    def __init__(self, service: WorkspaceService) -> None:
        self.number = service.store.revision()
        self.counts: dict[str, int] = {}
        self._service = service
        self._changes: deque[tuple[int, dict[str, Any]]] = deque(maxlen=_KEPT_CHANGES)

    def look(self) -> None:
        """Find what has changed since the last look."""
        mask = Masking(self._service.home)
        while rows := self._service.store.changed(self.number):
            for row in rows:
                self._changes.append((row.changed, documents.listed_job(row, mask)))
            self.number = rows[-1].changed
        self.counts = self._service.store.counts()

    def since(self, number: int) -> list[dict[str, Any]]:
        """The jobs that have changed after a change, each as it was last."""
        latest = {row["id"]: row for at, row in self._changes if at > number}
        return list(latest.values())


class Watcher:
    """Looks at a workspace while pages follow it, and wakes those for which there is news.

    One thread at a time looks, so that a slow disk stops no page.

    Args:
        service: the workspace.
        period: seconds between two looks at the logs and the list.

    Attributes:
        listing: the list.
        jobs: those that pages follow, by their numbers.
        sizes: the bytes of the logs that they follow.
        ended: no page shall follow it any more.
    """

    def __init__(self, service: WorkspaceService, period: float = _PERIOD_SECONDS) -> None:
        self.service = service
        self.listing = Listing(service)
        self.jobs: dict[int, WatchedJob] = {}
        self.sizes: dict[LogKey, int] = {}
        self.ended = False
        self._period = period
        self._pages: dict[object, tuple[asyncio.Event, int | None, LogKey | None, bool]] = {}
        self._looking = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._version: object = None
        self._sampled = 0.0

    @contextlib.asynccontextmanager
    async def page(
        self, job: int | None, log: LogKey | None, listed: bool
    ) -> AsyncIterator[asyncio.Event]:
        """While this is entered, a page follows a job, a log, or the list.

        Returns:
            The event that is set when there is news for it.
        """
        news, key = asyncio.Event(), object()
        news.set()
        self._pages[key] = (news, job, log, listed)
        try:
            await self._look()
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._run())
            yield news
        finally:
            del self._pages[key]

    def end(self) -> None:
        """Have all pages end; called in the thread of their loop."""
        self.ended = True
        for news, _, _, _ in self._pages.values():
            news.set()

    async def _run(self) -> None:
        while self._pages:
            began = time.monotonic()
            await asyncio.sleep(self._period)
            await self._look()
            # A long list takes long to look at, and then is looked at less often.
            took = time.monotonic() - began - self._period
            await asyncio.sleep(max(0.0, took / _SHARE_OF_TIME - took - self._period))

    async def _look(self) -> None:
        async with self._looking:
            pages = list(self._pages.values())
            jobs = {job for _, job, _, _ in pages if job is not None}
            logs = {log for _, _, log, _ in pages if log is not None}
            before = self.sizes
            try:
                changed = await asyncio.to_thread(self._find, jobs | {job for job, _ in logs}, logs)
            except StoreUnavailable:  # Pages wait until it is back.
                return
            grown = {log for log in self.sizes if self.sizes[log] != before.get(log)}
        for news, job, log, listed in list(self._pages.values()):
            if (listed and None in changed) or job in changed or log in grown:
                news.set()

    def _find(self, jobs: Iterable[int], logs: Iterable[LogKey]) -> set[int | None]:
        """What has changed: the numbers of jobs, and None for the list."""
        changed = set[int | None]()
        version, now = self.service.store.version(), time.monotonic()
        wanted, sample = set(jobs), now - self._sampled >= _SAMPLES_SECONDS
        for number in self.jobs.keys() - wanted:
            del self.jobs[number]
        if version != self._version:
            self.listing.look()
            changed.add(None)
        if sample:
            self._sampled = now
        for number in wanted:
            if version != self._version or sample or number not in self.jobs:
                first = number not in self.jobs
                watched = self.jobs.setdefault(number, WatchedJob())
                if self._read(number, watched, first or sample):
                    changed.add(number)
        self._version = version
        sizes: dict[LogKey, int] = {}
        for number, name in logs:
            path = self.jobs[number].logs.get(name)
            if path is not None:
                sizes[number, name] = LogBytes(path).size()
        self.sizes = sizes
        return changed

    def _read(self, number: int, watched: WatchedJob, measure: bool) -> bool:
        """Read all of a job that may have changed; whether something has."""
        try:
            document = self.service.job(number)
            after = watched.events[-1]["number"] if watched.events else 0
            events = self.service.events(number, after)["events"]
            logs = self.service.log_files(number)
        except NoSuchJobError:
            gone, watched.document = watched.document is not None, None
            return gone
        news = bool(events) or document != watched.document or logs.keys() != watched.logs.keys()
        if measure and not (watched.ended and watched.measured and not news):
            series = self.service.series(number)
            lengths = {name: len(each) for name, each in watched.series.items()}
            if lengths != {name: len(each) for name, each in series.items()}:
                watched.measured += 1
                news = True
            watched.series = series
        if news:
            watched.changes += 1
        watched.document, watched.logs = document, logs
        watched.events = [*watched.events, *events]
        return news
