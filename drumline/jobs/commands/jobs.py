"""The commands for jobs: ``drumline run``, ``jobs``, ``show``, ``logs``, ``metrics`` and others."""

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
_AS_WORKERS = "As --worker-size."

_Job = Annotated[str, typer.Argument(help="The job's number, or its name for the latest one.")]


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Have what a user can mend be one message, not a traceback."""
    from drumline.jobs.engines.registry import EngineError
    from drumline.jobs.file.values import JobFileError
    from drumline.jobs.sources.saved import SavedError
    from drumline.jobs.sources.secrets import SecretError
    from drumline.jobs.store.database import StoreError
    from drumline.jobs.store.workspace import WorkspaceError

    mendable = (
        EngineError,
        JobFileError,
        SavedError,
        SecretError,
        StoreError,
        WorkspaceError,
        LookupError,
        OSError,
    )
    try:
        yield
    except typer.Exit:  # which is a RuntimeError
        raise
    except (*mendable, ValueError, RuntimeError) as error:
        typer.echo(f"drumline: {_in_words(error)}", err=True)
        raise typer.Exit(_REFUSED) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None


def _in_words(error: Exception) -> str:
    """What an error says; of one of the system's own, the file and what is wrong with it."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


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
    key: Annotated[
        str | None, typer.Option(help="The secret with the private key, for git over SSH.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="The absolute path at which the code is seen, too.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FROM:AT[:w]",
            help="A folder or an address, and the path where it is seen; :w to write there. "
            "Or the name of saved data.",
        ),
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
    engine: Annotated[
        str | None,
        typer.Option(help="Where it runs: one of `drumline engine list`.", show_default="local"),
    ] = None,
    hang_after: Annotated[
        str | None, typer.Option(help="Silent for so long, as 30m, it counts as failed.")
    ] = None,
    log_limit: Annotated[
        str | None, typer.Option(help="Of each process's log.", show_default="64MiB")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="How many.", show_default="1", rich_help_panel=_SIZES),
    ] = None,
    worker_size: Annotated[
        str | None,
        typer.Option(
            help="Of each, as cpus=4,memory=16GiB; also gpus=1,image=NAME", rich_help_panel=_SIZES
        ),
    ] = None,
    ps: Annotated[
        int | None,
        typer.Option(min=1, help="How many parameter servers.", rich_help_panel=_SIZES),
    ] = None,
    ps_size: Annotated[str | None, typer.Option(help=_AS_WORKERS, rich_help_panel=_SIZES)] = None,
    chief: Annotated[
        bool, typer.Option("--chief", help="One more, which leads.", rich_help_panel=_SIZES)
    ] = False,
    chief_size: Annotated[
        str | None, typer.Option(help=_AS_WORKERS, rich_help_panel=_SIZES)
    ] = None,
    evaluator: Annotated[
        bool, typer.Option("--evaluator", help="One beside the cluster.", rich_help_panel=_SIZES)
    ] = False,
    evaluator_size: Annotated[
        str | None, typer.Option(help=_AS_WORKERS, rich_help_panel=_SIZES)
    ] = None,
) -> None:
    """Submit a job. It waits in the queue until there is room for it, and runs in the background.

    Examples: drumline run -- python train.py --epochs 12

    drumline run --workers 2 --ps 1 --worker-size cpus=4 -- python train.py

    drumline run job.yaml --follow

    Exit code: 0 if it was submitted, with --follow if it has succeeded; 1 if it has not; 2 if it
    cannot be submitted as asked.
    """
    with refusals():
        from drumline.jobs import api
        from drumline.jobs.file.reading import parse_data, parse_size
        from drumline.jobs.file.values import JobFileError

        words = list(what or ())
        fields: dict[str, Any] = {
            **{"name": name, "priority": priority, "restarts": restarts, "timeout": timeout},
            "engine": engine,
            "log_limit": log_limit,
            "hang_after": hang_after,
            "secrets": secret or None,
            "env": _variables(env) if env else None,
            "code": _code(code, commit, user, token, key, at),
            "data": [parse_data(each) for each in data] if data else None,
        }
        for role, option, count, size in (
            ("workers", "--worker-size", workers, worker_size),
            ("ps", "--ps-size", ps, ps_size),
            ("chief", "--chief-size", int(chief) or None, chief_size),
            ("evaluator", "--evaluator-size", int(evaluator) or None, evaluator_size),
        ):
            if size is not None and count is None and role == "ps":
                raise JobFileError([f"{option} needs --ps, their number"])
            if size is not None:
                fields[role] = {"count": count or 1, **parse_size(size, option)}
            else:
                fields[role] = count
        given = {key: value for key, value in fields.items() if value is not None}
        if words and words[0].endswith((".yaml", ".yml")):
            # Options may follow the file, and this one is asked for so.
            follow = follow or words[1:] in (["--follow"], ["-f"])
            if words[1:] not in ([], ["--follow"], ["-f"]):
                raise JobFileError([f"{words[0]}: {_not_with_a_file(words[1])}"])
            if given:
                raise JobFileError([f"{words[0]}: {min(given)} belongs into the file"])
            job = api.run(words[0])
        elif words:
            job = api.run_fields(given | {"command": words}, "drumline run")
        else:
            raise JobFileError(["give a job file, or a command: drumline run -- python train.py"])
        typer.echo(f"Job {job.id} ({job.name}): {', '.join(job.row.job.sizes())}")
        if follow:
            _follow(job)
        else:
            typer.echo(f"drumline logs -f {job.id} shows what it writes; show {job.id} its state.")


def _not_with_a_file(word: str) -> str:
    if word.startswith("-") and word not in ("--follow", "-f"):
        return f"{word} belongs into the file; of the options --follow alone goes with one"
    return "a job file takes no further arguments, but --follow"


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
    code: str | None,
    commit: str | None,
    user: str | None,
    token: str | None,
    key: str | None,
    at: str | None,
) -> dict[str, str] | str | None:
    git = {"commit": commit, "user": user, "token": token, "key": key}
    if any(git.values()) or (code is not None and ("://" in code or "@" in code)):
        parts = {"git": code or ".", **git, "at": at}
        return {name: value for name, value in parts.items() if value is not None}
    # By its name alone, code may also be what is saved.
    return {"folder": code or ".", "at": at} if at else code


def jobs(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")] = 30,
) -> None:
    """List the latest jobs of the workspace, with the reason for which they wait or failed."""
    with refusals():
        from drumline.jobs.service.chosen import chosen

        service = chosen()
        rows = [("JOB", "NAME", "STATE", "PRIORITY", "REASON")]
        for job in service.jobs(limit=limit)["jobs"]:
            first = (str(job["id"]), job["name"], job["state"])
            rows.append((*first, str(job["priority"]), job["reason"]))
        service.wake_if_open()
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        for row in rows:
            cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)]
            typer.echo("  ".join([*cells, row[4]]).rstrip())


def show(job: _Job) -> None:
    """Show all about one job: its state and why, its sizes, and what has happened to it."""
    with refusals():
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
            "engine": row.job.engine,
            "priority": str(row.job.priority),
            "restarts": f"{row.restarts} of {row.job.restarts} used",
            "folder": str(found.folder),
        }
        for key, text in lines.items():
            typer.echo(f"{key + ':':10}{text}")
        for each in row.job.data:
            access = "writes" if each.write else "reads"
            place = f"{each.at} {access} {each.source}" if each.at else each.source
            typer.echo(f"{'data:':10}{place}")
        typer.echo("events:")
        for moment, kind, text in found.events:
            clock = time.strftime("%m-%d %H:%M:%S", time.localtime(moment))
            typer.echo(f"  {clock}  {kind:10}{text}".rstrip())
        if values := found.metrics():
            from drumline.jobs.metrics import display

            typer.echo("metrics:")
            display.show(values)


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
    with refusals():
        from drumline.jobs import api

        try:
            for line in api.find(job).logs(process, follow):
                typer.echo(line)
        except BrokenPipeError:  # `| head`
            sys.stderr.close()


def metrics(
    job: _Job,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Of these only; * stands for anything, as 'cpu/*'.", show_default="all"
        ),
    ] = None,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="All values, as metric,step,time,value.")
    ] = False,
    png: Annotated[
        Path | None, typer.Option(help="Draw the curves into this file.", show_default=False)
    ] = None,
) -> None:
    """Show what a job uses and what it reports: the latest values, each with a small curve."""
    with refusals():
        import fnmatch

        from drumline.jobs import api
        from drumline.jobs.metrics import display

        found = api.find(job)
        values = found.metrics()
        for pattern in names or ():
            if not fnmatch.filter(values, pattern):
                known = ", ".join(values) or "none yet"
                raise ValueError(f"job {found.id} has no metric {pattern!r}; it has: {known}")
        chosen = {
            name: series
            for name, series in values.items()
            if not names or any(fnmatch.fnmatchcase(name, pattern) for pattern in names)
        }
        if png is not None:
            display.draw(chosen, png, f"{found.name} (job {found.id}, {found.state})")
            typer.echo(f"The curves are in {png}.")
        if as_csv:
            typer.echo(display.as_csv(chosen), nl=False)
        elif png is None and chosen:
            display.show(chosen)
        elif png is None:
            typer.echo(f"Job {found.id} has no metrics yet.")


def cancel(job: _Job) -> None:
    """Ask a job to save and end. It is given the time that a launcher gives, then killed."""
    with refusals():
        from drumline.jobs import api

        found = api.find(job)
        found.cancel()
        typer.echo(f"Job {found.id} is asked to end.")


def rerun(job: _Job) -> None:
    """Submit a job again as a new one, with the same code and command."""
    with refusals():
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


@secrets_app.command("add", hidden=True)  # as code, data and engine have it
@secrets_app.command("set")
def set_secret(name: _Secret) -> None:
    """Store a secret, which is asked for, or read from standard input if that is no terminal."""
    with refusals():
        import getpass

        from drumline.jobs.service.chosen import chosen

        if sys.stdin.isatty():
            value = getpass.getpass(f"{name}: ")
        else:
            value = sys.stdin.read().removesuffix("\n")
        chosen().set_secret(name, value)
        typer.echo(f"{name} is stored.")


@secrets_app.command("list")
def list_secrets() -> None:
    """List the names of the secrets."""
    with refusals():
        from drumline.jobs.service.chosen import chosen

        for name in chosen().secrets()["secrets"]:
            typer.echo(name)


@secrets_app.command("remove")
def remove_secret(name: _Secret) -> None:
    """Remove a secret."""
    with refusals():
        from drumline.jobs.service.chosen import chosen

        chosen().remove_secret(name)
        typer.echo(f"{name} is removed.")


@workspace_app.command("database")
def database(
    url: Annotated[
        str | None, typer.Argument(help="postgresql://USER@HOST/DATABASE, to move it there.")
    ] = None,
) -> None:
    """Say where the list of jobs is, or move it to PostgreSQL."""
    with refusals():
        from drumline.jobs.store.database import Store
        from drumline.jobs.store.workspace import current

        if url is not None:
            from drumline.jobs.store.moving import use_database

            use_database(current(), url)
        with contextlib.closing(Store(current())) as store:
            typer.echo(f"{store.place[0].upper()}{store.place[1:]}.")


@workspace_app.command("create")
def create_workspace(name: _Workspace) -> None:
    """Make a workspace; `use` chooses it."""
    with refusals():
        from drumline.jobs.service.chosen import server_workspaces
        from drumline.jobs.store.workspace import create

        if (server := server_workspaces()) is not None:
            server.create(name)
            typer.echo(f"{server.url} has a workspace {name}; `drumline workspace use {name}`")
            return
        typer.echo(str(create(name)))


@workspace_app.command("use")
def use_workspace(name: _Workspace) -> None:
    """Choose the workspace that all commands use from now on."""
    with refusals():
        from drumline.jobs.service.chosen import server_workspaces
        from drumline.jobs.store.workspace import use

        if (server := server_workspaces()) is not None:
            typer.echo(server.use(name))
            return
        typer.echo(str(use(name)))


@workspace_app.command("list")
def list_workspaces() -> None:
    """List the workspaces; * marks the one in use."""
    with refusals():
        from drumline.jobs.service.chosen import server_workspaces
        from drumline.jobs.store.workspace import current_name, names

        server = server_workspaces()
        used = current_name() if server is None else server.used
        listed = names() if server is None else server.names()
        for name in sorted({*listed, used}):
            typer.echo(f"{'*' if name == used else ' '} {name}")


engine_app = typer.Typer(
    help="Where jobs run: this machine (local), clusters of Slurm, Kubernetes and Ray, SSH hosts.",
    no_args_is_help=True,
)
_Engine = Annotated[str, typer.Argument(help="As engine: of a job file names it.")]


@engine_app.command("add")
def add_engine(
    name: _Engine,
    kind: Annotated[str, typer.Option(help="slurm, kubernetes, ssh or ray.")],
    folder: Annotated[
        Path | None,
        typer.Option(help="For code and logs: a folder that all nodes have at this path.",
                     show_default="~/drumline-jobs"),
    ] = None,
    partition: Annotated[str, typer.Option(help="Of Slurm.", show_default="Slurm's default")] = "",
    account: Annotated[str, typer.Option(help="Of Slurm.", show_default="your default")] = "",
    qos: Annotated[str, typer.Option(help="Of Slurm.", show_default="the default")] = "",
    options: Annotated[
        str, typer.Option(help="Further ones of sbatch, as \"--constraint=a100 --exclusive\".")
    ] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE",
                     help="Of Kubernetes: image=...; of SSH: cpus=...; of Ray: address=..."),
    ] = None,
    hosts: Annotated[str, typer.Option(metavar="A,B", help="Of SSH, as ssh names them.")] = "",
) -> None:  # fmt: skip
    """Add a cluster of Slurm, whose sbatch is installed here, of Kubernetes or Ray, or SSH hosts.

    Jobs choose it by its name.
    """
    with refusals():
        import dataclasses
        import os

        from drumline.jobs.engines.kubernetes.settings import read_settings
        from drumline.jobs.engines.ray.engine import read_ray_settings
        from drumline.jobs.engines.registry import EngineError, EngineRecord
        from drumline.jobs.engines.slurm.queue import found_commands
        from drumline.jobs.engines.slurm.script import SlurmSettings, checked_options
        from drumline.jobs.engines.ssh.settings import read_ssh_settings
        from drumline.jobs.service.chosen import chosen

        made: Any
        if hosts and kind != "ssh":
            raise EngineError("--hosts belongs to --kind ssh.")
        if kind == "kubernetes":
            made = read_settings(settings or [])
        elif kind == "ray":
            made = read_ray_settings(settings or [])
        elif kind == "ssh":
            words = [*(settings or []), *([f"folder={folder}"] if folder else [])]
            made = read_ssh_settings(hosts, words)
        elif settings:
            raise EngineError(f"--set belongs to other kinds; {kind} has options of its own.")
        else:
            where = (folder or Path.home() / "drumline-jobs").expanduser().absolute()
            made = SlurmSettings(
                folder=str(where),
                partition=partition,
                account=account,
                qos=qos,
                options=checked_options(options),
                commands=found_commands(),
                configuration=os.environ.get("SLURM_CONF", ""),
            )
            if kind == "slurm" and not made.commands:
                raise EngineError(
                    "Slurm's command sbatch was not found on PATH; install slurm-client."
                )
        chosen().add_engine(EngineRecord(name, kind, dataclasses.asdict(made)))
        typer.echo(f"Engine {name} is added; jobs choose it by engine: {name}")


@engine_app.command("list")
def list_engines() -> None:
    """List the engines, with the settings of those that were added."""
    with refusals():
        from drumline.jobs.service.chosen import chosen

        for engine in chosen().engines()["engines"]:
            shown = [f"{key}={' '.join(value) if isinstance(value, list) else value}"
                     for key, value in engine["settings"].items() if value]  # fmt: skip
            kind = "this machine" if engine["name"] == "local" else engine["kind"]
            typer.echo("  ".join([engine["name"], kind, *shown]))


@engine_app.command("remove")
def remove_engine(name: _Engine) -> None:
    """Remove an engine on which no job is open. Its folder stays."""
    with refusals():
        from drumline.jobs.service.chosen import chosen

        chosen().remove_engine(name)
        typer.echo(f"Engine {name} is removed.")


def register(app: typer.Typer) -> None:
    """Add the commands to `drumline`."""
    app.command(context_settings={"allow_interspersed_args": False})(run)
    for command in (jobs, show, logs, metrics, cancel, rerun):
        app.command()(command)
    app.add_typer(engine_app, name="engine")
    app.add_typer(secrets_app, name="secret")
    app.add_typer(workspace_app, name="workspace")
