"""A job that comes over a network: what of its file may name this machine's files, and what not.

A relative folder is seen from the upload that came with the job, and may not leave it. What else it
names of this machine has to be a whole path, or saved by a name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from drumline.jobs.file.model import Job
from drumline.jobs.file.mount_paths import SAVED_NAME, Saved
from drumline.jobs.file.reading import read_job
from drumline.jobs.file.values import (
    JobFileError,
    Mistake,
    WrittenValue,
    parse_yaml,
    value_of,
)

_LARGEST = 64 << 10


def read(
    asked: Mapping[str, Any],
    base: Path,
    uploaded: bool,
    engines: Collection[str],
    saved: Saved,
    where: str,
) -> Job:
    """The job of a request.

    Args:
        asked: ``{"yaml": text}`` or ``{"job": fields}``. With ``"code"`` that takes the place of
            the file's own, which the client has read: it names folders of the client's machine.
        base: the folder of the upload.
        uploaded: whether there is one.
        engines: the names of those there are.
        saved: the saved code and data that it may name.
        where: what errors call the file.

    Raises:
        JobFileError: with a line for each mistake.
    """
    text, fields = asked.get("yaml"), asked.get("job")
    if isinstance(text, str) and fields is None:
        if len(text.encode(errors="replace")) > _LARGEST:
            raise JobFileError([f"{where}: a job has at most {_LARGEST} bytes"])
        whole = parse_yaml(text, where)
    elif isinstance(fields, dict) and text is None:
        whole = value_of({key: each for key, each in fields.items() if each is not None}, where)
    else:
        raise JobFileError([f'{where}: give {{"yaml": text}} or {{"job": {{...}}}}'])
    if (code := asked.get("code")) is not None and isinstance(whole.content, dict):
        place = whole.keys.get("code", whole.where)
        content = {**whole.content, "code": value_of(code, place, "code")}
        whole = dataclasses.replace(whole, content=content, keys={**whole.keys, "code": place})
    job, problems = None, list[str]()
    checked = _checked(whole, base, uploaded, saved, problems)
    try:
        job = read_job(checked, base, engines, saved)
    except JobFileError as error:
        problems += error.problems
    if problems or job is None:
        raise JobFileError(sorted(set(problems), key=problems.index))
    return job


def _checked(
    whole: WrittenValue, base: Path, uploaded: bool, saved: Saved, problems: list[str]
) -> WrittenValue:
    """The tree with its paths looked at; what is wrong with them is left out, and noted."""
    if not isinstance(whole.content, dict):
        return whole
    given = dict(whole.content)
    for key, check in (("code", _check_code), ("data", _check_data)):
        try:
            if key in given:
                check(given[key], base, uploaded, saved)
            elif key == "code" and not uploaded:
                raise Mistake(
                    whole.where,
                    "code: is missing: send the folder along, as `drumline run` does, or name a "
                    "git repository or saved code",
                )
        except Mistake as mistake:
            problems.append(str(mistake))
            given.pop(key, None)
    return dataclasses.replace(whole, content=given)


def _check_code(value: WrittenValue, base: Path, uploaded: bool, saved: Saved) -> None:
    content = value.content
    if isinstance(content, str):
        if SAVED_NAME.fullmatch(content) and content in saved.get("code", {}):
            return
        _check_folder(value, base, uploaded)
    elif isinstance(content, dict):
        if "folder" in content and isinstance(content["folder"].content, str):
            _check_folder(content["folder"], base, uploaded)
        git = content.get("git")
        if git is not None and isinstance(git.content, str) and git.content[:1] in ".~":
            raise git.mistake("must be an address, or a whole path of the server's machine")


def _check_folder(value: WrittenValue, base: Path, uploaded: bool) -> None:
    if not uploaded:
        raise value.mistake(
            "a folder has to be sent along, as `drumline run` does; or name a git repository or "
            "saved code"
        )
    folder = (base / value.text()).resolve()
    if not folder.is_relative_to(base.resolve()):
        raise value.mistake(f"{value.shown} leaves the folder that was sent along")


def _check_data(value: WrittenValue, base: Path, uploaded: bool, saved: Saved) -> None:
    if not isinstance(value.content, list):
        return
    for item in value.content:
        source = item.content.get("from") if isinstance(item.content, dict) else item
        if source is None or not isinstance(source.content, str):
            continue
        text = source.content
        named = SAVED_NAME.fullmatch(text) and text in saved.get("data", {})
        if not named and "://" not in text and not text.startswith("/"):
            raise source.mistake(
                f"{source.shown} must be saved data, an address, or a whole path of the server's "
                "machine: a job's own files belong into its code"
            )
