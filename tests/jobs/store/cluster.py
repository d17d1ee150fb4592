"""A PostgreSQL of its own in a folder, run by a user without rights, for tests."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from tests.ports import free_port

REQUIRED_VARIABLE = "DRUMLINE_REQUIRE_POSTGRESQL"
USER, PASSWORD = "drumline", "p@ss word%"


def programs() -> str | None:
    """The folder of PostgreSQL's programs: on Debian they are not on PATH."""
    if found := shutil.which("pg_ctl"):
        return os.path.dirname(os.path.realpath(found))
    folders = glob.glob("/usr/lib/postgresql/*/bin/pg_ctl")
    return os.path.dirname(max(folders)) if folders else None


class PostgresCluster:
    """A server on a socket in a folder, where it trusts, and on a port, where it asks.

    Args:
        fsync: whether what is written must outlive the machine, too.

    Attributes:
        port: on 127.0.0.1, also the number in the socket's name.
    """

    def __init__(self, fsync: bool = False) -> None:
        found = programs()
        if found is None:
            raise FileNotFoundError("PostgreSQL is not installed: scripts/install_services.sh")
        self._programs = found
        self.folder = Path(tempfile.mkdtemp(prefix="drumline-postgresql-"))
        self.folder.chmod(0o755)
        self._user: str | None = None
        if os.getuid() == 0:  # PostgreSQL refuses to run as root.
            names = {entry.pw_name for entry in pwd.getpwall()}
            self._user = "postgres" if "postgres" in names else "nobody"
            shutil.chown(self.folder, self._user)
        self.port = free_port()
        self.data = self.folder / "data"
        self._databases = 0
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8",
                  "--locale=C.UTF-8", "--no-sync")  # fmt: skip
        rules = f"local all all trust\nhost all {USER} 127.0.0.1/32 scram-sha-256\n"
        self._write("pg_hba.conf", rules)
        settings = (
            f"port={self.port}\nunix_socket_directories='{self.folder}'\n"
            f"listen_addresses='127.0.0.1'\nfsync={'on' if fsync else 'off'}\n"
            "shared_buffers=16MB\nmax_connections=60\n"
        )
        self._write("postgresql.auto.conf", settings)
        try:
            self.start()
            self.psql(f"create role {USER} login createdb password '{PASSWORD}'")
        except BaseException:
            self.end()
            raise

    def _write(self, name: str, text: str) -> None:
        self.folder.joinpath(name).write_text(text)
        shutil.copyfile(self.folder / name, self.data / name)

    def _run(self, program: str, *arguments: str) -> None:
        log = self.folder / f"{program}.log"
        with open(log, "ab") as writing:
            done = subprocess.run(
                [os.path.join(self._programs, program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                user=self._user,
                group=self._user,
                extra_groups=[] if self._user else None,
                cwd="/",
            )
        assert done.returncode == 0, log.read_text()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = str(self.folder / "server.log")
        self._run("pg_ctl", "-D", str(self.data), "-l", log, "-w", "-t", "120", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it."""
        self._run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "-t", "120", "stop")

    def kill(self) -> None:
        """Kill its first process; the others end when they see that it is gone."""
        number = int((self.data / "postmaster.pid").read_text().split()[0])
        os.kill(number, signal.SIGKILL)
        ended = subprocess.run(["pgrep", "-P", str(number)], stdout=subprocess.DEVNULL)
        while ended.returncode == 0 or Path(f"/proc/{number}").exists():
            time.sleep(0.02)
            ended = subprocess.run(["pgrep", "-P", str(number)], stdout=subprocess.DEVNULL)

    def psql(self, statement: str, database: str = "postgres") -> str:
        """Execute a statement as the superuser, and return the rows, one a line."""
        command = [os.path.join(self._programs, "psql"), "-h", str(self.folder), "-p",
                   str(self.port), "-U", "postgres", "-d", database, "-X", "-qAt", "-v",
                   "ON_ERROR_STOP=1", "-c", statement]  # fmt: skip
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def database(self) -> str:
        """The address of a new database, over the socket."""
        self._databases += 1
        name = f"jobs_{self._databases}"
        self.psql(f"create database {name} owner {USER}")
        return f"postgresql://{USER}@/{name}?host={self.folder}&port={self.port}"

    def cut(self) -> None:
        """Cut all connections of the user of the tests."""
        self.psql(f"select pg_terminate_backend(pid) from pg_stat_activity where usename='{USER}'")

    def end(self) -> None:
        """Stop it, and remove its folder."""
        if (self.data / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.folder)
