"""An object store for tests, ``disk://bucket/key``, in the folder that DISK_STORE names.

All processes of a test see the same one, and it can be made to fail: what is in ``.faults`` stops
an operation on keys that end with it, and ``.log`` has a line for each object that went in or out.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path
from typing import Any

from fsspec.spec import AbstractFileSystem


class DiskStore(AbstractFileSystem):  # type: ignore[misc]
    """Buckets are folders; objects have an ETag, and no modes or times."""

    protocol = "disk"
    cachable = False

    @property
    def _root(self) -> Path:
        return Path(os.environ["DISK_STORE"])

    def _note(self, what: str, path: str) -> None:
        faults = self._root / ".faults"
        for fault in faults.read_text().split() if faults.exists() else ():
            verb, _, name = fault.partition(":")
            if verb == what and path.endswith(name):
                raise PermissionError(f"{what} of {path} is forbidden")
            if verb == f"slow-{what}" and path.endswith(name):
                time.sleep(1)
        with open(self._root / ".log", "a") as file:
            file.write(f"{what} {path}\n")

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path).strip("/")
        if (self._root / ".faults").exists():
            self._note("list", path)
        place = self._root / path
        if not place.exists():
            raise FileNotFoundError(path)
        found = []
        for each in sorted(place.iterdir()) if place.is_dir() else [place]:
            if each.name.startswith("."):
                continue
            name = str(each.relative_to(self._root))
            if each.is_dir():
                found.append({"name": name, "type": "directory", "size": 0})
            else:
                tag = hashlib.md5(each.read_bytes()).hexdigest()
                size = each.stat().st_size
                found.append({"name": name, "type": "file", "size": size, "ETag": tag})
        return found if detail else [each["name"] for each in found]

    def get_file(self, rpath: str, lpath: str, **_: Any) -> None:
        rpath = self._strip_protocol(rpath)
        self._note("get", rpath)
        shutil.copyfile(self._root / rpath, lpath)

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        rpath = self._strip_protocol(rpath)
        self._note("put", rpath)
        target = self._root / rpath
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copyfile(lpath, partial)
        partial.replace(target)

    def rm_file(self, path: str) -> None:
        path = self._strip_protocol(path)
        self._note("rm", path)
        (self._root / path).unlink()
