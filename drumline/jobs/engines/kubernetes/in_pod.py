"""What runs in a pod: brings the code in place, waits for the pod's name, and runs a launcher.

How the launcher has ended is left as the container's termination message, which the API server
keeps with the pod. What was done for its data, what its processes use, and the points of metrics
that they write into files are lines of its log, which `logs.py` takes out.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from drumline.jobs.engines.children import SignalRelay
from drumline.jobs.engines.kubernetes.data import before_launcher
from drumline.jobs.engines.kubernetes.objects import CODE, END, HOST, REPORT, RUN, WORK
from drumline.jobs.engines.launching import RANK, RENDEZVOUS, filled
from drumline.jobs.metrics.sent import PointSender, is_written_by
from drumline.jobs.metrics.usage import PROCESSES, UsageSampler
from drumline.jobs.sources.preparation import NOT_UPLOADED, read_notes

NO_CODE = 66
"""The exit code if the code cannot be had (sysexits.h: EX_NOINPUT)."""

_NAME_SECONDS = 600.0
_PERIOD_SECONDS = 0.2
_REPORT_SECONDS = 1.0
_LONGEST_MESSAGE = 3000  # Kubernetes keeps 4096 bytes.
_MOST_SAMPLES = 4096


def pod(arguments: Sequence[str]) -> NoReturn:
    """The program of a process's container.

    Args:
        arguments: the first rank of its role; the pod's name with ``{index}`` in it, and the
            address of the first launcher, or two empty words; how many words of the launcher's
            command are not the user's; what data are brought, of `data.brought`; how the host
            names of all pods begin, if they share the working copy; ``--``; and that command.
    """
    first, host, rendezvous, own, data, shared, _, *command = arguments
    index = os.environ.get("JOB_COMPLETION_INDEX", "0")
    work = unpack(Path(CODE), Path(WORK))
    host = host.replace("{index}", index)
    values = {RANK: str(int(first) + int(index)), RENDEZVOUS: rendezvous, HOST: host}
    # What is the user's stays as it is.
    command = [filled(word, values) for word in command[: int(own)]] + command[int(own) :]
    if host:
        _await_name(host)
    reports = _PodReports(int(values[RANK]), work, shared)
    sys.exit(_run([*before_launcher(data, Path(RUN), work), *command], work, reports))


def fetch_code(arguments: Sequence[str]) -> None:
    """The program of the container that fetches code from git: repository, commit and user."""
    from drumline.jobs.sources.code import CodeError, checkout

    url, commit, user = arguments
    into = Path(WORK, "job")
    if into.exists():
        return
    fresh = Path(WORK, f".job-{secrets.token_hex(8)}")
    password = os.environ.pop("GIT_PASSWORD", None)
    try:
        checkout(url, commit, None, fresh, user or None, password)
    except CodeError as error:
        _say_end({"code": NO_CODE, "reason": f"its code cannot be fetched: {error}"})
        sys.exit(f"drumline: {error}")
    _put(fresh, into)


def unpack(code: Path, work: Path) -> Path:
    """The working copy, made of the archive whose parts are in `code` unless it is there.

    Several pods may do so at once, where `work` is shared.
    """
    into = work / "job"
    if into.exists():
        return into
    fresh = work / f".job-{secrets.token_hex(8)}"
    archive = Path(RUN, "code.tar.gz")
    with open(archive, "wb") as whole:
        for part in sorted(code.glob("part-*")):
            whole.write(part.read_bytes())
    with tarfile.open(archive) as files:
        files.extractall(fresh, filter="tar")
    archive.unlink()
    _put(fresh, into)
    return into


def _put(fresh: Path, into: Path) -> None:
    try:
        fresh.rename(into)
    except OSError:
        # Another pod was sooner.
        if not into.exists():
            raise
        shutil.rmtree(fresh)


def _await_name(host: str) -> None:
    """Wait until the pod has a name, by which its launcher and the others find it."""
    until = time.monotonic() + _NAME_SECONDS
    while True:
        try:
            socket.getaddrinfo(host, None)
            return
        except OSError as error:
            if time.monotonic() > until:
                reason = f"the name {host} is not known after {_NAME_SECONDS:g} s: {error}"
                _say_end({"code": 1, "reason": reason})
                sys.exit(f"drumline: {reason}")
        time.sleep(_PERIOD_SECONDS)


class _PodReports:
    """What is for the workspace, as lines of the pod's log.

    Args:
        rank: of the pod's launcher.
        work: the working copy of the code, in which metric files are.
        shared: how the host names of all pods begin, if they share it; empty if not.
    """

    def __init__(self, rank: int, work: Path, shared: str = "") -> None:
        processes = Path(RUN, "logs", PROCESSES)
        if rank:
            processes = processes.with_stem(f"{processes.stem}-{rank}")
        self._usage = UsageSampler(self._add, processes)
        self._due = time.monotonic() + self._usage.seconds
        self._samples = self._notes = self._said = 0
        self._own: list[str] = []
        self._points: PointSender | None = PointSender(work, self._say, self._own.append)
        if shared:
            others = "" if rank else f"{shared}-"
            mine = functools.partial(is_written_by, host=socket.gethostname(), others=others)
            self._points = PointSender(work, self._say, self._own.append, mine)

    def begin(self) -> None:
        """Take the metrics that are there before the processes as those of others."""
        self._look(PointSender.begin)

    def end(self) -> None:
        """Send the rest."""
        self._look(functools.partial(PointSender.look, end=True))
        self.send()

    def _look(self, how: Callable[[PointSender], None]) -> None:
        try:
            if self._points is not None:
                how(self._points)
        except Exception as error:  # Whatever is in its files, a job is not ended by it.
            self._points = None
            self._own.append(f"metrics in files are not read any more: {error!r}")

    def send(self) -> None:
        """Send what is new, and a sample if it is time for one."""
        self._look(PointSender.look)
        notes = read_notes(Path(RUN, "attempt"))
        for text in [*notes[self._notes :], *self._own]:
            note = text.encode()[:_LONGEST_MESSAGE].decode(errors="ignore")
            self._say({"note": note, "number": self._said})
            self._said += 1
        self._notes = len(notes)
        self._own.clear()
        if time.monotonic() > self._due:
            self._usage.sample()
            self._due = time.monotonic() + self._usage.seconds

    def _add(self, lines: Sequence[Mapping[str, Any]]) -> bool:
        # Process numbers are those of the pod, which mean nothing to others.
        for line in lines:
            if "t" in line:
                self._say({"usage": line})
                self._samples += 1
        if self._samples < _MOST_SAMPLES:
            return False
        self._samples //= 2
        return True

    def _say(self, what: Mapping[str, Any]) -> None:
        # Beside what the launcher writes, in whose lines it could be.
        with contextlib.suppress(OSError):
            os.write(2, f"{REPORT}{json.dumps(what, ensure_ascii=False)}\n".encode())


def _run(command: Sequence[str], work: Path, reports: _PodReports) -> int:
    signals = SignalRelay((signal.SIGTERM, signal.SIGINT))
    reports.begin()
    try:
        launcher = subprocess.Popen(command, cwd=work, stdin=subprocess.DEVNULL)
    except OSError as error:
        reason = f"{command[0]} cannot be started: {error}"
        _say_end({"code": 127, "reason": reason})
        sys.exit(f"drumline: {reason}")
    signals.begin(launcher.send_signal)
    ended = os.pidfd_open(launcher.pid)
    while not select.select([ended], [], [], _REPORT_SECONDS)[0]:
        reports.send()
    reports.end()
    code = launcher.wait()
    code = code if code >= 0 else 128 - code
    result: dict[str, Any] = {}
    for path in Path(RUN, "logs").glob("result*.json"):
        with contextlib.suppress(OSError, ValueError):
            result = json.loads(path.read_text())
    # What could not be uploaded is said by the log's end, which Kubernetes keeps instead.
    if result and code != NOT_UPLOADED:
        reason = str(result.get("reason", ""))
        _say_end({"code": code, "reason": reason, "hung": bool(result.get("hung"))})
    return code


def _say_end(end: Mapping[str, Any]) -> None:
    reason = str(end["reason"]).encode()[:_LONGEST_MESSAGE].decode(errors="ignore")
    with contextlib.suppress(OSError):
        Path(END).write_text(json.dumps({**end, "reason": reason}, ensure_ascii=False))
