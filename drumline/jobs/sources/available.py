"""What there is to choose data from: folders, shares that are mounted, buckets."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from drumline.jobs.sources.data import nfs_mounts
from drumline.jobs.sources.preparation import PROGRAM

STORES = {"s3": "s3fs", "gs": "gcsfs", "oss": "ossfs", "az": "adlfs"}
"""Schemes that list buckets, and the packages that fsspec needs for them."""

_SECONDS = 15.0
_MOST = 200
_FOLDERS = ("/data", "/datasets", "/media", "/mnt", "/srv")


def available(
    stores: Mapping[str, str] = STORES,
    seconds: float = _SECONDS,
    folders: Sequence[str] = _FOLDERS,
) -> Iterator[tuple[str, str]]:
    """What can be seen from here: an address that a job file may have, and what it is.

    A place that cannot be looked at is an entry whose address is empty.

    Args:
        stores: schemes and the packages they need.
        seconds: what all stores together may take.
        folders: where people keep data.
    """
    asked = _ask(stores)
    yield from _local(folders)
    for exported, root, at in nfs_mounts():
        host, _, path = exported.rpartition(":")
        inside = "" if root == "/" else root
        yield f"nfs://{host.strip('[]')}{path.rstrip('/')}{inside}", f"mounted at {at}"
    deadline = time.monotonic() + seconds
    for scheme, answer in asked.items():
        if isinstance(answer, str):
            yield "", f"{scheme}://: {answer}"
            continue
        try:
            said, wrong = answer.communicate(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            answer.kill()
            answer.communicate()
            yield "", f"{scheme}://: no answer within {seconds:g} s"
            continue
        found = _parsed(said)
        if found is None:
            last = wrong.strip().rpartition("\n")[2] or f"exit code {answer.returncode}"
            yield "", f"{scheme}://: {last[:300]}"
            continue
        if "error" in found:
            yield "", f"{scheme}://: {found['error']}"
        for name in found.get("buckets", ()):
            yield f"{scheme}://{name}", "a bucket"


def _local(folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    for place in folders:
        try:
            names = sorted(os.listdir(place))
        except FileNotFoundError:
            continue
        except OSError as error:
            yield "", f"{place}: {error.strerror}"
            continue
        for name in names[:_MOST]:
            path = Path(place, name)
            with contextlib.suppress(OSError):
                if path.is_dir():
                    what = "a folder" if os.access(path, os.R_OK) else "a folder without access"
                    yield str(path), what


def _ask(stores: Mapping[str, str]) -> dict[str, subprocess.Popen[str] | str]:
    """Start a program for each store whose package is there; otherwise say what is missing."""
    started: dict[str, subprocess.Popen[str] | str] = {}
    for scheme, package in stores.items():
        if importlib.util.find_spec(package) is None:
            started[scheme] = f"not looked at: the package {package} is not installed"
            continue
        started[scheme] = subprocess.Popen(
            [*PROGRAM, "list-buckets", scheme],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    return started


def _parsed(said: str) -> dict[str, list[str]] | None:
    """The last line of a program's output, if it is an answer."""
    with contextlib.suppress(ValueError):
        found = json.loads(said.strip().rpartition("\n")[2])
        return found if isinstance(found, dict) else None
    return None


def list_buckets(arguments: Sequence[str]) -> None:
    """The program that lists the buckets of a scheme, with the credentials of its environment."""
    import fsspec

    (scheme,) = arguments
    try:
        names = fsspec.filesystem(scheme).ls("", detail=False)
    except Exception as error:  # Each package has exceptions of its own.
        said = " ".join(str(error).split())[:300] or type(error).__name__
        print(json.dumps({"error": said}))
    else:
        print(json.dumps({"buckets": sorted(str(each).strip("/") for each in names)[:_MOST]}))
