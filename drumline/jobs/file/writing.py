"""A job as the text of a job file, from which the same job is read."""

from __future__ import annotations

import shlex
from typing import Any

from drumline.jobs.file.model import INLINE_SSH, Job, JobRole, ssh_hosts

_PLAIN = JobRole()
_MEMORY = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_TIMES = (("d", 86400), ("h", 3600), ("m", 60))


def fields_of(job: Job) -> dict[str, Any]:
    """The keys of a job file with what is not as it would be without them.

    Example:
        >>> from drumline.jobs.file.model import Job, JobRole
        >>> job = Job("train", ("python", "train.py"), roles={"workers": JobRole(2)}, timeout=7200)
        >>> fields_of(job)
        {'name': 'train', 'code': {'folder': '.'}, 'command': 'python train.py', 'workers': 2,
         'timeout': '2h'}
    """
    code = {key: getattr(job.code, key) for key in ("git", "folder", "commit", "user", "token")}
    fields: dict[str, Any] = {"name": job.name}
    fields["code"] = {key: value for key, value in {**code, "at": job.code.at}.items() if value}
    if job.data:
        fields["data"] = [
            {key: value for key, value in
             {"from": each.source, "at": each.at, "write": each.write}.items() if value}
            for each in job.data
        ]  # fmt: skip
    quoted = shlex.join(job.command)
    fields["command"] = quoted if quoted.isprintable() else list(job.command)
    for name, role in job.roles.items():
        if name != "workers" or role != _PLAIN:
            fields[name] = _role(role)
    fields |= {"env": dict(job.env)} if job.env else {}
    fields |= {"secrets": list(job.secrets)} if job.secrets else {}
    fields |= {"priority": job.priority} if job.priority != 5 else {}
    fields |= {"restarts": job.restarts} if job.restarts else {}
    fields |= {"timeout": _duration(job.timeout)} if job.timeout is not None else {}
    fields |= {"engine": _engine(job.engine)} if job.engine != "local" else {}
    fields |= {"log_limit": _memory(job.log_limit)} if job.log_limit is not None else {}
    fields |= {"hang_after": _duration(job.hang_after)} if job.hang_after is not None else {}
    return fields


def to_yaml(job: Job) -> str:
    """The text of a job file."""
    import yaml

    return yaml.safe_dump(fields_of(job), sort_keys=False, allow_unicode=True, width=100)


def _engine(name: str) -> Any:
    """The name of one that was added, or hosts as a file describes them."""
    if name.startswith(INLINE_SSH):
        return {"ssh": list(ssh_hosts(name.removeprefix(INLINE_SSH)))}
    return name


def _role(role: JobRole) -> Any:
    size: dict[str, Any] = {"count": role.count}
    size |= {"cpus": _number(role.cpus)} if role.cpus != _PLAIN.cpus else {}
    size |= {"memory": _memory(role.memory)} if role.memory else {}
    size |= {"gpus": role.gpus} if role.gpus else {}
    size |= {"image": role.image} if role.image else {}
    return role.count if len(size) == 1 else size


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _memory(count: int) -> str:
    for unit, size in _MEMORY:
        if count % size == 0:
            return f"{count // size}{unit}"
    return f"{count // 1000}.{count % 1000:03}KB"


def _duration(seconds: float) -> str:
    for unit, size in _TIMES:
        if seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"
