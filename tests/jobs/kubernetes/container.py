"""A container as a process with its own mounts, host name and process numbers.

Run by root as ``unshare --mount --pid --fork --uts --kill-child python container.py SPEC.json``.
Its root is an empty file system, in which all of this machine's is bound beside what is mounted.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from pathlib import Path

READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 32, 4096, 16384, 1 << 18
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str = "", flags: int = 0) -> None:
    done = LIBC.mount(source.encode(), target.encode(), kind.encode() or None, flags, None)
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} at {target}: {os.strerror(number)}")


def build(root: str, points: list[str]) -> None:
    """Bind all of this machine beneath `root`, with places for `points`."""
    apart = {"/"}
    for point in points:
        parents = [str(parent) for parent in Path(point).parents]
        if not os.path.exists(point):
            apart |= set(parents)

    def fill(folder: str) -> None:
        here = root + folder
        os.makedirs(here, exist_ok=True)
        for entry in os.scandir(folder) if os.path.isdir(folder) else ():
            target = root + entry.path
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), target)
            elif entry.path in apart and entry.is_dir():
                fill(entry.path)
            elif entry.is_dir():
                os.mkdir(target)
                if entry.path not in points and entry.path != "/proc":
                    mount(entry.path, target, flags=BIND | RECURSIVE)
            else:
                Path(target).touch()
                mount(entry.path, target, flags=BIND)

    fill("/")


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    mount("none", "/", flags=RECURSIVE | PRIVATE)
    root = spec["root"]
    mount("tmpfs", root, "tmpfs")
    mounts = sorted(spec["mounts"], key=lambda each: each["at"])
    build(root, [each["at"] for each in mounts])
    mount("proc", root + "/proc", "proc")
    for each in mounts:
        target = root + each["at"]
        if os.path.isdir(each["source"]):
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            Path(target).touch()
        mount(each["source"], target, flags=BIND | RECURSIVE)
        if each["read_only"]:
            mount("none", target, flags=BIND | REMOUNT | READ_ONLY)
    socket.sethostname(spec["hostname"])
    os.chroot(root)
    os.chdir(spec["folder"])
    try:
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
    except OSError as error:
        print(f"exec {spec['argv'][0]}: {error.strerror}", flush=True)
        os._exit(127)


main()
