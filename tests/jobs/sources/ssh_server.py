"""OpenSSH's own server on loopback, for this user, whose keys may do what a test allows."""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.launch.launching import wait_until

REQUIRED_VARIABLE = "DRUMLINE_REQUIRE_SSHD"
"""If it is set, a test without OpenSSH's server fails."""

CONFIGURATION = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {host_key}
AuthorizedKeysFile {authorized}
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
"""


@dataclasses.dataclass(frozen=True)
class SshServer:
    """A server that runs.

    Attributes:
        port: where.
        user: as whom one logs in.
        folder: of its files.
    """

    port: int
    user: str
    folder: Path

    @property
    def known_hosts(self) -> Path:
        """A file of known hosts with this one."""
        path = self.folder / "known_hosts"
        public = (self.folder / "host.pub").read_text()
        path.write_text(f"[127.0.0.1]:{self.port} {public}")
        return path

    def allow(self, key: Path, options: str = "restrict") -> None:
        """Let who has a private key in, with the options of ``authorized_keys``."""
        with open(self.folder / "authorized", "a") as file:
            file.write(f"{options} {key.with_suffix('.pub').read_text()}")

    @staticmethod
    def client(known_hosts: Path | str = os.devnull) -> str:
        """The command of a client that knows these hosts, and nothing of this user's own."""
        return (
            "ssh -F none -o BatchMode=yes -o GlobalKnownHostsFile=/dev/null -o IdentityAgent=none "
            f"-o IdentityFile=none -o UserKnownHostsFile={known_hosts}"
        )


def new_key(path: Path, passphrase: str = "") -> Path:
    """A private key, beside its public one."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "a test", "-f", path]
    subprocess.run(command, check=True)
    return path


@contextlib.contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """A server that lets nobody in before `SshServer.allow`."""
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        if os.environ.get(REQUIRED_VARIABLE):
            pytest.fail("sshd is not installed")
        pytest.skip("sshd is not installed")
    if not os.geteuid():
        Path("/run/sshd").mkdir(exist_ok=True)
    new_key(folder / "host")
    (folder / "authorized").touch()
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    values = {"port": port, "host_key": folder / "host", "authorized": folder / "authorized"}
    (folder / "sshd_config").write_text(CONFIGURATION.format(**values))
    log = folder / "sshd.log"
    process = subprocess.Popen(
        [program, "-D", "-f", folder / "sshd_config", "-E", log], stdin=subprocess.DEVNULL
    )

    def listens() -> bool:
        assert process.poll() is None, log.read_text()
        with contextlib.closing(socket.socket()) as tried:
            return tried.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(listens)
        yield SshServer(port, getpass.getuser(), folder)
    finally:
        process.terminate()
        process.wait()
