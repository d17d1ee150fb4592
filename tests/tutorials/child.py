"""Run a notebook's cells in this process, one after another, and write down how each ended.

python -m tests.tutorials.child NOTEBOOK RESULTS --tf MODULE --seconds N
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import linecache
import os
import re
import signal
import subprocess
import sys
import time
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tutorials.cells import (
    Cell,
    cells_of,
    file_with_imports,
    magic,
    with_imports,
    without_magics,
)

_TEMPORARY = re.compile(r"(?<![\w./~$}-])/tmp(?=/|\b)")
_PORT = re.compile(r"\b(localhost|127\.0\.0\.1):(\d{4,5})\b")


class CellTimeoutError(BaseException):
    """A cell took longer than it may; no ``except Exception`` of a notebook's catches it."""


class Notebook:
    """What the cells of a notebook share: names, background processes, ports.

    Args:
        module: where TensorFlow comes from.
        seconds: how long a cell may take.
    """

    def __init__(self, module: str, seconds: float):
        self._module = module
        self._seconds = seconds
        self._background: list[subprocess.Popen[str]] = []
        self._ports: dict[str, str] = {}
        self._main = types.ModuleType("__main__")
        self._main.__dict__.update(
            run_command=self._output, kill_background=self.kill_background, display=repr
        )
        self._main.__dict__["get_ipython"] = lambda: None
        sys.modules["__main__"] = self._main

    def run(self, cell: Cell) -> None:
        """Run a cell.

        Raises:
            BaseException: what it raises, `CellTimeoutError` among it.
        """
        # No notebook finds what another, or an earlier run of it, has left.
        text = _TEMPORARY.sub(lambda _: os.environ.get("TMPDIR", "/tmp"), cell.text)
        kind, arguments, body = magic(_PORT.sub(self._free_port, text))
        if kind == "writefile":
            *options, name = arguments.split()
            text = file_with_imports(body, name, self._module)
            with open(name, "a" if "-a" in options else "w", encoding="utf-8") as file:
                file.write(text)
        elif kind == "bash":
            self._bash(body, "--bg" in arguments)
        else:
            if kind in ("time", "timeit"):
                body = f"{arguments}\n{body}"
            self._python(f"<cell {cell.number}>", without_magics(body))

    def kill_background(self) -> None:
        """End the processes that cells began in the background."""
        for process in self._background:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._background.clear()

    def _free_port(self, found: re.Match[str]) -> str:
        """Ports that nothing uses, in place of those that a notebook names."""
        import socket

        if found[2] not in self._ports:
            with socket.socket() as bound:
                bound.bind(("127.0.0.1", 0))
                self._ports[found[2]] = str(bound.getsockname()[1])
        return f"{found[1]}:{self._ports[found[2]]}"

    def _python(self, name: str, text: str) -> None:
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        tree = with_imports(text, name, self._module)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        names = self._main.__dict__
        exec(compile(tree, name, "exec"), names)
        if last is not None:
            # What is shown of a cell is part of it.
            repr(eval(compile(ast.Expression(last.value), name, "eval"), names))

    def _bash(self, script: str, background: bool) -> str:
        process = subprocess.Popen(
            ["bash", "-c", script],
            stdout=None if background else subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        if background:
            self._background.append(process)
            return ""
        try:
            output, _ = process.communicate(timeout=self._seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        if process.returncode:
            lines = output.strip().splitlines()[-3:]
            raise RuntimeError(f"bash ended with {process.returncode}: {' | '.join(lines)}")
        return output

    def _output(self, command: str) -> list[str]:
        """The lines of a command after ``!``, whose end is not looked at, as in a notebook."""
        names = self._main.__dict__
        filled = re.sub(
            r"\$(\w+)|\{([^{}]+)\}",
            lambda found: str(names.get(found[1] or found[2], found[0])),
            command,
        )
        with contextlib.suppress(RuntimeError):
            return self._bash(filled, background=False).splitlines()
        return []


def outcome(run: Callable[[], None]) -> dict[str, Any]:
    """Run something, and return how it ended: ``error`` with the line of the cell, or nothing."""
    began = time.monotonic()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run()
    except (Exception, CellTimeoutError, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename.startswith("<cell")]
        message = f"{type(error).__name__}: {error}".strip()
        return {
            "error": message[:2000],
            "line": lines[-1] if lines else None,
            "seconds": time.monotonic() - began,
            "traceback": "".join(traceback.format_exception(error))[-6000:],
        }
    return {"error": None, "seconds": time.monotonic() - began}


def _too_long(*_: object) -> None:
    raise CellTimeoutError("the cell took longer than it may")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--tf", default="drumline.compat.tf")
    parser.add_argument("--seconds", type=int, default=600)
    given = parser.parse_args()
    cells = cells_of(given.notebook)
    notebook = Notebook(given.tf, given.seconds)
    signal.signal(signal.SIGALRM, _too_long)
    with given.results.open("w") as file:
        print(json.dumps({"cells": [cell.number for cell in cells]}), file=file, flush=True)
        for cell in cells:
            signal.alarm(given.seconds)
            found = outcome(lambda cell=cell: notebook.run(cell))  # type: ignore[misc]
            signal.alarm(0)
            print(json.dumps({"cell": cell.number, **found}), file=file, flush=True)
    notebook.kill_background()
    # Threads that a notebook left running would hold the process.
    os._exit(0)


if __name__ == "__main__":
    main()
