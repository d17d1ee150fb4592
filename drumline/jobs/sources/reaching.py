"""Whether data can be reached, asked with a job's own credentials and within a time limit."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence

from drumline.jobs.sources.data import DataError, data_kind
from drumline.jobs.sources.preparation import PROGRAM

_SECONDS = 30.0
_LONGEST = 500


def unreachable(
    sources: Mapping[int, str], writes: Sequence[int], env: Mapping[str, str]
) -> dict[int, str]:
    """What is wrong with each of some addresses of object stores and datasets.

    A program of its own asks, as packages of stores take their credentials from the environment.

    Args:
        sources: addresses by their numbers.
        writes: the numbers of those that are written, and may be empty.
        env: the environment with the credentials.

    Returns:
        A sentence for each number with which something is wrong.
    """
    if not sources:
        return {}
    asked = [f"{'w' if number in writes else 'r'}{each}" for number, each in sources.items()]
    reading, writing = os.pipe()
    with open(reading) as pipe:
        process = subprocess.Popen(
            [*PROGRAM, "check-data", str(writing), *asked],
            pass_fds=[writing],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=dict(env),
        )
        os.close(writing)
        try:
            _, said = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return dict.fromkeys(sources, f"there was no answer within {_SECONDS:g} s")
        answer = pipe.read()
    if not answer:
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        return dict.fromkeys(sources, f"it cannot be looked for: {last or process.returncode}")
    problems = zip(sources, json.loads(answer), strict=True)
    return {number: problem for number, problem in problems if problem}


def check(arguments: Sequence[str]) -> None:
    """The program that looks whether addresses can be reached.

    Args:
        arguments: a descriptor for the answer, and for each address ``r`` or ``w`` and itself.
    """
    answer, *sources = arguments
    found = [_problem(each[1:], each[0] == "w")[:_LONGEST] for each in sources]
    with open(int(answer), "w") as pipe:
        json.dump(found, pipe)


def _problem(source: str, write: bool) -> str:
    if data_kind(source) == "dataset":
        from drumline.jobs.sources.named_dataset import dataset_problem

        return dataset_problem(source)
    from drumline.jobs.sources.object_store import list_objects

    try:
        list_objects(source, missing_is_empty=write)
    except DataError as error:
        return str(error)
    return ""
