"""Who may do what on a server: members, their roles in workspaces, tokens; and what was done.

A token is shown once, when it is made. What is stored is its SHA-256, which says nothing of a
random number of 256 bits. Each request looks its token up, so one that is revoked stops at once.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from drumline.jobs.store.connection import KeptTables, open_database, repeated, storable
from drumline.jobs.store.workspace import opened
from drumline.jobs.supervisor.limits import write_limits

ROLES = ("viewer", "member", "admin")
"""A viewer looks; a member also submits, cancels own jobs and saves; an admin may all."""

LIMITS = ("cpus", "memory", "gpus", "jobs")
"""What may be limited for a member in a workspace: held by running jobs, and the jobs open."""

_MIGRATIONS = (
    """
    create table members(name text primary key, admin integer not null, created real not null);
    create table workspaces(name text primary key, created real not null);
    create table grants(
      workspace text not null, member text not null, role text not null,
      priority integer not null, cpus real, memory real, gpus real, jobs integer,
      primary key(workspace, member));
    create table tokens(
      id integer primary key autoincrement, member text not null, hash text not null,
      label text not null, created real not null, used real, revoked real);
    create table audit(
      number integer primary key autoincrement, time real not null, member text not null,
      workspace text not null, action text not null, target text not null, address text not null);
    create index tokens_by_member on tokens(member);
    """,
)
MEMBERS = KeptTables(
    "the list of members",
    "server.sqlite",
    "drumline_server_",
    _MIGRATIONS,
    ("members", "workspaces", "grants", "tokens", "audit"),
    state=(
        *("select * from members order by name", "select * from workspaces order by name"),
        *("select * from grants order by workspace, member", "select * from tokens order by id"),
        "select max(number) as last from audit",
    ),
)
_P = ParamSpec("_P")
_T = TypeVar("_T")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,38}[a-z0-9])?")
_WORKSPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_TOKEN = re.compile(r"drumline_(\d{1,15})_([A-Za-z0-9_-]{43})")
_USED_SECONDS = 60.0
_HIGHEST = 9
_LARGEST = 2**63 - 1


class IdentityError(ValueError):
    """A member, a workspace or a token that is not as it should be; the message says why."""


@dataclasses.dataclass(frozen=True)
class Grant:
    """What a member may do in a workspace.

    Attributes:
        workspace: its name.
        member: their name.
        role: one of `ROLES`.
        priority: the highest that jobs may have, 1 to 9.
        limits: by names in `LIMITS`; what is missing is not limited.
    """

    workspace: str
    member: str
    role: str
    priority: int = _HIGHEST
    limits: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def said(self) -> str:
        """In words."""
        return f"{self.member}: {self.role}, priority {self.priority}, {self.limits or 'no limits'}"

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {**dataclasses.asdict(self), "limits": dict(self.limits)}


@dataclasses.dataclass(frozen=True)
class TeamMember:
    """Who has a token of a server.

    Attributes:
        name: lower case letters, digits, and ``. _ -``.
        admin: whether they look after the server: members, workspaces, all that is in them.
        token: the number of the token they asked with; 0 for none.
    """

    name: str
    admin: bool
    token: int = 0


def _change(
    method: Callable[Concatenate[TeamMembers, _P], _T],
) -> Callable[Concatenate[TeamMembers, _P], _T]:
    """Have a method be one transaction, which is whole or not there."""

    @functools.wraps(method)
    def changing(self: TeamMembers, *arguments: _P.args, **more: _P.kwargs) -> _T:
        return repeated(self._db.change, lambda: method(self, *arguments, **more))

    return changing


class TeamMembers:
    """The members of a server, in the database that its folder names.

    Args:
        folder: of the server; a file of SQLite is made in it, for its user alone, unless its
            ``database.json`` names a PostgreSQL.

    Raises:
        StoreUnavailable: the server that has the database is away.
        StoreError: it cannot be used.
        WorkspaceError: ``database.json`` cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._db = open_database(folder, MEMBERS)

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    # Who asks.

    def member_of(self, token: str) -> TeamMember | None:
        """Whose token this is; None if it is of no member, or was revoked."""
        found = _TOKEN.fullmatch(token)
        rows = self._db.execute(
            "select tokens.*, members.admin from tokens "
            "join members on members.name = tokens.member where id=?",
            (int(found[1]) if found else 0,),
        )
        # As long for a number that no token has as for one with another end.
        known = rows[0]["hash"] if rows else "0" * 64
        right = hmac.compare_digest(_hash(token), known)
        if not right or not rows or rows[0]["revoked"] is not None:
            return None
        row, now = rows[0], time.time()
        if row["used"] is None or now - row["used"] > _USED_SECONDS:
            self._use(row["id"], now)
        return TeamMember(row["member"], bool(row["admin"]), row["id"])

    def grant(self, workspace: str, member: TeamMember) -> Grant | None:
        """What a member may do in a workspace; None if there is none such, or nothing there."""
        rows = self._db.execute(
            "select grants.* from workspaces left join grants "
            "on grants.workspace = workspaces.name and grants.member=? where workspaces.name=?",
            (member.name, storable(workspace)),
        )
        if not rows:
            return None
        if member.admin:
            return Grant(workspace, member.name, "admin")
        return None if rows[0]["role"] is None else _grant(rows[0])

    def grants_of(self, member: TeamMember) -> list[Grant]:
        """What a member may do, for each workspace in which there is anything."""
        if member.admin:
            return [Grant(name, member.name, "admin") for name in self.workspaces()]
        rows = self._db.execute(
            "select * from grants where member=? order by workspace", (member.name,)
        )
        return [_grant(row) for row in rows]

    # Members and tokens.

    def members(self) -> list[dict[str, Any]]:
        """All members, with their roles."""
        grants = [_grant(row) for row in self._db.execute("select * from grants order by 1")]
        return [
            {
                "name": row["name"],
                "admin": bool(row["admin"]),
                "grants": [each.document() for each in grants if each.member == row["name"]],
            }
            for row in self._db.execute("select * from members order by name")
        ]

    @_change
    def add_member(self, name: str, admin: bool = False) -> str:
        """Add a member, and return their first token.

        Raises:
            IdentityError: there is one, or the name is not allowed.
        """
        if not _NAME.fullmatch(name):
            raise IdentityError(
                "a member's name has 1 to 40 lower case letters, digits and . _ -, not "
                f"{name[:80]!r}"
            )
        if self._is_there("member", name):
            raise IdentityError(f"there is a member {name!r} already")
        self._db.execute(
            "insert into members(name, admin, created) values(?, ?, ?)",
            (name, int(admin), time.time()),
        )
        return self._new_token(name, "")

    @_change
    def remove_member(self, name: str) -> None:
        """Remove a member, their roles and tokens. Their jobs stay.

        Raises:
            IdentityError: there is none, or it is the last one who looks after the server.
        """
        self._known("member", name)
        others = "select 1 from members where admin=1 and name != ?"
        if self._is_admin(name) and not self._db.execute(others, (name,)):
            raise IdentityError(f"{name} is the last admin of the server: add another first")
        for table, column in (("tokens", "member"), ("grants", "member"), ("members", "name")):
            self._db.execute(f"delete from {table} where {column}=?", (name,))

    @_change
    def add_token(self, member: str, label: str = "") -> str:
        """Make a token for a member, and return it: it is shown now, and never again.

        Raises:
            IdentityError: there is no such member, or the label is too long.
        """
        if len(label) > 80 or not label.isprintable():
            raise IdentityError("a label has at most 80 printable characters")
        self._known("member", member)
        return self._new_token(member, label)

    def tokens(self, member: str) -> list[dict[str, Any]]:
        """The tokens of a member: numbers, labels and times.

        Raises:
            IdentityError: there is no such member.
        """
        self._known("member", member)
        columns = "id, label, created, used, revoked"
        rows = self._db.execute(
            f"select {columns} from tokens where member=? order by id", (member,)
        )
        return [dict(row) for row in rows]

    @_change
    def revoke(self, member: str, number: int | None = None) -> int:
        """Revoke a token of a member, or all of them; returns how many were.

        Raises:
            IdentityError: there is no such member, or no such token that is not revoked.
        """
        self._known("member", member)
        which: str = "member=? and revoked is null"
        values: list[Any] = [member]
        if number is not None:
            which, values = f"{which} and id=?", [member, min(number, _LARGEST)]
        found = self._db.execute(f"select id from tokens where {which}", values)
        if number is not None and not found:
            raise IdentityError(f"{member} has no token {str(number)[:20]} that is in use")
        self._db.execute(f"update tokens set revoked=? where {which}", [time.time(), *values])
        return len(found)

    # Workspaces.

    def workspaces(self) -> list[str]:
        """The names of all workspaces."""
        rows = self._db.execute("select name from workspaces order by name")
        return [row["name"] for row in rows]

    @_change
    def add_workspace(self, name: str) -> None:
        """Add a workspace.

        Raises:
            IdentityError: there is one, or the name is not allowed.
        """
        if not _WORKSPACE.fullmatch(name):
            raise IdentityError(
                "a workspace's name has 1 to 40 lower case letters, digits and hyphens, not "
                f"{name[:80]!r}"
            )
        if self._is_there("workspace", name):
            raise IdentityError(f"there is a workspace {name!r} already")
        self._db.execute("insert into workspaces values(?, ?)", (name, time.time()))

    @_change
    def set_grant(self, grant: Grant) -> None:
        """Give a member a role in a workspace, in the place of another.

        Raises:
            IdentityError: there is no such member, workspace or role, or a limit is none.
        """
        if grant.role not in ROLES:
            raise IdentityError(f"there is no role {grant.role!r}; there is: {', '.join(ROLES)}")
        if type(grant.priority) is not int or not 1 <= grant.priority <= _HIGHEST:
            raise IdentityError(f"a priority is 1 to {_HIGHEST}, not {grant.priority!r}")
        for name, value in grant.limits.items():
            if name not in LIMITS:
                raise IdentityError(f"there is no limit {name!r}; there is: {', '.join(LIMITS)}")
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not (0 <= value < 2**60)
            ):
                raise IdentityError(f"the limit of {name} must be a number from 0, not {value!r}")
            if name == "jobs" and value != int(value):
                raise IdentityError(f"the limit of jobs must be a whole number, not {value!r}")
        self._known("member", grant.member)
        self._known("workspace", grant.workspace)
        self._delete_grant(grant.workspace, grant.member)
        self._db.execute(
            "insert into grants(workspace, member, role, priority, cpus, memory, gpus, jobs) "
            "values(?, ?, ?, ?, ?, ?, ?, ?)",
            (grant.workspace, grant.member, grant.role, grant.priority,
             *(grant.limits.get(name) for name in LIMITS)),
        )  # fmt: skip

    @_change
    def remove_grant(self, workspace: str, member: str) -> None:
        """Take a member out of a workspace.

        Raises:
            IdentityError: they have no role there.
        """
        held = "select 1 from grants where workspace=? and member=?"
        if not self._db.execute(held, (storable(workspace), storable(member))):
            raise IdentityError(f"{member} has no role in {workspace}")
        self._delete_grant(workspace, member)

    def grants_in(self, workspace: str) -> list[Grant]:
        """The members of a workspace.

        Raises:
            IdentityError: there is no such workspace.
        """
        self._known("workspace", workspace)
        rows = self._db.execute(
            "select * from grants where workspace=? order by member", (workspace,)
        )
        return [_grant(row) for row in rows]

    # What was done.

    @_change
    def record(self, member: str, workspace: str, action: str, target: str, address: str) -> None:
        """Write down what a request has done; never a value of a secret, nor a token."""
        words = {"workspace": workspace, "action": action, "target": target[:200]}
        stored = {name: storable(text) for name, text in words.items()}
        row = {"time": time.time(), "member": member, **stored, "address": address}
        self._db.insert("audit", row, "number")

    def audit(self, before: int | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """What was done, the newest first."""
        rows = self._db.execute(
            "select * from audit where number < ? order by number desc limit ?",
            (2**62 if before is None else before, limit),
        )
        return [dict(row) for row in rows]

    @_change
    def _use(self, token: int, now: float) -> None:
        self._db.execute("update tokens set used=? where id=?", (now, token))

    def _new_token(self, member: str, label: str) -> str:
        row = {"member": member, "hash": "", "label": label, "created": time.time()}
        number = self._db.insert("tokens", row)
        token = f"drumline_{number}_{secrets.token_urlsafe(32)}"
        self._db.execute("update tokens set hash=? where id=?", (_hash(token), number))
        return token

    def _known(self, kind: Literal["member", "workspace"], name: str) -> None:
        if not self._is_there(kind, name):
            raise IdentityError(f"there is no {kind} {name[:80]!r}")

    def _is_there(self, kind: Literal["member", "workspace"], name: str) -> bool:
        found = f"select 1 from {kind}s where name=?"
        return bool(self._db.execute(found, (storable(name),)))

    def _is_admin(self, member: str) -> bool:
        return bool(
            self._db.execute("select admin from members where name=?", (member,))[0]["admin"]
        )

    def _delete_grant(self, workspace: str, member: str) -> None:
        self._db.execute("delete from grants where workspace=? and member=?", (workspace, member))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _grant(row: Mapping[str, Any]) -> Grant:
    limits = {name: row[name] for name in LIMITS if row[name] is not None}
    return Grant(row["workspace"], row["member"], row["role"], row["priority"], limits)


def store_limits(identity: TeamMembers, folder: Path, workspace: str) -> None:
    """Have the supervisor of a workspace know what members' running jobs may hold.

    Args:
        identity: the members.
        folder: of the server.
        workspace: its name.
    """
    limits = {
        each.member: {name: value for name, value in each.limits.items() if name != "jobs"}
        for each in identity.grants_in(workspace)
    }
    write_limits(opened(folder / "workspaces" / workspace), limits)
