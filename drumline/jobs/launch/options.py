"""What the user asked for, checked."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import sys
from pathlib import Path

from drumline import _settings
from drumline.jobs.file.values import Mistake, value_of
from drumline.jobs.launch.errors import LaunchError
from drumline.jobs.launch.tasks import Layout
from drumline.jobs.logs.writing import DEFAULT_LIMIT, LEAST_LIMIT

USAGE_ERROR = 2
"""The exit code of a launcher that cannot start its job as asked."""

_PYTHON = re.compile(r"python[\d.]*$")
_TAKES_A_VALUE = ("-X", "-W", "--check-hash-based-pycs")


@dataclasses.dataclass(frozen=True)
class LaunchOptions:
    """A job as the user asked for it.

    Attributes:
        command: program and arguments of every process.
        layout: how many processes of which type.
        log_dir: where logs and failure records go.
        host: the address of this host in the cluster; None stands for 127.0.0.1, or with several
            hosts for the one at which the others reach it.
        devices_per_worker: CPU devices, or GPUs, of the chief and each worker; None leaves it to
            the script.
        max_restarts: how often the whole job is started again after a failure.
        grace_seconds: between asking a process to end and killing it.
        suspended_seconds: how long a process may be suspended where the chief leads.
        evaluator_seconds: how long the evaluator may run on when the training is done.
        compilation_cache: the directory of compiled programs that the processes share, or None.
        node_rank: the number of this host.
        rendezvous: ``"host:port"`` of host 0's launcher; None on a single host.
        rendezvous_seconds: how long to wait for all hosts.
        token: the secret that the launchers prove to each other they know; None for none.
        shared_signals: whether a signal reaches the processes by itself, too.
        log_limit: bytes of the log of each process.
        hang_after: seconds of silence of the whole job after which it counts as failed; None: any.
    """

    command: tuple[str, ...]
    layout: Layout
    log_dir: Path
    host: str | None = None
    devices_per_worker: int | None = None
    max_restarts: int = 0
    grace_seconds: float = 10.0
    suspended_seconds: float = 30.0
    evaluator_seconds: float = 300.0
    compilation_cache: str | None = None
    node_rank: int = 0
    rendezvous: str | None = None
    rendezvous_seconds: float = 300.0
    token: str | None = None
    shared_signals: bool = False
    log_limit: int = DEFAULT_LIMIT
    hang_after: float | None = None


def checked(options: LaunchOptions) -> LaunchOptions:
    """`options` if they make sense.

    Raises:
        LaunchError: naming what does not.
    """
    _check_command(options.command)
    _check_nodes(options)
    return options


def cache_directory() -> str:
    """The user's own choice in the environment, or a directory in the user's cache."""
    chosen = os.environ.get(_settings.CACHE_VARIABLE)
    return chosen or _settings.cache_directory()


def log_limit_of(text: str) -> int:
    """The bytes that ``--log-limit`` names.

    Raises:
        LaunchError: it is no size, or too small a one.
    """
    try:
        limit = value_of(text, "--log-limit").memory()
    except Mistake as mistake:
        raise LaunchError(str(mistake)) from None
    if limit < LEAST_LIMIT:
        raise LaunchError(f"--log-limit: must be at least {LEAST_LIMIT >> 10}KiB, not {text!r}")
    return limit


def hang_after_of(text: str | None) -> float | None:
    """The seconds that ``--hang-after`` names.

    Raises:
        LaunchError: it is no duration.
    """
    try:
        return None if text is None else value_of(text, "--hang-after").duration()
    except Mistake as mistake:
        raise LaunchError(str(mistake)) from None


def _check_command(command: tuple[str, ...]) -> None:
    if not command:
        raise LaunchError(
            "there is no command to run. Put it after the options: "
            "drumline launch --workers 2 -- python train.py"
        )
    program = command[0]
    if shutil.which(program) is None:
        path = Path(program)
        if path.is_file() and not os.access(path, os.X_OK):
            raise LaunchError(
                f"{program!r} is not executable. If it is a Python script, put 'python' before it."
            )
        raise LaunchError(f"the command {program!r} was not found. Is it installed, and on PATH?")
    script = python_script(command)
    if script is not None and not Path(script).exists():
        raise LaunchError(f"the script {script!r} does not exist (seen from {Path.cwd()}).")


def other_python(command: tuple[str, ...]) -> str:
    """A warning if `command` runs another Python than this one, which may lack what it needs."""
    found = shutil.which(command[0])
    if not _PYTHON.match(Path(command[0]).name) or found is None:
        return ""
    # Not resolved: a virtual environment's python is a link to the one it was made from.
    if Path(found).absolute().parent == Path(sys.executable).absolute().parent:
        return ""
    return f"Note: {command[0]!r} is {found}; drumline launch itself runs in {sys.executable}."


def python_script(command: tuple[str, ...]) -> str | None:
    """The script that a Python command line names, if it is one and names one."""
    if not _PYTHON.match(Path(command[0]).name):
        return None
    arguments = iter(command[1:])
    for argument in arguments:
        if argument in _TAKES_A_VALUE:
            next(arguments, None)
        elif argument.startswith(("-c", "-m")) or argument == "-":
            return None
        elif not argument.startswith("-"):
            return argument
    return None


def _check_nodes(options: LaunchOptions) -> None:
    nodes, rank = options.layout.nodes, options.node_rank
    if not 0 <= rank < nodes:
        raise LaunchError(
            f"--node-rank {rank} does not fit --nodes {nodes}: hosts are numbered 0 to {nodes - 1}."
        )
    if options.layout.process_per_node:
        processes = len(dataclasses.replace(options.layout, process_per_node=False).tasks_of(0))
        if nodes != processes:
            raise LaunchError(
                f"--nodes {nodes} does not fit --process-per-node: there are {processes} "
                "processes, and each has a host of its own. Leave --nodes out."
            )
    if nodes > 1 and options.rendezvous is None:
        raise LaunchError(
            f"--nodes {nodes} needs --rendezvous HOST:PORT, an address of host 0 that the others "
            f"can reach. Give the same to all."
        )
    if nodes == 1 and options.rendezvous is not None:
        raise LaunchError("--rendezvous needs --nodes, the number of hosts that take part.")
    if options.token == "":
        raise LaunchError("--rendezvous-token is empty. Leave it out, or give a secret.")
