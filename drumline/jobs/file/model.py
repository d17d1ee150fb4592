"""A job as the store and the engines know it: checked, complete, and written down as JSON."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

ROLES = ("chief", "workers", "ps", "evaluator")
RESOURCES = ("cpus", "memory", "gpus")

INLINE_SSH = "ssh:"
"""With which the names of engines begin that job files describe: ``ssh:a,b``."""

_MOST_HOSTS = 64
_HOST = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.@:%\[\]-]{0,254}")


def ssh_hosts(text: str) -> tuple[str, ...]:
    """The hosts in ``"a,b"``.

    Raises:
        ValueError: one cannot be given to ``ssh``, or is a duplicate.
    """
    hosts = tuple(text.split(","))
    for host in hosts:
        # Nothing that ssh would take for an option, nor a shell for more than a word.
        if not _HOST.fullmatch(host):
            raise ValueError(f"{host!r} is no name of a host, as a, ada@a or 10.0.0.1")
        if hosts.count(host) > 1:
            raise ValueError(f"the host {host} is named twice")
    if len(hosts) > _MOST_HOSTS:
        raise ValueError(f"at most {_MOST_HOSTS} hosts, not {len(hosts)}")
    return hosts


@dataclasses.dataclass(frozen=True)
class JobRole:
    """The processes of one kind.

    Attributes:
        count: how many.
        cpus: reserved for each.
        memory: bytes reserved for each; 0 reserves none.
        gpus: of each.
        image: the container image its processes run in; empty for this environment.
    """

    count: int = 1
    cpus: float = 1.0
    memory: int = 0
    gpus: int = 0
    image: str = ""


@dataclasses.dataclass(frozen=True)
class Code:
    """Where the program comes from: a folder of this machine, or a git repository.

    Attributes:
        folder: copied when the job is submitted; None with `git`.
        git: the repository's address, without credentials.
        commit: a branch, a tag or a commit; when submitted it becomes a commit.
        user: for HTTP.
        token: the name of the secret that holds the password or token; over SSH the private key.
        at: the absolute path at which the job's working copy is seen, too; empty for none.
    """

    folder: str | None = None
    git: str | None = None
    commit: str | None = None
    user: str | None = None
    token: str | None = None
    at: str = ""


@dataclasses.dataclass(frozen=True)
class JobData:
    """Data that a job sees at a path.

    Attributes:
        source: a folder of this machine, or an address with a scheme: ``nfs://host/path``,
            ``pvc://claim/path``, ``dataset://name``; of others an object store.
        at: the absolute path; empty for a dataset that is found by its name alone.
        write: whether the job may write there.
    """

    source: str
    at: str
    write: bool = False


@dataclasses.dataclass(frozen=True)
class Job:
    """What a person has asked for.

    Attributes:
        name: lower case, digits and hyphens.
        command: program and arguments of every process.
        code: see `Code`.
        data: see `JobData`.
        roles: by their name in `ROLES`; there is always at least one worker.
        env: variables of the processes.
        secrets: names of secrets that become variables of the processes.
        priority: 1 to 9; the highest goes first.
        restarts: how often it is started again after a failure.
        timeout: seconds that one start may take, or None.
        engine: the name of what runs it.
        log_limit: bytes of the log of each process in one start, or None for the launcher's own.
        hang_after: seconds of silence after which it counts as hung, or None for no limit.
        places: where parts of it were written, as ``{"data[0].from": "job.yaml:7"}``, while it is
            being submitted.
    """

    name: str
    command: tuple[str, ...]
    code: Code = Code(folder=".")
    roles: dict[str, JobRole] = dataclasses.field(default_factory=lambda: {"workers": JobRole()})
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    priority: int = 5
    restarts: int = 0
    timeout: float | None = None
    engine: str = "local"
    log_limit: int | None = None
    hang_after: float | None = None
    data: tuple[JobData, ...] = ()
    places: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)

    def problem(self, part: str, text: str) -> str:
        """What is wrong with a part of it, with its place if that is known."""
        where = self.places.get(part)
        return f"{where}: {part}: {text}" if where else f"{part}: {text}"

    @functools.cached_property
    def needs(self) -> dict[str, float]:
        """What is reserved for all its processes together, by the names in `RESOURCES`."""
        return {
            resource: sum(role.count * getattr(role, resource) for role in self.roles.values())
            for resource in RESOURCES
        }

    def to_json(self) -> str:
        """The whole job, as `from_json` takes it."""
        fields = dataclasses.asdict(self)
        del fields["places"]
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str) -> Job:
        """The job that `to_json` has written."""
        fields: dict[str, Any] = json.loads(text)
        fields["code"] = Code(**fields["code"])
        fields["roles"] = {name: JobRole(**role) for name, role in fields["roles"].items()}
        fields["command"] = tuple(fields["command"])
        fields["secrets"] = tuple(fields["secrets"])
        fields["data"] = tuple(JobData(**each) for each in fields.get("data", ()))
        return cls(**fields)

    def sizes(self) -> Iterator[str]:
        """Each role in words: ``"2 workers (4 cpus, 16 GiB of memory each)"``."""
        for name, role in self.roles.items():
            held = [amount(getattr(role, r), r) for r in RESOURCES if getattr(role, r)]
            one = role.count == 1
            kind = name.removesuffix("s") if one and name == "workers" else name
            yield f"{role.count} {kind} ({', '.join(held)}{'' if one else ' each'})"


def amount(value: float, resource: str) -> str:
    """A quantity in words: ``"3 cpus"``, ``"16 GiB of memory"``."""
    if resource == "memory":
        return f"{value / 2**30:.4g} GiB of memory"
    return f"{value:g} {resource[:-1] if value == 1 else resource}"


def over_ssh(url: str) -> bool:
    """Whether a repository's address is one of SSH: ``ssh://host/path``, ``user@host:path``."""
    return url.startswith("ssh://") or re.match(r"[\w.-]+@[\w.-]+:", url) is not None
