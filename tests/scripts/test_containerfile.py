"""The steps of the Containerfile, executed in a Debian in a folder: the image itself is not built.

``scripts/test_newest_python.py`` knows how to make such a folder; it is a process of its own, as
what is mounted there must end with it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

Steps = list[tuple[str, str]]


def steps(text: str) -> Steps:
    """The instructions of a Containerfile and their arguments, with continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined)]


def test_its_instructions_are_those_that_are_executed_here() -> None:
    found = steps((ROOT / "Containerfile").read_text())
    assert {word for word, _ in found} == {"FROM", "RUN", "ENV", "ARG", "COPY"}
    assert found[0] == ("FROM", "docker.io/library/debian:trixie-slim")
    assert all(re.fullmatch(r"\w+=\S+", rest) for word, rest in found if word in ("ENV", "ARG"))
    assert [rest for word, rest in found if word == "COPY"] == ["dist/drumline-*.whl /tmp/wheels/"]


PROGRAM = """
import os, shutil, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1] + "/scripts")
import test_newest_python as debian
from tests.scripts.test_containerfile import steps
root, folder = Path(sys.argv[1]), Path(sys.argv[2])
debian.FOLDER, debian.SYSTEM = folder, folder / "system"
# The slim image has no Python; what else it lacks of a minimal Debian is documentation.
debian._make_system(None)
debian._mount()
debian._configure()
wheel = debian._built_wheel()
environment = {name: os.environ[name] for name in debian.PASSED_ON if name in os.environ}
environment |= {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PIP_CERT": debian.CERTIFICATES}
(debian.SYSTEM / "etc/apt/apt.conf.d/90proxy").write_text("".join(
    f'Acquire::http::Proxy "{each}";' for each in debian._apt_proxy().values()))
for word, rest in steps((root / "Containerfile").read_text()):
    if word in ("ENV", "ARG"):
        name, _, value = rest.partition("=")
        environment[name] = value
    elif word == "COPY":
        target = debian.SYSTEM / rest.split()[1].strip("/")
        target.mkdir(parents=True)
        shutil.copy(wheel, target)
    elif word == "RUN":
        print("+", rest, flush=True)
        settings = [f"{name}={value}" for name, value in environment.items()]
        command = ["chroot", str(debian.SYSTEM), "env", "-i", *settings, "/bin/sh", "-c", rest]
        subprocess.run(command, check=True)
check = "import drumline, jax, sys; print(drumline.__file__, sys.version_info[:2])"
subprocess.run(["chroot", str(debian.SYSTEM), "env", "-i", *settings, "python", "-c", check],
               check=True)
"""


@pytest.mark.thorough
def test_its_steps_make_an_installation() -> None:
    if os.geteuid() != 0:
        pytest.skip("a Debian in a folder needs root")
    namespace = ["unshare", "--mount", "--propagation", "private"]
    if shutil.which("unshare") is None or subprocess.run([*namespace, "true"]).returncode:
        pytest.skip("no right to mount (in a container: CAP_SYS_ADMIN)")
    folder = ROOT / ".newest" / "containerfile"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    done = subprocess.run(
        [*namespace, sys.executable, "-c", PROGRAM, str(ROOT), str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
    )
    if "Unavailable" in done.stdout:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout[-4000:]
    shutil.rmtree(folder)
    first, last = done.stdout.splitlines()[0], done.stdout.splitlines()[-1]
    assert "debootstrap" in first and last.startswith("/opt/drumline/lib/python3.13/"), done.stdout
