"""``drumline_command.job_process``, but killed once where the variable FAULT says.

FAULT is ``ROLE:MODULE:FUNCTION:before|after:NUMBER``: which of the programs, and the call of which
function in it, counted from 1. MARK is a file that is made by the kill, which happens once.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any

import drumline_command.job_process
from drumline.jobs.sources import preparation

PROGRAM = (sys.executable, "-P", __file__)


def killed(moment: str) -> None:
    """Be killed, unless one was."""
    try:
        os.close(os.open(os.environ["MARK"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def arrange(module: str, function: str, moment: str, number: str) -> None:
    """Have the kill come with a call of a function."""
    owner: Any = importlib.import_module(module)
    *holders, name = function.split(".")
    for each in holders:
        owner = getattr(owner, each)
    real, calls = getattr(owner, name), 0

    def called(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        here = calls == int(number)
        if here and moment == "before":
            killed(moment)
        result = real(*arguments, **named)
        if here and moment == "after":
            killed(moment)
        return result

    setattr(owner, name, called)


if __name__ == "__main__":
    preparation.PROGRAM = PROGRAM
    role, *place = os.environ.get("FAULT", "").split(":")
    if role == sys.argv[1]:
        arrange(*place)
    drumline_command.job_process.main()
