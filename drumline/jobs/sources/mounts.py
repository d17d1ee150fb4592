"""Folders at mount paths that need not exist, in a private mount namespace, without root.

`enter` gives this process a view of the files of its own, with mount(2) by ctypes: what it starts
sees the folders at their paths, and the host sees nothing of it. A user other than root gets a user
namespace, in which its number stays what it is, so that the program that is executed next has no
capabilities.

A mount path that exists is mounted over. Where it does not, its nearest folder is covered by an
empty file system in memory, into which all its entries are bound back, so that the path can be made
there. For the root folder that is a new root (pivot_root(2)).
"""

from __future__ import annotations

import ctypes
import dataclasses
import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_RDONLY, _REMOUNT, _BIND, _REC = 0x1, 0x20, 0x1000, 0x4000
_UNBINDABLE, _PRIVATE, _SLAVE = 1 << 17, 1 << 18, 1 << 19
_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR = 442  # the same on all architectures
_AT_RECURSIVE, _AT_FDCWD = 0x8000, -100
_ATTR_RDONLY = 1

# What of a mount's flags has to stay when it is mounted again, as statvfs(3) and mount(2) have it:
# nosuid, nodev, noexec, noatime, nodiratime, relatime.
_KEPT = {2: 2, 4: 4, 8: 8, 1024: 1024, 2048: 2048, 4096: 1 << 21}

_MOST_ENTRIES = 10_000
_COVER_BYTES = 64 << 20

_libc = ctypes.CDLL(None, use_errno=True)


class MountError(Exception):
    """Mount paths that cannot be honoured; the message says which, or why none can."""


@dataclasses.dataclass(frozen=True)
class Bind:
    """A folder that is to be seen at a path.

    Attributes:
        folder: what is there.
        at: the absolute path.
        write: whether it may be written.
    """

    folder: str
    at: str
    write: bool = False


def refusal(binds: Sequence[Bind], scratch: Path) -> str:
    """Why `enter` would fail, found by a child of this process that does all of it.

    Args:
        binds: see `enter`.
        scratch: see `enter`.

    Returns:
        The reason, empty if it would not fail.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            enter(binds, scratch)
            code = 0
        except BaseException as error:  # the parent says it
            os.write(writing, str(error).encode()[:4000] or b"unknown")
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if said:
        return said
    return "" if status == 0 else f"the attempt ended with {os.waitstatus_to_exitcode(status)}"


def enter(binds: Sequence[Bind], scratch: Path) -> None:
    """See folders at their mount paths from now on, in this process and what it starts.

    The process must have one thread. Its working directory stays the same folder.

    Args:
        binds: the folders; no path lies in another.
        scratch: any folder that exists, over which a new root is put together.

    Raises:
        MountError: the kernel refuses namespaces, or a path cannot be made. The process is then
            somewhere in between: ask `refusal` first.
    """
    here = os.getcwd()
    before = os.stat(here)
    _unshare()
    _mount(None, "/", _REC | _SLAVE, "all mounts cannot be made private")
    view = _View(scratch)
    try:
        # Opened first: a folder may lie in another's mount path.
        opened = [(_opened(bind.folder), bind) for bind in binds]
        for folder, bind in opened:
            view.show(folder, bind)
        view.finish()
    except OSError as error:
        raise MountError(f"{error.filename or 'a mount path'}: {error.strerror}") from error
    try:
        os.chdir(here)
        same = os.path.samestat(os.stat("."), before)
    except OSError:
        same = False
    if not same:
        raise MountError(f"a mount path hides the working directory {here}")


def _unshare() -> None:
    user, group = os.geteuid(), os.getegid()
    if user == 0 and _libc.unshare(_CLONE_NEWNS) == 0:
        return
    if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS) != 0:
        number = ctypes.get_errno()
        raise MountError(f"this machine gives no mount namespace: {os.strerror(number)}")
    try:
        # The number stays: what is executed as another user than 0 has no capabilities.
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            Path("/proc/self", name).write_text(text)
    except OSError as error:
        raise MountError(f"this machine gives no user namespace: {error.strerror}") from None


class _View:
    """The files as they are to be seen."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._root = "/"
        self._covers: dict[str, bool] = {}
        """File systems in memory, by their paths, and whether they may be written."""

    def show(self, folder: int, bind: Bind) -> None:
        path = self._made(bind.at)
        os.fchdir(folder)
        # With what is mounted inside: parts of it alone must not be uncovered.
        _mount(".", path, _BIND | _REC, f"{bind.at} cannot be mounted")
        os.close(folder)
        if not bind.write:
            _make_read_only(path)

    def _made(self, at: str) -> str:
        """The folder to mount at, with links followed, made if it is not there."""
        path = self._resolved(at)
        if os.path.isdir(path):
            return path
        if os.path.lexists(path):
            raise MountError(f"{at} is no folder on this machine")
        above = os.path.dirname(path)
        while not os.path.isdir(above):
            if os.path.lexists(above):
                raise MountError(f"{at}: {above} is no folder on this machine")
            above = os.path.dirname(above)
        if not self._is_cover(above):
            inside = os.path.relpath(path, above)
            path = os.path.join(self._cover(above), inside)
        os.makedirs(path, mode=0o755)
        return path

    def _resolved(self, at: str) -> str:
        if self._root == "/":
            return os.path.realpath(at)
        # A link inside the new root is seen from the old one still.
        parts, found, followed = at.strip("/").split("/"), self._root, 0
        while parts:
            part = parts.pop(0)
            if part == "..":
                found = found if found == self._root else os.path.dirname(found)
                continue
            if part in ("", "."):
                continue
            step = os.path.join(found, part)
            if os.path.islink(step):
                followed += 1
                if followed > 40:
                    raise MountError(f"{at}: {os.strerror(errno.ELOOP)}")
                target = os.readlink(step)
                parts = [*target.split("/"), *parts]
                found = self._root if target.startswith("/") else found
            else:
                found = step
        return found

    def _is_cover(self, folder: str) -> bool:
        device = os.stat(folder).st_dev
        return any(os.stat(cover).st_dev == device for cover in self._covers)

    def _cover(self, folder: str) -> str:
        """Put a file system in memory with the same entries in the place of a folder.

        Returns:
            Where the folder is to be found now.
        """
        kept = os.stat(folder)
        below = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        entries = _entries(folder)
        is_root = folder == "/"
        cover = str(self._scratch) if is_root else folder
        options = f"mode={stat.S_IMODE(kept.st_mode):o},size={_COVER_BYTES}"
        _mount("tmpfs", cover, 0, f"{folder} cannot be covered", "tmpfs", options)
        if is_root:
            # Else the folder that holds it would be bound into it with it.
            _mount(None, cover, _UNBINDABLE, "a new root cannot be made")
            # What is covered already is bound with the rest.
            self._covers = {cover + path: writable for path, writable in self._covers.items()}
        if entries:
            os.fchdir(below)  # Names are seen from there: what is covered has no path any more.
        for name in entries:
            _bind_back(name, os.path.join(cover, name))
        os.close(below)
        # Where people expect to keep files, new ones may be made, which go with the job; in other
        # folders an error is better than that they do.
        home = os.path.realpath(os.path.expanduser("~"))
        shared = bool(kept.st_mode & stat.S_ISVTX)
        self._covers[cover] = os.path.realpath(folder) == home or shared
        if is_root:
            self._root = cover
        return cover

    def finish(self) -> None:
        """Make it what this process sees."""
        os.chdir("/")
        for cover, writable in self._covers.items():
            if not writable:
                _mount(None, cover, _REMOUNT | _BIND | _RDONLY, f"{cover} cannot be made read-only")
        if self._root == "/":
            return
        _mount(None, self._root, _PRIVATE, "a new root cannot be made")
        os.chdir(self._root)
        number = _PIVOT_ROOT.get(os.uname().machine)
        if number is None or _libc.syscall(number, b".", b".") != 0:
            # The first root of a machine that runs from memory cannot be changed for another.
            os.chroot(".")
        elif _libc.umount2(b".", _DETACH) != 0:
            raise MountError(f"the old root stays: {os.strerror(ctypes.get_errno())}")
        os.chdir("/")


def _entries(folder: str) -> list[str]:
    """The names of what is in a folder."""
    try:
        names = os.listdir(folder)
    except PermissionError:
        if os.access(folder, os.X_OK):
            raise MountError(f"{folder} cannot be listed, so nothing can be put into it") from None
        return []  # There is nothing in it that could be seen.
    if len(names) > _MOST_ENTRIES:
        raise MountError(f"{folder} has {len(names)} entries, too many to put one beside them")
    return names


def _bind_back(name: str, path: str) -> None:
    """Let an entry of the working directory be seen at a path as well."""
    try:
        mode = os.lstat(name).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(name), path)
            return
        if stat.S_ISDIR(mode):
            os.mkdir(path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC, 0o600))
        _mount(f"./{name}", path, _BIND | _REC, f"{name} cannot be bound to {path}")
    except FileNotFoundError:  # It was removed meanwhile.
        return


def _opened(folder: str) -> int:
    try:
        return os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise MountError(f"{folder}: {error.strerror}") from None


class _Attributes(ctypes.Structure):
    """``struct mount_attr`` of mount_setattr(2)."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd")]


def _make_read_only(path: str) -> None:
    """The folder mounted at a path, and all that is mounted inside."""
    wanted = _Attributes(set=_ATTR_RDONLY)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    raw = os.fsencode(path)
    done = _libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, raw, _AT_RECURSIVE, ctypes.byref(wanted), size)
    if done == 0:
        return
    # Kernels before 5.12: the folder itself, with the flags that it must keep.
    flags = os.statvfs(path).f_flag
    kept = sum(mount for said, mount in _KEPT.items() if flags & said)
    _mount(None, path, _REMOUNT | _BIND | _RDONLY | kept, f"{path} cannot be made read-only")


def _mount(
    source: str | None, path: str, flags: int, failure: str, kind: str = "", options: str = ""
) -> None:
    done = _libc.mount(
        None if source is None else os.fsencode(source),
        os.fsencode(path),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    if done != 0:
        raise MountError(f"{failure}: {os.strerror(ctypes.get_errno())}")
