"""The lock of a directory of checkpoints: one job at a time saves there.

Who saves first makes the file ``checkpoint.lock``, locks it (``flock``) and writes into it who it
is: host, process, since when. It keeps the lock while an object that has saved there lives, then
removes the file. The kernel drops the lock of a process that has ended, however it ended, so the
next writer takes it over; so do servers of NFS, once the lease of a host that is gone is over.
Reading looks at none of this.

Before each save the holder reads the file again. If it names another by then, the lock was lost
(an expired lease), and the save is refused, so that of two writers one stays. That is all there is
where a file system has no locks (some FUSE ones): a holder that has ended on this host is known,
and one on another host is warned about and taken over, which its next save notices.

The processes of one job (`Writers.job`) count as one writer: who of them writes is settled between
them. A forked child holds nothing.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
import socket
import stat
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drumline._forks import finalize, tell_in_child

_log = logging.getLogger("drumline")

LOCK = "checkpoint.lock"
"""The file that names the writer of a directory."""

WAIT_SECONDS = 5.0
"""How long a save waits for a writer on this host to end: it may have been killed just now."""

LEASE_SECONDS = 100.0
"""How long it waits for one on another host, of whose end a server of NFS learns by its lease."""

_POLL_SECONDS = 0.1
_MOST_BYTES = 4096


class DirectoryInUseError(RuntimeError):
    """Another program saves checkpoints to the same directory."""


@dataclass
class _Held:
    """A directory that this process may write.

    Attributes:
        path: of the lock's file.
        name: what tells this holder from all others.
        descriptor: of the file, which is locked; None if a process of the same job has the lock.
        owners: the ids of the objects that save there.
    """

    path: Path
    name: str
    descriptor: int | None
    owners: set[int] = field(default_factory=set)


class _Registry:
    """The directories that this process may write, by their real paths."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.held: dict[str, _Held] = {}
        tell_in_child(self)

    def forked(self) -> None:
        """Hold nothing in a forked child, which may outlive the process that saves."""
        self.lock = threading.RLock()
        held, self.held = self.held, {}
        for each in held.values():
            if each.descriptor is not None:
                os.close(each.descriptor)


_registry = _Registry()


def hold(directory: str | os.PathLike[str], owner: object, job: str | None = None) -> None:
    """Let `owner` save checkpoints to `directory`, for as long as it lives.

    Args:
        directory: where; made if need be.
        owner: what saves there.
        job: what processes have in common that are to share the directory.

    Raises:
        DirectoryInUseError: another program saves there; the message names it.
        OSError: the lock's file cannot be made.
    """
    Path(directory).mkdir(parents=True, exist_ok=True)
    real = os.path.realpath(directory)
    started = time.monotonic()
    while True:
        holder = _try_to_hold(real, owner, job)
        if holder is None:
            return
        patience = WAIT_SECONDS if _is_here(holder) else LEASE_SECONDS
        if holder.get("lost") or time.monotonic() - started >= patience:
            raise DirectoryInUseError(
                f"{str(directory)!r} is written by {_described(holder)}, which {LOCK} there says. "
                "Two programs that save to one directory overwrite each other's checkpoints: give "
                "each a directory of its own, or end the other. When that has ended, however it "
                "ended, its lock counts no more."
            )
        time.sleep(_POLL_SECONDS)


def _try_to_hold(real: str, owner: object, job: str | None) -> dict[str, Any] | None:
    """Let `owner` write there; return who writes there instead, if another program does."""
    with _registry.lock:
        while True:
            held = _registry.held.get(real)
            if held is None:
                taken = _taken(Path(real) / LOCK, job)
                if not isinstance(taken, _Held):
                    return taken
                held = _registry.held[real] = taken
            else:
                named = _holder_in(held.path)
                if named is None or (named["name"] != held.name and held.descriptor is None):
                    _drop(real, held)  # removed with all else in the directory, or others' and over
                    continue
                if named["name"] != held.name:
                    return {**named, "lost": True}
            is_new = id(owner) not in held.owners
            held.owners.add(id(owner))
            # An object that was the last to save there may have been freed meanwhile.
            if _registry.held.get(real) is not held:
                continue
            if is_new:
                finalize(owner, _release, real, held, id(owner))
            return None


def _release(real: str, held: _Held, owner: int) -> None:
    with _registry.lock:
        held.owners.discard(owner)
        if not held.owners and _registry.held.get(real) is held:
            _drop(real, held)


def _drop(real: str, held: _Held) -> None:
    """Let go of a directory; the caller has the registry's lock."""
    del _registry.held[real]
    if held.descriptor is not None:
        named = _holder_in(held.path)
        if named is not None and named["name"] == held.name:
            held.path.unlink(missing_ok=True)
        os.close(held.descriptor)


def _taken(path: Path, job: str | None) -> _Held | dict[str, Any]:
    """Take the lock; return who has it, if another program does."""
    while True:
        descriptor = _opened(path)
        try:
            locked = _locked(descriptor)
            holder = _read(descriptor)
            if locked is False and holder is not None:
                shared = _shared(path, holder, job)
                return holder if shared is None else shared
            if locked is False:  # being written just now
                return {"host": socket.gethostname(), "pid": "unknown", "since": "just now"}
            if not _is_at(path, descriptor):
                continue
            if locked is None and holder is not None:
                shared = _shared(path, holder, job)
                if shared is not None:
                    return shared
                if _is_here(holder) and _is_alive(holder):
                    return holder
                if not _is_here(holder):
                    _log.warning(
                        "%s was written by %s. Its file system has no locks, so it is not known "
                        "whether that has ended; it is taken over.",
                        *(path.parent, _described(holder)),
                    )
            name = secrets.token_hex(8)
            _write(descriptor, name, job)
            held = _Held(path, name, descriptor)
            descriptor = -1
            return held
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def _shared(path: Path, holder: dict[str, Any], job: str | None) -> _Held | None:
    """What a holder shares with this process: it is this process, or one of its job."""
    for held in _registry.held.values():
        if held.name == holder["name"]:  # by another path, or moved
            return _Held(path, held.name, None)
    if job is not None and holder.get("job") == job:
        return _Held(path, holder["name"], None)
    return None


def _opened(path: Path) -> int:
    """Open the lock's file, which is made if need be; links are not followed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{str(path)!r} is no file: remove it, and save again")
    return descriptor


def _locked(descriptor: int) -> bool | None:
    """Lock the file; False if another has locked it, None where there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the file is still the one at `path`: its last holder may have removed it."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _write(descriptor: int, name: str, job: str | None) -> None:
    holder = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "started": _started(os.getpid()),
        "name": name,
        "job": job,
    }
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder).encode(), 0)
    os.fsync(descriptor)


def _holder_in(path: Path) -> dict[str, Any] | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read(descriptor)
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> dict[str, Any] | None:
    """Return who is named in the file; None if no process is, as after a crash."""
    try:
        found = json.loads(os.pread(descriptor, _MOST_BYTES, 0))
    except (ValueError, RecursionError):
        return None
    is_holder = isinstance(found, dict) and isinstance(found.get("name"), str)
    return found if is_holder else None


def _is_here(holder: dict[str, Any]) -> bool:
    return bool(holder.get("host") == socket.gethostname())


def _is_alive(holder: dict[str, Any]) -> bool:
    """Whether a process of this host still runs."""
    pid = holder.get("pid")
    return isinstance(pid, int) and _started(pid) is not None and _same_start(holder, pid)


def _same_start(holder: dict[str, Any], pid: int) -> bool:
    return bool(holder.get("started") == _started(pid))


def _started(pid: int) -> str | None:
    """When a process began, in the kernel's clock; None if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    state, *fields = text.rpartition(")")[2].split()
    return None if state in "ZX" else f"{boot} {fields[18]}"


def _described(holder: dict[str, Any]) -> str:
    pid, host, since = (str(holder.get(key))[:80] for key in ("pid", "host", "since"))
    return f"process {pid} on {host!r} since {since}"
