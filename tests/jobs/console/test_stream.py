"""What a page is told as a workspace changes: each thing once, and on from where it was."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from drumline._event_files import SummaryFile
from drumline._event_messages import scalar_message
from drumline.jobs.console.stream import Followed, StreamError, events, parse
from drumline.jobs.console.watching import Watcher
from drumline.jobs.file.model import Job
from drumline.jobs.logs.writing import LogWriter
from drumline.jobs.service.workspace_service import WorkspaceService
from drumline.jobs.store.connection import StoreUnavailable
from tests.jobs.console.fabricated import add_log, started

JOB = Job("digits", ("python", "train.py"))


class Page:
    """What a page has received."""

    def __init__(self, stream: AsyncIterator[str]) -> None:
        self._stream = stream
        self.seen: list[tuple[str, Any]] = []
        self.id = ""

    async def until(self, kind: str, **wanted: Any) -> Any:
        """The next event of a kind with these values; those before it are kept in `seen`."""
        async with asyncio.timeout(120):
            async for text in self._stream:
                fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
                if "event" not in fields:
                    continue
                value = json.loads(fields["data"])
                self.id = fields["id"]
                self.seen.append((fields["event"], value))
                if fields["event"] == kind and wanted.items() <= value.items():
                    return value
        raise AssertionError("the stream has ended")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[WorkspaceService]:
    (tmp_path / "jobs").mkdir()
    made = WorkspaceService(tmp_path)
    yield made
    made.close()


def run(following: Coroutine[Any, Any, None]) -> None:
    """Run in a thread: that of the tests has a loop of its own, once a browser was started."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, following).result()


def log_of(page: Page) -> str:
    return "".join(value["text"] for kind, value in page.seen if kind == "log")


def test_what_is_asked() -> None:
    query = {"jobs": "1", "job": "7", "events": "12", "log": "7/worker:0.start-2@1234"}
    assert parse(query) == Followed(True, 7, (7, "worker:0.start-2"), 12, 1234)
    assert parse(query, "15/2000") == Followed(True, 7, (7, "worker:0.start-2"), 15, 2000)
    assert parse({"job": "7"}, "15/-") == Followed(False, 7, None, 15, 0)
    assert parse({}, "no id of ours") == Followed()
    for bad in ({"job": "x"}, {"events": "-1"}, {"log": "7/worker:0"}, {"log": "7/a/b@1"}):
        with pytest.raises(StreamError, match="must be"):
            parse(bad)


def test_a_log_as_it_is_written(service: WorkspaceService) -> None:
    number = started(service.store, JOB)
    path = add_log(service.home, number, "worker-0", b"first\n")

    async def follow() -> None:
        watcher = Watcher(service, 0.02)
        page = Page(events(watcher, Followed(job=number, log=(number, "worker:0"))))
        assert (await page.until("log"))["text"] == "first\n"
        for i in range(20):
            with open(path, "a") as file:
                file.write(f"line {i}\n")
            found = await page.until("log", to=path.stat().st_size)
            assert found["from"] <= found["to"] == found["size"]
        assert log_of(page) == path.read_text()
        # One that comes again goes on where it was.
        with open(path, "a") as file:
            file.write("while it was away\n")
        again = Page(events(watcher, parse({"log": f"{number}/worker:0@0"}, page.id)))
        assert (await again.until("log"))["text"] == "while it was away\n"

    run(follow())


def test_characters_are_not_torn(service: WorkspaceService) -> None:
    number = started(service.store, JOB)
    path = add_log(service.home, number, "worker-0", b"")
    text = "Größe 漢字 😀\n"

    async def follow() -> None:
        page = Page(events(Watcher(service, 0.01), Followed(log=(number, "worker:0"))))
        for byte in text.encode():
            with open(path, "ab") as file:
                file.write(bytes([byte]))
            await asyncio.sleep(0.02)
        await page.until("log", to=len(text.encode()))
        assert log_of(page) == text

    run(follow())


def test_a_log_of_another_start_is_read_from_its_beginning(service: WorkspaceService) -> None:
    number = started(service.store, JOB)
    path = add_log(service.home, number, "worker-0", b"a long line of the first start\n")

    async def follow() -> None:
        page = Page(events(Watcher(service, 0.02), Followed(log=(number, "worker:0"))))
        await page.until("log")
        path.write_bytes(b"second\n")
        found = await page.until("log")
        assert (found["text"], found["from"], found["size"]) == ("second\n", 0, 7)

    run(follow())


def test_a_log_in_parts_and_one_too_fast_to_be_read(service: WorkspaceService) -> None:
    number = started(service.store, JOB)
    path = add_log(service.home, number, "worker-0", b"")
    writer = LogWriter(path, 8 << 20)

    async def follow() -> None:
        page = Page(events(Watcher(service, 0.02), Followed(log=(number, "worker:0"))))
        writer.write(b"begins\n")
        await page.until("log")
        burst = b"".join(b"%07d\n" % i for i in range(400_000))
        end, skipped = len(b"begins\n"), False
        for _ in range(20):
            if skipped:
                break  # Unless the stream looked in the middle of a burst.
            await asyncio.to_thread(writer.write, burst)
            found = await page.until("log")
            # Its end alone; the page can ask for what is between.
            skipped = found["from"] > end + (2 << 20)
            while found["to"] < found["size"]:
                found = await page.until("log")
            end = found["to"]
        assert skipped
        assert log_of(page).endswith("0399999\n")
        assert len(log_of(page)) < end - (2 << 20)

    run(follow())


def test_values_of_secrets_are_masked(service: WorkspaceService) -> None:
    service.set_secret("TOKEN", "correct-horse-battery")
    number = started(service.store, JOB)
    content = b"token is correct-horse-battery\n" * 3 + b"and more\n"
    add_log(service.home, number, "worker-0", content)

    async def follow() -> None:
        page = Page(events(Watcher(service, 0.02), Followed(log=(number, "worker:0"))))
        while "and more" not in log_of(page):
            await page.until("log")
        assert "horse" not in log_of(page)
        assert log_of(page).count("token is *") == 3

    run(follow())


def test_the_list_as_it_changes(service: WorkspaceService) -> None:
    number = started(service.store, JOB)

    async def follow() -> None:
        page = Page(events(Watcher(service, 0.02), Followed(listed=True)))
        first = await page.until("jobs")
        # The page asks for the list itself; here is what changes from now on.
        assert first == {"jobs": [], "counts": {"running": 1}}
        fresh = started(service.store, JOB)
        while not (rows := (await page.until("jobs"))["jobs"]) or rows[-1]["state"] != "running":
            pass
        assert {row["id"] for row in rows} == {fresh}
        with service.store.change():
            service.store.set_state(number, "failed", "worker:0 ended with exit code 1")
        change = await page.until("jobs")
        assert [(row["id"], row["state"]) for row in change["jobs"]] == [(number, "failed")]
        assert change["counts"] == {"running": 1, "failed": 1}

    run(follow())


def test_pages_wait_for_a_database_that_is_away(
    service: WorkspaceService, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    def away() -> tuple[int, int]:
        nonlocal asked
        asked += 1
        raise StoreUnavailable("it is away.")

    async def follow() -> None:
        watcher = Watcher(service, period=0.02)
        first = Page(events(watcher, Followed(listed=True)))
        await first.until("jobs", jobs=[])
        with monkeypatch.context() as patched:
            patched.setattr(service.store, "version", away)
            # One that comes meanwhile has nothing yet.
            later = Page(events(watcher, Followed(job=1)))
            coming = asyncio.ensure_future(later.until("job", name="digits"))
            async with asyncio.timeout(60):
                while asked < 3:
                    await asyncio.sleep(0.01)
        started(service.store, JOB)
        assert (await first.until("jobs"))["jobs"][0]["name"] == "digits"
        await coming

    run(follow())


def test_one_job_with_its_events_and_curves(service: WorkspaceService) -> None:
    number = started(service.store, JOB)
    add_log(service.home, number, "worker-0", b"")
    file = SummaryFile(service.home / "jobs" / str(number) / "work" / "logs", 1)
    file.add(scalar_message("loss", 2.0), 0)

    async def follow() -> None:
        watcher = Watcher(service, 0.02)
        page = Page(events(watcher, Followed(job=number)))
        assert (await page.until("job"))["state"] == "running"
        assert [each["kind"] for each in (await page.until("events"))["events"]] == [
            *("submitted", "starting", "running"),
        ]
        first = (await page.until("metrics"))["series"]["logs/loss"]
        assert (first["value"], first["replace"]) == ([2.0], True)
        file.add(scalar_message("loss", 1.5), 1)
        file.add(scalar_message("loss", 1.25), 2)
        added = (await page.until("metrics"))["series"]["logs/loss"]
        assert "replace" not in added
        values = first["value"] + added["value"]
        while len(values) < 3:
            values += (await page.until("metrics"))["series"]["logs/loss"]["value"]
        assert values == [2.0, 1.5, 1.25]
        with service.store.change():
            service.store.set_state(number, "succeeded")
        assert (await page.until("job", state="succeeded"))["ended"] is not None

    run(follow())
    file.close()


def test_who_may_not_stay_is_sent_away(service: WorkspaceService) -> None:
    may = [True]

    async def follow() -> None:
        watcher = Watcher(service, 0.02)
        stream = events(watcher, Followed(listed=True), lambda: may[0])
        page = Page(stream)
        await page.until("jobs")
        may[0] = False
        with pytest.raises(AssertionError, match="has ended"):
            await page.until("jobs", never=1)
        other = Page(events(watcher, Followed(listed=True)))
        await other.until("jobs")
        watcher.end()
        with pytest.raises(AssertionError, match="has ended"):
            await other.until("jobs", never=1)

    run(follow())


def test_many_pages_look_once(service: WorkspaceService, monkeypatch: pytest.MonkeyPatch) -> None:
    number = started(service.store, JOB)
    path = add_log(service.home, number, "worker-0", b"")
    looks = [0]
    find = Watcher._find

    def counted(self: Watcher, *asked: Any) -> Any:
        looks[0] += 1
        return find(self, *asked)

    monkeypatch.setattr(Watcher, "_find", counted)

    async def follow() -> None:
        watcher = Watcher(service, 0.05)
        followed = [Followed(log=(number, "worker:0")) for _ in range(100)]
        pages = [Page(events(watcher, each)) for each in followed]
        waiting = [asyncio.create_task(page.until("log", to=6)) for page in pages]
        await asyncio.sleep(0.5)
        before = looks[0]
        path.write_bytes(b"line1\n")
        await asyncio.gather(*waiting)
        assert looks[0] - before < 50

    run(follow())
    assert os.path.getsize(path) == 6
