"""Interrupts at chosen moments: a signal between two instructions of Python."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any


class Interrupted(BaseException):
    """What the signal's handler raises."""


def interrupted_at(call: Callable[[], Any], position: int, places: Sequence[str]) -> bool:
    """Call it, and send a signal when so many instructions were done in some files.

    Args:
        call: a function.
        position: how many instructions, from 1.
        places: parts of the paths of the files whose instructions count.

    Returns:
        Whether there were so many.
    """
    seen = 0
    sent = False

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen, sent
        name = frame.f_code.co_filename
        if "_interrupts" in name or not any(place in name for place in places):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and not sent:
            seen += 1
            if seen == position:
                sent = True
                os.kill(os.getpid(), signal.SIGALRM)
        return trace

    def handle(number: int, frame: FrameType | None) -> None:
        sys.settrace(None)
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handle)
    try:
        sys.settrace(trace)
        call()
    except Interrupted:
        pass
    finally:
        sys.settrace(None)
        signal.signal(signal.SIGALRM, before)
    return sent
