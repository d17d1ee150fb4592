"""The clock of one job: `clock.c`, loaded into its processes, and the file that moves it."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")


@functools.cache
def library() -> Path | None:
    """The library that shows processes another time; None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    folder = tempfile.mkdtemp(prefix="soak-clock-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    place = Path(folder, "clock.so")
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(place), str(_SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    return place


def environment(file: Path) -> dict[str, str]:
    """What has processes read the time of day through `file`, which is made."""
    move(file, 0)
    return {"LD_PRELOAD": str(library()), "SOAK_CLOCK": str(file)}


def move(file: Path, seconds: int) -> None:
    """Have the clocks of all processes show so many seconds more than it is, from now on."""
    with file.open("r+b" if file.exists() else "wb", buffering=0) as clock:
        clock.write(seconds.to_bytes(8, "little", signed=True))  # in place: it is mapped
