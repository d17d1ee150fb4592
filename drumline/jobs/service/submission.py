"""From a checked job to one in the queue: what may change later is settled now.

A branch becomes a commit, a folder becomes a copy, and what is missing is found before the job
waits.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from drumline.jobs.engines.engine import Engine
from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.starting import passed_environment
from drumline.jobs.file.model import INLINE_SSH, RESOURCES, Code, Job, amount
from drumline.jobs.file.values import JobFileError
from drumline.jobs.sources.code import CodeError, checkout, resolve, snapshot
from drumline.jobs.sources.data import data_kind, data_problems
from drumline.jobs.sources.reaching import unreachable
from drumline.jobs.sources.secrets import SecretError, read_secret
from drumline.jobs.store.database import Store
from drumline.jobs.supervisor.queue import impossible


@dataclasses.dataclass(frozen=True)
class Allowance:
    """What a member's jobs may ask for.

    Attributes:
        priority: the highest they may have.
        jobs: how many of them may be open, or None.
        needs: how much the running ones may hold together, by the names in `RESOURCES`; what is
            missing is not limited.
        hosts: whether a job's file may name SSH hosts itself, besides the engines there are.
    """

    priority: int = 9
    jobs: int | None = None
    needs: Mapping[str, float] = dataclasses.field(default_factory=dict)
    hosts: bool = True

    def problems(self, job: Job, opened: int) -> list[str]:
        """Why a member who has so many open jobs may not submit another; empty if they may."""
        found = []
        if job.priority > self.priority:
            text = f"must be at most {self.priority} for you here, not {job.priority}"
            found.append(job.problem("priority", text))
        if job.engine.startswith(INLINE_SSH) and not self.hosts:
            text = (
                "hosts are not named by members here, as the server logs in to them with its own "
                "keys: name one of `drumline engine list`, or ask an admin of the workspace to add "
                "them (`drumline engine add NAME --kind ssh --hosts a,b`)"
            )
            found.append(job.problem("engine", text))
        for name, most in self.needs.items():
            if job.needs[name] > most:
                found.append(
                    f"the job needs {amount(job.needs[name], name)}, and your jobs may hold "
                    f"{amount(most, name)} here"
                )
        if self.jobs is not None and opened >= self.jobs:
            found.append(
                f"{opened} jobs of yours are open, and {self.jobs} may be: wait for one to end, or "
                "cancel it"
            )
        return found


ANYTHING = Allowance()
"""Without members."""


def submit(
    store: Store,
    engine: Engine,
    job: Job,
    by: str = "",
    request: str | None = None,
    upload: Path | None = None,
) -> int:
    """Put a job into the queue, and return its number.

    Args:
        store: the jobs.
        engine: what runs it.
        job: what is submitted.
        by: the member of a server who does.
        request: names the request, so that it can be repeated.
        upload: the folder with its code, which becomes the job's; instead of the copy of a folder.

    Raises:
        JobFileError: its code, a secret or a size cannot be had; with a line for each.
        SubmittedBeforeError: there is a job of this request.
    """
    _check(store, engine, job)
    number = store.submit(job, by, request)
    folder = store.home / "jobs" / str(number)
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        attempt.write(folder / "environment.json", passed_environment(os.environ))
        if upload is not None:
            upload.rename(folder / "source")
            job = dataclasses.replace(job, code=Code(str(folder / "source"), at=job.code.at))
        else:
            job = dataclasses.replace(job, code=_fetch(store.home, job.code, folder / "source"))
        _check_script(job, folder / "source", engine.remote)
        store.queue(number, job)
    except BaseException as error:
        store.drop(number)
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, CodeError):
            raise JobFileError([job.problem("code", str(error))]) from error
        raise
    return number


def resubmit(
    store: Store, engine: Engine, number: int, by: str = "", request: str | None = None
) -> int:
    """Put a job into the queue again as a new one, with the same code.

    Args:
        store: the jobs.
        engine: what runs it.
        number: the job that is repeated.
        by: see `submit`.
        request: see `submit`.

    Raises:
        JobFileError: there is no such job, or it cannot be had any more.
    """
    row = store.job(number)
    source = store.home / "jobs" / str(number) / "source"
    if row is None or not source.is_dir():
        raise JobFileError([f"there is no job {number}"])
    copied = dataclasses.replace(row.job, code=Code(folder=str(source), at=row.job.code.at))
    _check(store, engine, copied)
    fresh = store.submit(row.job, by, request)
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
    capacity = engine.capacity()
    if too_large := impossible(job.needs, capacity):
        short = next(r for r in RESOURCES if job.needs[r] > capacity[r])
        most = max(job.roles, key=lambda n: job.roles[n].count * getattr(job.roles[n], short))
        text = (
            f"the job {too_large}. Reserve less for each process, as workers: "
            "{count: 4, cpus: 0.5}, or start fewer"
        )
        problems.append(job.problem(most, text))
    secrets = {}
    parts = {name: f"secrets[{i}]" for i, name in enumerate(job.secrets)}
    for name, part in (parts | ({job.code.token: "code"} if job.code.token else {})).items():
        try:
            secrets[name] = read_secret(store.home, name)
        except SecretError as error:
            problems.append(job.problem(part, str(error)))
    if not engine.remote:
        problems += data_problems(job, store.home)
    if not problems:
        own = {name: secrets[name] for name in job.secrets}
        asked = {
            i: each.source
            for i, each in enumerate(job.data)
            if data_kind(each.source) in ("store", "dataset")
        }
        writes = [i for i, each in enumerate(job.data) if each.write]
        found = unreachable(asked, writes, {**passed_environment(os.environ), **job.env, **own})
        problems += [job.problem(f"data[{i}].from", text) for i, text in found.items()]
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


def _check_script(job: Job, source: Path, remote: bool) -> None:
    """Find now that the script is missing, not when the job has waited for hours."""
    from drumline.jobs.launch.options import python_script

    def missing(text: str) -> JobFileError:
        return JobFileError([job.problem("command", text)])

    def in_code(path: str) -> Path:
        """Where what the job sees at a path is, if it is seen at the code's mount path."""
        at = job.code.at
        if at and Path(path).is_relative_to(at):
            return source / Path(path).relative_to(at)
        return source / path

    program = job.command[0]
    apart = remote or all(role.image for role in job.roles.values())
    place = in_code(program)
    if "/" in program and (place.is_relative_to(source) or not remote):
        if not place.is_file():
            raise missing(f"there is no {program} (seen from the job's code)")
    elif "/" not in program and not apart and shutil.which(program) is None:
        raise missing(f"the program {program!r} was not found on PATH")
    script = python_script(job.command)
    if script is not None and not in_code(script).exists():
        where = job.code.git or job.code.folder
        ignored = ", or git ignores it" if job.code.git is None else ""
        raise missing(f"{script} is not in the job's code, {where}{ignored}")
