"""The tables of the list of jobs, by the changes that lead to them, and how a part is asked for."""

from __future__ import annotations

from typing import Any

from drumline.jobs.store.connection import KeptTables
from drumline.jobs.store.rows import ENDED, OPEN
from drumline.jobs.store.workspace import SQLITE_FILE

# Each takes the database from version n to n + 1; a new change is appended, and none is edited.
MIGRATIONS = (
    """
    create table jobs(
      id integer primary key autoincrement, name text not null, spec text not null,
      state text not null, reason text not null default '', priority integer not null,
      submitted real not null, ended real, restarts integer not null default 0, stop text);
    create table attempts(
      job integer not null references jobs(id), number integer not null, handle text not null,
      started real not null, ended real, code integer, reason text not null default '',
      primary key(job, number)) without rowid;
    create table events(
      number integer primary key autoincrement, job integer not null references jobs(id),
      time real not null, kind text not null, text text not null);
    create index jobs_by_state on jobs(state, priority desc, id);
    create index events_by_job on events(job, number);
    """,
    # What a list of 100,000 jobs takes: who has submitted each, and what has changed since when.
    # The index of the list has what is searched (the words), so that no row is read for a search.
    """
    alter table jobs add column member text not null default '';
    alter table jobs add column words text not null default '';
    alter table jobs add column request text;
    alter table jobs add column started real;
    alter table jobs add column changed integer not null default 0;
    create table revision(number integer not null);
    insert into revision(number) select coalesce(max(id), 0) from jobs;
    update jobs set changed = id, words = name,
      started = (select min(started) from attempts where attempts.job = jobs.id);
    create unique index jobs_by_request on jobs(request);
    create index jobs_listed on jobs(state, id, words, member);
    create index jobs_by_name on jobs(name, id);
    create index jobs_by_change on jobs(changed);
    """,
)

JOBS = KeptTables(
    "the list of jobs",
    SQLITE_FILE,
    "drumline_",
    MIGRATIONS,
    ("jobs", "attempts", "events"),
    state=("select number from revision",),
    counters=("revision",),
)

_GROUPS = {"": (*OPEN, *ENDED), "open": OPEN, "ended": ENDED}
_MOST_CHARACTERS = 200
_LARGEST = 2**63 - 1


def page_query(
    state: str, search: str, before: int | None, limit: int, by: str
) -> tuple[str, tuple[Any, ...]] | None:
    """The statement and its values; one row more than `limit` is asked for.

    Of each state the newest are found in an index that has all that is searched, and of those the
    newest of all, so that the time does not depend on how many jobs there are unless it searches.

    Args:
        state: see `Store.page`, as the others.
        search: words.
        before: a number, or None.
        limit: of jobs.
        by: a member.

    Returns:
        None if no job can be found by such words.

    Raises:
        ValueError: there is no such state, or the limit is no number of jobs.
    """
    states = _GROUPS.get(state, (state,))
    if not set(states) <= {*OPEN, *ENDED}:
        known = ", ".join((*OPEN, *ENDED, "open", "ended"))
        raise ValueError(f"there is no state {state!r}; they are: {known}")
    if limit < 1:
        raise ValueError(f"at least one job is listed, not {limit}")
    words = search.lower().split()
    if len(search) > _MOST_CHARACTERS or any(not _possible(word) for word in (*words, by)):
        return None
    most = min(limit, _LARGEST - 1) + 1
    parts: list[str] = []
    values: list[Any] = []
    for one in states:
        tests: list[str] = ["state=?"]
        values.append(one)
        if before is not None:
            tests.append("id < ?")
            values.append(max(-_LARGEST, min(before, _LARGEST)))
        if by:
            tests.append("member=?")
            values.append(by)
        for word in words:
            if one.startswith(word):
                continue
            either = ["words like ? escape '\\'"]
            values.append(_containing(word))
            if word.isascii() and word.isdecimal() and int(word) <= _LARGEST:
                either.append("id=?")
                values.append(int(word))
            tests.append(f"({' or '.join(either)})")
        newest = f"select id from jobs where {' and '.join(tests)} order by id desc limit ?"
        values.append(most)
        parts.append(f"select id from ({newest}) as {one}_jobs")
    found = " union all ".join(parts)
    statement = f"select * from jobs where id in ({found}) order by id desc limit ?"
    return statement, (*values, most)


def searched(name: str, by: str) -> str:
    """The words of a job, as they are searched: its name and its member's."""
    return f"{name} {by}".strip().lower()


def _possible(word: str) -> bool:
    """Whether a database takes it; no name has such characters as one does not."""
    return "\0" not in word and not any(0xD800 <= ord(char) < 0xE000 for char in word)


def _containing(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
