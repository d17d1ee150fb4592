"""Apptainer, the machine's or that of another Debian in a folder, and an image of bash alone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.jobs.launch.launching import ROOT

FOLDER = ROOT / ".apptainer"
"""Where ``scripts/install_services.sh apptainer`` has put Debian's packages."""

# Its root becomes that folder, in which all other folders of this machine are seen.
WRAPPER = """#!/bin/sh
exec /usr/bin/unshare --mount --propagation private /bin/sh -c '
export PATH=/usr/bin:/bin:/usr/sbin:/sbin
root=$1; shift; here=$(pwd)
mount --bind "$root" "$root"
for each in /*; do
  case $each in /usr|/etc|/bin|/sbin|/lib*|/var|/old) continue;; esac
  if [ -d "$each" ] && [ ! -L "$each" ]; then
    mkdir -p "$root$each"; mount --rbind "$each" "$root$each"
  fi
done
mkdir -p "$root/old"; cd "$root"; pivot_root . old; cd "$here"
exec /usr/bin/apptainer "$@"' sh {root} "$@"
"""


class Apptainer:
    """Makes the program and the image.

    Args:
        folder: for both.

    Attributes:
        path: a ``PATH`` on which there is nothing else.
        image: the folder with the image.
    """

    def __init__(self, folder: Path) -> None:
        self.image = folder / "image"
        for name in ("bin", "proc", "sys", "dev", "tmp", "etc", "mnt", "var/tmp"):
            (self.image / name).mkdir(parents=True)
        bash = shutil.which("bash")
        assert bash is not None
        listed = subprocess.run(["ldd", bash], capture_output=True, text=True, check=True).stdout
        for path in (word for word in listed.split() if word.startswith("/")):
            (self.image / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, self.image / path[1:])
        shutil.copy(bash, self.image / "bin" / "bash")
        (self.image / "bin" / "sh").symlink_to("bash")
        programs = folder / "bin"
        programs.mkdir()
        self.path = str(programs)
        own = programs / "apptainer"
        if found := shutil.which("apptainer"):
            own.symlink_to(found)
        elif (FOLDER / "usr" / "bin" / "apptainer").exists():
            own.write_text(WRAPPER.format(root=FOLDER))
            own.chmod(0o755)
        else:
            pytest.skip("apptainer is not there: scripts/install_services.sh apptainer")
        done = subprocess.run(
            [own, "exec", self.image, "bash", "-c", ""], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"apptainer cannot run here: {done.stderr.strip()[-200:]}")
