"""From a checked job to one in the queue: what may change later is settled now.

A branch becomes a commit, a folder becomes a copy, and what is missing is found before the job
waits.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

from drumline.jobs.engines.engine import Engine
from drumline.jobs.engines.local import attempt
from drumline.jobs.file.model import Code, Job
from drumline.jobs.file.values import JobFileError
from drumline.jobs.sources.code import CodeError, checkout, resolve, snapshot
from drumline.jobs.sources.secrets import SecretError, read_secret
from drumline.jobs.store.database import Store
from drumline.jobs.supervisor.queue import impossible

# What a job's processes get of the environment it was submitted from; all else is its own `env`.
_PASSED = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV"}
_PASSED |= {"CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE"}
_PASSED_BY_PREFIX = ("LC_", "JAX_", "XLA_", "KERAS_", "OMP_", "XDG_", "CUDA_", "NVIDIA_")


def submit(store: Store, engine: Engine, job: Job) -> int:
    """Put a job into the queue, and return its number.

    Raises:
        JobFileError: its code, a secret or a size cannot be had; with a line for each.
    """
    _check(store, engine, job)
    number = store.submit(job)
    folder = store.home / "jobs" / str(number)
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        attempt.write(folder / "environment.json", _environment())
        job = dataclasses.replace(job, code=_fetch(store.home, job.code, folder / "source"))
        _check_script(job, folder / "source")
        store.queue(number, job)
    except BaseException as error:
        store.drop(number)
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, CodeError):
            raise JobFileError([f"code: {error}"]) from error
        raise
    return number


def resubmit(store: Store, engine: Engine, number: int) -> int:
    """Put a job into the queue again as a new one, with the same code.

    Raises:
        JobFileError: there is no such job, or it cannot be had any more.
    """
    row = store.job(number)
    source = store.home / "jobs" / str(number) / "source"
    if row is None or not source.is_dir():
        raise JobFileError([f"there is no job {number}"])
    copied = dataclasses.replace(row.job, code=Code(folder=str(source)))
    _check(store, engine, copied)
    fresh = store.submit(row.job)
    folder = store.home / "jobs" / str(fresh)
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        shutil.copy2(source.parent / "environment.json", folder)
        shutil.copytree(source, folder / "source", symlinks=True)
        store.queue(fresh, row.job)
    except BaseException:
        store.drop(fresh)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return fresh


def _check(store: Store, engine: Engine, job: Job) -> None:
    problems = engine.check(job)
    if too_large := impossible(job.needs, engine.capacity()):
        problems.append(
            f"the job {too_large}. Reserve less for each process, as workers: "
            "{count: 4, cpus: 0.5}, or start fewer"
        )
    for name in (*job.secrets, *filter(None, [job.code.token])):
        try:
            read_secret(store.home, name)
        except SecretError as error:
            problems.append(str(error))
    if problems:
        raise JobFileError(problems)


def _fetch(home: Path, code: Code, into: Path) -> Code:
    if code.git is None:
        assert code.folder is not None
        snapshot(Path(code.folder), into)
        return code
    token = read_secret(home, code.token) if code.token else None
    commit = resolve(code.git, code.commit, code.user, token)
    checkout(code.git, commit, code.commit, into, code.user, token)
    return dataclasses.replace(code, commit=commit)


def _check_script(job: Job, source: Path) -> None:
    """Find now that the script is missing, not when the job has waited for hours."""
    from drumline.jobs.launch.options import python_script

    program = job.command[0]
    if "/" in program:
        if not (source / program).is_file():
            raise JobFileError([f"command: there is no {program} (seen from the job's code)"])
    elif shutil.which(program) is None:
        raise JobFileError([f"command: the program {program!r} was not found on PATH"])
    script = python_script(job.command)
    if script is not None and not (source / script).exists():
        where = job.code.git or job.code.folder
        ignored = " or git ignores it" if job.code.git is None else ""
        raise JobFileError([f"command: {script} is not in the job's code, {where}{ignored}"])


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED or name.startswith(_PASSED_BY_PREFIX)
    }
