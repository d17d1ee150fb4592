"""Where the threads of this process stand."""

from __future__ import annotations

import faulthandler
import os
import sys
import tempfile
import threading


def stacks_of_all_threads() -> str:
    """The calls that each thread is in, the latest first."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read()


def main_thread_stands() -> str:
    """The main thread's latest call, as ``"in load at input.py:12"``."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None:
        return "in no Python code"
    place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
    return f"in {frame.f_code.co_name} at {place}"
