"""Starting clusters of members for tests, and what became of them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from drumline import failure_record
from drumline.failure_record import FailureRecord
from tests.ports import free_port

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
_LIMIT_SECONDS = 150


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Processes that run a function of `member`.

    Attributes:
        name: of the scenario.
        does: the function; one of another module as ``"package.module:function"``.
        arguments: its arguments, by name.
        hosts: the host of each worker, an address of this machine or of a network namespace.
        zygotes: for each worker which of the test's zygotes forks it.
        env: more of the environment.
    """

    name: str
    does: str
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    hosts: Sequence[str] = ("127.0.0.1", "127.0.0.1")
    zygotes: Sequence[int] = (0, 0)
    env: dict[str, str] = dataclasses.field(default_factory=dict)

    def members(self, folder: Path) -> list[dict[str, Any]]:
        """The members, as the zygote takes them."""
        addresses = [f"{host}:{free_port(host)}" for host in self.hosts]
        common = {
            "DRUMLINE_COMPILATION_CACHE": str(folder / "compiled"),  # equal programs: once
            "DRUMLINE_FAILURE_DIR": str(folder / self.name),
            **self.env,
        }
        config = {"cluster": {"worker": addresses}}
        return [
            {
                "name": f"{self.name} {index}",
                "does": self.does,
                "arguments": self.arguments,
                "log": str(folder / f"{self.name} {index}.log"),
                "env": common
                | {"TF_CONFIG": json.dumps({**config, "task": {"type": "worker", "index": index}})},
            }
            for index in range(len(addresses))
        ]


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a member ended: its exit status (negative: a signal), when, and what it has said."""

    status: int
    time: float
    log: str
    record: FailureRecord | None

    @property
    def facts(self) -> dict[str, Any]:
        """All facts that it said."""
        said: dict[str, Any] = {}
        for line in self.log.splitlines():
            if line.startswith('{"facts"'):
                said |= json.loads(line)["facts"]
        return said

    @property
    def said_at(self) -> float:
        """When it said its last fact."""
        lines = [line for line in self.log.splitlines() if line.startswith('{"facts"')]
        return float(json.loads(lines[-1])["time"])


class Run:
    """Clusters whose members have been forked."""

    def __init__(self, folder: Path, clusters: Sequence[Cluster], commands: Sequence[Any]) -> None:
        self._folder = folder
        self._changed = threading.Condition()
        self._pids: dict[str, int] = {}
        self._ends: dict[str, tuple[int, float]] = {}
        self._silent = 0
        self._members = [(each, each.members(folder)) for each in clusters]
        self._zygotes = [command() for command in commands]
        for number, zygote in enumerate(self._zygotes):
            zygote.stdin.write(json.dumps(self._members_of(number)) + "\n")
            zygote.stdin.flush()
        self._readers = [
            threading.Thread(target=self._read, args=(zygote,)) for zygote in self._zygotes
        ]
        for reader in self._readers:
            reader.start()

    @property
    def names(self) -> list[str]:
        """All members' names."""
        return [name for number in range(len(self._zygotes)) for name in self.names_of(number)]

    def address_of(self, cluster: str) -> str:
        """Where process 0 of a cluster listens."""
        members = next(members for each, members in self._members if each.name == cluster)
        addresses: list[str] = json.loads(members[0]["env"]["TF_CONFIG"])["cluster"]["worker"]
        return addresses[0]

    def names_of(self, number: int) -> list[str]:
        """The names of a zygote's members."""
        return [member["name"] for member in self._members_of(number)]

    def _members_of(self, number: int) -> list[dict[str, Any]]:
        return [
            member
            for cluster, members in self._members
            for index, member in enumerate(members)
            if cluster.zygotes[index] == number
        ]

    def _read(self, zygote: subprocess.Popen[str]) -> None:
        assert zygote.stdout is not None
        for line in zygote.stdout:
            event = json.loads(line)
            with self._changed:
                if "started" in event:
                    self._pids[event["started"]] = event["pid"]
                else:
                    self._ends[event["ended"]] = (event["status"], event["time"])
                self._changed.notify_all()
        with self._changed:
            self._silent += 1
            self._changed.notify_all()

    def wait_for(self, *names: str, seconds: float = _LIMIT_SECONDS) -> None:
        """Wait until these members have ended, for at most so many seconds."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._have_ended(names) or self._zygotes_have_ended(), seconds
            )
        assert self._have_ended(names), {
            name: self.log(name)[-3000:] for name in names if name not in self._ends
        }

    def _have_ended(self, names: Sequence[str]) -> bool:
        return all(name in self._ends for name in names)

    def _zygotes_have_ended(self) -> bool:
        """As when their imports fail, which they say on standard error."""
        return self._silent == len(self._zygotes)

    def wait_until(self, name: str, text: str, seconds: float = _LIMIT_SECONDS) -> None:
        """Wait until a member's log holds `text`, or it has ended, for at most so many seconds."""
        end = time.monotonic() + seconds
        with self._changed:
            while text not in self.log(name) and time.monotonic() < end:
                if name in self._ends or self._zygotes_have_ended():
                    break
                self._changed.wait(0.1)
        assert text in self.log(name), self.log(name)

    def kill(self, name: str) -> None:
        """End a member that cannot end by itself."""
        if name in self._pids and name not in self._ends:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pids[name], signal.SIGKILL)

    def log(self, name: str) -> str:
        """What a member has written so far."""
        path = self._folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def ended(self, cluster: str) -> list[Ended]:
        """How the members of a cluster ended, by index."""
        names = sorted(name for name in self._ends if name.rpartition(" ")[0] == cluster)
        records = {
            record.task: record for record in failure_record.read_all(self._folder / cluster)
        }
        return [
            Ended(
                *self._ends[name], self.log(name), records.get(f"worker:{name.rpartition(' ')[2]}")
            )
            for name in names
        ]

    def close(self) -> None:
        """Leave no process behind."""
        for name in list(self._pids):
            self.kill(name)
        for zygote in self._zygotes:
            if zygote.stdin:
                zygote.stdin.close()
            try:
                zygote.wait(10)
            except subprocess.TimeoutExpired:
                zygote.kill()
                zygote.wait()
        for reader, zygote in zip(self._readers, self._zygotes, strict=True):
            reader.join()
            if zygote.stdout:
                zygote.stdout.close()


@contextlib.contextmanager
def running(
    folder: Path, clusters: Sequence[Cluster], start: Sequence[Callable[..., Any]] = ()
) -> Iterator[Run]:
    """Run clusters at the same time; `start` are ways to start the zygotes, as `Popen` takes it."""
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(
        folder, clusters, [lambda way=way: _zygote(way) for way in start or [subprocess.Popen]]
    )
    try:
        yield run
    finally:
        run.close()


def _zygote(start: Callable[..., Any]) -> Any:
    env = {key: value for key, value in os.environ.items() if not key.startswith("DRUMLINE_")}
    env.pop("TF_CONFIG", None)
    env |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    return start(
        [sys.executable, str(HERE / "zygote.py")],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
