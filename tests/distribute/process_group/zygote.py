"""Forks processes that have imported everything already; each becomes a member of some cluster.

Importing takes most of a member's start, so it is done once. Reads a JSON list of members from
standard input, and writes a line for each event: ``{"started": name, "pid": ...}`` and
``{"ended": name, "status": ..., "time": ...}``. Members start JAX only after the fork.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable

from drumline.distribute import (
    cluster_resolver,  # noqa: F401
)
from tests.distribute.process_group import member


def main() -> None:
    names: dict[int, str] = {}
    tasks = json.loads(sys.stdin.readline())
    for task in tasks:
        _function(task["does"])
    for task in tasks:
        pid = os.fork()
        if pid == 0:
            _become(task)
            return
        names[pid] = task["name"]
        _tell(started=task["name"], pid=pid)
    while names:
        pid, status = os.wait()
        _tell(ended=names.pop(pid), status=os.waitstatus_to_exitcode(status), time=time.time())


def _become(task: dict[str, object]) -> None:
    log = os.open(str(task["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.environ.update(task["env"])  # type: ignore[call-overload]
    _function(str(task["does"]))(**task["arguments"])  # type: ignore[arg-type]


def _function(name: str) -> Callable[..., None]:
    """A function of `member`, or of another module: ``"package.module:function"``."""
    module, _, function = name.rpartition(":")
    found: Callable[..., None] = getattr(
        importlib.import_module(module) if module else member, function
    )
    return found


def _tell(**event: object) -> None:
    print(json.dumps(event), flush=True)


warnings.filterwarnings("ignore", message="os.fork", category=RuntimeWarning)
main()
