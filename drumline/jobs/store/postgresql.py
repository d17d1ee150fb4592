"""A database of PostgreSQL, with what the list of jobs asks of one.

Each folder has a schema of its own, so that many share a database, and the statements are those
for SQLite. A connection that is lost is made again: what reads is repeated; a change of which
nothing was written is refused; and of one whose commit had been sent, the server is asked for
its status.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from drumline._extras import MissingExtraError, import_extra
from drumline.jobs.store.connection import (
    KeptTables,
    Row,
    StoreError,
    StoreLostError,
    StoreUnavailable,
)
from drumline.jobs.store.workspace import identity

_PATIENCE_SECONDS = 5.0
_LONGEST_COMMIT_SECONDS = 30.0
_PAUSE_SECONDS = 0.1
_MOST_TIMES = 3

# A peer that is gone is noticed within half a minute, and so is one that does not answer at all.
_DEFAULTS = {"connect_timeout": "10", "keepalives_idle": "10", "keepalives_interval": "5",
             "keepalives_count": "3", "tcp_user_timeout": "20000",
             "application_name": "drumline"}  # fmt: skip

# Who waits for another's change, and who is stopped within one, gives up after a minute.
_SETTINGS = """
set search_path to "{schema}";
set lock_timeout = '60s';
set idle_in_transaction_session_timeout = '60s';
set client_encoding = 'UTF8';
"""

_FIRST = """
create table schema_version(version integer not null, changes bigint not null);
create table numbers(name text primary key, last bigint not null);
insert into schema_version(version, changes) values(0, 0);
"""

# The words of SQLite's tables, in PostgreSQL's; SQLite's integer and real have 64 bits.
_WORDS = (
    ("integer primary key autoincrement", "bigint primary key"),
    (" integer", " bigint"),
    (" real", " double precision"),
    (") without rowid", ")"),
)

# How the server says that it cannot now: connections, resources, an operator, a lock, read-only.
_TEMPORARY = ("08", "53", "57", "55P03", "25006", "40", "58")


def open_postgresql(folder: Path, url: str, tables: KeptTables) -> PostgresConnection:
    """The tables of a folder, in a schema that is named by the folder's `identity`."""
    schema = f"{tables.schema}{identity(folder)}"
    return PostgresConnection(url, schema, tables.migrations, tables.name)


def parsed(url: str) -> dict[str, str]:
    """The parts of a database's address, as libpq names them.

    Raises:
        StoreError: it is none; the message does not repeat it, as it may hold a password. Or
            psycopg is not installed.
    """
    if not url.startswith(("postgresql://", "postgres://")):
        raise StoreError(
            "the database is given as postgresql://USER@HOST:PORT/DATABASE, or without it is SQLite"
        )
    psycopg = _psycopg()
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise StoreError(
            "the address of the database cannot be read; it is "
            "postgresql://USER@HOST:PORT/DATABASE, with %40 for @ and %20 for a space in its parts"
        ) from None
    return {key: str(value) for key, value in parts.items()}


def _psycopg() -> Any:
    purpose = "a database of PostgreSQL"
    try:
        for module in ("psycopg.conninfo", "psycopg.rows"):
            import_extra(module, "postgres", purpose)
        return import_extra("psycopg", "postgres", purpose)
    except MissingExtraError as error:
        raise StoreError(f"{error}.") from None
    except ImportError as error:  # psycopg without its extra `binary`, and without libpq
        raise StoreError(
            f"psycopg cannot be used: {error}; `drumline[postgres]` has all."
        ) from None


class PostgresConnection:
    """A schema of a database. Threads may share it: a change of one keeps the others waiting.

    Args:
        url: ``postgresql://user@host:port/database``. What it leaves out, as the password, libpq
            takes from its variables and ``~/.pgpass``.
        schema: of this name, made if it is absent.
        migrations: scripts for SQLite, each of which takes it from version n to n + 1.
        name: what is in it, in words.

    Raises:
        StoreUnavailable: the server is away, or refuses this user.
        StoreError: it was written by a newer version, the user may not make the schema, or psycopg
            is not installed.
    """

    def __init__(self, url: str, schema: str, migrations: Sequence[str], name: str) -> None:
        parts = parsed(url)
        self._psycopg = _psycopg()
        self._parts = {**_DEFAULTS, **parts}
        self._password = parts.get("password", "")
        host, port = parts.get("host", ""), parts.get("port", "")
        user = f"{parts['user']}@" if "user" in parts else ""
        where = f"{user}{host}{':' if port else ''}{port}/{parts.get('dbname', '')}"
        self.place = f"{name} in postgresql://{where}"
        self.schema = schema
        self.lock = threading.RLock()
        self._newest = len(migrations)
        self._generation = 0
        self._changing = False
        self._leads = False
        self._away_since: float | None = None
        self._db: Any = None
        self._connect()
        try:
            self._migrate(migrations)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, if there is one."""
        with self.lock:
            if self._db is not None:
                self._db.close()

    def __del__(self) -> None:
        # As a file of SQLite: who has no more use for it need not close it.
        if getattr(self, "_db", None) is not None:
            self._db.close()

    def lead(self) -> None:
        """Be the only one that supervises this schema, for as long as the connection lives.

        Each change is then made by the connection that leads, or not at all.

        Raises:
            StoreUnavailable: another one is.
        """
        with self.lock:
            try:
                for again in range(_MOST_TIMES):
                    self._connected()
                    self._leads = True
                    try:
                        self._take_lead()
                        return
                    except StoreLostError:
                        if again == _MOST_TIMES - 1:
                            raise
            except BaseException:
                self._leads = False
                raise

    def _take_lead(self) -> None:
        digest = hashlib.sha256(f"drumline supervisor of {self.schema}".encode()).digest()
        key = int.from_bytes(digest[:8], "big", signed=True)
        with self._refusals():
            row = self._db.execute("select pg_try_advisory_lock(%s) as taken", (key,)).fetchone()
        if not row["taken"]:
            raise StoreUnavailable(
                f"another supervisor has {self.place} (schema {self.schema}): one with a copy of "
                "this workspace, or one whose connection the server has not given up yet."
            )

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """A transaction that holds the write lock of the schema from its beginning.

        Raises:
            StoreLostError: the connection was lost in it, and nothing of it was written.
            StoreUnavailable: nothing of it was written, unless it says that this is not known.
        """
        with self.lock:
            if self._changing:
                raise RuntimeError("a change is made within another")
            number = self._begin()
            self._changing = True
            try:
                yield
                self._commit(number)
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._changing = False

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Execute a statement with a value for each ``?``, and return its rows.

        Raises:
            StoreError: it cannot be done.
        """
        marked = statement.replace("?", "%s")
        with self.lock:
            for again in range(_MOST_TIMES):
                db = self._connected()
                try:
                    with self._refusals():
                        cursor = db.execute(marked, tuple(values))
                        return [] if cursor.description is None else cursor.fetchall()
                except StoreLostError:
                    if self._changing or again == _MOST_TIMES - 1:
                        raise
        raise AssertionError

    def insert(self, table: str, row: Row, key: str = "id") -> int:
        """Insert a row, and return its number. Belongs into a `change`.

        Numbers are counted here and not by a sequence: those of a change that fails are used again,
        as in SQLite.
        """
        names = ", ".join((key, *row))
        values = ", ".join(["(select last from next)", *("?" * len(row))])
        rows = self.execute(
            f"with next as (insert into numbers(name, last) values('{table}', 1) "
            "on conflict (name) do update set last = numbers.last + 1 returning last) "
            f"insert into {table}({names}) values({values}) returning {key}",
            tuple(row.values()),
        )
        return int(rows[0][key])

    def copy(self, table: str, rows: Iterator[Row]) -> None:
        """Insert many rows, with their numbers. Belongs into a `change`."""
        with self._refusals():
            for first in rows:
                names = ", ".join(first)
                with self._db.cursor().copy(f"copy {table}({names}) from stdin") as copying:
                    for row in itertools.chain([first], rows):
                        copying.write_row([_plain(value) for value in row.values()])

    def version(self) -> tuple[int, int]:
        """Something that changes whenever the database does, by this connection or another."""
        rows = self.execute("select changes from schema_version")
        return self._generation, int(rows[0]["changes"])

    def _begin(self) -> int:
        """Begin a transaction with the lock of the schema, and return its number."""
        for again in range(_MOST_TIMES):
            db = self._connected()
            try:
                with self._refusals():
                    cursor = db.execute(
                        "begin; update schema_version set changes = changes + 1 "
                        "returning version, txid_current() as number",
                        prepare=False,
                    )
                    cursor.nextset()
                    row = cursor.fetchone()
                    break
            except StoreLostError:
                if again == _MOST_TIMES - 1:
                    raise
            except BaseException:
                self._roll_back()
                raise
        if row["version"] != self._newest:
            self._roll_back()
            raise self._newer(row["version"])
        return int(row["number"])

    def _commit(self, number: int) -> None:
        """Commit, and if the connection is lost meanwhile, ask for its status."""
        if self._db.closed:
            raise self._lost("in the middle of a change, of which nothing was written")
        try:
            with self._refusals():
                done = self._db.execute("commit", prepare=False).statusmessage
            if done != "COMMIT":  # A statement has failed, and its error was caught.
                raise StoreError(f"a change of {self.place} was not made: one step of it failed.")
            return
        except StoreLostError:
            pass
        deadline = time.monotonic() + _LONGEST_COMMIT_SECONDS
        self._changing = False
        status = "in progress"
        with contextlib.suppress(StoreUnavailable):
            while status == "in progress" and time.monotonic() < deadline:
                time.sleep(_PAUSE_SECONDS)
                rows = self.execute("select txid_status(?) as status", (number,))
                status = rows[0]["status"]
        if status == "aborted":
            raise self._lost("in the middle of a change, of which nothing was written")
        if status != "committed":
            raise StoreUnavailable(
                f"the connection to {self.place} was lost when a change was committed, and it is "
                "not known whether it was made; look at `drumline jobs` when the server is there.",
                "the connection to its database was lost when a change was committed, and it is "
                "not known whether it was made; look when it is back",
            )

    def _roll_back(self) -> None:
        if not self._db.closed:
            with contextlib.suppress(StoreError), self._refusals():
                self._db.execute("rollback", prepare=False)

    def _connected(self) -> Any:
        """The connection, made again if it was lost, unless in a change."""
        if not self._db.closed:
            return self._db
        if self._changing:
            raise self._lost("in the middle of a change, of which nothing was written")
        # Those who ask while it is away wait for it together, not each for as long again.
        since = self._away_since = self._away_since or time.monotonic()
        while True:
            try:
                self._connect()
                self._away_since = None
                return self._db
            except StoreUnavailable:
                if time.monotonic() - since > _PATIENCE_SECONDS:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _connect(self) -> None:
        try:
            self._db = self._psycopg.connect(
                **self._parts, autocommit=True, row_factory=self._psycopg.rows.dict_row
            )
        except self._psycopg.Error as error:
            # Not chained: what it holds may have the password in it.
            raise StoreUnavailable(
                f"{self.place} cannot be reached: {self._said(error)}",
                "its database cannot be reached",
            ) from None
        self._generation += 1
        try:
            with self._refusals():
                self._db.execute(_SETTINGS.format(schema=self.schema), prepare=False)
            if self._leads:
                self._take_lead()
        except BaseException:
            self._db.close()
            raise

    def _migrate(self, migrations: Sequence[str]) -> None:
        if self._schema_version() == self._newest:
            return
        digest = hashlib.sha256(f"drumline migration of {self.schema}".encode()).digest()
        with self._refusals():
            self._db.execute("begin")
            try:
                # Until its end, which this lock is held for, another process waits here.
                key = int.from_bytes(digest[:8], "big", signed=True)
                self._db.execute("select pg_advisory_xact_lock(%s)", (key,))
                found = "select 1 from pg_namespace where nspname = %s"
                if self._db.execute(found, (self.schema,)).fetchone() is None:
                    self._db.execute(f'create schema "{self.schema}"')
                version = self._schema_version()
                if version is None:
                    self._db.execute(_FIRST, prepare=False)
                    version = 0
                if version > self._newest:
                    raise self._newer(version)
                for script in migrations[version:]:
                    for words, others in _WORDS:
                        script = script.replace(words, others)
                    self._db.execute(script, prepare=False)
                self._db.execute("update schema_version set version = %s", (self._newest,))
                self._db.execute("commit")
            except BaseException:
                self._roll_back()
                raise

    def _schema_version(self) -> int | None:
        table = f'"{self.schema}".schema_version'
        with self._refusals():
            there = self._db.execute("select to_regclass(%s) is not null as there", (table,))
            if not there.fetchone()["there"]:
                return None
            return int(self._db.execute("select version from schema_version").fetchone()["version"])

    def _newer(self, version: int) -> StoreError:
        return StoreError(
            f"{self.place} was written by a newer drumline (its version is {version}, known are up "
            f"to {self._newest}); update this one."
        )

    def _lost(self, when: str) -> StoreLostError:
        return StoreLostError(f"the connection to {self.place} was lost {when}.")

    def _said(self, error: Exception) -> str:
        """What the server or libpq says, without the password, as one line with a full stop."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        text = ", ".join(lines).rstrip(".") or type(error).__name__
        if self._password:
            text = text.replace(self._password, "***")
        return text if text.endswith("?") else f"{text}."

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except self._psycopg.Error as error:
            state, said = getattr(error, "sqlstate", None) or "", self._said(error)
            if self._db.closed:
                raise StoreLostError(f"the connection to {self.place} was lost: {said}") from None
            if state == "25006":
                said = f"it is read-only, as a standby is: {said}"
            if state.startswith(_TEMPORARY):
                raise StoreUnavailable(f"{self.place} cannot be used now: {said}") from None
            raise StoreError(f"{self.place} cannot be used: {said}") from error


def _plain(value: Any) -> Any:
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
