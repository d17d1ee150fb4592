"""The program in front of a launcher: brings the data, lets them be seen, and becomes the launcher.

``python -m drumline_command.job_process with-data SPEC.json -- COMMAND...``. Where data are read
only it executes the command, so that there is no process more; the command has its exit code, its
signals and the files that were open. It remains as the parent only for what has to be done at the
end: uploading what was written, and removing links that stand for mounts.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from drumline.jobs.file.mount_paths import variable
from drumline.jobs.sources.data import DataError, data_kind, folder_of
from drumline.jobs.sources.mounts import Bind, MountError, enter, refusal
from drumline.jobs.sources.spool import Spool, spool_folder, spools_of

PROGRAM = (sys.executable, "-P", "-m", "drumline_command.job_process")

SHARED_SIGNALS = "--shared-signals"
"""The launcher's option where signals reach all processes by themselves."""

BINDS = "binds.json"
"""The file with the folders of a start's data, the paths and whether they may be written."""

NOTES = "notes.jsonl"
"""In the folder of a start: what was done before its launcher, and at its end."""

NO_DATA = 66
"""The exit code if data cannot be had (sysexits.h: EX_NOINPUT)."""

NOT_UPLOADED = 74
"""The exit code if what was written could not be uploaded (EX_IOERR)."""

UPLOAD_SECONDS = 60.0
"""How often what was written is uploaded while a job runs."""

_PR_SET_PDEATHSIG = 1
_PASSED_ON = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]
_PASSED_ON += [signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT]


@dataclasses.dataclass(frozen=True)
class DataPreparation:
    """What is done before a command, as JSON.

    Attributes:
        data: what is to be seen: ``source``, ``at`` and ``write`` of each.
        code: the working copy and the path it is seen at as well, or None.
        job: the job's folder, for what is written to object stores.
        attempt: the folder of this start.
        upload_seconds: how often what was written is uploaded.
        apart: whether each process of the command sees to it itself that it sees the data; `BINDS`
            then says where they are.
    """

    data: list[dict[str, Any]]
    code: list[str] | None
    job: str
    attempt: str
    upload_seconds: float = UPLOAD_SECONDS
    apart: bool = False

    @property
    def notes(self) -> Path:
        """Where what was done is written, a JSON line for each sentence."""
        return Path(self.attempt, NOTES)

    def say(self, text: str) -> None:
        """Write down what was done; it becomes an event of the job."""
        with open(self.notes, "a", opener=_private) as file:
            file.write(json.dumps({"text": text}) + "\n")


def binds_file(attempt: Path) -> Path:
    """Where a start's `BINDS` are; on each node of a cluster others, whose caches are their own."""
    node = os.environ.get("SLURMD_NODENAME")
    return attempt / (f"{node}.{BINDS}" if node else BINDS)


def read_notes(attempt: Path) -> tuple[str, ...]:
    """What was done before the launcher of a start."""
    with contextlib.suppress(FileNotFoundError):
        lines = (attempt / NOTES).read_text().splitlines(keepends=True)
        return tuple(json.loads(line)["text"] for line in lines if line.endswith("\n"))
    return ()


def add_notes(attempt: Path, texts: Sequence[str]) -> None:
    """Write down what else is to be said of a start, each sentence once."""
    known = read_notes(attempt)
    with open(attempt / NOTES, "a", opener=_private) as file:
        file.writelines(f"{json.dumps({'text': text})}\n" for text in texts if text not in known)


def main(arguments: Sequence[str]) -> NoReturn:
    """The program: a file with a `DataPreparation`, ``--``, and the command."""
    path, dashes, *command = arguments
    assert dashes == "--" and command
    todo = DataPreparation(**json.loads(Path(path).read_text()))
    try:
        found = _bring(todo, path)
    except DataError as error:
        sys.exit(_fail(f"data: {error}", NO_DATA))
    binds = [Bind(*each) for each in found["binds"]]
    if todo.code:
        binds.append(Bind(todo.code[0], todo.code[1], True))
    spools = [Spool(Path(each)) for each in found["spools"]]
    links: list[str] = []
    if todo.apart:
        described = json.dumps([dataclasses.astuple(bind) for bind in binds])
        # Tasks of one node write the same, and read it at the same time.
        partial = Path(todo.attempt, f".binds-{socket.gethostname()}-{os.getpid()}")
        partial.write_text(described)
        partial.replace(binds_file(Path(todo.attempt)))
    view = [] if todo.apart else binds
    reason = refusal(view, Path(todo.attempt)) if view else ""
    seen = {bind.at: bind.at for bind in binds}
    places = _link(todo, binds, reason, links) if reason else seen
    for i, each in enumerate(todo.data):
        if each["at"]:
            os.environ[variable(each["at"])] = _place(
                each["at"], places, found["roots"].get(str(i))
            )

    def become(then: Callable[[], None] = lambda: None) -> NoReturn:
        if view and not reason:
            enter(view, Path(todo.attempt))
        then()  # The kernel may have forgotten it with the process's old credentials.
        execute(command)

    try:
        if spools or links:
            _attend(todo, command, become, spools, links)
        become()
    except (MountError, OSError) as error:
        sys.exit(_fail(str(error), 1 if isinstance(error, MountError) else 127))


def _place(at: str, places: Mapping[str, str], root: str | None) -> str:
    """Where what belongs at a path is found: there, or in the folder it comes from."""
    if at in places:
        return places[at]
    # Of a dataset a folder inside is mounted, so that its directory has its name.
    inside = next((each for each in places if each.startswith(f"{at}/")), None)
    return at if inside is not None and places[inside] == inside else root or at


def _bring(todo: DataPreparation, path: str) -> dict[str, Any]:
    """See that all data are in folders of this machine.

    Returns:
        ``binds``, for each folder that, the path and whether it may be written; ``spools``, the
        folders of what is uploaded; ``roots``, the directories with datasets, by their entries.
    """
    kinds = {data_kind(each["source"]) for each in todo.data}
    if not kinds & {"store", "dataset"}:
        # As here, where it takes no time, and in `bring`.
        binds = [[str(folder_of(e["source"])), e["at"], e["write"]] for e in todo.data]
        return {"binds": binds, "spools": [], "roots": {}}
    # Packages of stores start threads, with which no user namespace can be made.
    for _ in range(3):
        reading, writing = os.pipe()
        process = subprocess.Popen(
            [*PROGRAM, "bring", path, str(writing)],
            pass_fds=[writing],
            stdin=subprocess.DEVNULL,
            preexec_fn=dies_with(os.getpid()),
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )
        os.close(writing)
        with open(reading) as pipe:
            said = pipe.read()
        code = process.wait()
        if not said:
            raise DataError(f"the program that fetches them ended with exit code {code}")
        found: dict[str, Any] = json.loads(said)
        if "error" in found:
            raise DataError(found["error"])
        from drumline.jobs.sources.object_store import hold

        held = [hold(Path(folder)) for folder in found["cached"]]
        if None not in held:
            # As the lock of a start, they are the command's, too: its data stay as long as it runs.
            for file in held:
                os.set_inheritable(file or 0, True)
            return found
    raise DataError("what was fetched is removed by other jobs again and again")


def bring(arguments: Sequence[str]) -> None:
    """The program that fetches: its file of what to do, and a descriptor for the answer."""
    path, answer = arguments
    todo = DataPreparation(**json.loads(Path(path).read_text()))
    found: dict[str, Any] = {"binds": [], "spools": [], "cached": [], "roots": {}}
    try:
        for i, each in enumerate(todo.data):
            _bring_one(todo, i, each, found)
    except DataError as error:
        found = {"error": str(error)}
    with open(int(answer), "w") as pipe:
        json.dump(found, pipe)


def _bring_one(todo: DataPreparation, i: int, entry: dict[str, Any], found: dict[str, Any]) -> None:
    from drumline.jobs.sources.named_dataset import prepare_dataset
    from drumline.jobs.sources.object_store import cache_folder, fetch_cached

    source, at, write = entry["source"], entry["at"], entry["write"]
    kind = data_kind(source)
    if kind == "dataset":
        folder, path = prepare_dataset(source, at, todo.say)
        if not at:
            return
        inside = len(Path(path).parts) - len(Path(at).parts)
        found["roots"][str(i)] = str(folder.parents[inside - 1])
        found["binds"].append([str(folder), path, False])
    elif kind != "store":
        found["binds"].append([str(folder_of(source)), at, write])
    elif write:
        spool = spool_folder(Path(todo.job), i)
        for other in spools_of(Path(todo.job), i):
            # Of another node, where an earlier start ran.
            if other.folder != spool and other.pending():
                other.upload(final=True)
        found["binds"].append([str(Spool(spool).prepare(source, todo.say)), at, True])
        found["spools"].append(str(spool))
    else:
        folder = fetch_cached(source, cache_folder(), todo.say)
        found["binds"].append([str(folder), at, False])
        found["cached"].append(str(folder))


def _link(
    todo: DataPreparation, binds: Sequence[Bind], reason: str, links: list[str]
) -> dict[str, str]:
    """Where mounting is refused: links at the mount paths that are free, and what to use else."""
    places = {}
    for bind in binds:
        at = Path(bind.at)
        try:
            if not (at.is_symlink() and os.readlink(at) == bind.folder):
                os.symlink(bind.folder, at)
                links.append(bind.at)
            places[bind.at] = bind.at
        except OSError:
            places[bind.at] = bind.folder
    linked = [at for at, place in places.items() if at == place]
    others = [at for at, place in places.items() if at != place]
    parts = [f"mount paths cannot be private here ({reason}), so that nothing is read-only"]
    parts += [f"links are at {', '.join(linked)}"] * bool(linked)
    named = ", ".join(f"{variable(at)} instead of {at}" for at in others)
    parts += [f"the program has to use {named}"] * bool(others)
    todo.say("; ".join(parts))
    return places


def _attend(
    todo: DataPreparation,
    command: Sequence[str],
    become: Callable[[Callable[[], None]], NoReturn],
    spools: Sequence[Spool],
    links: Sequence[str],
) -> NoReturn:
    """Start the command as a child, upload what it writes, and end as it has ended."""
    child = 0
    early: list[int] = []
    # Slurm's signals reach the launcher by themselves; a second one would hurry it.
    alone = SHARED_SIGNALS not in command

    def pass_on(signum: int, frame: FrameType | None) -> None:
        if not alone:
            return
        if child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signum)
        else:
            early.append(signum)

    caught = [s for s in _PASSED_ON if signal.getsignal(s) is not signal.SIG_IGN]
    for signum in caught:
        signal.signal(signum, pass_on)
    own = os.getpid()
    started = os.fork()
    if started == 0:
        for signum in caught:
            signal.signal(signum, signal.SIG_DFL)
        try:
            become(dies_with(own))
        except (MountError, OSError) as error:
            _fail(str(error), 1)
        finally:
            os._exit(127)
    child = started
    for number in early:
        os.kill(child, number)
    pidfd = os.pidfd_open(child)
    uploading: subprocess.Popen[bytes] | None = None
    while not select.select([pidfd], [], [], todo.upload_seconds)[0]:
        if (uploading is None or uploading.poll() is not None) and any(
            spool.pending() for spool in spools
        ):
            uploading = subprocess.Popen(
                [*PROGRAM, "upload", todo.job], preexec_fn=dies_with(own), stdin=subprocess.DEVNULL
            )
    _, status = os.waitpid(child, 0)
    if uploading is not None:
        uploading.wait()
    code = os.waitstatus_to_exitcode(status)
    uploaded = True
    pending = any(spool.pending() for spool in spools)
    if pending:
        command = [*PROGRAM, "upload", todo.job, "final"]
        uploaded = subprocess.run(command, stdin=subprocess.DEVNULL).returncode == 0
    if pending or uploading is not None:  # All may have been uploaded while the job ran.
        if uploaded:
            todo.say(f"what was written is uploaded to {', '.join(s.url for s in spools)}")
    for link in links:
        with contextlib.suppress(OSError):
            if os.path.islink(link):
                os.unlink(link)
    if code < 0:
        # Ends by the same signal, without a core file of its own.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(-code, signal.SIG_DFL)
        os.kill(own, -code)
    if code == 0 and not uploaded:
        code = NOT_UPLOADED
    sys.stdout.flush()
    os._exit(code)


def upload(arguments: Sequence[str]) -> None:
    """The program that uploads what a job has written: its folder, and perhaps ``final``."""
    from drumline.jobs.sources.spool import spools

    folder, *final = arguments
    failed: list[str] = []
    for attempt in range(3 if final else 1):
        time.sleep(2.0 * attempt)
        failed = []
        for spool in spools(Path(folder)):
            try:
                spool.upload(final=bool(final))
            except DataError as error:
                failed.append(f"{error}; what was written is kept in {spool.files}")
        if not failed:
            return
    sys.exit(_fail(f"not uploaded: {'; '.join(failed)}", NOT_UPLOADED))


def execute(command: Sequence[str]) -> NoReturn:
    """Become another program."""
    # Python ignores these; programs expect not to.
    for signum in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(signum, signal.SIG_DFL)
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        sys.stderr.flush()
        os._exit(_fail(f"{command[0]} cannot be started: {error.strerror}", 127))


def dies_with(parent: int) -> Callable[[], None]:
    """Between fork and exec: let the kernel kill this process when its parent ends."""
    libc = ctypes.CDLL(None)

    def arrange() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return arrange


def _fail(text: str, code: int) -> int:
    print(f"drumline: {text}", file=sys.stderr, flush=True)
    return code


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
