"""The engines of a workspace by their names: ``local``, and those that were added.

Each added one is a file, ``engines/NAME.json``, with its kind and settings.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumline.jobs.engines.engine import Engine
from drumline.jobs.engines.local import attempt
from drumline.jobs.file.model import INLINE_SSH

if TYPE_CHECKING:
    from drumline.jobs.engines.kubernetes.engine import KubernetesEngine
    from drumline.jobs.engines.ray.engine import RayEngine
    from drumline.jobs.engines.slurm.engine import SlurmEngine
    from drumline.jobs.engines.ssh.engine import SshEngine

LOCAL = "local"
KINDS = ("slurm", "kubernetes", "ssh", "ray")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")


class EngineError(Exception):
    """An engine that cannot be added, removed or used; the message says why."""


@dataclasses.dataclass(frozen=True)
class EngineRecord:
    """An engine as it was added.

    Attributes:
        name: as ``engine:`` of a job file has it.
        kind: one of `KINDS`.
        settings: those of its kind.
    """

    name: str
    kind: str
    settings: Mapping[str, Any]

    def made(self, home: Path) -> SlurmEngine | KubernetesEngine | SshEngine | RayEngine:
        """The engine itself, for the jobs of a workspace."""
        if self.kind == "kubernetes":
            from drumline.jobs.engines.kubernetes.engine import KubernetesEngine
            from drumline.jobs.engines.kubernetes.settings import KubernetesSettings

            return KubernetesEngine(home, KubernetesSettings.from_json(self.settings))
        if self.kind == "ray":
            from drumline.jobs.engines.ray.engine import RayEngine, RaySettings

            return RayEngine(home, RaySettings.from_json(self.settings))
        if self.kind == "ssh":
            from drumline.jobs.engines.ssh.engine import SshEngine
            from drumline.jobs.engines.ssh.settings import SshSettings

            return SshEngine(home, SshSettings.from_json(self.settings))
        from drumline.jobs.engines.slurm.engine import SlurmEngine
        from drumline.jobs.engines.slurm.script import SlurmSettings

        return SlurmEngine(home, SlurmSettings.from_json(self.settings))


class Engines(Mapping[str, Engine]):
    """The engines of a workspace by their names; one that is added or removed is noticed.

    Args:
        home: the workspace.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._made: dict[str, tuple[EngineRecord, Engine]] = {}

    def __getitem__(self, name: str) -> Engine:
        if name == LOCAL:
            record = EngineRecord(LOCAL, LOCAL, {})
        elif (found := read_record(self._home, name)) is None:
            raise KeyError(name)
        else:
            record = found
        known, engine = self._made.get(name, (None, None))
        if engine is None or record != known:
            if name == LOCAL:
                from drumline.jobs.engines.local.engine import LocalEngine

                engine = LocalEngine(self._home)
            else:
                engine = record.made(self._home)
            self._made[name] = (record, engine)
        return engine

    def __iter__(self) -> Iterator[str]:
        return iter(engine_names(self._home))

    def __len__(self) -> int:
        return len(engine_names(self._home))

    def named(self, name: str) -> Engine:
        """The engine of that name.

        Raises:
            EngineError: there is none.
        """
        if name not in self:
            raise EngineError(
                f"there is no engine {name!r} in this workspace; there is: {', '.join(self)}"
            )
        return self[name]


def engine_names(home: Path) -> list[str]:
    """The names of all engines, ``local`` first."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return [LOCAL, *sorted(path.stem for path in (home / "engines").glob("*.json"))]
    return [LOCAL]


def read_record(home: Path, name: str) -> EngineRecord | None:
    """What was added under a name, or what a job file has described; None if there is neither."""
    if name.startswith(INLINE_SSH):
        from drumline.jobs.engines.ssh.settings import SshSettings

        return EngineRecord(name, "ssh", dataclasses.asdict(SshSettings.inline(name)))
    if not _NAME.fullmatch(name):
        return None
    found = attempt.read(home / "engines" / f"{name}.json")
    return None if found is None else EngineRecord(name, found["kind"], found["settings"])


def write_record(home: Path, record: EngineRecord) -> None:
    """Add an engine.

    Raises:
        EngineError: its name is not allowed or taken, its kind is not known, or it does not
            answer as it should.
    """
    if not _NAME.fullmatch(record.name):
        raise EngineError(
            "an engine's name has 1 to 40 lower case letters, digits and hyphens, not "
            f"{record.name!r}."
        )
    if record.name in engine_names(home):
        raise EngineError(f"there is an engine {record.name!r} already; remove it first.")
    if record.kind not in KINDS:
        raise EngineError(
            f"there is no kind {record.kind!r} of engine; there is: {', '.join(KINDS)}"
        )
    if problem := record.made(home).problem():
        raise EngineError(f"{record.name}: {problem}")
    (home / "engines").mkdir(exist_ok=True, mode=0o700)
    settings = {"kind": record.kind, "settings": dict(record.settings)}
    attempt.write(home / "engines" / f"{record.name}.json", settings)


def remove_record(home: Path, name: str) -> None:
    """Forget an engine.

    Raises:
        EngineError: there is none of that name, or it is this machine.
    """
    if name == LOCAL:
        raise EngineError("local is this machine, and cannot be removed.")
    if read_record(home, name) is None:
        raise EngineError(f"there is no engine {name!r}.")
    (home / "engines" / f"{name}.json").unlink()
