"""What a folder keeps in a database: in a file of SQLite, or in PostgreSQL; and its errors."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pwd
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from drumline.jobs.store.workspace import database_url

if TYPE_CHECKING:
    from drumline.jobs.store.postgresql import PostgresConnection

Row = Mapping[str, Any]
_T = TypeVar("_T")
_MOST_TIMES = 3


class StoreError(Exception):
    """A database cannot be used, as that of the list of jobs; the message says why.

    Args:
        text: the message.
        shown: see the attribute.

    Attributes:
        shown: what is said to those who use it through a server, of whom the place in the message,
            the database's user and what its own server says are not to be known.
    """

    def __init__(self, text: str, shown: str = "") -> None:
        super().__init__(text)
        self.shown = shown or self._SHOWN

    _SHOWN = "its database cannot be used"


class StoreUnavailable(StoreError):
    """It cannot be used now, as on a full disk; nothing was changed, and later it may work.

    Of a change whose commit a server has not answered, the message says that this is not known.
    """

    _SHOWN = "its database cannot be used now"


class StoreLostError(StoreUnavailable):
    """The connection to the server was lost; nothing of the present change was written."""

    _SHOWN = "the connection to its database was lost, and nothing was changed"


@dataclasses.dataclass(frozen=True)
class KeptTables:
    """The tables that a folder keeps, in one database or the other.

    Attributes:
        name: what they are, in words.
        file: of SQLite, in the folder.
        schema: what the name of a schema of PostgreSQL begins with.
        migrations: scripts for SQLite, each of which takes them from version n to n + 1.
        copied: the tables, in the order in which their rows may be copied.
        state: statements that are answered alike as long as nothing changes.
        counters: further tables, each of one row, which is there from the beginning.
    """

    name: str
    file: str
    schema: str
    migrations: Sequence[str]
    copied: Sequence[str]
    state: Sequence[str]
    counters: Sequence[str] = ()


def open_database(folder: Path, tables: KeptTables) -> SqliteConnection | PostgresConnection:
    """The database that has the tables of a folder, made if it is absent.

    Raises:
        StoreUnavailable: the server that has it is away.
        StoreError: it was written by a newer version, is damaged or cannot be written.
        WorkspaceError: the file that names its server cannot be read.
    """
    if (url := database_url(folder)) is None:
        return SqliteConnection(folder / tables.file, tables.migrations, tables.name)
    from drumline.jobs.store.postgresql import open_postgresql

    return open_postgresql(folder, url, tables)


def repeated(
    begin: Callable[[], contextlib.AbstractContextManager[None]], change: Callable[[], _T]
) -> _T:
    """Make a change, once more if the connection was lost before anything was written.

    Args:
        begin: a transaction, as `SqliteConnection.change`.
        change: what is done in it.
    """
    for _ in range(_MOST_TIMES - 1):
        with contextlib.suppress(StoreLostError), begin():
            return change()
    with begin():
        return change()


def storable(text: str) -> str:
    """What any database takes of a text, which may have come from a program or a network."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


class SqliteConnection:
    """A file of SQLite. Threads may share it: a change of one keeps the others waiting.

    Args:
        path: the file, made if it is absent, for its user alone.
        migrations: scripts, each of which takes it from version n to n + 1.
        name: what is in it, in words.

    Raises:
        StoreError: it was written by a newer version, is damaged or cannot be written.
    """

    def __init__(self, path: Path, migrations: Sequence[str], name: str) -> None:
        self.place = f"{name} in {path}"
        self.lock = threading.RLock()
        self._refuse_if_of_another_user(path)
        with self._refusals():
            self.db = sqlite3.connect(
                path, isolation_level=None, timeout=60, check_same_thread=False
            )
            self.db.row_factory = sqlite3.Row
        try:
            with self._refusals():
                path.chmod(0o600)
                self.db.execute("pragma journal_mode=wal")
                self.db.execute("pragma synchronous=normal")
                self.db.execute("pragma foreign_keys=on")
            self._migrate(migrations)
        except BaseException:
            self.db.close()
            raise

    def _refuse_if_of_another_user(self, path: Path) -> None:
        """SQLite would say no more than that it cannot open the file."""
        with contextlib.suppress(FileNotFoundError):
            owner = path.stat().st_uid
            if os.geteuid() not in (0, owner):
                try:
                    name = pwd.getpwuid(owner).pw_name
                except KeyError:
                    name = f"the user {owner}"
                raise StoreError(
                    f"{self.place} belongs to {name}, and is for one user. Let DRUMLINE_HOME "
                    "name a folder of your own; several people share a list by `drumline server`."
                )

    def close(self) -> None:
        """Close it."""
        self.db.close()

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """A transaction that holds the write lock from its beginning.

        Raises:
            StoreUnavailable: nothing of it was written.
        """
        with self.lock:
            self.execute("begin immediate")
            try:
                yield
                self.execute("commit")
            except BaseException:
                if self.db.in_transaction:  # A full disk may have ended it.
                    self.execute("rollback")
                raise

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Execute a statement with a value for each ``?``, and return its rows.

        Raises:
            StoreError: it cannot be done.
        """
        with self.lock, self._refusals():
            return [dict(row) for row in self.db.execute(statement, values)]

    def lead(self) -> None:
        """Be the only one that supervises; of a file, whoever holds its folder's lock is."""

    def insert(self, table: str, row: Row, key: str = "id") -> int:
        """Insert a row, and return its number. Belongs into a `change`."""
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        with self.lock, self._refusals():
            added = self.db.execute(
                f"insert into {table}({names}) values({marks})", tuple(row.values())
            )
        assert added.lastrowid is not None
        return added.lastrowid

    def rows(self, table: str) -> Iterator[Row]:
        """All rows of a table, read as they are asked for, in the order of their numbers."""
        key = "job, number" if table == "attempts" else "rowid"
        with self._refusals():
            for row in self.db.execute(f"select * from {table} order by {key}"):
                yield dict(row)

    def version(self) -> tuple[int, int]:
        """Something that changes whenever the database does, by this connection or another."""
        with self.lock, self._refusals():
            others = int(self.db.execute("pragma data_version").fetchone()[0])
        return others, self.db.total_changes

    def _migrate(self, migrations: Sequence[str]) -> None:
        newest = len(migrations)
        if self._user_version() == newest:
            return
        with self.change():
            version = self._user_version()
            if version > newest:
                raise StoreError(
                    f"{self.place} was written by a newer drumline (its version is {version}, "
                    f"known are up to {newest}); update this one."
                )
            for script in migrations[version:]:
                for statement in filter(str.strip, script.split(";")):
                    self.execute(statement)
            self.execute(f"pragma user_version={newest}")

    def _user_version(self) -> int:
        return int(self.execute("pragma user_version")[0]["user_version"])

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StoreUnavailable(f"{self.place} cannot be used now: {error}.") from error
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.place} cannot be used: {error}.") from error
