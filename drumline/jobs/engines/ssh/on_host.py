"""What runs on a host while a supervisor, or a command, is connected to it by SSH.

It reads requests from its input, each a line of JSON and perhaps bytes, and answers in the same
way. It starts keepers, looks at the folders of starts, and hands out what they have written; it
decides nothing, and it ends with its connection: jobs do not need it.

Below the folder of the engine each host has one by its name, as several may share their home
folders, and in it a folder for each workspace::

    HOST/lock                              held while room is given away
    HOST/WORKSPACE/incoming/...            what is being uploaded
    HOST/WORKSPACE/data/DIGEST/            folders of data that this host does not have
    HOST/WORKSPACE/JOB/work/               the working copy of a job's code
    HOST/WORKSPACE/JOB/attempt-1/claim.json
    HOST/WORKSPACE/JOB/attempt-1/rank-0/   what a keeper looks after, as on one machine
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import shutil
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from drumline.jobs.engines.images import image_problems, in_images
from drumline.jobs.engines.launching import RANK, RENDEZVOUS, filled, launch_command
from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.local.start_folder import kept_status, machine, start_keeper, stop_kept
from drumline.jobs.engines.preparing import preparation
from drumline.jobs.engines.ssh.files import HostFiles, changed_files, write_manifest
from drumline.jobs.engines.ssh.placement import fits
from drumline.jobs.file.model import RESOURCES, Job
from drumline.jobs.metrics.usage import processes_file
from drumline.jobs.sources.data import data_kind, data_problems
from drumline.jobs.sources.spool import spools

HELLO = "drumline-host "
"""Before the first line of an answer, since a host may greet with lines of its own."""

CLAIM = "claim.json"

_CLAIM_SECONDS = 600.0
"""How long room is kept for processes that are not started: their supervisor may be gone."""

_OLD_UPLOAD_SECONDS = 86_400.0


class HostRequests:
    """Answers requests for one workspace.

    Args:
        folder: this host's below the engine's.
        workspace: its identity.
        given: what jobs may hold, by the names in `RESOURCES`, where that is not all there is.
        address: of this host, as the others reach it.
    """

    def __init__(
        self, folder: Path, workspace: str, given: Mapping[str, float], address: str
    ) -> None:
        self._folder = folder
        self._base = folder / workspace
        self._given = given
        self._address = address
        self._base.mkdir(parents=True, exist_ok=True, mode=0o700)

    def answer(self, verb: str, request: Mapping[str, Any], payload: bytes) -> Any:
        """What a request is answered: fields, or fields and bytes."""
        how: Mapping[str, Callable[[Mapping[str, Any], bytes], Any]] = {
            "look": self._look,
            "check": self._check,
            "lacks": self._lacks,
            "put": self._put,
            "unpack": self._unpack,
            "claim": self._claim,
            "release": self._release,
            "start": self._start,
            "poll": self._poll,
            "stop": self._stop,
            "changed": self._changed,
            "read": self._read,
            "tidy": self._tidy,
        }
        return how[verb](request, payload)

    def _attempt(self, request: Mapping[str, Any]) -> Path:
        return self._base / str(request["handle"])

    def _look(self, request: Mapping[str, Any], payload: bytes) -> Any:
        """What there is here, and what of it is held."""
        with self._locked():
            held = self._held(None)
        return {"capacity": self._capacity(), "held": {r: held[r] for r in RESOURCES}}

    def _capacity(self) -> dict[str, float]:
        return {**machine(), **self._given}

    def _gpus(self) -> list[str]:
        """The GPUs that jobs may have, by their names."""
        from drumline.jobs.launch.environment import visible_gpus

        count = int(self._capacity()["gpus"])
        return (visible_gpus(os.environ) or [str(i) for i in range(count)])[:count]

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self._folder / "lock", "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _held(self, own: Path | None) -> dict[str, Any]:
        """What all starts but one hold: amounts, ``names`` of GPUs, and ``ports``."""
        found: dict[str, Any] = dict.fromkeys(RESOURCES, 0.0) | {"names": set(), "ports": set()}
        for path in self._folder.glob(f"*/*/attempt-*/{CLAIM}"):
            if path.parent == own or (claim := attempt.read(path)) is None:
                continue
            fresh = time.time() - claim["time"] < _CLAIM_SECONDS and claim["boot"] == attempt.boot()
            for rank, size in claim["sizes"].items():
                folder = path.parent / f"rank-{rank}"
                begun = (folder / attempt.START).exists()
                if attempt.is_alive(folder) or (fresh and not begun):
                    for resource in RESOURCES:
                        found[resource] += size[resource]
                    found["names"] |= set(claim["gpus"][rank])
                    found["ports"].add(claim["rendezvous"])
        return found

    def _check(self, request: Mapping[str, Any], payload: bytes) -> Any:
        """What is wrong with a job here, and which of its folders are not on this host."""
        job = Job.from_json(request["job"])
        missing = [
            i for i, each in enumerate(job.data)
            if data_kind(each.source) == "folder" and not Path(each.source).is_dir()
        ]  # fmt: skip
        there = tuple(each for i, each in enumerate(job.data) if i not in missing)
        problems = data_problems(dataclasses.replace(job, data=there), self._base)
        problems += image_problems(job)
        program = job.command[0]
        apart = all(role.image for role in job.roles.values())
        if (
            "/" not in program
            and not apart
            and shutil.which(program, path=_environment()["PATH"]) is None
        ):
            problems.append(f"command: the program {program!r} was not found on PATH")
        return {"problems": problems, "missing": missing}

    def _lacks(self, request: Mapping[str, Any], payload: bytes) -> Any:
        """Which of some folders below the workspace's are not there."""
        return {"lacks": [each for each in request["places"] if not (self._base / each).exists()]}

    def _put(self, request: Mapping[str, Any], payload: bytes) -> Any:
        """Add bytes to what is being uploaded."""
        path = self._base / "incoming" / request["name"]
        path.parent.mkdir(exist_ok=True, mode=0o700)
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            # The same bytes may come twice, if an answer was not heard.
            os.ftruncate(file, request["offset"])
            os.pwrite(file, payload, request["offset"])
        finally:
            os.close(file)
        return {}

    def _unpack(self, request: Mapping[str, Any], payload: bytes) -> Any:
        """Make a folder of an archive that was uploaded."""
        archive, into = self._base / "incoming" / request["name"], self._base / request["into"]
        if not into.exists():
            into.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = into.with_name(f"{into.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            try:
                fresh.mkdir(mode=0o700)  # An empty folder has an archive without a name.
                with tarfile.open(archive) as files:
                    files.extractall(fresh, filter="tar")
                write_manifest(fresh, into.with_name(f"{into.name}.files.json"))
                fresh.rename(into)
            except BaseException:
                shutil.rmtree(fresh, ignore_errors=True)
                raise
        archive.unlink(missing_ok=True)
        return {}

    def _claim(self, request: Mapping[str, Any], payload: bytes) -> Any:
        """Keep room for some of a start's processes: an address for the rendezvous, or why not.

        Asked again, it gives the same answer.
        """
        from drumline.jobs.launch.environment import Ports

        folder = self._attempt(request)
        with self._locked():
            held, capacity = self._held(folder), self._capacity()
            sizes = request["sizes"]
            for resource in RESOURCES:
                needed = sum(size[resource] for size in sizes.values())
                if not fits(needed, capacity[resource] - held[resource]):
                    return {"busy": resource}
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            claim = attempt.read(folder / CLAIM)
            names = [name for name in self._gpus() if name not in held["names"]]
            if claim is None or claim["sizes"] != sizes:
                if sum(int(size["gpus"]) for size in sizes.values()) > len(names):
                    return {"busy": "gpus"}
                gpus = {}
                for rank, size in sizes.items():
                    gpus[rank], names = names[: int(size["gpus"])], names[int(size["gpus"]) :]
                while True:
                    ports = Ports(self._address, 1)
                    ports.close()
                    if ports.addresses[0] not in held["ports"]:
                        break
                claim = {"sizes": sizes, "gpus": gpus, "rendezvous": ports.addresses[0]}
            elif any(set(each) & held["names"] for each in claim["gpus"].values()):
                return {"busy": "gpus"}
            claim |= {"time": time.time(), "boot": attempt.boot()}
            attempt.write(folder / CLAIM, claim)
        return {"rendezvous": claim["rendezvous"]}

    def _release(self, request: Mapping[str, Any], payload: bytes) -> Any:
        """Give back what is not used."""
        (self._attempt(request) / CLAIM).unlink(missing_ok=True)
        return {}

    def _start(self, request: Mapping[str, Any], payload: bytes) -> Any:
        """Start those of a start's processes that are absent."""
        given = json.loads(payload)  # with secrets, and in no command line
        folder = self._attempt(request)
        claim = attempt.read(folder / CLAIM)
        if claim is None:
            return {"busy": "what was kept for it"}
        job = Job.from_json(given["job"])
        places = {int(i): str(self._base / place) for i, place in given["places"].items()}
        data = tuple(
            dataclasses.replace(each, source=places.get(i, each.source))
            for i, each in enumerate(job.data)
        )
        job = dataclasses.replace(job, data=data)
        for rank, gpus in claim["gpus"].items():
            own = folder / f"rank-{rank}"
            own.mkdir(exist_ok=True, mode=0o700)
            lock = attempt.take_lock(own)
            if lock is None:
                continue
            try:
                if kept_status(own, locked=True).state == "absent":
                    self._start_one(job, own, lock, rank, gpus, given)
            finally:
                os.close(lock)
        return {}

    def _start_one(
        self, job: Job, own: Path, lock: int, rank: str, gpus: list[str], given: Mapping[str, Any]
    ) -> None:
        job_folder = own.parent.parent
        work = job_folder / "work"
        before = preparation(job, job_folder, own, work, self._base)
        log = own / attempt.LAUNCHER_LOG
        name = f"drumline-{job_folder.name}-{own.parent.name}-{rank}"
        job = in_images(job, name, own, work)
        argv = launch_command(job, own / attempt.LOGS, before, [], log)
        values = {RANK: rank, RENDEZVOUS: given["rendezvous"]}
        words = len(argv) - len(job.command)
        argv = [filled(word, values) for word in argv[:words]] + argv[words:]
        env = {**_environment(), **given["env"], "CUDA_VISIBLE_DEVICES": ",".join(gpus)}
        described = {"argv": argv, "cwd": str(work), "env": env, "gpus": gpus}
        described["processes"] = processes_file(int(rank))
        start_keeper(own, lock, described, given["secrets"])

    def _poll(self, request: Mapping[str, Any], payload: bytes) -> Any:
        """What has become of a start's processes, and what they have written since."""
        folder = self._attempt(request)
        statuses = {}
        for rank in request["ranks"]:
            status = kept_status(folder / f"rank-{rank}")
            if status.state in ("ended", "gone"):
                (folder / f"rank-{rank}" / attempt.SECRETS).unlink(missing_ok=True)
            statuses[rank] = dataclasses.asdict(status)
        files = HostFiles(folder, request["ranks"]).news(request["have"])
        return {"ranks": statuses, **files[0]}, files[1]

    def _stop(self, request: Mapping[str, Any], payload: bytes) -> Any:
        """Ask processes to end; called again and again."""
        for rank in request["ranks"]:
            stop_kept(self._attempt(request) / f"rank-{rank}")
        return {}

    def _changed(self, request: Mapping[str, Any], payload: bytes) -> Any:
        """What a job has written below a folder: names, sizes and times."""
        folder = self._base / request["place"]
        return {"files": changed_files(folder, folder.with_name(f"{folder.name}.files.json"))}

    def _read(self, request: Mapping[str, Any], payload: bytes) -> Any:
        """Bytes of a file."""
        with open(self._base / request["place"] / request["name"], "rb") as file:
            file.seek(request["offset"])
            return {}, file.read(request["length"])

    def _tidy(self, request: Mapping[str, Any], payload: bytes) -> Any:
        """Remove what is left of jobs that have ended, and uploads that never ended."""
        keep = {str(number) for number in request["keep"]}
        for folder in self._base.iterdir():
            if not folder.name.isdecimal() or folder.name in keep:
                continue
            alive = any(attempt.is_alive(rank) for rank in folder.glob("attempt-*/rank-*"))
            if not alive and not any(spool.pending() for spool in spools(folder)):
                shutil.rmtree(folder, ignore_errors=True)
        for path in (self._base / "incoming").glob("*"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _OLD_UPLOAD_SECONDS:
                    path.unlink()
        return {}


def _environment() -> dict[str, str]:
    """What processes get of this host's environment; this Python's programs come first."""
    from drumline.jobs.engines.starting import passed_environment

    programs = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    return {**passed_environment(os.environ), "PATH": f"{programs}:{path}"}


def main(arguments: Sequence[str]) -> None:
    """The program: it serves its input until that ends."""
    from drumline import __version__

    # What anything else prints would be taken for an answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.chdir("/")
    os.umask(0o077)
    version = ".".join(map(str, sys.version_info[:2]))
    hello = {"drumline": __version__, "python": version, "executable": sys.executable}
    answers.write(f"\n{HELLO}{json.dumps(hello)}\n".encode())
    answers.flush()
    requests = sys.stdin.buffer
    served: HostRequests | None = None
    while line := requests.readline():
        request = json.loads(line)
        payload = requests.read(request.get("bytes", 0))
        try:
            if request["verb"] == "open":
                folder = Path(request["folder"]).expanduser() / request["name"]
                address = _own_address()
                served = HostRequests(folder, request["workspace"], request["given"], address)
                found: Any = {}
            else:
                assert served is not None
                found = served.answer(request["verb"], request, payload)
        # A request that went wrong says so, and the next one is answered.
        except Exception as error:
            found = {"error": _said(error)}
        fields, data = found if isinstance(found, tuple) else (found, b"")
        _write(answers, {**fields, "bytes": len(data)}, data)


def _write(answers: BinaryIO, fields: Mapping[str, Any], data: bytes) -> None:
    answers.write(json.dumps(fields).encode() + b"\n" + data)
    answers.flush()


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}"
    return f"{type(error).__name__}: {error}"


def _own_address() -> str:
    """The address at which this host was reached: others that are named reach it there, too."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    return words[2] if len(words) == 4 and "%" not in words[2] else "127.0.0.1"
