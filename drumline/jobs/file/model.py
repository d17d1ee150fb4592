"""A job as the store and the engines know it: checked, complete, and written down as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

ROLES = ("chief", "workers", "ps", "evaluator")
RESOURCES = ("cpus", "memory", "gpus")


@dataclasses.dataclass(frozen=True)
class JobRole:
    """The processes of one kind.

    Attributes:
        count: how many.
        cpus: reserved for each.
        memory: bytes reserved for each; 0 reserves none.
        gpus: of each.
    """

    count: int = 1
    cpus: float = 1.0
    memory: int = 0
    gpus: int = 0


@dataclasses.dataclass(frozen=True)
class Code:
    """Where the program comes from: a folder of this machine, or a git repository.

    Attributes:
        folder: copied when the job is submitted; None with `git`.
        git: the repository's address, without credentials.
        commit: a branch, a tag or a commit; when submitted it becomes a commit.
        user: for HTTP.
        token: the name of the secret that holds the password or token.
    """

    folder: str | None = None
    git: str | None = None
    commit: str | None = None
    user: str | None = None
    token: str | None = None


@dataclasses.dataclass(frozen=True)
class Job:
    """What a person has asked for.

    Attributes:
        name: lower case, digits and hyphens.
        command: program and arguments of every process.
        code: see `Code`.
        roles: by their name in `ROLES`; there is always at least one worker.
        env: variables of the processes.
        secrets: names of secrets that become variables of the processes.
        priority: 1 to 9; the highest goes first.
        restarts: how often it is started again after a failure.
        timeout: seconds that one start may take, or None.
        engine: the name of what runs it.
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

    @property
    def needs(self) -> dict[str, float]:
        """What is reserved for all its processes together, by the names in `RESOURCES`."""
        return {
            resource: sum(role.count * getattr(role, resource) for role in self.roles.values())
            for resource in RESOURCES
        }

    def to_json(self) -> str:
        """The whole job, as `from_json` takes it."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        """The job that `to_json` has written."""
        fields: dict[str, Any] = json.loads(text)
        fields["code"] = Code(**fields["code"])
        fields["roles"] = {name: JobRole(**role) for name, role in fields["roles"].items()}
        fields["command"] = tuple(fields["command"])
        fields["secrets"] = tuple(fields["secrets"])
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
