"""Moving what a folder keeps from its file of SQLite to PostgreSQL."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from drumline.jobs.store.connection import KeptTables, SqliteConnection, StoreError
from drumline.jobs.store.postgresql import PostgresConnection, open_postgresql
from drumline.jobs.store.tables import JOBS
from drumline.jobs.store.workspace import (
    DATABASE_FILE,
    database_url,
    supervisor_lock,
    write_database_url,
)


def use_database(home: Path, url: str) -> None:
    """Have the list of jobs of a workspace in PostgreSQL from now on, with the jobs it has.

    The workspace's folder keeps all else, and the address in ``database.json``, for its user alone.
    Nothing is done if it is there already, and what was interrupted is continued.

    Args:
        home: the folder of the workspace, which has no supervisor now.
        url: see `PostgresConnection`.

    Raises:
        StoreError: its list is in another database, a supervisor has it, or the schema has jobs.
    """
    if database_url(home) == url:
        return
    lock = supervisor_lock(home)
    if lock is None:
        raise StoreError(
            f"a supervisor has the list of jobs of {home}. It ends a minute after the last job; "
            "move the list then."
        )
    try:
        move_tables(home, url, JOBS)
    finally:
        os.close(lock)


def move_tables(folder: Path, url: str, tables: KeptTables) -> None:
    """Have tables of a folder in PostgreSQL from now on, with what is in them; see `use_database`.

    Args:
        folder: that of the file of SQLite, if there is one.
        url: see `PostgresConnection`.
        tables: what is moved.

    Raises:
        StoreError: they are in another database, or the schema has rows of its own.
    """
    before = database_url(folder)
    if before == url:
        return
    if before is not None:
        raise StoreError(
            f"{tables.name} of {folder} is in another database already. Move it by pg_dump, and "
            f"change the address in {folder / DATABASE_FILE}."
        )
    file = folder / tables.file
    with contextlib.closing(open_postgresql(folder, url, tables)) as target:
        if not file.exists():
            write_database_url(folder, url)
            return
        source = SqliteConnection(file, tables.migrations, tables.name)
        with contextlib.closing(source), source.change():
            _copy(source, target, tables)
            write_database_url(folder, url)
            # Whoever has it open still cannot add to it.
            for table in tables.copied:
                for verb in ("insert", "update", "delete"):
                    source.execute(
                        f"create trigger moved_{table}_{verb} before {verb} on {table} begin "
                        f"select raise(abort, '{tables.name} was moved to PostgreSQL; try again'); "
                        "end"
                    )
        file.rename(folder / f"{tables.file}.moved")


def _copy(source: SqliteConnection, target: PostgresConnection, tables: KeptTables) -> None:
    """Copy all rows in one transaction, unless they are there already."""
    states = [[each.execute(question) for question in tables.state] for each in (source, target)]
    with target.change():
        if any(target.execute(f"select 1 from {table} limit 1") for table in tables.copied):
            if states[0] == states[1]:
                return
            raise StoreError(
                f"{target.place} (schema {target.schema}) has rows of its own already. If they are "
                "of a move that was broken off, drop the schema, and move again."
            )
        for table in tables.counters:
            target.execute(f"delete from {table}")
        for table in (*tables.copied, *tables.counters):
            target.copy(table, source.rows(table))
        for row in source.execute("select name, seq from sqlite_sequence"):
            target.execute("insert into numbers values(?, ?)", (row["name"], row["seq"]))
