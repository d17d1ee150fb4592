"""Server-sent events: all that changes on one page, in one connection.

https://html.spec.whatwg.org/multipage/server-sent-events.html

Events are `jobs` (rows of the list that have changed, and how many jobs there are in each state),
`job` (all about one), `events` (new ones of it), `logs` (their names and sizes), `log` (what was
written: its text, the bytes from and to which it is, and the size of the log) and `metrics` (new
points; with ``replace`` all of a curve). Their ids say how far a page has come, which it says
itself when it connects again.
"""

from __future__ import annotations

import asyncio
import codecs
import dataclasses
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import StreamingResponse

from drumline.jobs.console.watching import LogKey, WatchedJob, Watcher
from drumline.jobs.logs.reading import LogBytes
from drumline.jobs.service.workspace_service import MOST_POINTS

if TYPE_CHECKING:
    from drumline.jobs.metrics.series import MetricSeries

_ALIVE_SECONDS = 15.0
_ALLOWED_SECONDS = 1.0
"""Within which a page whose token is revoked receives nothing more."""

_PIECE = 256 << 10
_BEHIND = 1 << 20
_ID = re.compile(r"(\d{1,18})/(-|\d{1,18})")
_LOG = re.compile(r"(\d{1,18})/([^/@\0]{1,200})@(-?\d{1,18})")


class StreamError(ValueError):
    """What a page asks to follow is not understood; the message says why."""


@dataclasses.dataclass
class Followed:
    """What a page follows, and how far it has come.

    Attributes:
        listed: whether it shows the list of jobs.
        job: the number of the one it shows.
        log: the log it shows.
        event: the number of the last event it has.
        offset: the number of the next byte of the log.
    """

    listed: bool = False
    job: int | None = None
    log: LogKey | None = None
    event: int = 0
    offset: int = 0


def parse(query: Mapping[str, str], last_id: str | None = None) -> Followed:
    """What a page asks to follow.

    Args:
        query: of the address: ``jobs=1``, ``job=7``, ``events=12`` (the last one it has),
            ``log=7/worker:0@1234``.
        last_id: the header Last-Event-ID of a page that was connected before.

    Raises:
        StreamError: it is not understood.
    """
    followed = Followed(listed=query.get("jobs", "0") != "0")
    for key in ("job", "events"):
        text = query.get(key)
        if text is not None and not re.fullmatch(r"\d{1,18}", text):
            raise StreamError(f"{key}={text[:40]} must be a number")
        if text is not None and key == "job":
            followed.job = int(text)
        elif text is not None:
            followed.event = int(text)
    if (log := query.get("log")) is not None:
        found = _LOG.fullmatch(log)
        if found is None:
            raise StreamError(f"log={log[:80]} must be JOB/NAME@BYTES")
        followed.log, followed.offset = (int(found[1]), found[2]), int(found[3])
    if last_id is not None and (again := _ID.fullmatch(last_id)):
        followed.event = max(followed.event, int(again[1]))
        if again[2] != "-":
            followed.offset = int(again[2])
    return followed


async def stream(
    request: Request, watcher: Watcher, allowed: Callable[[], bool] = lambda: True
) -> StreamingResponse:
    """Answer with the events of what a page asks to follow.

    Args:
        request: see `parse`.
        watcher: of the workspace.
        allowed: whether the page may still be there; asked every few seconds.

    Raises:
        StreamError: it is not understood.
    """
    followed = parse(request.query_params, request.headers.get("last-event-id"))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(
        events(watcher, followed, allowed), media_type="text/event-stream", headers=headers
    )


async def events(
    watcher: Watcher, followed: Followed, allowed: Callable[[], bool] = lambda: True
) -> AsyncIterator[str]:
    """The events, as text; see the module."""
    page = _Page(watcher, followed)
    async with watcher.page(followed.job, followed.log, followed.listed) as news:
        yield "retry: 1000\n\n"
        said = asked = time.monotonic()
        while not watcher.ended:
            if time.monotonic() - asked >= _ALLOWED_SECONDS:
                if not await asyncio.to_thread(allowed):
                    return
                asked = time.monotonic()
            news.clear()
            async for kind, value in page.news():
                said = time.monotonic()
                yield f"event: {kind}\nid: {page.place}\ndata: {json.dumps(value)}\n\n"
            if time.monotonic() - said >= _ALIVE_SECONDS:
                said = time.monotonic()
                yield ": alive\n\n"
            try:
                await asyncio.wait_for(news.wait(), _ALLOWED_SECONDS)
            except TimeoutError:
                continue


class _Page:
    """One page: what it knows, and from that what is news to it."""

    def __init__(self, watcher: Watcher, followed: Followed) -> None:
        self._watcher = watcher
        self._followed = followed
        self._change = watcher.listing.number
        self._counts: dict[str, int] | None = None
        self._job: dict[str, Any] | None = None
        self._logs: dict[str, int] = {}
        self._measured = False
        self._points: dict[str, tuple[int, float, float]] = {}

    @property
    def place(self) -> str:
        """The id of an event: how far the page has come."""
        offset = "-" if self._followed.log is None else self._followed.offset
        return f"{self._followed.event}/{offset}"

    async def news(self) -> AsyncIterator[tuple[str, Any]]:
        """What the page does not know yet: kinds of events, and their values."""
        if self._followed.listed:
            listing = self._watcher.listing
            rows, self._change = listing.since(self._change), listing.number
            if rows or listing.counts != self._counts:
                self._counts = listing.counts
                yield "jobs", {"jobs": rows, "counts": listing.counts}
        watched = self._watcher.jobs.get(self._followed.job or 0)
        if self._followed.job is not None and watched is not None:
            if watched.document is not None and watched.document != self._job:
                self._job = watched.document
                yield "job", watched.document
            fresh = [each for each in watched.events if each["number"] > self._followed.event]
            if fresh:
                self._followed.event = fresh[-1]["number"]
                yield "events", {"events": fresh}
            if watched.logs.keys() != self._logs.keys():
                self._logs = dict.fromkeys(watched.logs, 0)
                sizes = await asyncio.to_thread(_sizes, watched)
                yield "logs", {"logs": sizes}
            series = self._new_points(watched.series)
            if series or not self._measured:
                self._measured = True
                yield "metrics", {"series": series}
        while (piece := await self._written()) is not None:
            yield "log", piece

    def _new_points(self, series: Mapping[str, MetricSeries]) -> dict[str, Any]:
        """What was added to curves; those that are new, or not continued, are whole."""
        whole: dict[str, MetricSeries] = {}
        added: dict[str, MetricSeries] = {}
        for name, each in series.items():
            count, step, moment = self._points.get(name, (0, 0.0, 0.0))
            if not len(each) or len(each) == count:
                continue
            continues = (
                0 < count < len(each) < count + MOST_POINTS
                and float(each.steps[count - 1]) == step
                and repr(float(each.times[count - 1])) == repr(moment)
            )
            if continues:
                added[name] = each.after(count)
            else:
                whole[name] = each
            self._points[name] = (len(each), float(each.steps[-1]), float(each.times[-1]))
        found = {name: {**table, "replace": True} for name, table in _tables(whole).items()}
        return found | _tables(added)

    async def _written(self) -> dict[str, Any] | None:
        """The next piece of the log, or None if there is none yet."""
        log = self._followed.log
        if log is None or (watched := self._watcher.jobs.get(log[0])) is None:
            return None
        path, size = watched.logs.get(log[1]), self._watcher.sizes.get(log, 0)
        if path is None or size == self._followed.offset:
            return None
        if size - self._followed.offset > _BEHIND:
            # Too much to read: its end is shown, and the page can ask for the rest.
            self._followed.offset = size - _PIECE
        part = await asyncio.to_thread(
            self._watcher.service.log_part, path, self._followed.offset, _PIECE, watched.ended
        )
        text, used = _decoded(part.data, watched.ended)
        if not used:
            return None
        self._followed.offset = part.start + used
        return {
            "name": log[1],
            "text": text,
            "from": part.start,
            "to": self._followed.offset,
            "size": part.size,
        }


def _decoded(data: bytes, ended: bool) -> tuple[str, int]:
    """The text of bytes, and how many they are without a character that is not whole yet."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(data, final=ended)
    return text, len(data) - len(decoder.getstate()[0])


def _sizes(watched: WatchedJob) -> list[dict[str, Any]]:
    return [{"name": name, "size": LogBytes(path).size()} for name, path in watched.logs.items()]


def _tables(series: Mapping[str, MetricSeries]) -> dict[str, Any]:
    """Curves by their names, those of what processes use as ``cpu/worker:0``."""
    from drumline.jobs.metrics.documents import metrics

    found = metrics(series, MOST_POINTS)
    tables: dict[str, Any] = dict(found["series"])
    for process, quantities in found["usage"].items():
        tables |= {f"{quantity}/{process}": table for quantity, table in quantities.items()}
    return tables
