"""What is submitted to Slurm for one start of a job: the script for sbatch, and its parts.

Each process is a task of Slurm's with a launcher of its own. Processes of one size are tasks of one
component; where the roles' sizes differ, the job is heterogeneous.
"""

from __future__ import annotations

import dataclasses
import math
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drumline.jobs.engines.launching import KILL_SECONDS
from drumline.jobs.file.model import ROLES, Job, JobRole

IN_JOB = (sys.executable, "-P", "-m", "drumline_command.job_process")
BATCH, TASK, SAMPLER = "slurm-batch", "slurm-task", "slurm-sampler"
SUBMITTED_LOG = "slurm.log"

RUN, SIGNALS = "{run}", "{signals}"
"""In a launcher's command line: the folder of this run, and how signals come."""

WARNED_SECONDS = 60
"""Before the end of a limit that is not the job's own, its processes are asked to save."""

_NICE = 1000
"""By how much each step of priority below 5 lets others go first, and each one above go before."""
USUAL_PRIORITY = 5
"""That of a job of which nothing is said, here and in Slurm."""

# What drumline decides itself, or what would change what it relies on.
_REFUSED = {
    *("job-name", "output", "error", "input", "open-mode", "chdir", "export", "export-file"),
    *("ntasks", "cpus-per-task", "mem-per-cpu", "mem", "gpus-per-task", "time", "requeue"),
    *("no-requeue", "wait", "array", "wrap", "parsable", "test-only", "partition", "account"),
    *("qos", "nice", "help", "usage", "version"),
}


class OptionError(ValueError):
    """An option for sbatch that drumline does not pass on; the message says why."""


@dataclasses.dataclass(frozen=True)
class SlurmSettings:
    """A Slurm cluster, as it was added.

    Attributes:
        folder: where the code and the logs of jobs go, at the same path on all nodes.
        partition: Slurm's default one if it is empty.
        account: the user's default one if it is empty.
        qos: the default one if it is empty.
        options: further ones of sbatch, each a word, as ``--constraint=a100``.
        commands: the folder of Slurm's commands.
        configuration: the value of ``SLURM_CONF``, or the empty string.
    """

    folder: str
    partition: str = ""
    account: str = ""
    qos: str = ""
    options: tuple[str, ...] = ()
    commands: str = ""
    configuration: str = ""

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> SlurmSettings:
        """The settings that `dataclasses.asdict` has written."""
        return cls(**{**fields, "options": tuple(fields["options"])})


def checked_options(text: str) -> tuple[str, ...]:
    """Options for sbatch, from one text.

    Raises:
        OptionError: naming one that is not passed on.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise OptionError(f"{text!r} cannot be split into words: {error}".lower()) from None
    for word in words:
        name = word.removeprefix("--").partition("=")[0]
        if not word.startswith("--") or not name:
            raise OptionError(f"{word!r} is no long option; write it as --constraint=a100")
        if name in _REFUSED:
            raise OptionError(
                f"--{name} is set by drumline: sizes and limits are in the job file, and "
                "partition, account and qos have options of their own"
            )
    return words


@dataclasses.dataclass(frozen=True)
class Component:
    """Tasks of one size, whose ranks follow each other.

    Attributes:
        first: the rank of the first.
        tasks: how many.
        size: of each.
    """

    first: int
    tasks: int
    size: JobRole

    def options(self) -> list[str]:
        """Those of sbatch and srun for its size."""
        cpus = math.ceil(self.size.cpus)
        found = [f"--ntasks={self.tasks}", f"--cpus-per-task={cpus}"]
        if self.size.memory:
            found.append(f"--mem-per-cpu={math.ceil(self.size.memory / cpus / 2**20)}M")
        if self.size.gpus:
            found.append(f"--gpus-per-task={self.size.gpus}")
        return found


def components(job: Job) -> list[Component]:
    """The parts of a job in the order of ranks: chief, workers, parameter servers, evaluator."""
    found: list[Component] = []
    rank = 0
    for role in (job.roles[name] for name in ROLES if name in job.roles):
        size = dataclasses.replace(role, count=1)
        if found and found[-1].size == size:
            last = found.pop()
            found.append(dataclasses.replace(last, tasks=last.tasks + role.count))
        else:
            found.append(Component(rank, role.count, size))
        rank += role.count
    return found


def batch_script(job: Job, settings: SlurmSettings, name: str, folder: Path, work: Path) -> str:
    """The text of the script.

    Args:
        job: what is started.
        settings: of the cluster.
        name: the Slurm job's, by which it is found.
        folder: the attempt's, which all nodes see.
        work: where its processes run.
    """
    parts = [[*component.options(), *_where(settings)] for component in components(job)]
    lines = ["#!/bin/sh"]
    first = [
        f"--job-name={name}",
        f"--chdir={work}",
        f"--output={folder / SUBMITTED_LOG}",
        *("--open-mode=append", "--requeue"),
        *_limits(job),
    ]
    parts[0] = [*first, *parts[0]]
    for number, options in enumerate(parts):
        lines += ["#SBATCH hetjob"] if number else []
        lines += [f"#SBATCH {_quoted(option)}" for option in options]
    lines.append("exec " + shlex.join([*IN_JOB, BATCH, str(folder)]))
    return "\n".join(lines) + "\n"


def _where(settings: SlurmSettings) -> Iterator[str]:
    for option in ("partition", "account", "qos"):
        if value := getattr(settings, option):
            yield f"--{option}={value}"
    yield from settings.options


def _limits(job: Job) -> Iterator[str]:
    if job.timeout is None:
        yield f"--signal=TERM@{WARNED_SECONDS}"
    else:
        # The job itself asks its processes to end in time; this is what Slurm plans with.
        yield f"--time={math.ceil((job.timeout + KILL_SECONDS) / 60)}"
    # Only Slurm's operators may put a job before others; see the engine for all others.
    if job.priority != USUAL_PRIORITY:
        yield f"--nice={(USUAL_PRIORITY - job.priority) * _NICE}"


def _quoted(option: str) -> str:
    """As sbatch reads its lines: words in double quotes."""
    name, equals, value = option.partition("=")
    if not equals or not any(c in value for c in " \t\"'\\#"):
        return option
    return f'{name}="' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def step_command(component: Component, group: int | None, command: Sequence[str]) -> list[str]:
    """The srun that starts the tasks of a component.

    Args:
        component: which.
        group: its number in a heterogeneous job, or None.
        command: of each task.
    """
    # Slurm would end all tasks with the first that fails: launchers end their job themselves.
    options = ["--kill-on-bad-exit=0", "--wait=0", "--input=none", "--unbuffered"]
    chosen = [] if group is None else [f"--het-group={group}"]
    return ["srun", *chosen, *component.options(), *options, *command]
