"""Runs tests on Debian's newer Python with the newest jax and keras that drumline supports.

Python 3.11 gets no jax after 0.10. This makes a folder with a minimal Debian 13 (Python 3.13) by
debootstrap, installs the wheel built from this tree into it with the newest of what it depends on,
and runs tests there, beside the installed package and not on top of it. The folder is used again
by the next run. Nothing of the host is changed: what is mounted is mounted in a namespace of this
process alone, and ends with it.

It needs root, the rights to mount, apt's and pip's configuration of the host for where to
download from, and 2 GB. Where that is not to be had it says so and ends with status 2, or with 0
if asked to skip then.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = REPOSITORY / ".newest"
SYSTEM = FOLDER / "system"
SUITE = "trixie"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
TESTED = "repository"
"""Where the tests lie, within the folder's /root."""

BESIDE_TESTS = ("benchmarks", "constraints", "docs", "examples", "scripts", "tests")
"""What tests read of the repository; the package itself is the installed one."""

PASSED_ON = (
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_PROXY", "PIP_RETRIES"),
    *("PIP_DEFAULT_TIMEOUT", "HYPOTHESIS_PROFILE"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)
"""Variables of the environment that hold inside as well."""

IN_NAMESPACE = "DRUMLINE_NEWEST_IN_NAMESPACE"


class Unavailable(Exception):
    """This machine cannot do it; the message says why and what would help."""


def main() -> int:
    """Returns the exit status of the tests, or 2 where the tests could not be run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--or-skip", action="store_true", help="succeed where it cannot be done")
    parser.add_argument("--jax", help="this version of jax, and not the newest supported one")
    parser.add_argument("--mirror", help="a Debian archive, where apt's configuration names none")
    parser.add_argument("python", nargs="+", help="arguments of Python, after --: -m pytest ...")
    given = parser.parse_args()
    try:
        _require_rights()
        if IN_NAMESPACE not in os.environ:
            _again_in_a_namespace()
        FOLDER.mkdir(exist_ok=True)
        lock = (FOLDER / "lock").open("w")  # held until this process ends
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Unavailable("another run of it is using the folder") from None
        started = time.monotonic()
        _make_system(given.mirror)
        _mount()
        _install(_built_wheel(), given.jax)
        print(f"{SYSTEM.relative_to(REPOSITORY)} took {time.monotonic() - started:.0f} s")
    except Unavailable as reason:
        print(f"tests on the newest Python: {'skipped' if given.or_skip else 'not run'}: {reason}")
        return 0 if given.or_skip else 2
    _copy_tests()
    return _inside("python", *given.python, check=False).returncode


def _require_rights() -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        raise Unavailable("a Debian in a folder needs root on Linux")
    for command in ("chroot", "unshare", "mount"):
        if shutil.which(command) is None:
            raise Unavailable(f"no command {command!r}")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        raise Unavailable("no right to mount (in a container: CAP_SYS_ADMIN)")


def _again_in_a_namespace() -> NoReturn:
    # What is mounted below is seen by this process and its children only: deleting the folder
    # can never reach the host's /dev, even after a kill.
    namespace = ["unshare", "--mount", "--propagation", "private"]
    os.environ[IN_NAMESPACE] = "1"
    sys.stdout.flush()
    os.execvp(namespace[0], [*namespace, sys.executable, *sys.argv])


def _make_system(mirror: str | None) -> None:
    if SYSTEM.is_dir():
        return
    mirror = mirror or next(_mirrors(), None)
    if mirror is None:
        raise Unavailable("apt's configuration names no Debian archive: name one with --mirror")
    unfinished = FOLDER / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    command, environment = _debootstrap()
    log = FOLDER / "debootstrap.log"
    print(f"debootstrap {SUITE} into {SYSTEM.relative_to(REPOSITORY)}: {log.name}", flush=True)
    with log.open("w") as output:
        made = subprocess.run(
            [
                *(*command, "--variant=minbase", "--include=python3,python3-venv,ca-certificates"),
                *(SUITE, str(unfinished), mirror),
            ],
            env={**os.environ, **_apt_proxy(), **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    if made.returncode:
        end = "\n".join(log.read_text().splitlines()[-5:])
        raise Unavailable(f"debootstrap ended with {made.returncode} ({log}):\n{end}")
    unfinished.rename(SYSTEM)


def _mirrors() -> Iterator[str]:
    """The Debian archives in apt's configuration, without those of security updates."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    for filters in (("Origin: Debian", "Label: Debian"), ()):  # the first once lists are loaded
        try:
            found = subprocess.run(
                [*asked, "Created-By: Packages", *filters],
                capture_output=True,
                text=True,
            ).stdout.splitlines()
        except FileNotFoundError:
            return
        yield from (uri for uri in found if uri.rstrip("/").endswith("/debian"))


def _apt_proxy() -> dict[str, str]:
    """The proxy that apt is configured with, for debootstrap's downloads."""
    shell = ["apt-config", "shell", "proxy", "Acquire::http::Proxy"]
    found = subprocess.run(shell, capture_output=True, text=True).stdout.strip()
    _, _, value = found.partition("=")
    return {"http_proxy": value.strip("'")} if value.strip("'") else {}


def _debootstrap() -> tuple[list[str], dict[str, str]]:
    """The command, and what its environment must hold: the host's, or one unpacked here."""
    if shutil.which("debootstrap"):
        return ["debootstrap"], {}
    unpacked = FOLDER / "debootstrap"
    if not unpacked.is_dir():
        download = FOLDER / "download"
        shutil.rmtree(download, ignore_errors=True)
        download.mkdir(parents=True)
        if not _downloaded(download):
            raise Unavailable("no debootstrap, and apt-get could not download it")
        (package,) = download.glob("debootstrap*.deb")
        subprocess.run(["dpkg-deb", "-x", package, download / "files"], check=True)
        (download / "files").rename(unpacked)
    environment = {"DEBOOTSTRAP_DIR": str(unpacked / "usr/share/debootstrap")}
    return ["sh", str(unpacked / "usr/sbin/debootstrap")], environment


def _downloaded(folder: Path) -> bool:
    """Downloads debootstrap's package; with new lists of apt's where the present ones fail."""
    unprivileged = ["-o", "APT::Sandbox::User=root"]  # _apt cannot write into the folder
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return False
    for update in (False, True):
        if update:
            subprocess.run(["apt-get", "-qq", "update"], capture_output=True)
        tried = ["apt-get", "-qq", *unprivileged, "download", "debootstrap"]
        if subprocess.run(tried, cwd=folder, capture_output=True).returncode == 0:
            return True
    return False


def _mount() -> None:
    """Gives the folder /proc, /dev and /sys: shared memory and cores are found by them."""
    for kind, options in (("proc", ["-t", "proc", "proc"]), ("sys", ["--rbind", "/sys"])):
        subprocess.run(["mount", *options, SYSTEM / kind], check=True)
    subprocess.run(["mount", "--rbind", "/dev", SYSTEM / "dev"], check=True)


def _built_wheel() -> Path:
    """A wheel of this tree; cargo compiles what it has not yet compiled."""
    wheels = FOLDER / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"),
            *("--no-build-isolation", "--wheel-dir", wheels, REPOSITORY),
        ],
        check=True,
    )
    (wheel,) = wheels.glob("*.whl")
    return wheel


def _install(wheel: Path, jax: str | None) -> None:
    """Installs the wheel and what tests need, in the newest versions that the wheel allows."""
    _configure()
    target = SYSTEM / "root" / wheel.name
    for old in target.parent.glob("*.whl"):
        old.unlink()
    shutil.copy(wheel, target)
    if not (SYSTEM / "venv").is_dir():
        _inside("python3", "-m", "venv", "/venv")
    install = ("pip", "install", "--quiet", "--no-compile", "--upgrade")
    if _inside(*install, "pytest", "pytest-xdist", check=False).returncode:
        raise Unavailable("pip could not download pytest")
    # From here on what fails is a fault of the wheel or of what it asks for.
    needed = [f"/root/{wheel.name}", "hypothesis", "orbax-checkpoint", "pandas"]
    version = [] if jax is None else [f"jax=={jax}"]
    _inside(*install, "--upgrade-strategy", "eager", *needed, *version)
    _inside(*install, "--force-reinstall", "--no-deps", f"/root/{wheel.name}")
    _inside("python", "-c", _VERSIONS)


_VERSIONS = """
import sys, drumline, jax, keras, numpy
assert drumline.__file__.startswith("/venv/"), drumline.__file__
print("Python", sys.version.split()[0], "jax", jax.__version__, "keras", keras.__version__,
      "numpy", numpy.__version__)
"""


def _configure() -> None:
    """Names, certificates and pip's configuration as the host has them."""
    for name in ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf"):
        if Path(name).exists():
            shutil.copy(name, SYSTEM / name[1:])
    own = Path(os.environ.get("PIP_CONFIG_FILE") or Path.home() / ".config/pip/pip.conf")
    if own.is_file():
        (SYSTEM / "root/.config/pip").mkdir(parents=True, exist_ok=True)
        shutil.copy(own, SYSTEM / "root/.config/pip/pip.conf")
    trusted = Path(os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE") or CERTIFICATES)
    if trusted.is_file():
        shutil.copy(trusted, SYSTEM / CERTIFICATES[1:])


def _copy_tests() -> None:
    target = SYSTEM / "root" / TESTED
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name in BESIDE_TESTS:
        ignored = shutil.ignore_patterns("__pycache__", "results")
        shutil.copytree(REPOSITORY / name, target / name, ignore=ignored)
    for name in ("README.md", "pyproject.toml", "Makefile", "conftest.py"):
        shutil.copy(REPOSITORY / name, target / name)


def _inside(*command: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    """Runs a command in the folder, in the copied repository once that is there."""
    variables = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment = {
        **variables,
        "PATH": "/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "PIP_CERT": CERTIFICATES,
        "SSL_CERT_FILE": CERTIFICATES,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    enter = f'cd /root/{TESTED} 2>/dev/null || cd /root; exec "$@"'
    settings = [f"{name}={value}" for name, value in environment.items()]
    command_line = ["chroot", SYSTEM, "env", "-i", *settings, "sh", "-c", enter, "sh", *command]
    return subprocess.run(command_line, check=check)


if __name__ == "__main__":
    sys.exit(main())
