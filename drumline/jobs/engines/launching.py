"""The command line of the launcher, the same on each engine, and the program that reads it.

An engine puts what prepares its processes (mounts, an image) before it, and nothing else makes one.
The program is what the command ``drumline launch`` is, but knows only the few options that are
written here: to import a command line, and what draws tables, takes longer than all else that a
short job does.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumline.jobs.file.model import Job, JobRole

if TYPE_CHECKING:
    from drumline.jobs.launch.options import LaunchOptions

GRACE_SECONDS = 10.0
"""What the launcher gives its processes to save and end."""

KILL_SECONDS = GRACE_SECONDS + 20
"""When the launcher itself is killed, after it was asked to end."""

RANK, RENDEZVOUS = "{rank}", "{rendezvous}"
"""Words of a command line of several hosts, each of which puts its own values in their place."""

_SHOWN = (sys.executable, "-P", "-m", "drumline_command", "launch")
_LOGGED = (sys.executable, "-P", "-m", "drumline_command.job_process", "launch")
"""Of one whose own lines go into a log: `main`."""


def launch_command(
    job: Job,
    logs: Path,
    before: Sequence[str] = (),
    several_hosts: Sequence[str] | None = None,
    launcher_log: Path | None = None,
) -> list[str]:
    """The launcher's command line.

    Args:
        job: what it runs.
        logs: where the processes' logs go.
        before: a command that runs the one behind it, as ``[..., "--"]``.
        several_hosts: None for a launcher that runs all processes and shares the GPUs out; for
            one that runs one of them, further options. `RANK` and `RENDEZVOUS` stand in it.
        launcher_log: where the launcher's own lines go; None for its standard output.
    """
    roles = job.roles
    options = ["--workers", str(roles["workers"].count)]
    if ps := roles.get("ps", JobRole(0)).count:
        options += ["--ps", str(ps)]
    options += [f"--{alone}" for alone in ("chief", "evaluator") if alone in roles]
    if several_hosts is not None:
        options += ["--process-per-node", *several_hosts]
        if sum(role.count for role in roles.values()) > 1:
            options += ["--node-rank", RANK, "--rendezvous", RENDEZVOUS]
    elif gpus := roles["workers"].gpus:
        options += ["--devices-per-worker", str(gpus)]
    options += ["--grace-seconds", f"{GRACE_SECONDS:g}", "--log-dir", str(logs)]
    if launcher_log is not None:
        options += ["--launcher-log", str(launcher_log)]
    if job.hang_after is not None:
        options += ["--hang-after", f"{job.hang_after:.3f}s"]
    if job.log_limit is not None:
        options += ["--log-limit", f"{job.log_limit / 1000:.3f}KB"]
    program = _SHOWN if launcher_log is None else _LOGGED
    return [*before, *program, *options, "--", *job.command]


def filled(word: str, values: Mapping[str, str]) -> str:
    """A word of a command line with values in the place of `RANK` and the like."""
    for name, value in values.items():
        word = word.replace(name, value)
    return word


_TAKE_A_VALUE = {
    "workers": int,
    "ps": int,
    "devices-per-worker": int,
    "grace-seconds": float,
    "hang-after": str,
    "launcher-log": Path,
    "log-dir": Path,
    "log-limit": str,
    "node-rank": int,
    "rendezvous": str,
}
_ALONE = ("chief", "evaluator", "process-per-node", "shared-signals")


def parsed(arguments: Sequence[str]) -> tuple[LaunchOptions, Path]:
    """The options that `launch_command` has written, and the file for the launcher's own lines.

    Args:
        arguments: what follows ``launch``.

    Raises:
        LaunchError: there is an option that this version of drumline does not know, or a value that
            is none.
    """
    from drumline.jobs.launch.environment import LAUNCHERS_TOKEN_VARIABLE
    from drumline.jobs.launch.options import (
        LaunchOptions,
        cache_directory,
        hang_after_of,
        log_limit_of,
    )
    from drumline.jobs.launch.tasks import Layout

    own = list(arguments[: arguments.index("--")])
    given = dict(_options(own))
    fields = [field.name for field in dataclasses.fields(Layout)]
    layout = Layout(**{name: given.pop(name) for name in fields if name in given})
    if layout.process_per_node:
        whole = dataclasses.replace(layout, process_per_node=False)
        layout = dataclasses.replace(layout, nodes=len(whole.tasks_of(0)))
    given["hang_after"] = hang_after_of(given.get("hang_after"))
    if "log_limit" in given:
        given["log_limit"] = log_limit_of(given["log_limit"])
    log = given.pop("launcher_log")
    return LaunchOptions(
        command=tuple(arguments[len(own) + 1 :]),
        layout=layout,
        compilation_cache=cache_directory(),
        token=os.environ.get(LAUNCHERS_TOKEN_VARIABLE) or None,
        **given,
    ), log


def _options(words: list[str]) -> Iterator[tuple[str, Any]]:
    from drumline.jobs.launch.errors import LaunchError

    left = iter(words)
    for word in left:
        name = word.removeprefix("--")
        try:
            value = True if name in _ALONE else _TAKE_A_VALUE[name](next(left))
        except (KeyError, StopIteration, ValueError):
            raise LaunchError(
                f"{word} is not understood in `launch {' '.join(words)}`: the job was submitted by "
                "another version of drumline"
            ) from None
        yield name.replace("-", "_"), value


def main(arguments: Sequence[str]) -> None:
    """The program of a launcher, whose own lines go into its log."""
    from drumline.jobs.launch.errors import LaunchError
    from drumline.jobs.launch.job import run_job
    from drumline.jobs.launch.options import USAGE_ERROR
    from drumline.jobs.launch.view import LogConsole, View

    try:
        options, log = parsed(arguments)
        view = View(LogConsole(log, options.log_limit), prefix_output=False, quiet=False)
    except LaunchError as error:
        print(f"drumline launch: {error}", file=sys.stderr, flush=True)
        sys.exit(USAGE_ERROR)
    try:
        sys.exit(run_job(options, view))
    except LaunchError as error:
        view.say(f"drumline launch: {error}")
        sys.exit(USAGE_ERROR)
