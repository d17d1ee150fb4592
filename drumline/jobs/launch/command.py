"""The command ``drumline launch``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

_MANY_HOSTS = "Several hosts"
_OUTPUT = "Output"


def launch(
    workers: Annotated[int, typer.Option(min=1, help="Workers on this host.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(help="The command of every process, after --", show_default=False),
    ] = None,
    ps: Annotated[int, typer.Option(min=0, help="Parameter servers on this host.")] = 0,
    chief: Annotated[bool, typer.Option("--chief", help="Add a chief to the workers.")] = False,
    evaluator: Annotated[
        bool, typer.Option("--evaluator", help="Add an evaluator beside the cluster.")
    ] = False,
    devices_per_worker: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="CPU devices of each process; where there are GPUs, how many of them the chief "
            "and each worker get.",
            show_default="the script decides",
        ),
    ] = None,
    max_restarts: Annotated[
        int, typer.Option(min=0, help="Start the whole job again after a failure, this often.")
    ] = 0,
    grace_seconds: Annotated[
        float, typer.Option(min=0, help="Time for a process to end before it is killed.")
    ] = 10.0,
    suspended_seconds: Annotated[
        float,
        typer.Option(
            min=0,
            help="With --chief and --ps: a process that is suspended (SIGSTOP) for so long is "
            "killed, and counts as failed.",
        ),
    ] = 30.0,
    hang_after: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="A job that writes neither to its logs nor to its metrics for so long, as 30m, "
            "is ended as one that hangs, with the stacks of its processes in their logs.",
            show_default="never",
        ),
    ] = None,
    evaluator_seconds: Annotated[
        float, typer.Option(min=0, help="Time for the evaluator after the training is done.")
    ] = 300.0,
    host: Annotated[
        str | None,
        typer.Option(
            help="The address of this host in the cluster.",
            show_default="127.0.0.1; with --nodes the one others reach it at",
        ),
    ] = None,
    shared_signals: Annotated[
        bool,
        typer.Option(
            "--shared-signals",
            help="Signals reach all processes by themselves, as those that Slurm sends to a step "
            "do: they are not passed on.",
        ),
    ] = False,
    compilation_cache: Annotated[
        bool, typer.Option(help="Share compiled programs between processes and runs.")
    ] = True,
    log_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where each process's log goes.",
            show_default="a new one in drumline-logs",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    log_limit: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="The most that the log of one process takes; older lines make room.",
            rich_help_panel=_OUTPUT,
        ),
    ] = "64MiB",
    launcher_log: Annotated[
        Path | None,
        typer.Option(
            help="Where the launcher's own lines go, within the same limit.",
            show_default="shown",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    prefix_output: Annotated[
        bool,
        typer.Option(
            "--prefix-output",
            help="Show all output too, each line behind its process's name.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", help="Show failures only, and output asked for.", rich_help_panel=_OUTPUT
        ),
    ] = False,
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many hosts.",
            show_default="1; with --process-per-node one for each process",
            rich_help_panel=_MANY_HOSTS,
        ),
    ] = None,
    process_per_node: Annotated[
        bool,
        typer.Option(
            "--process-per-node",
            help="--workers and --ps are those of the whole job, of which each host runs one "
            "process: host 0 the chief or worker:0, the next ones the other workers, then the "
            "parameter servers, then the evaluator.",
            rich_help_panel=_MANY_HOSTS,
        ),
    ] = False,
    node_rank: Annotated[
        int,
        typer.Option(min=0, help="The number of this host, from 0.", rich_help_panel=_MANY_HOSTS),
    ] = 0,
    rendezvous: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where host 0 listens for the others.",
            rich_help_panel=_MANY_HOSTS,
        ),
    ] = None,
    rendezvous_seconds: Annotated[
        float,
        typer.Option(min=1, help="Time for all hosts to appear.", rich_help_panel=_MANY_HOSTS),
    ] = 300.0,
    rendezvous_token: Annotated[
        str | None,
        typer.Option(
            envvar="DRUMLINE_RENDEZVOUS_TOKEN",
            help="A secret that all hosts must know. Others can read a command line: prefer the "
            "environment variable.",
            rich_help_panel=_MANY_HOSTS,
        ),
    ] = None,
) -> None:
    """Start a training script as the processes of a cluster, and watch over them.

    Each process is given its place in TF_CONFIG. When one fails, all are stopped and the one that
    failed first is named, with the end of its log. Ctrl-C and SIGTERM are passed on; a second
    Ctrl-C kills.

    Example: drumline launch --workers 2 --max-restarts 3 -- python train.py --epochs 12

    On several hosts, the same on each, with its own rank:

    drumline launch --workers 4 --nodes 2 --node-rank 0 --rendezvous 10.0.0.1:4000 -- python t.py

    Exit code: 0 if the chief, all workers and whatever else ended by itself did well, 1 if not, 2
    if the job cannot be started as asked, 128 + n after signal n.
    """
    from rich.console import Console

    from drumline.jobs.launch.errors import LaunchError
    from drumline.jobs.launch.job import run_job
    from drumline.jobs.launch.logs import default_log_dir, printable
    from drumline.jobs.launch.options import (
        USAGE_ERROR,
        LaunchOptions,
        cache_directory,
        hang_after_of,
        log_limit_of,
    )
    from drumline.jobs.launch.tasks import Layout
    from drumline.jobs.launch.view import LogConsole, View

    try:
        limit, hang_seconds = log_limit_of(log_limit), hang_after_of(hang_after)
        console = Console() if launcher_log is None else LogConsole(launcher_log, limit)
    except LaunchError as error:
        typer.echo(f"drumline launch: {printable(str(error))}", err=True)
        raise typer.Exit(USAGE_ERROR) from None
    layout = Layout(workers, ps, chief, evaluator)
    if nodes is None:
        nodes = len(layout.tasks_of(0)) if process_per_node else 1
    options = LaunchOptions(
        command=tuple(command or ()),
        layout=dataclasses.replace(layout, nodes=nodes, process_per_node=process_per_node),
        log_dir=log_dir or default_log_dir(),
        host=host,
        devices_per_worker=devices_per_worker,
        max_restarts=max_restarts,
        grace_seconds=grace_seconds,
        suspended_seconds=suspended_seconds,
        evaluator_seconds=evaluator_seconds,
        compilation_cache=cache_directory() if compilation_cache else None,
        node_rank=node_rank,
        rendezvous=rendezvous,
        rendezvous_seconds=rendezvous_seconds,
        token=rendezvous_token,
        shared_signals=shared_signals,
        log_limit=limit,
        hang_after=hang_seconds,
    )
    view = View(console, prefix_output=prefix_output, quiet=quiet)
    try:
        raise typer.Exit(run_job(options, view))
    except LaunchError as error:
        said = f"drumline launch: {printable(str(error))}"
        if launcher_log is None:
            typer.echo(said, err=True)
        else:
            view.say(said)
        raise typer.Exit(USAGE_ERROR) from None
