"""Parts of the list of jobs, searches, counts and changes, also of 100,000 jobs."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from drumline.jobs.file.model import Job
from drumline.jobs.store.database import ENDED, OPEN, JobRow, Store, SubmittedBeforeError
from drumline.jobs.store.tables import MIGRATIONS


def add(store: Store, name: str, by: str = "", state: str = "queued") -> int:
    job = Job(name, ("true",))
    number = store.submit(job, by)
    store.queue(number, job)
    if state != "queued":
        with store.change():
            store.set_state(number, state)
    return number


def found(store: Store, **wanted: object) -> list[int]:
    rows, _ = store.page(**wanted)  # type: ignore[arg-type]
    return [row.id for row in rows]


def test_parts_of_the_list_follow_each_other(home: Path) -> None:
    store = Store(home)
    for number in range(1, 24):
        add(store, f"job-{number}", state=random.Random(number).choice([*OPEN, *ENDED]))
    store.submit(Job("unseen", ("true",)))
    numbers, before, more = [], None, True
    while more:
        rows, more = store.page(before=before, limit=5)
        assert len(rows) == (5 if more else 3)
        before = rows[-1].id
        numbers += [row.id for row in rows]
    assert numbers == list(range(23, 0, -1))
    assert store.page(before=1) == ([], False) == store.page(before=-(10**30))
    assert found(store, limit=23, before=10**30) == numbers and not store.page(limit=23)[1]


def test_searches_against_all_that_is_there(home: Path) -> None:
    store = Store(home)
    draw = random.Random(3)
    names = ["digits", "faces-12", "digits_2", "a%b", "failing"]
    members = ["", "ada", "Grace.H", "Øyvind", "fail"]
    for _ in range(60):
        add(store, draw.choice(names), draw.choice(members), draw.choice([*OPEN, *ENDED]))
    rows = [store.job(number) for number in range(1, 61)]

    def expected(state: str, search: str, by: str) -> list[int]:
        def fits(row: JobRow | None) -> bool:
            assert row is not None
            each = all(
                row.state.startswith(word)
                or word in row.job.name.lower()
                or word in row.by.lower()
                or word == str(row.id)
                for word in search.lower().split()
            )
            states = {"": (*OPEN, *ENDED), "open": OPEN, "ended": ENDED}.get(state, (state,))
            return each and row.state in states and by in ("", row.by)

        return [row.id for row in reversed(rows) if row is not None and fits(row)]

    searches = ["", "digits", "DIGITS ada", "12", "fail", "queued fail", "%", "_", "\\", "a%b",
                "grace.h", "øyv", "ØYV", "run dig", "x", "7", "digits_", "' or 1=1 --"]  # fmt: skip
    for state in ["", "open", "ended", *OPEN, *ENDED]:
        for search in searches:
            for by in ("", "ada", "Øyvind", "ad", "%"):
                assert found(store, state=state, search=search, by=by) == expected(
                    state, search, by
                ), (state, search, by)
    assert found(store, search="øyv") != [] != found(store, search="failed faces")


@pytest.mark.parametrize("search", ["\0", "a\0b", "\ud800", "a" * 100_000, "9" * 50, "٣", "²"])
def test_what_is_in_no_name_finds_nothing(home: Path, search: str) -> None:
    store = Store(home)
    add(store, "digits", "ada")
    assert store.page(search=search) == ([], False) == store.page(by=search)


def test_a_state_there_is_not_and_no_jobs_are_refused(home: Path) -> None:
    store = Store(home)
    with pytest.raises(ValueError, match="no state 'done'; they are: queued, .*, open, ended"):
        store.page(state="done")
    with pytest.raises(ValueError, match="no state 'submitting'"):
        store.page(state="submitting")
    with pytest.raises(ValueError, match="at least one job is listed, not 0"):
        store.page(limit=0)


def test_counts(home: Path) -> None:
    store = Store(home)
    for state in ("queued", "running", "running", "failed"):
        add(store, "digits", "ada" if state != "failed" else "bob", state)
    store.submit(Job("unseen", ("true",)), "ada")
    assert store.counts() == {"queued": 1, "running": 2, "failed": 1}
    assert store.counts(by="ada") == {"queued": 1, "running": 2}
    assert store.counts(by="eve") == {}


def test_each_change_is_seen_once_and_in_its_order(home: Path) -> None:
    store, other = Store(home), Store(home)
    numbers = [add(store, f"job-{number}") for number in range(4)]
    assert [row.id for row in other.changed(0)] == numbers
    since = other.revision()
    assert other.changed(since) == [] == other.changed(10**30)
    changes: list[tuple[int, Callable[[int], object]]] = [
        (numbers[2], lambda n: store.set_reason(n, "waits")),
        (numbers[0], lambda n: store.add_attempt(n, 1, "handle")),
        (numbers[1], lambda n: store.set_stop(n, "cancel")),
        (numbers[0], lambda n: store.end_attempt(n, 1, 0, "")),
        (numbers[3], lambda n: store.add_event(n, "data", "text")),
        (numbers[1], lambda n: store.set_state(n, "cancelled")),
        (numbers[2], lambda n: store.requeue(n, "queued", "again", 1)),
        (numbers[0], lambda n: store.drop_attempt(n, 1)),
    ]
    for number, change in changes:
        with store.change():
            change(number)
        rows = other.changed(since)
        assert [row.id for row in rows] == [number], change
        assert rows[0].changed == other.revision() > since
        since = other.revision()
    with store.change():
        for number in numbers:  # All in one change, and yet they can be read in parts.
            store.set_reason(number, "all")
    first = other.changed(since, limit=3)
    assert [row.id for row in first + other.changed(first[-1].changed)] == numbers
    with store.change():
        pass
    before = other.revision()

    def fail() -> None:
        with store.change():
            store.set_reason(numbers[0], "not written")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert other.revision() == before == store.revision()
    with pytest.raises(RuntimeError, match="within Store.change"):
        store.set_reason(numbers[0], "outside")


def test_a_job_knows_who_and_when(home: Path) -> None:
    store = Store(home)
    number = add(store, "digits", "ada")
    row = store.job(number)
    assert row is not None and (row.by, row.started) == ("ada", None)
    for attempt in (1, 2):
        with store.change():
            store.add_attempt(number, attempt, f"{number}/{attempt}")
    row = store.job(number)
    assert row is not None and row.started == store.attempts(number)[0].started
    for attempt in (1, 2):
        with store.change():
            store.drop_attempt(number, attempt)
    row = store.job(number)
    assert row is not None and row.started is None


def test_a_request_is_submitted_once(home: Path) -> None:
    store = Store(home)
    number = store.submit(Job("digits", ("true",)), "ada", "request-1")
    with pytest.raises(SubmittedBeforeError, match="job 1") as caught:
        store.submit(Job("digits", ("true",)), "ada", "request-1")
    assert caught.value.number == number == store.by_request("request-1")
    assert store.by_request("request-2") is None
    store.drop(number)
    assert store.submit(Job("digits", ("true",)), "ada", "request-1") == 2
    store.submit(Job("digits", ("true",)))
    assert store.sweep() == [2] and store.sweep() == []
    assert store.job(3) is not None, "a command may be submitting it now"


def test_events_after_a_number(home: Path) -> None:
    store = Store(home)
    numbers = [add(store, "digits"), add(store, "faces")]
    for text in "abc":
        for number in numbers:
            with store.change():
                store.add_event(number, "data", text)
    events = store.events(numbers[0])
    assert [event.text for event in events] == ["1 worker (1 cpu)", "a", "b", "c"]
    assert store.events(numbers[0], after=events[1].number) == events[2:]
    assert store.events(numbers[0], after=events[0].number, limit=2) == events[1:3]
    assert store.events(numbers[0], after=10**30) == []


def test_texts_that_no_database_takes_are_written_as_they_can_be(home: Path) -> None:
    store = Store(home)
    number = add(store, "digits")
    with store.change():
        store.set_state(number, "failed", "nul \0 and half \ud800")
    row = store.job(number)
    assert row is not None and row.reason == "nul \ufffd and half ?"
    assert store.events(number)[-1].text == row.reason
    assert store.latest("\ud800") is None and store.job(10**30) is None


def test_a_list_of_the_first_version_is_read_and_continued(tmp_path: Path) -> None:
    script = (Path(__file__).parent / "version_1.sql").read_text()
    old = sqlite3.connect(tmp_path / "jobs.sqlite")
    old.executescript(script)
    old.close()
    store = Store(tmp_path)
    rows = {row.id: row for row in store.jobs()}
    assert [(row.id, row.state, row.by) for row in rows.values()] == [
        (5, "queued", ""), (4, "starting", ""), (2, "cancelled", ""), (1, "succeeded", "")
    ]  # fmt: skip
    assert rows[1].job.roles["workers"].memory == 16 * 2**30 and rows[1].restarts == 1
    assert rows[1].started == store.attempts(1)[0].started == 1795784898.3224213
    assert rows[2].started is None and rows[2].job.env["A"] == "ü" and rows[4].stop == "preempt"
    assert [event.kind for event in store.events(1)] == [
        "submitted", "starting", "running", "restart", "starting", "succeeded"
    ]  # fmt: skip
    assert found(store, search="dig") == [4, 1] and found(store, search="queued") == [5]
    assert store.counts() == {"queued": 1, "starting": 1, "succeeded": 1, "cancelled": 1}
    assert [row.id for row in store.changed(0)] == [1, 2, 4, 5]
    assert store.submit(rows[1].job, "ada") == 7 and store.sweep() == [7]
    before = store.revision()
    with store.change():
        store.set_reason(5, "still waits")
    assert [row.id for row in store.changed(before)] == [5]
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    tables = "select sql from sqlite_master where sql is not null order by name"
    assert Store(fresh)._db.execute(tables) == store._db.execute(tables)
    assert store._db.execute("pragma user_version")[0]["user_version"] == len(MIGRATIONS)


def filled(home: Path, jobs: int) -> Store:
    """A list of so many jobs, the last 200 of them open."""
    store = Store(home)
    draw = random.Random(5)
    spec = Job("digits", ("true",)).to_json()
    rows = [
        (f"digits-{number}", spec, draw.choice(ENDED if number <= jobs - 200 else OPEN), 5, 1e9,
         f"m{number % 7}", f"digits-{number} m{number % 7}", number)
        for number in range(1, jobs + 1)
    ]  # fmt: skip
    with store._db.change():
        store._db.db.executemany(
            "insert into jobs(name, spec, state, priority, submitted, member, words, changed) "
            "values(?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        store._db.execute("update revision set number=?", (jobs,))
    return store


def test_no_question_reads_all_of_a_long_list(tmp_path: Path) -> None:
    store = filled(tmp_path, 100_000)
    asked: list[str] = []
    store._db.db.set_trace_callback(asked.append)
    questions: dict[str, Callable[[], object]] = {
        "page": lambda: store.page(),
        "page of a state": lambda: store.page("failed", before=70_000),
        "changed": lambda: store.changed(99_950),
        "latest": lambda: store.latest("digits-50"),
        "job": lambda: store.job(50_000),
        "attempts": lambda: store.attempts(50_000),
        "events": lambda: store.events(50_000),
        "open jobs": store.open_jobs,
        "open attempts": store.open_attempts,
        "request": lambda: store.by_request("none"),
        "sweep": store.sweep,
        # These read an index of it, in which there is no text of a job's file.
        "search": lambda: store.page(search="nothing"),
        "member": lambda: store.page(by="m3"),
        "counts": store.counts,
        "counts of a member": lambda: store.counts("m3"),
    }
    for name, question in questions.items():
        asked.clear()
        question()
        statements = [each for each in asked if each.split()[0] in ("select", "delete")]
        assert statements, name
        for statement in statements:
            steps = store._db.execute(f"explain query plan {statement}")
            for step in (str(each["detail"]) for each in steps):
                if step.startswith(("SCAN jobs", "SCAN attempts", "SCAN events")):
                    assert name.startswith("counts") and "COVERING INDEX" in step, (name, step)
                if "TEMP B-TREE" in step:
                    assert name.startswith("open"), (name, step)
                if "INDEX jobs_listed" in step and name in ("search", "member", "page"):
                    assert "COVERING" in step, (name, step)
    assert len(store.page()[0]) == 100 and len(store.open_jobs()) == 200
    assert found(store, search="digits-5000 m2") == [50_003, 5_000]
    assert found(store, search="12345") == [12_345]
    assert sum(store.counts().values()) == 100_000
    assert len(found(store, by="m3", limit=20_000)) == sum(store.counts("m3").values()) == 14_286
