"""Two hosts with Debian's OpenSSH server, each in a network namespace of this machine.

It takes root and Debian's packages ``openssh-server``, ``openssh-client`` and ``iproute2``. The
hosts ``a`` and ``b`` share this machine's files but for two folders, which each has for itself.
This machine reaches both from where ``a`` is: taking the interface of ``b`` down cuts it off.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.jobs.launch.launching import ROOT
from tests.jobs.sources.ssh_server import new_key
from tests.network_namespaces import TwoHosts, two_hosts

NAMES = ("a", "b")
START_SECONDS = 60
_SSHD = "/usr/sbin/sshd"

_SERVER = """\
ListenAddress {address}
HostKey {at}/{name}_key
AuthorizedKeysFile {at}/user_key.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
PidFile none
SetEnv PYTHONPATH={python_path} HOME={at}/home
"""

_CLIENT = """\
Host a b stranger
  User root
  IdentityFile {at}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {at}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  ProxyCommand ip netns exec {namespace} {python} -S -I {at}/reach.py %h %p
  ProxyUseFdpass yes
Host a
  HostName {addresses[0]}
Host b
  HostName {addresses[1]}
Host stranger
  HostName {addresses[1]}
  HostKeyAlias stranger
"""

# Connects where ssh itself is not, and hands it the socket.
_REACH = """\
import socket, sys
reached = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
reached.settimeout(None)
socket.send_fds(socket.socket(fileno=1), [b"-"], [reached.fileno()])
"""


class SshHosts:
    """Hosts that run.

    Attributes:
        options: of ``ssh``, with which it finds them.
        hidden: a folder of this machine that they do not see.
        small: a folder with room for 2 MiB on each of them.
    """

    def __init__(self, directory: Path, hosts: TwoHosts) -> None:
        self.options = ("-F", str(directory / "ssh_config"))
        self.hidden = directory / "hidden"
        self.small = directory / "small"
        for folder in (self.hidden, self.small, directory / "home"):
            folder.mkdir()
        self._directory = directory
        self._hosts = hosts
        self._servers: dict[str, subprocess.Popen[bytes]] = {}

    def cut(self, name: str) -> None:
        """Take a host's interface down."""
        self._hosts.link_down(NAMES.index(name))

    def join(self, name: str) -> None:
        """Take it up again."""
        self._hosts.link_up(NAMES.index(name))

    def start(self, name: str) -> None:
        """Start a host's server."""
        number = NAMES.index(name)
        mounts = f"mount -t tmpfs hidden {self.hidden} && "
        mounts += f"mount -t tmpfs -o size=2m small {self.small} && "
        serve = f"{mounts} exec {_SSHD} -D -e -f {self._at(name)}"
        with open(self._directory / f"{name}.log", "ab") as log:
            self._servers[name] = self._hosts.run(
                number, ["sh", "-c", serve], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        until = time.monotonic() + START_SECONDS
        while subprocess.run(self.command(name, "true"), capture_output=True).returncode:
            if time.monotonic() > until or self._servers[name].poll() is not None:
                raise RuntimeError(f"the SSH server of {name} does not come\n{self.log()}")
            time.sleep(0.1)

    def _at(self, name: str) -> Path:
        return self._directory / f"{name}.conf"

    def kill(self, name: str) -> None:
        """Kill a host's server with all its connections; what they have started stays."""
        self._servers[name].kill()
        self._servers[name].wait()
        for pid in self._hosts.pids(NAMES.index(name)):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/exe").resolve() == Path(_SSHD):
                    os.kill(pid, 9)

    def end(self) -> None:
        """End the servers."""
        for server in self._servers.values():
            server.terminate()
            server.wait()

    def command(self, name: str, *argv: str) -> list[str]:
        """The command line that runs a command on a host."""
        return ["ssh", *self.options, "-o", "BatchMode=yes", name, *argv]

    def pids(self, name: str) -> list[int]:
        """The processes that run on a host."""
        return self._hosts.pids(NAMES.index(name))

    def log(self) -> str:
        """What the servers logged last, for a failing test."""
        return "\n".join(
            f"{path.name}:\n{path.read_text(errors='replace')[-1500:]}"
            for path in sorted(self._directory.glob("*.log"))
        )


def missing() -> str:
    """Why they cannot run here; empty if they can."""
    if os.geteuid():
        return "SSH hosts of tests take root"
    absent = [name for name in ("ssh", "ssh-keygen", "ip") if shutil.which(name) is None]
    absent += [] if os.path.exists(_SSHD) else ["sshd (openssh-server)"]
    return f"not installed: {', '.join(absent)}" if absent else ""


@contextlib.contextmanager
def ssh_hosts_of_tests(directory: Path) -> Iterator[SshHosts]:
    """Start two hosts, and end them with all that runs there.

    Args:
        directory: empty, for keys, settings and logs.
    """
    Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)  # Where the server has no rights.
    (directory / "reach.py").write_text(_REACH)
    with two_hosts() as hosts:
        known = []
        for name in ("user", *NAMES):
            new_key(directory / f"{name}_key")
        for name, address in zip(NAMES, hosts.addresses, strict=True):
            public = (directory / f"{name}_key.pub").read_text().split()[:2]
            known.append(f"{address} {' '.join(public)}\n")
            (directory / f"{name}.conf").write_text(
                _SERVER.format(address=address, at=directory, name=name, python_path=ROOT)
            )
        (directory / "known_hosts").write_text("".join(known))
        values = {"namespace": hosts.names[0], "python": sys.executable, "at": directory}
        (directory / "ssh_config").write_text(_CLIENT.format(addresses=hosts.addresses, **values))
        made = SshHosts(directory, hosts)
        try:
            for name in NAMES:
                made.start(name)
            yield made
        finally:
            made.end()
