"""The commands for jobs: ``drumline run``, ``jobs``, ``show``, ``logs``, ``cancel``, ``rerun``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from drumline.jobs.api import JobHandle

_REFUSED = 2
_FAILED = 1
_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
_SIZES = "Roles and sizes"

_Job = Annotated[str, typer.Argument(help="The job's number, or its name for the latest one.")]


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """What a user can mend is one message, not a traceback."""
    from drumline.jobs.file.values import JobFileError
    from drumline.jobs.sources.secrets import SecretError
    from drumline.jobs.store.database import StoreError
    from drumline.jobs.store.workspace import WorkspaceError

    mendable = (JobFileError, SecretError, StoreError, WorkspaceError, LookupError, OSError)
    try:
        yield
    except typer.Exit:  # which is a RuntimeError
        raise
    except (*mendable, ValueError, RuntimeError) as error:
        typer.echo(f"drumline: {error}", err=True)
        raise typer.Exit(_REFUSED) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None


def run(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="JOB.YAML | -- COMMAND",
            help="A job file; or a command, after --",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show its logs until it ends.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="Its name.", show_default="the script")] = None,
    code: Annotated[
        str | None,
        typer.Option(help="A folder, or a git URL.", show_default="this folder"),
    ] = None,
    commit: Annotated[
        str | None, typer.Option(help="With a git URL: a branch, a tag or a commit.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="With a git URL over HTTP.")] = None,
    token: Annotated[
        str | None, typer.Option(help="The secret with the git password or token.")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A variable of its processes.")
    ] = None,
    secret: Annotated[
        list[str] | None, typer.Option(help="A secret that becomes a variable.")
    ] = None,
    priority: Annotated[int | None, typer.Option(help="1 to 9, the highest first.")] = None,
    restarts: Annotated[int | None, typer.Option(help="How often after a failure.")] = None,
    timeout: Annotated[str | None, typer.Option(help="For one start, as 12h.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, rich_help_panel=_SIZES)] = None,
    worker_size: Annotated[
        str | None, typer.Option(help="cpus=4,memory=16GiB,gpus=1", rich_help_panel=_SIZES)
    ] = None,
    ps: Annotated[int | None, typer.Option(min=1, rich_help_panel=_SIZES)] = None,
    ps_size: Annotated[str | None, typer.Option(rich_help_panel=_SIZES)] = None,
    chief: Annotated[bool, typer.Option("--chief", rich_help_panel=_SIZES)] = False,
    evaluator: Annotated[bool, typer.Option("--evaluator", rich_help_panel=_SIZES)] = False,
) -> None:
    """Submit a job. It waits in the queue until there is room for it, and runs in the background.

    Examples: drumline run -- python train.py --epochs 12

    drumline run --workers 2 --ps 1 --worker-size cpus=4 -- python train.py

    drumline run job.yaml --follow

    Exit code: 0 if it was submitted, with --follow if it has succeeded; 1 if it has not; 2 if it
    cannot be submitted as asked.
    """
    with _refusals():
        from drumline.jobs import api
        from drumline.jobs.file.reading import parse_size
        from drumline.jobs.file.values import JobFileError

        words = list(what or ())
        fields: dict[str, Any] = {
            **{"name": name, "priority": priority, "restarts": restarts, "timeout": timeout},
            "secrets": secret or None,
            "env": _variables(env) if env else None,
            "code": _code(code, commit, user, token),
            "chief": chief or None,
            "evaluator": evaluator or None,
        }
        for key, count, size in (("workers", workers, worker_size), ("ps", ps, ps_size)):
            option = f"--{key.removesuffix('s') if key == 'workers' else key}-size"
            if size is not None and count is None and key == "ps":
                raise JobFileError([f"{option} needs --ps, their number"])
            if size is not None:
                fields[key] = {"count": count or 1, **parse_size(size, option)}
            else:
                fields[key] = count
        given = {key: value for key, value in fields.items() if value is not None}
        if words and words[0].endswith((".yaml", ".yml")):
            # Options may follow the file, and this one is asked for so.
            follow = follow or words[1:] in (["--follow"], ["-f"])
            if words[1:] not in ([], ["--follow"], ["-f"]):
                raise JobFileError([f"{words[0]}: options belong before the file: {words[1]}"])
            if given:
                raise JobFileError([f"{words[0]}: {min(given)} belongs into the file"])
            job = api.run(words[0])
        elif words:
            from drumline.jobs.file.reading import make_job

            job = api.submit_job(make_job(given | {"command": words}, Path.cwd(), "drumline run"))
        else:
            raise JobFileError(["give a job file, or a command: drumline run -- python train.py"])
        typer.echo(f"Job {job.id} ({job.name}): {', '.join(job.row.job.sizes())}")
        if follow:
            _follow(job)
        else:
            typer.echo(f"drumline logs -f {job.id} shows what it writes; show {job.id} its state.")


def _follow(job: JobHandle) -> None:
    try:
        for line in job.logs(follow=True):
            typer.echo(line)
    except KeyboardInterrupt:
        typer.echo(f"\nJob {job.id} continues; `drumline cancel {job.id}` ends it.", err=True)
        raise
    reason = f": {job.reason}" if job.reason else ""
    typer.echo(f"Job {job.id} has {job.state}{reason}" if job.state != "cancelled" else
               f"Job {job.id} was cancelled")  # fmt: skip
    raise typer.Exit(0 if job.state == "succeeded" else _FAILED)


def _variables(given: list[str]) -> dict[str, str]:
    from drumline.jobs.file.values import JobFileError

    for each in given:
        if "=" not in each:
            raise JobFileError([f"--env: {each!r} must be NAME=VALUE"])
    return dict(each.split("=", 1) for each in given)


def _code(
    code: str | None, commit: str | None, user: str | None, token: str | None
) -> dict[str, str] | str | None:
    if not (commit or user or token) and (code is None or ("://" not in code and "@" not in code)):
        return code
    parts = {"git": code or ".", "commit": commit, "user": user, "token": token}
    return {key: value for key, value in parts.items() if value is not None}


def jobs(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")] = 30,
) -> None:
    """List the latest jobs of the workspace, with the reason for which they wait or failed."""
    with _refusals():
        from drumline.jobs import api

        rows = [("JOB", "NAME", "STATE", "PRIORITY", "REASON")]
        for job in api.latest(limit):
            now = job.row
            rows.append((str(now.id), now.job.name, now.state, str(now.job.priority), job.reason))
        api.wake()
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        for row in rows:
            cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)]
            typer.echo("  ".join([*cells, row[4]]).rstrip())


def show(job: _Job) -> None:
    """Show all about one job: its state and why, its sizes, and what has happened to it."""
    with _refusals():
        import shlex
        import time

        from drumline.jobs import api

        found = api.find(job)
        api.wake()
        row = found.row
        code = row.job.code
        where = f"{code.git} at {code.commit}" if code.git else f"a copy of {code.folder}"
        state = row.state + (f": {found.reason}" if found.reason else "")
        lines = {
            "job": f"{found.id} ({row.job.name})",
            "state": state,
            "command": shlex.join(row.job.command),
            "code": where,
            "roles": ", ".join(row.job.sizes()),
            "priority": str(row.job.priority),
            "restarts": f"{row.restarts} of {row.job.restarts} used",
            "folder": str(found.folder),
        }
        for key, text in lines.items():
            typer.echo(f"{key + ':':10}{text}")
        typer.echo("events:")
        for moment, kind, text in found.events:
            clock = time.strftime("%m-%d %H:%M:%S", time.localtime(moment))
            typer.echo(f"  {clock}  {kind:10}{text}".rstrip())


def logs(
    job: _Job,
    process: Annotated[
        str | None,
        typer.Argument(help="As worker:1; job is the launcher.", show_default="all processes"),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more until it ends.")
    ] = False,
) -> None:
    """Show what a job's processes have written; values of secrets are masked."""
    with _refusals():
        from drumline.jobs import api

        try:
            for line in api.find(job).logs(process, follow):
                typer.echo(line)
        except BrokenPipeError:  # `| head`
            sys.stderr.close()


def cancel(job: _Job) -> None:
    """Ask a job to save and end. It is given the time that a launcher gives, then killed."""
    with _refusals():
        from drumline.jobs import api

        found = api.find(job)
        found.cancel()
        typer.echo(f"Job {found.id} is asked to end.")


def rerun(job: _Job) -> None:
    """Submit a job again as a new one, with the same code and command."""
    with _refusals():
        from drumline.jobs import api

        found = api.find(job)
        typer.echo(f"Job {found.rerun().id} repeats job {found.id}.")


secrets_app = typer.Typer(
    help="Passwords and tokens by their names; jobs and files hold the names alone.",
    no_args_is_help=True,
)
workspace_app = typer.Typer(
    help="Folders that hold jobs and secrets; DRUMLINE_HOME names another.", no_args_is_help=True
)
_Secret = Annotated[str, typer.Argument(help="Letters, digits and _, as GIT_TOKEN.")]
_Workspace = Annotated[str, typer.Argument(help="Lower case letters, digits and hyphens.")]


@secrets_app.command("set")
def set_secret(name: _Secret) -> None:
    """Store a secret, which is asked for, or read from standard input if that is no terminal."""
    with _refusals():
        import getpass

        from drumline.jobs.sources.secrets import write_secret
        from drumline.jobs.store.workspace import current

        if sys.stdin.isatty():
            value = getpass.getpass(f"{name}: ")
        else:
            value = sys.stdin.read().removesuffix("\n")
        write_secret(current(), name, value)
        typer.echo(f"{name} is stored.")


@secrets_app.command("list")
def list_secrets() -> None:
    """List the names of the secrets."""
    with _refusals():
        from drumline.jobs.sources.secrets import secret_names
        from drumline.jobs.store.workspace import current

        for name in secret_names(current()):
            typer.echo(name)


@secrets_app.command("remove")
def remove_secret(name: _Secret) -> None:
    """Remove a secret."""
    with _refusals():
        from drumline.jobs.sources.secrets import remove_secret as remove
        from drumline.jobs.store.workspace import current

        remove(current(), name)
        typer.echo(f"{name} is removed.")


@workspace_app.command("create")
def create_workspace(name: _Workspace) -> None:
    """Make a workspace; `use` chooses it."""
    with _refusals():
        from drumline.jobs.store.workspace import create

        typer.echo(str(create(name)))


@workspace_app.command("use")
def use_workspace(name: _Workspace) -> None:
    """Choose the workspace that all commands use from now on."""
    with _refusals():
        from drumline.jobs.store.workspace import use

        typer.echo(str(use(name)))


@workspace_app.command("list")
def list_workspaces() -> None:
    """List the workspaces; * marks the one in use."""
    with _refusals():
        from drumline.jobs.store.workspace import current_name, names

        used = current_name()
        for name in sorted({*names(), used}):
            typer.echo(f"{'*' if name == used else ' '} {name}")


def register(app: typer.Typer) -> None:
    """Add the commands to `drumline`."""
    app.command(context_settings={"allow_interspersed_args": False})(run)
    for command in (jobs, show, logs, cancel, rerun):
        app.command()(command)
    app.add_typer(secrets_app, name="secret")
    app.add_typer(workspace_app, name="workspace")
