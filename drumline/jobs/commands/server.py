"""The commands for a team: ``drumline server``, ``login``, ``logout``, ``member`` and ``audit``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drumline.jobs.commands.jobs import refusals

if TYPE_CHECKING:
    from drumline.jobs.service.connection import ServerConnection

member_app = typer.Typer(
    help="Members of the server: their tokens, and their roles in workspaces.",
    no_args_is_help=True,
)
_Name = Annotated[str, typer.Argument(help="Lower case letters, digits and . _ -")]
_Folder = Annotated[
    Path | None,
    typer.Option(help="Of the server, on its machine; instead of a login.", show_default=False),
]
_Workspace = Annotated[
    str | None,
    typer.Option("--workspace", "-w", help="Of the server.", show_default="the one in use"),
]


def server(
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Its members and workspaces.", show_default="~/.local/share/drumline/server"
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address it listens at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for a free one.")] = 8470,
    host_name: Annotated[
        list[str] | None,
        typer.Option(help="A name it is asked under, as jobs.example.com.", show_default=False),
    ] = None,
    cert: Annotated[
        Path | None, typer.Option(help="A file with its certificate, for TLS.", show_default=False)
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The certificate's private key.", show_default=False)
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            help="postgresql://... for members and lists of jobs, which move there.",
            show_default="where they are: SQLite at first",
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Also beyond this machine without TLS.")
    ] = False,
    member_hosts: Annotated[
        bool,
        typer.Option(
            "--member-hosts",
            help="Members' job files may name SSH hosts, which it logs in to with its own keys; "
            "else only those of a workspace's admins may.",
        ),
    ] = False,
) -> None:  # fmt: skip
    """Serve workspaces to a team, until it is interrupted. Jobs continue without it."""
    with refusals():
        from drumline._extras import import_extra

        import_extra("starlette.applications", "console", "drumline server")
        import_extra("uvicorn", "console", "drumline server")
        from drumline.jobs.console.pages import ConsoleRoutes
        from drumline.jobs.server.app import TeamServer, team_app
        from drumline.jobs.server.serving import listen, serve, tls_problem

        if (cert is None) != (key is None):
            raise ValueError("--cert and --key belong together")
        if cert is not None and key is not None and (problem := tls_problem(cert, key)):
            raise ValueError(problem)
        if cert is None and host not in ("127.0.0.1", "localhost", "::1") and not insecure:
            raise ValueError(
                f"{host} can be reached from other machines: give --cert and --key, or say "
                "--insecure where something before it speaks TLS"
            )
        with listen(host, port) as listening:
            team = TeamServer(_folder(folder), database, member_hosts)
            try:
                pages = ConsoleRoutes(team.admit)
                hosts = _hosts(host, host_name)
                app = team_app(team, hosts, secure=cert is not None, pages=pages.routes())
                where = listening.getsockname()
                scheme = "http" if cert is None else "https"
                shown = f"[{where[0]}]" if ":" in where[0] else where[0]
                typer.echo(f"Serving {team.folder} at {scheme}://{shown}:{where[1]}")
                if not team.identity.members():
                    typer.echo(
                        "It has no members yet: drumline member add NAME --admin "
                        f"--folder {team.folder}"
                    )
                sys.stdout.flush()
                team.start()
                serve(app, listening, pages.end, cert, key)
            finally:
                team.close()


def login(
    url: Annotated[str, typer.Argument(help="As https://jobs.example.com.")],
    workspace: _Workspace = None,
    ca: Annotated[
        Path | None,
        typer.Option(help="A file with a certificate to trust.", show_default=False),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Also over a network without TLS.")
    ] = False,
) -> None:
    """Use a workspace of a server: all commands do from now on, and dl.jobs.

    The token is asked for, or read from standard input if that is no terminal.
    """
    with refusals():
        import getpass

        from drumline.jobs.service.connection import ServerConnection
        from drumline.jobs.service.login import Login, checked_url, write_login
        from drumline.jobs.store.workspace import HOME_VARIABLE, WorkspaceError

        address = checked_url(url, insecure)
        trusted = "" if ca is None else str(ca.absolute())
        token = (getpass.getpass("Token: ") if sys.stdin.isatty() else sys.stdin.read()).strip()
        me = ServerConnection(address, token, trusted).json("GET", "/api/v1/me")
        known = list(me["workspaces"])
        if workspace is None and len(known) != 1:
            listed = ", ".join(known) or "none yet; ask who looks after the server"
            raise WorkspaceError(f"choose a workspace by --workspace; {me['member']} has: {listed}")
        name = workspace or known[0]
        if name not in known:
            raise WorkspaceError(
                f"{me['member']} has no role in a workspace {name!r}; has: {', '.join(known)}"
            )
        write_login(Login(address, token, name, trusted))
        typer.echo(f"Logged in to {address} as {me['member']}, workspace {name}.")
        import os

        if HOME_VARIABLE in os.environ:
            typer.echo(f"{HOME_VARIABLE} is set and comes first: unset it to use the server.")


def logout() -> None:
    """Forget the token of this machine, and use folders again. The token itself stays in use."""
    with refusals():
        from drumline.jobs.service.login import login_file, read_login

        if read_login() is None:
            raise LookupError("there is no login")
        login_file().unlink()
        typer.echo("Logged out.")


def audit(
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")
    ] = 50,
    folder: _Folder = None,
) -> None:
    """Show what was done on the server, the newest first: when, who, where, what, from where."""
    with refusals():
        import time

        for row in _Members(folder).audit(limit):
            clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["time"]))
            who, where = row["member"] or "-", row["workspace"] or "-"
            cells = (clock, who, where, row["action"], row["target"], row["address"])
            typer.echo("  ".join(cell for cell in cells if cell))


@member_app.command("add")
def add_member(
    name: _Name,
    workspace: _Workspace = None,
    role: Annotated[str, typer.Option(help="viewer, member or admin of the workspace.")] = "member",
    admin: Annotated[
        bool, typer.Option("--admin", help="Looks after the server: members, workspaces, all.")
    ] = False,
    folder: _Folder = None,
) -> None:
    """Add a member, and show their token, this once."""
    with refusals():
        members = _Members(folder)
        where = members.workspace(workspace, needed=not admin)
        token = members.add(name, admin)
        if where is not None and not admin:
            members.set_role(where, {"member": name, "role": role})
            typer.echo(f"{name} is {role} in {where}. Their token, which is shown this once:")
        else:
            typer.echo(f"{name} looks after the server. Their token, which is shown this once:")
        typer.echo(token)


@member_app.command("list")
def list_members(folder: _Folder = None) -> None:
    """List the members, with their roles and limits."""
    with refusals():
        for each in _Members(folder).all():
            typer.echo(each["name"] + ("  looks after the server" if each["admin"] else ""))
            for grant in each["grants"]:
                limits = [f"{key}={value:g}" for key, value in grant["limits"].items()]
                words = [f"priority up to {grant['priority']}", *limits]
                typer.echo(f"  {grant['workspace']}: {grant['role']} ({', '.join(words)})")


@member_app.command("remove")
def remove_member(name: _Name, folder: _Folder = None) -> None:
    """Remove a member. Their tokens stop at once; their jobs stay."""
    with refusals():
        _Members(folder).remove(name)
        typer.echo(f"{name} is removed.")


@member_app.command("role")
def set_role(
    name: _Name,
    role: Annotated[str, typer.Argument(help="viewer, member or admin; none takes it away.")],
    workspace: _Workspace = None,
    priority: Annotated[int, typer.Option(min=1, max=9, help="The highest of their jobs.")] = 9,
    limits: Annotated[
        str | None,
        typer.Option(
            help="cpus=8,memory=64GiB,gpus=2 of running jobs, and jobs=20 open.",
            show_default="none",
        ),
    ] = None,
    folder: _Folder = None,
) -> None:
    """Give a member a role in a workspace, with limits, in the place of another."""
    with refusals():
        members = _Members(folder)
        where = members.workspace(workspace, needed=True)
        if role == "none":
            members.remove_role(str(where), name)
            typer.echo(f"{name} has no role in {where} any more.")
            return
        fields = {"member": name, "role": role, "priority": priority, "limits": _limits(limits)}
        members.set_role(str(where), fields)
        typer.echo(f"{name} is {role} in {where}.")


@member_app.command("token")
def add_token(
    name: _Name,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    folder: _Folder = None,
) -> None:
    """Make another token for a member, and show it, this once."""
    with refusals():
        typer.echo(_Members(folder).add_token(name, label))


@member_app.command("tokens")
def list_tokens(name: _Name, folder: _Folder = None) -> None:
    """List the tokens of a member: numbers, labels, and when they were used last."""
    with refusals():
        import time

        for each in _Members(folder).tokens(name):
            used = each["used"]
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(used)) if used else "never"
            state = "revoked" if each["revoked"] else f"used {when}"
            typer.echo("  ".join(filter(None, (str(each["id"]), state, each["label"]))))


@member_app.command("revoke")
def revoke(
    name: _Name,
    number: Annotated[
        int | None, typer.Argument(help="Of `member tokens`.", show_default="all of them")
    ] = None,
    folder: _Folder = None,
) -> None:
    """Revoke tokens of a member; they stop at once."""
    with refusals():
        count = _Members(folder).revoke(name, number)
        typer.echo(f"{count} token{'' if count == 1 else 's'} of {name} revoked.")


class _Members:
    """The members of a server: over HTTP by the login, or in its folder on its machine."""

    def __init__(self, folder: Path | None) -> None:
        from drumline.jobs.service.connection import ServerConnection
        from drumline.jobs.service.login import read_login

        self._folder = folder
        self._login = read_login() if folder is None else None
        self._connection: ServerConnection | None = None
        if self._login is not None:
            login = self._login
            self._connection = ServerConnection(login.url, login.token, login.ca)
        elif folder is None:
            raise LookupError(
                "log in to a server first (`drumline login`), or on its machine give --folder"
            )

    def workspace(self, name: str | None, needed: bool) -> str | None:
        """The workspace that is meant; made in the folder if it is new there."""
        found = name or (self._login.workspace if self._login else None)
        if found is None and needed:
            raise ValueError("give --workspace, the one in which the member has a role")
        if found is not None and self._folder is not None:
            with self._local() as identity:
                known = found in identity.workspaces()
            if not known:
                with self._local("add workspace", found, found) as identity:
                    identity.add_workspace(found)
        return found

    def add(self, name: str, admin: bool) -> str:
        if self._connection is None:
            with self._local("add admin" if admin else "add member", name) as identity:
                return str(identity.add_member(name, admin))
        asked = {"name": name, "admin": admin}
        return str(self._connection.json("POST", "/api/v1/members", asked)["token"])

    def all(self) -> list[dict[str, Any]]:
        if self._connection is None:
            with self._local() as identity:
                return list(identity.members())
        return list(self._connection.json("GET", "/api/v1/members")["members"])

    def remove(self, name: str) -> None:
        if self._connection is None:
            with self._local("remove member", name) as identity:
                identity.remove_member(name)
        else:
            self._connection.json("DELETE", f"/api/v1/members/{_quoted(name)}")

    def set_role(self, workspace: str, fields: dict[str, Any]) -> None:
        if self._connection is None:
            from drumline.jobs.server.identity import Grant, store_limits

            grant = Grant(workspace, **fields)
            with self._local("set role", grant.said, workspace) as identity:
                identity.set_grant(grant)
                store_limits(identity, self._home(), workspace)
        else:
            path = f"/api/v1/workspaces/{_quoted(workspace)}/members"
            self._connection.json("POST", path, fields)

    def remove_role(self, workspace: str, name: str) -> None:
        if self._connection is None:
            from drumline.jobs.server.identity import store_limits

            with self._local("remove role", name, workspace) as identity:
                identity.remove_grant(workspace, name)
                store_limits(identity, self._home(), workspace)
        else:
            path = f"/api/v1/workspaces/{_quoted(workspace)}/members/{_quoted(name)}"
            self._connection.json("DELETE", path)

    def add_token(self, name: str, label: str) -> str:
        if self._connection is None:
            with self._local("add token", f"{name} {label}".strip()) as identity:
                return str(identity.add_token(name, label))
        path = f"/api/v1/members/{_quoted(name)}/tokens"
        return str(self._connection.json("POST", path, {"label": label})["token"])

    def tokens(self, name: str) -> list[dict[str, Any]]:
        if self._connection is None:
            with self._local() as identity:
                return list(identity.tokens(name))
        path = f"/api/v1/members/{_quoted(name)}/tokens"
        return list(self._connection.json("GET", path)["tokens"])

    def revoke(self, name: str, number: int | None) -> int:
        if self._connection is None:
            which = "all" if number is None else f"token {number}"
            with self._local("revoke", f"{name}: {which}") as identity:
                return int(identity.revoke(name, number))
        which = "" if number is None else f"/{number}"
        path = f"/api/v1/members/{_quoted(name)}/tokens{which}"
        return int(self._connection.json("DELETE", path)["revoked"])

    def audit(self, limit: int) -> list[dict[str, Any]]:
        if self._connection is None:
            with self._local() as identity:
                return list(identity.audit(None, limit))
        return list(self._connection.json("GET", f"/api/v1/audit?limit={limit}")["audit"])

    def _home(self) -> Path:
        assert self._folder is not None
        return self._folder.expanduser().absolute()

    @contextlib.contextmanager
    def _local(self, action: str = "", target: str = "", workspace: str = "") -> Iterator[Any]:
        """The members in the folder; what is done there is written down once it was."""
        from drumline.jobs.server.identity import TeamMembers

        home = self._home()
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.closing(TeamMembers(home)) as identity:
            yield identity
            if action:
                identity.record("", workspace, action, target, "folder")


def _folder(given: Path | None) -> Path:
    from drumline.jobs.store.workspace import workspaces_folder

    return (given or workspaces_folder().parent / "server").expanduser().absolute()


def _hosts(host: str, names: list[str] | None) -> set[str]:
    from drumline.jobs.server.guard import LOOPBACK

    shown = f"[{host}]" if ":" in host else host
    return {*LOOPBACK, *(name.lower() for name in names or ()), shown.lower()}


def _limits(text: str | None) -> dict[str, float]:
    from drumline.jobs.file.reading import parse_size
    from drumline.jobs.file.values import Mistake, value_of

    if not text:
        return {}
    parts = text.split(",")
    jobs = [part for part in parts if part.startswith("jobs=")]
    found: dict[str, float] = {}
    for part in jobs:
        if not part[5:].isdecimal():
            raise ValueError(f"--limits: {part!r} must be a whole number, as jobs=20")
        found["jobs"] = int(part[5:])
    if rest := [part for part in parts if part not in jobs]:
        for key, value in parse_size(",".join(rest), "--limits").items():
            try:
                given = value_of(value, "--limits", key)
                found[key] = given.memory() if key == "memory" else float(value)
            except (Mistake, ValueError) as error:
                raise ValueError(str(error)) from None
    return found


def _quoted(text: str) -> str:
    import urllib.parse

    return urllib.parse.quote(text, safe="")


def register(app: typer.Typer) -> None:
    """Add the commands to `drumline`."""
    for command in (server, login, logout, audit):
        app.command()(command)
    app.add_typer(member_app, name="member")
