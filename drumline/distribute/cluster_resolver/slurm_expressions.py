"""Slurm's short forms of lists, as in its environment variables."""

from __future__ import annotations

import itertools
import re

_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")


def expand_hostlist(hostlist: str) -> list[str]:
    """``"n[1-2],m5,o[3-4,06]"`` as ``["n1", "n2", "m5", "o3", "o4", "o06"]``, in this order.

    Raises:
        ValueError: if `hostlist` is not of that form.
    """
    parts = _PART.findall(hostlist)
    if not parts or ",".join(parts) != hostlist:
        raise ValueError(f"Not a Slurm list of hosts: {hostlist!r}")
    return [host for part in parts for host in _hosts(part, hostlist)]


def expand_tasks_per_node(tasks_per_node: str) -> list[int]:
    """``"3(x2),2,1"`` as ``[3, 3, 2, 1]``.

    Raises:
        ValueError: if `tasks_per_node` is not of that form.
    """
    counts: list[int] = []
    for part in tasks_per_node.split(","):
        match = _TASKS.fullmatch(part)
        if not match:
            raise ValueError(f"Not a Slurm list of tasks per node: {tasks_per_node!r}")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _hosts(part: str, hostlist: str) -> list[str]:
    pieces = [
        [text] if text else _numbers(ranges, hostlist) for ranges, text in _PIECE.findall(part)
    ]
    return ["".join(choice) for choice in itertools.product(*pieces)]


def _numbers(ranges: str, hostlist: str) -> list[str]:
    numbers: list[str] = []
    for each in ranges.split(","):
        match = _RANGE.fullmatch(each)
        if not match:
            raise ValueError(f"Not a range of Slurm hosts: {each!r} in {hostlist!r}")
        first, last = match[1], match[2] or match[1]
        numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return numbers
