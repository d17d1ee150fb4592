"""Processes in container images, by podman or docker where one of them is there.

On a cluster's nodes apptainer does, too, and which is there is found when a process begins.

The launcher stays in this environment. In front of the job's command it starts a program that looks
which role the process has (``TF_CONFIG``), and becomes ``podman run`` or ``docker run`` with that
role's image; the process of a role without one is executed here. Network, shared memory and the
numbers of processes are the machine's, as the processes of a job need each other, and as signals
and the launcher's guardian then reach what is in a container as they reach any other process.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from drumline.jobs.engines.local import attempt
from drumline.jobs.file.model import Job
from drumline.jobs.sources.mounts import Bind, MountError, enter, refusal
from drumline.jobs.sources.preparation import PROGRAM, binds_file, execute

_FILE = "images.json"
_RUNTIMES = ("podman", "docker")
_APPTAINER = ("apptainer", "singularity")
_ON_NODES = ("podman", *_APPTAINER, "docker")
_PROBES = {"podman": "info", "docker": "info"}
_SECONDS = 20.0
_KINDS = {"workers": "worker"}

# Variables that speak of this machine's files, unless the job itself sets them.
_OF_THIS_MACHINE = {"PATH", "HOME", "SHELL", "PWD", "OLDPWD", "TMPDIR", "USER", "LOGNAME", "_"}
_OF_THIS_MACHINE |= {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH"}
_OF_THIS_MACHINE |= {"SSL_CERT_FILE", "HOSTNAME", "DRUMLINE_DATA_DIR", "TFDS_DATA_DIR"}


class ImageError(Exception):
    """Images that cannot be used; the message says why."""


def image_problems(job: Job) -> list[str]:
    """What is wrong with the images of a job on this machine."""
    images = {name: role.image for name, role in job.roles.items() if role.image}
    if not images:
        return []
    first = next(iter(images))
    if files := image_file_problems(job):
        return files
    try:
        runtime = container_runtime()
    except ImageError as error:
        return [job.problem(first, f"image: {error}")]
    if problems := image_path_problems(job):
        return problems
    found = []
    for name, image in images.items():
        if problem := _missing(runtime, image):
            found.append(job.problem(name, f"image: {problem}"))
    return found


def image_file_problems(job: Job) -> list[str]:
    """Which images of a job are files, where nothing runs those."""
    return [
        job.problem(name, f"image: {role.image} is a file, which apptainer runs, on Slurm alone")
        for name, role in job.roles.items()
        if role.image.startswith("/")
    ]


def image_path_problems(job: Job) -> list[str]:
    """Which paths of a job with images no container can have."""
    first = next((name for name, role in job.roles.items() if role.image), None)
    if first is None:
        return []
    try:
        for each in job.data:
            _mountable(each.source, each.at)
    except ImageError as error:
        return [job.problem(first, f"image: {error}")]
    return []


def container_runtime(names: Sequence[str] = _RUNTIMES) -> str:
    """The program that runs containers here: podman or docker, the first that answers.

    Args:
        names: those that are tried, in order.

    Raises:
        ImageError: none does; the message says of each why.
    """
    reasons = []
    for name in names:
        if shutil.which(name) is None:
            reasons.append(f"{name} is not installed")
            continue
        problem = _answer([name, _PROBES.get(name, "--version")])
        if not problem:
            return name
        reasons.append(f"{name} is installed, but {problem}")
    raise ImageError(
        f"a process in an image needs {' or '.join(names)} on this machine: {'; '.join(reasons)}. "
        "Leave image out to use this environment"
    )


def _missing(runtime: str, image: str) -> str:
    """Why there is no such image, neither on this machine nor where it would be pulled from."""
    if not _answer([runtime, "image", "inspect", image]):
        return ""
    problem = _answer([runtime, "manifest", "inspect", image])
    if not problem:
        return ""
    return f"{image} is not on this machine ({runtime} images), and cannot be pulled: {problem}"


def _answer(command: Sequence[str]) -> str:
    """Empty if a command succeeds; otherwise what it says."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"gives no answer within {_SECONDS:g} s"
    except OSError as error:
        return f"cannot be run: {error.strerror}"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return "" if done.returncode == 0 else (lines[-1] if lines else f"ends with {done.returncode}")


def in_images(job: Job, name: str, folder: Path, work: Path, on_nodes: bool = False) -> Job:
    """The job whose processes are in their images: its command has a program in front of it.

    Args:
        job: what is started.
        name: of this start, for its containers.
        folder: that of this start.
        work: the job's working copy of its code.
        on_nodes: its processes run on other machines, which have to find out what they have.

    Raises:
        ImageError: there is nothing that runs containers any more.
    """
    images = {_KINDS.get(n, n): r.image for n, r in job.roles.items() if r.image}
    if not images:
        return job
    described = {
        "runtime": "" if on_nodes else container_runtime(),
        "images": images,
        "gpus": [_KINDS.get(n, n) for n, role in job.roles.items() if role.gpus],
        "name": name,
        "work": str(work),
        "variables": [*job.env, *job.secrets],
    }
    attempt.write(folder / _FILE, described)
    command = (*PROGRAM, "in-image", str(folder / _FILE), "--", *job.command)
    return dataclasses.replace(job, command=command)


def main(arguments: Sequence[str]) -> NoReturn:
    """The program in front of a job's command: a file of what to do, ``--``, and the command."""
    path, dashes, *command = arguments
    assert dashes == "--" and command
    described = json.loads(Path(path).read_text())
    binds = [Bind(*each) for each in json.loads(binds_file(Path(path).parent).read_text())]
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    image = described["images"].get(task["type"])
    if image is not None:
        try:
            names = _APPTAINER if image.startswith("/") else _ON_NODES
            described["runtime"] = described["runtime"] or container_runtime(names)
        except ImageError as error:
            sys.exit(f"drumline: {error}")
        if described["runtime"] in _APPTAINER:
            command = list(apptainer_command(described, task, image, binds, command))
            for name in _left_behind(described, os.environ) - {"PATH", "HOME", "USER"}:
                del os.environ[name]
            execute(command)
        execute(list(container_command(described, task, image, binds, command, os.environ)))
    if binds:
        folder = Path(path).parent
        try:
            if reason := refusal(binds, folder):
                raise MountError(reason)
            enter(binds, folder)
        except MountError as error:
            sys.exit(f"drumline: a process without an image cannot see the data: {error}")
    execute(command)


def container_command(
    described: Mapping[str, Any],
    task: Mapping[str, Any],
    image: str,
    binds: Sequence[Bind],
    command: Sequence[str],
    environ: Mapping[str, str],
) -> Iterator[str]:
    """The command line of one container. No value of the environment is in it.

    Args:
        described: what `in_images` has written.
        task: the process's, as in ``TF_CONFIG``.
        image: its image.
        binds: the folders it sees.
        command: what runs in the container.
        environ: its environment.
    """
    runtime, kind = described["runtime"], task["type"]
    # A requeued job has its name again, and its last container may not be removed yet.
    again = [environ.get(name, "0") for name in ("DRUMLINE_RESTART", "SLURM_RESTART_COUNT")]
    yield from (runtime, "run", "--rm")
    yield f"--name={described['name']}-{kind}-{task['index']}-{'-'.join(again).removesuffix('-0')}"
    yield from ("--network=host", "--ipc=host", "--pid=host", "--log-driver=none")
    # SELinux would keep the container from the folders otherwise.
    yield "--security-opt=label=disable"
    user, group = os.geteuid(), os.getegid()
    if runtime == "podman" and user:
        yield "--userns=keep-id"
    yield f"--user={user}:{group}"
    for bind in _seen(described, binds, environ):
        read_only = "" if bind.write else ",readonly"
        yield f"--mount=type=bind,source={bind.folder},target={bind.at}{read_only}"
    yield f"--workdir={described['work']}"
    if kind in described["gpus"]:
        # All of them, so that their numbers are those in CUDA_VISIBLE_DEVICES.
        yield "--gpus=all" if runtime == "docker" else "--device=nvidia.com/gpu=all"
    left = _left_behind(described, environ)
    for name in sorted(environ):
        if name not in left:
            yield f"--env={name}"
    if user and "HOME" not in described["variables"]:
        yield "--env=HOME=/tmp"  # The image knows no home of this user.
    yield f"--entrypoint={command[0]}"
    yield image
    yield from command[1:]


def apptainer_command(
    described: Mapping[str, Any],
    task: Mapping[str, Any],
    image: str,
    binds: Sequence[Bind],
    command: Sequence[str],
) -> Iterator[str]:
    """The command line of one container of apptainer's, which passes the environment by itself.

    An image without a scheme is one of a registry, as podman and docker have it; a path is one in
    a file or a folder. Arguments are those of `container_command`.
    """
    yield from (described["runtime"], "exec", "--no-home", "--writable-tmpfs")
    for bind in _seen(described, binds, os.environ):
        yield f"--bind={bind.folder}:{bind.at}:{'rw' if bind.write else 'ro'}"
    yield f"--pwd={described['work']}"
    if task["type"] in described["gpus"]:
        yield "--nv"
    yield image if "://" in image or image.startswith("/") else f"docker://{image}"
    yield from command


def _seen(
    described: Mapping[str, Any], binds: Sequence[Bind], environ: Mapping[str, str]
) -> Iterator[Bind]:
    """The folders of this machine that a container sees."""
    work = described["work"]
    folders = [Bind(work, work, True), *binds]
    if failures := environ.get("DRUMLINE_FAILURE_DIR"):
        folders.append(Bind(failures, failures, True))
    for bind in folders:
        _mountable(bind.folder, bind.at)
        yield bind


def _left_behind(described: Mapping[str, Any], environ: Mapping[str, str]) -> set[str]:
    """Variables that speak of this machine's files, and that the job itself has not set."""
    found = {n for n in environ if n in _OF_THIS_MACHINE or n.startswith("XDG_")}
    return found - set(described["variables"])


def _mountable(folder: str, at: str) -> None:
    for path in (folder, at):
        if "," in path:
            raise ImageError(f"podman and docker mount no path with a comma: {path}")
