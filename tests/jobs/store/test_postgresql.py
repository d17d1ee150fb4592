"""A list of jobs in PostgreSQL: errors, lost connections, one supervisor, and moving there."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from drumline.jobs.commands.jobs import workspace_app
from drumline.jobs.file.model import Job
from drumline.jobs.store import moving
from drumline.jobs.store import postgresql as module
from drumline.jobs.store.connection import SqliteConnection
from drumline.jobs.store.database import Store, StoreError, StoreLostError, StoreUnavailable
from drumline.jobs.store.moving import use_database
from drumline.jobs.store.postgresql import PostgresConnection
from drumline.jobs.store.tables import MIGRATIONS
from drumline.jobs.store.workspace import (
    WorkspaceError,
    database_url,
    supervisor_lock,
    write_database_url,
)
from tests.jobs.store.cluster import PASSWORD, USER, PostgresCluster

JOB = Job("digits", ("true",))


@pytest.fixture
def url(postgresql: PostgresCluster) -> str:
    return postgresql.database()


@pytest.fixture
def store(tmp_path: Path, url: str) -> Iterator[Store]:
    write_database_url(tmp_path, url)
    store = Store(tmp_path)
    yield store
    store.close()


def connection(store: Store) -> PostgresConnection:
    assert isinstance(store._db, PostgresConnection)
    return store._db


def queued(store: Store) -> int:
    store.queue(number := store.submit(JOB), JOB)
    return number


def refused(tmp_path: Path, url: str) -> StoreError:
    write_database_url(tmp_path, url)
    with pytest.raises(StoreError) as caught:
        Store(tmp_path)
    return caught.value


def test_what_is_wrong_is_named_and_a_password_is_not(
    tmp_path: Path, postgresql: PostgresCluster, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, name = f"127.0.0.1:{postgresql.port}", url.partition("@/")[2].partition("?")[0]
    right = f"postgresql://{USER}:{quote(PASSWORD)}@{place}/{name}"
    PostgresConnection(right, "drumline_password", MIGRATIONS, "the list of jobs").close()
    wrong = "tops3cret"
    error = refused(tmp_path, f"postgresql://{USER}:{wrong}@{place}/postgres")
    assert isinstance(error, StoreUnavailable) and "password authentication failed" in str(error)
    assert f"postgresql://{USER}@{place}/postgres" in str(error)
    error = refused(tmp_path, right.replace(f"/{name}", "/nowhere"))
    assert "nowhere" in str(error)
    away = refused(tmp_path, f"postgresql://{USER}:{wrong}@127.0.0.1:1/postgres")
    assert isinstance(away, StoreUnavailable) and "refused" in str(away)
    for unreadable in (f"postgresql://u:{wrong}@h:port x/", f"postgresql://u:{wrong}%zz@h/",
                       f"postgresql://u:{wrong}@h/d?nothing={wrong}"):  # fmt: skip
        assert "cannot be read" in str(refused(tmp_path, unreadable))
    assert "postgresql://USER@HOST" in str(refused(tmp_path, f"mysql://u:{wrong}@h/d"))
    for url in (f"postgresql://u:{wrong}@h:port x/", f"postgresql://{USER}:{wrong}@{place}/d"):
        said: BaseException | None = refused(tmp_path, url)
        while said is not None:
            assert wrong not in f"{said} {said.args}"
            said = said.__cause__
    (tmp_path / "database.json").write_text('{"uri": 3')
    with pytest.raises(WorkspaceError, match=r"database.json.*cannot be read.*postgresql://"):
        Store(tmp_path)
    for name in [each for each in sys.modules if each.partition(".")[0] == "psycopg"]:
        monkeypatch.setitem(sys.modules, name, None)
    write_database_url(tmp_path, right)
    with pytest.raises(StoreError, match=r"drumline\[postgres\]"):
        Store(tmp_path)


def test_a_user_without_rights_and_a_standby(
    tmp_path: Path, store: Store, postgresql: PostgresCluster, url: str
) -> None:
    number = queued(store)
    name = url.partition("@/")[2].partition("?")[0]
    postgresql.psql(f"alter database {name} set default_transaction_read_only = on")
    postgresql.cut()
    assert store.job(number) is not None
    with pytest.raises(StoreUnavailable, match="it is read-only, as a standby is"):
        store.submit(JOB)
    postgresql.psql(f"alter database {name} reset default_transaction_read_only")
    postgresql.cut()
    assert store.submit(JOB) == number + 1
    postgresql.psql(f"alter database {name} owner to postgres")
    other = tmp_path / "other"
    other.mkdir()
    assert "permission denied" in str(refused(other, url))


def test_a_newer_schema_is_refused_also_when_it_comes_later(store: Store) -> None:
    number = queued(store)
    store._db.execute("update schema_version set version = 99")
    with pytest.raises(StoreError, match="newer drumline"):
        store.submit(JOB)
    with pytest.raises(StoreError, match=r"newer drumline \(its version is 99, known are up to"):
        Store(store.home)
    store._db.execute("update schema_version set version = ?", (len(MIGRATIONS),))
    assert queued(store) == number + 1


def test_a_step_that_fails_fails_the_whole_change(store: Store) -> None:
    number = queued(store)

    def change() -> None:
        with store.change():
            store.set_state(number, "failed", "because")
            with contextlib.suppress(StoreError):
                store.add_event(99, "event", "of no job")

    def late() -> None:
        with store.change(), contextlib.suppress(StoreError):
            store._db.execute("select 1/0")

    with pytest.raises(StoreError, match="is aborted"):
        change()
    with pytest.raises(StoreError, match="was not made: one step of it failed"):
        late()
    row = store.job(number)
    assert row is not None and row.state == "queued"


def test_workspaces_share_a_database(tmp_path: Path, url: str) -> None:
    stores = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        write_database_url(tmp_path / name, url)
        stores.append(Store(tmp_path / name))
        stores[-1].submit(JOB, "ada")
    stores[0].queue(1, Job("faces", ("true",)))
    assert [[row.job.name for row in store.jobs()] for store in stores] == [["faces"], []]
    assert stores[1].submit(JOB) == 2 == stores[0].submit(JOB)
    for store in stores:
        store.lead()
    assert stores[0].sweep() == [] and stores[1].sweep() == [1]


def test_a_change_keeps_those_of_others_waiting(store: Store) -> None:
    other = Store(store.home)
    with store.change():
        connection(other)._db.execute("set lock_timeout = '100ms'")
        with pytest.raises(StoreUnavailable, match="cannot be used now: .*lock timeout"):
            other.submit(JOB)
        assert other.jobs() == [], "to look it need not wait"
        connection(other)._db.execute("set lock_timeout = '60s'")
    assert queued(other) == 1 == len(store.jobs())
    other.close()


class Broken:
    """A connection of psycopg that is cut before or after a statement, once."""

    def __init__(self, store: Store, cut: Callable[[], None], when: str, step: int) -> None:
        self.within, self.cut, self.when, self.left = connection(store), cut, when, step
        self.real = self.within._db
        self.statements = 0
        self.within._db = self

    def execute(self, statement: str, *values: Any, **options: Any) -> Any:
        self.statements += 1
        self.left -= 1
        if self.left == 0 and self.when == "before":
            self.cut()
        done = self.real.execute(statement, *values, **options)
        if self.left == 0 and self.when == "after":
            self.real.close()
            raise self.within._psycopg.OperationalError("the connection is cut")
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_submission_is_made_once_wherever_the_connection_is_cut(
    store: Store, postgresql: PostgresCluster, when: str
) -> None:
    count = Broken(store, postgresql.cut, when, 0)
    queued(store)
    steps = count.statements
    assert steps >= 11
    for step in range(1, steps + 1):
        broken = Broken(store, postgresql.cut, when, step)
        number = store.submit(JOB)
        store.queue(number, JOB)
        assert broken.left <= 0, "it was not cut"
        assert number == step + 1
        assert [event.kind for event in store.events(number)] == ["submitted"]
        assert [row.id for row in store.changed(0, 100)] == list(range(1, step + 2))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_change_of_several_steps_is_whole_or_refused_as_not_made(
    store: Store, postgresql: PostgresCluster, when: str
) -> None:
    number = queued(store)

    def change() -> None:
        with store.change():
            store.add_attempt(number, len(store.attempts(number)) + 1, "handle")
            store.set_state(number, "running")

    count = Broken(store, postgresql.cut, when, 0)
    change()
    steps = count.statements
    outcomes = []
    for step in range(1, steps + 1):
        before = len(store.attempts(number)), len(store.events(number)), store.revision()
        Broken(store, postgresql.cut, when, step)
        try:
            change()
            outcomes.append("made")
        except StoreLostError:
            outcomes.append("refused")
        after = len(store.attempts(number)), len(store.events(number)), store.revision()
        made = (before[0] + 1, before[1] + 1, before[2] + 2)
        assert after == (made if outcomes[-1] == "made" else before)
    # Before its beginning it is begun again; of its commit, the server knows what became.
    middle = ["refused"] * (steps - 2)
    assert outcomes == ["made", *middle, "refused" if when == "before" else "made"]


def test_a_loss_that_is_passed_over_within_a_change_refuses_all_of_it(
    store: Store, postgresql: PostgresCluster
) -> None:
    number = queued(store)

    def change() -> None:
        with store.change():
            postgresql.cut()
            with contextlib.suppress(StoreLostError):
                store.set_reason(number, "first")
            store.set_reason(number, "second")

    with pytest.raises(StoreLostError, match="of which nothing was written"):
        change()
    row = store.job(number)
    assert row is not None and row.reason == ""


def test_a_commit_of_which_nothing_is_known_says_so(
    store: Store, postgresql: PostgresCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 0.2)
    number = queued(store)
    broken = Broken(store, postgresql.cut, "after", 0)

    def change() -> None:
        with store.change():
            store.set_reason(number, "a reason")
            broken.left = 2  # The revision, and then the commit.
            broken.cut = lambda: None
            monkeypatch.setattr(connection(store), "_connect", away)

    def away() -> None:
        raise StoreUnavailable("the server is away.")

    with pytest.raises(StoreUnavailable, match=r"not known whether it was made") as caught:
        change()
    assert not isinstance(caught.value, StoreLostError), "it must not be tried again"
    with pytest.raises(StoreUnavailable, match="away"):
        store.job(number)
    monkeypatch.undo()
    row = store.job(number)
    assert row is not None and row.reason == "a reason"


def test_a_killed_server_is_waited_for_and_what_was_written_is_there(
    store: Store, postgresql: PostgresCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 0.2)
    number = queued(store)
    version = store.version()
    postgresql.kill()
    try:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            store.jobs()
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            store.submit(JOB)
    finally:
        postgresql.start()
    assert [row.id for row in store.jobs()] == [number] == [row.id for row in store.open_jobs()]
    assert store.version() != version, "what was read before is read again"
    assert queued(store) == number + 1


def test_one_supervises(store: Store, postgresql: PostgresCluster) -> None:
    other = Store(store.home)
    store.lead()
    with pytest.raises(StoreUnavailable, match="another supervisor has the list of jobs in"):
        other.lead()
    number = queued(other)
    postgresql.cut()
    with store.change():  # A new connection leads, too.
        store.set_reason(number, "leads")
    with pytest.raises(StoreUnavailable, match="another supervisor"):
        other.lead()
    connection(store)._db.close()
    other.lead()
    connection(store)._parts["connect_timeout"] = "2"

    def change() -> None:
        with store.change():
            store.set_reason(number, "does not lead any more")

    with pytest.raises(StoreUnavailable, match="another supervisor"):
        change()
    row = other.job(number)
    assert row is not None and row.reason == "leads"
    other.close()
    change()


def old_list(home: Path) -> None:
    database = sqlite3.connect(home / "jobs.sqlite")
    database.executescript((Path(__file__).parent / "version_1.sql").read_text())
    database.close()


def everything(store: Store) -> object:
    numbers = range(1, 10)
    return [
        (store.job(n), store.attempts(n), store.events(n), store.revision()) for n in numbers
    ]  # fmt: skip


def test_a_list_is_moved_with_all_that_is_in_it(tmp_path: Path, url: str) -> None:
    old_list(tmp_path)
    opened = Store(tmp_path)
    before = everything(opened)
    lock = supervisor_lock(tmp_path)
    assert lock is not None
    with pytest.raises(StoreError, match="a supervisor has the list"):
        use_database(tmp_path, url)
    os.close(lock)
    use_database(tmp_path, url)
    assert database_url(tmp_path) == url and not (tmp_path / "jobs.sqlite").exists()
    assert (tmp_path / "database.json").stat().st_mode & 0o777 == 0o600
    with pytest.raises(StoreError, match="moved to PostgreSQL; try again"):
        opened.submit(JOB)
    moved = Store(tmp_path)
    assert everything(moved) == before
    assert moved.submit(JOB) == 7, (
        "numbers go on, also that of the job that was dropped is not used"
    )
    event = max(event.number for n in range(1, 7) for event in moved.events(n))
    moved.queue(7, JOB)
    assert [each.number for each in moved.events(7)] == [event + 1]
    use_database(tmp_path, url)
    with pytest.raises(StoreError, match="another database already"):
        use_database(tmp_path, f"{url}&application_name=x")


def test_a_move_that_was_killed_is_continued_and_one_onto_jobs_refused(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_list(tmp_path)
    before = everything(Store(tmp_path))

    def killed(home: Path, url: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(moving, "write_database_url", killed)
    with pytest.raises(KeyboardInterrupt):
        use_database(tmp_path, url)
    assert everything(Store(tmp_path)) == before, "it is where it was"
    monkeypatch.undo()
    use_database(tmp_path, url)
    assert everything(Store(tmp_path)) == before
    # A copy of the folder, from before, of which the schema has more jobs by now.
    queued(Store(tmp_path))
    (tmp_path / "database.json").unlink()
    old_list(tmp_path)
    with pytest.raises(StoreError, match="has rows of its own already"):
        use_database(tmp_path, url)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    use_database(fresh, url)
    assert queued(Store(fresh)) == 1 and not (fresh / "jobs.sqlite").exists()


def test_the_command_says_where_it_is_and_moves_it(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRUMLINE_HOME", str(tmp_path))
    old_list(tmp_path)
    run = CliRunner().invoke
    said = run(workspace_app, ["database"])
    assert said.stdout == f"The list of jobs in {tmp_path}/jobs.sqlite.\n", said.output
    said = run(workspace_app, ["database", url])
    place = f"postgresql://{USER}@{url.partition('host=')[2].replace('&port=', ':')}"
    assert said.stdout.startswith(f"The list of jobs in {place}/jobs_"), said.output
    assert run(workspace_app, ["database"]).stdout == said.stdout
    refused = run(workspace_app, ["database", "mysql://u:secret@h/d"])
    assert refused.exit_code == 2 and "secret" not in refused.output


def test_no_question_reads_all_of_a_long_list(store: Store) -> None:
    jobs, most = 20_000, 19_900
    spec = JOB.to_json()
    rows = (
        {"id": n, "name": f"digits-{n}", "spec": spec, "priority": 5, "submitted": 1e9,
         "state": "succeeded" if n % 3 and n < most else "failed" if n < most else "queued",
         "member": f"m{n % 7}", "words": f"digits-{n} m{n % 7}", "changed": n}
        for n in range(1, jobs + 1)
    )  # fmt: skip
    with connection(store).change():
        connection(store).copy("jobs", rows)
        store._db.execute("update revision set number=?", (jobs,))
    store._db.execute("vacuum analyze jobs")
    asked = []
    execute = store._db.execute

    def seen(statement: str, values: Any = ()) -> Any:
        asked.append((statement, values))
        return execute(statement, values)

    connection(store).execute = seen  # type: ignore[method-assign]
    questions: dict[str, Callable[[], object]] = {
        "page": lambda: store.page(),
        "page of a state": lambda: store.page("failed", before=7_000),
        "changed": lambda: store.changed(19_950),
        "latest": lambda: store.latest("digits-50"),
        "job": lambda: store.job(5_000),
        "open jobs": store.open_jobs,
        "open attempts": store.open_attempts,
        "request": lambda: store.by_request("none"),
        "events": lambda: store.events(5_000),
    }
    for name, question in questions.items():
        asked.clear()
        question()
        ((statement, values),) = asked
        plan = "\n".join(
            str(row["QUERY PLAN"]) for row in execute(f"explain {statement}", values)
        )  # fmt: skip
        assert "Seq Scan on jobs" not in plan, (name, plan)
    assert [row.id for row in store.page(search="digits-1234 M2")[0]] == [12_343, 1234]
    assert sum(store.counts().values()) == jobs


def test_the_tables_are_those_of_sqlite(store: Store, tmp_path: Path) -> None:
    file = SqliteConnection(tmp_path / "x.sqlite", MIGRATIONS, "the list of jobs")
    for table in ("jobs", "attempts", "events", "revision"):
        columns = [row["name"] for row in file.execute(f"pragma table_info({table})")]
        found = store._db.execute(
            "select column_name, data_type from information_schema.columns "
            "where table_schema=? and table_name=? order by ordinal_position",
            (connection(store).schema, table),
        )
        assert [row["column_name"] for row in found] == columns
        assert {row["data_type"] for row in found} <= {"bigint", "text", "double precision"}
