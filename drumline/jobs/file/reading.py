"""From what a person wrote to a checked `Job`: a YAML file, a command line, or Python."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, TypeVar

from drumline.jobs.file.model import (
    INLINE_SSH,
    RESOURCES,
    ROLES,
    Code,
    Job,
    JobRole,
    over_ssh,
    ssh_hosts,
)
from drumline.jobs.file.mount_paths import (
    SAVED_NAME,
    Saved,
    find_saved,
    mount_path,
    overlaps,
    read_data,
)
from drumline.jobs.file.values import (
    JobFileError,
    Mistake,
    WrittenValue,
    nearest,
    parse_yaml,
    value_of,
)

_KEYS = (
    *("name", "code", "data", "command", *ROLES, "env", "secrets"),
    *("priority", "restarts", "timeout", "engine", "log_limit", "hang_after"),
)
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CREDENTIALS = re.compile(r"^[a-z+]+://[^/@]*:[^/@]*@")
_MOST_PROCESSES = 1000
_LARGEST_FILE = 64 << 10
_LEAST_LOG = 4 << 10

# What drumline itself gives the processes.
_RESERVED = ("TF_CONFIG", "DRUMLINE_JOB", "DRUMLINE_ATTEMPT")

GIT_MOUNT_PATH = "/root/code"
"""Where code from git is seen unless the job says otherwise, as in the cloud's job platforms."""

_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/:@-]{0,254}|/[^\s,:]{1,254}")

T = TypeVar("T")


def read_job_file(
    path: Path, engines: Collection[str] = ("local",), saved: Saved = MappingProxyType({})
) -> Job:
    """The job in a YAML file.

    Args:
        path: the file. A folder in it is seen from the file's own.
        engines: the names of those there are.
        saved: the saved code and data that it may name.

    Raises:
        JobFileError: with a line for each mistake: ``"job.yaml:7: workers.cpus: must be ..."``.
        OSError: it cannot be read.
    """
    raw = path.read_bytes()
    if len(raw) > _LARGEST_FILE:
        raise JobFileError([f"{path}: has {len(raw)} bytes; a job has at most {_LARGEST_FILE}"])
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise JobFileError([f"{path}: is not UTF-8 (byte {error.start})"]) from None
    return read_job(parse_yaml(text, str(path)), path.resolve().parent, engines, saved)


def make_job(
    fields: Mapping[str, Any],
    base: Path,
    where: str = "job",
    engines: Collection[str] = ("local",),
    saved: Saved = MappingProxyType({}),
) -> Job:
    """The job with the fields of a job file, given by Python.

    Args:
        fields: as the keys of a file: ``{"command": "python train.py", "workers": 2}``.
        base: the folder from which ``code`` is seen.
        where: what errors name as the place.
        engines: the names of those there are.
        saved: the saved code and data that it may name.

    Raises:
        JobFileError: with a line for each mistake.
    """
    given = {key: value for key, value in fields.items() if value is not None}
    return read_job(value_of(given, where), base, engines, saved)


def parse_data(text: str) -> dict[str, Any] | str:
    """An entry of ``data`` on a command line: ``"FROM:AT"``, ``"FROM:AT:w"``, or a saved name."""
    source, write = text.removesuffix(":w"), text.endswith(":w")
    before, colon, at = source.rpartition(":")
    if not colon or at.startswith("//"):  # that of s3://
        return {"from": source, "write": True} if write else source
    return {"from": before, "at": at, **({"write": True} if write else {})}


def parse_size(text: str, option: str) -> dict[str, Any]:
    """The size of a role on a command line: ``"cpus=4,memory=16GiB,gpus=1,image=a:1"``.

    Raises:
        JobFileError: naming `option` and what is wrong.
    """
    found: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or key not in (*RESOURCES, "image") or key in found:
            wanted = "each of cpus, memory, gpus, image at most once, as cpus=4,memory=16GiB"
            raise JobFileError([f"{option}: {part!r} is not understood; write {wanted}"])
        found[key] = value
        if re.fullmatch(r"\d{1,9}(\.\d{1,6})?", value) and key in ("cpus", "gpus"):
            found[key] = float(value) if "." in value else int(value)
    return found


def read_job(whole: WrittenValue, base: Path, engines: Collection[str], saved: Saved) -> Job:
    """The job of a tree of values; see `read_job_file`."""
    problems: list[str] = []
    places: dict[str, WrittenValue] = {}

    def read(key: str, how: Callable[[WrittenValue], T], otherwise: T) -> T:
        if key not in given:
            return otherwise
        try:
            return how(given[key])
        except Mistake as mistake:
            problems.append(str(mistake))
            return otherwise

    try:
        given = whole.mapping()
    except Mistake as mistake:
        raise JobFileError([str(mistake)]) from None
    problems.extend(map(str, whole.unknown_keys(_KEYS)))
    if not any(key == "command" or nearest(key, _KEYS) == "command" for key in given):
        problems.append(
            str(whole.mistake("the command is missing; write command: python train.py"))
        )
    command: tuple[str, ...] = read("command", _command, tuple[str, ...]())
    roles: dict[str, JobRole] = {}
    for key in ROLES:
        role = read(key, _role, None)
        if role is not None:
            roles[key] = role
    problems.extend(
        f"{given[alone].where}: {alone}: there is at most one of it"
        for alone in ("chief", "evaluator")
        if roles.get(alone, JobRole()).count != 1
    )
    roles.setdefault("workers", JobRole())
    job = Job(
        name=read("name", _name, "") or _name_of(command),
        command=command,
        code=read("code", lambda value: read_code(value, base, saved), Code(folder=str(base))),
        data=read("data", lambda value: read_data(value, base, saved, places), ()),
        roles={key: roles[key] for key in ROLES if key in roles},
        env=read("env", lambda value: dict(_env(value)), {}),
        secrets=read("secrets", lambda value: tuple(map(_secret, value.items())), ()),
        priority=read("priority", lambda value: value.integer(1, 9), 5),
        restarts=read("restarts", lambda value: value.integer(0, 1000), 0),
        timeout=read("timeout", WrittenValue.duration, None),
        engine=read("engine", lambda value: _engine(value, engines), "local"),
        log_limit=read("log_limit", _log_limit, None),
        hang_after=read("hang_after", WrittenValue.duration, None),
        places={key: given[key].where for key in given}
        | {f"secrets[{i}]": each.where for i, each in enumerate(_items(given, "secrets"))}
        | {key: value.where for key, value in places.items()},
    )
    paths = [(places[f"data[{i}].at"], each.at) for i, each in enumerate(job.data) if each.at]
    if job.code.at:
        paths.append((given["code"], job.code.at))
    problems.extend(map(str, overlaps(paths)))
    if both := set(job.env) & set(job.secrets):
        problems.append(f"{given['env'].where}: env: {min(both)!r} is among the secrets, too")
    if problems:
        raise JobFileError(problems)
    return job


def _command(value: WrittenValue) -> tuple[str, ...]:
    if isinstance(value.content, list):
        words = tuple(each.text() for each in value.items())
    else:
        try:
            words = tuple(shlex.split(value.text()))
        except ValueError as error:
            raise value.mistake(f"cannot be split into words: {error}".lower()) from None
    if not words:
        raise value.mistake("must not be empty")
    return words


def _name(value: WrittenValue) -> str:
    if not _NAME.fullmatch(name := value.text()):
        raise value.mistake(
            f"must be 1 to 40 lower case letters, digits and hyphens, not {value.shown}"
        )
    return name


def _name_of(command: tuple[str, ...]) -> str:
    """A name by the script, or else by the program."""
    script = next((word for word in command if word.endswith(".py")), next(iter(command), "job"))
    plain = re.sub(r"[^a-z0-9]+", "-", PurePosixPath(script).stem.lower())
    return plain[:40].strip("-") or "job"


def _role(value: WrittenValue) -> JobRole | None:
    if value.content is False:
        return None
    if value.content is True:
        return JobRole()
    if type(value.content) is int:
        count = value.integer(0, _MOST_PROCESSES)
        if not count and value.path == "workers":
            raise value.mistake("must be at least 1")
        return JobRole(count) if count else None
    given = value.mapping(("count", *RESOURCES, "image"))
    role = JobRole()
    return JobRole(
        count=given["count"].integer(1, _MOST_PROCESSES) if "count" in given else role.count,
        cpus=given["cpus"].number(4096) if "cpus" in given else role.cpus,
        memory=given["memory"].memory() if "memory" in given else role.memory,
        gpus=given["gpus"].integer(0, 64) if "gpus" in given else role.gpus,
        image=_image(given["image"]) if "image" in given else role.image,
    )


def _image(value: WrittenValue) -> str:
    if not _IMAGE.fullmatch(image := value.text()):
        raise value.mistake(f"must be the name of an image, as drumline/train:0.1: {value.shown}")
    return image


def read_code(value: WrittenValue, base: Path, saved: Saved = MappingProxyType({})) -> Code:
    """Code as a job file has it: a folder, a saved name, or keys."""
    if isinstance(value.content, str):
        if fields := find_saved(value, base, saved, "code"):
            return read_code(value_of(fields, value.where, value.path), base)
        return Code(folder=_folder(value, base))
    given = value.mapping(("git", "folder", "commit", "user", "token", "key", "at"))
    if ("git" in given) == ("folder" in given):
        raise value.mistake("needs one of git and folder")
    at = mount_path(given["at"]) if "at" in given else ""
    if "folder" in given:
        if more := sorted(set(given) - {"folder", "at"}):
            raise given[more[0]].mistake("belongs to git")
        return Code(folder=_folder(given["folder"], base), at=at)
    url = given["git"].text()
    if _CREDENTIALS.match(url):
        raise given["git"].mistake(
            "must hold no password: store it by `drumline secret set NAME`, and write "
            "user: ..., token: NAME"
        )
    if url.startswith("-") or url.startswith("ext::"):
        raise given["git"].mistake(f"is no address of a repository: {given['git'].shown}")
    if "user" in given and "token" not in given:
        raise given["user"].mistake("needs token, the name of the secret with the password")
    texts = {key: given[key].text() for key in ("commit", "user") if key in given}
    if texts.get("commit", "").startswith("-"):
        raise given["commit"].mistake("must be a branch, a tag or a commit")
    for part, used, instead in (
        ("token", url.startswith(("http://", "https://")), "http and https; over SSH there is key"),
        ("key", over_ssh(url), "SSH; over http and https there is token"),
    ):
        if part in given and not used:
            raise given[part].mistake(f"is used over {instead}")
    token = next((_secret(given[part]) for part in ("token", "key") if part in given), None)
    if "://" not in url and not over_ssh(url):
        url = str((base / Path(url).expanduser()).resolve())
    return Code(git=url, token=token, at=at or GIT_MOUNT_PATH, **texts)


def _folder(value: WrittenValue, base: Path) -> str:
    folder = (base / Path(value.text()).expanduser()).resolve()
    if not folder.is_dir():
        named = SAVED_NAME.fullmatch(value.text())
        also = ", and no code is saved by that name (`drumline code list`)" if named else ""
        raise value.mistake(f"there is no folder {folder}{also}")
    return str(folder)


def _items(given: Mapping[str, WrittenValue], key: str) -> list[WrittenValue]:
    content = given[key].content if key in given else None
    return content if isinstance(content, list) else []


def _env(value: WrittenValue) -> Iterator[tuple[str, str]]:
    for key, each in value.mapping().items():
        if not _VARIABLE.fullmatch(key):
            raise Mistake(value.keys[key], f"env: {key!r} is no name of a variable")
        if key in _RESERVED:
            raise Mistake(value.keys[key], f"env: {key} is set by drumline for each process")
        yield key, "" if each.content == "" else each.text()


def _secret(value: WrittenValue) -> str:
    if not _VARIABLE.fullmatch(name := value.text()):
        raise value.mistake(
            f"must be the name of a secret (letters, digits, _), not {value.shown}: its value is "
            "stored by `drumline secret set NAME`"
        )
    return name


def _engine(value: WrittenValue, engines: Collection[str]) -> str:
    if isinstance(value.content, dict):
        hosts = value.mapping(["ssh"]).get("ssh")
        if hosts is None:
            raise value.mistake("must be the name of an engine, or {ssh: [a, b]}")
        many = isinstance(hosts.content, list)
        listed = [each.text() for each in (hosts.items() if many else [hosts])]
        try:
            return INLINE_SSH + ",".join(ssh_hosts(",".join(listed)))
        except ValueError as error:
            raise hosts.mistake(str(error)) from None
    if (name := value.text()) not in engines:
        known = ", ".join(engines)
        add = "; `drumline engine add` adds one" if len(engines) == 1 else ""
        raise value.mistake(f"there is no engine {value.shown}; there is: {known}{add}")
    return name


def _log_limit(value: WrittenValue) -> int:
    if (limit := value.memory()) < _LEAST_LOG:
        raise value.mistake(f"must be at least {_LEAST_LOG >> 10}KiB, not {value.shown}")
    return limit
