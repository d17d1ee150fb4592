"""Following the logs of pods into files of the workspace.

A line is written once, also after the connection was cut or the supervisor was killed: each log has
a *position* beside it, the time of its last line.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

from drumline.jobs.engines.kubernetes.api import ApiRefusal, KubernetesApi, KubernetesError
from drumline.jobs.engines.kubernetes.objects import FETCH, MAIN, REPORT
from drumline.jobs.engines.local import attempt
from drumline.jobs.logs.writing import DEFAULT_LIMIT, LogWriter, part_numbers, private
from drumline.jobs.metrics.sent import PointFile, point_path
from drumline.jobs.metrics.usage import USAGE, UsageFile
from drumline.jobs.sources.preparation import NOTES

LAUNCHER = "launch"
"""How the names of files begin with what launchers write themselves."""

MOST_FOLLOWED = 64
"""Connections that are kept open for logs; of more pods, logs are asked for again and again."""

_REPORT = REPORT.encode()
_SILENCE_SECONDS = 90.0
_RETRY_SECONDS = 0.5
_CROWDED_SECONDS = 3.0
_NOTED_SECONDS = 0.2


class PodLog:
    """The log of one pod, in two files: what its process writes, and its launcher's own lines.

    Reports in it are taken out, and go to the folder of the start, which is above that of the logs:
    notes of what was done for its data, samples of what its process uses, points of its metric
    files.

    Args:
        api: the cluster.
        pod: its name.
        process: as ``"worker:1"``, by which the launcher begins the lines of its process.
        files: of the process, and of the launcher.
        limit: bytes of each.
        ended: whether its container runs no more.
        crowd: how many logs are followed now.

    Attributes:
        lines: how many were read.
    """

    def __init__(
        self,
        api: KubernetesApi,
        pod: str,
        process: str,
        files: tuple[Path, Path],
        limit: int | None,
        ended: Callable[[], bool],
        crowd: Callable[[], int],
    ) -> None:
        self._api = api
        self._path = f"{api.place('Pod', pod)}/log"
        self._prefix = f"[{process}] ".encode()
        self._files = files
        self._note = _position(files[0])
        self._reports = _Reports(files[0].parent.parent, files[0].stem, pod, process)
        self._ended = ended
        self._crowd = crowd
        self._closed = threading.Event()
        self._container = MAIN
        self._whole = self._over = False
        self._problem = ""
        self.lines = 0
        self._last, self._count = 0, 0
        self._skip = [0, 0]
        self._sizes = [0, 0]
        self._noted = 0.0
        self._writers = self._continued(limit or DEFAULT_LIMIT)
        self._thread = threading.Thread(target=self._run, name=f"log-{pod}", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether it is read no more: all of it is written, or its pod is gone."""
        return not self._thread.is_alive()

    def close(self) -> None:
        """Follow no more."""
        self._closed.set()

    def _continued(self, limit: int) -> tuple[LogWriter, LogWriter]:
        position = attempt.read(self._note)
        for path in self._files:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Of a log in parts, which part is the last one to continue is not known: from the start.
        whole = position is not None and not any(map(part_numbers, self._files))
        if position is not None and whole:
            self._last, self._count = position["last"], position["count"]
            for i, path in enumerate(self._files):
                self._sizes[i], self._skip[i] = _further(path, position["sizes"][i])
        return (
            LogWriter(self._files[0], limit, append=whole),
            LogWriter(self._files[1], limit, append=whole),
        )

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                ended = self._ended()
                if self._followed(ended) and ended:
                    self._over = True
                    break
        finally:
            for writer in self._writers:
                writer.close()
            self._write_down()

    def _followed(self, ended: bool) -> bool:
        """Read on; True if there is nothing more for now."""
        crowded = self._crowd() > MOST_FOLLOWED
        follow = not (ended or crowded)
        query = {"container": self._container, "timestamps": "true"}
        query |= {"follow": "true"} if follow else {}
        if self._last:
            since = datetime.datetime.fromtimestamp(self._last // 10**9, datetime.UTC)
            query["sinceTime"] = since.strftime("%Y-%m-%dT%H:%M:%SZ")
        seen = 0  # Of lines of the very time at which it was left off.
        try:
            for line in self._api.lines(self._path, query, _SILENCE_SECONDS):
                seen = self._take(line, seen)
                if self._closed.is_set():
                    return True
            # A log that is followed ends when its container does.
            self._whole = self._whole or ended or follow
            self._problem = ""
            self._write_down()
            self._closed.wait(_CROWDED_SECONDS if crowded and not self._ended() else 0.05)
            return True
        except ApiRefusal as refusal:
            if refusal.code == 404 and ended:
                before = f"{self._problem}; then: " if self._problem else ""
                self._problem = f"{before}{refusal}"
                return True
            if refusal.code == 400 and ended:
                # Its process was never begun: what fetches its code may have failed.
                if self._container == FETCH:
                    self._whole = self._whole or not self._last
                    return True
                self._container = FETCH
                return False
            self._problem = str(refusal)
        except KubernetesError as error:
            self._problem = str(error)
        return self._pause()

    def _pause(self) -> bool:
        self._write_down()
        self._closed.wait(_RETRY_SECONDS)
        return False

    def _take(self, line: bytes, seen: int) -> int:
        stamp, _, text = line.partition(b" ")
        at = nanoseconds(stamp.decode(errors="replace"))
        if at is None:
            text, at = line, self._last
        elif at < self._last:
            return seen
        elif at == self._last:
            seen += 1
            if seen <= self._count:
                return seen
        self._whole = False
        self.lines += 1
        if at == self._last:
            self._count += 1
        else:
            self._last, self._count, seen = at, 1, 1
        if text.startswith(_REPORT):
            self._reports.heed(text[len(_REPORT) :])
            return seen
        which = 0 if text.startswith(self._prefix) else 1
        if which == 0:
            text = text[len(self._prefix) :]
        if self._skip[which]:
            self._skip[which] -= 1
            return seen
        self._writers[which].write(text)
        self._sizes[which] += len(text)
        if time.monotonic() - self._noted > _NOTED_SECONDS:
            self._write_down()
        return seen

    def _write_down(self) -> None:
        self._noted = time.monotonic()
        position = {"last": self._last, "count": self._count, "sizes": self._sizes}
        position |= {"whole": self._whole and self._over, "problem": self._problem}
        with contextlib.suppress(OSError):  # of a full disk; the log is read again from there then
            attempt.write(self._note, position)


def _position(log: Path) -> Path:
    return log.with_suffix(".position.json")


def torn_logs(folder: Path) -> dict[str, str]:
    """Of which logs the ends may be missing, and why, by names as ``"worker:1"``.

    Args:
        folder: with the logs of a start that has ended.
    """
    found = {}
    for path in sorted(folder.glob("*-*.log")):
        kind, _, index = path.stem.partition("-")
        position = attempt.read(_position(path)) or {}
        if kind != LAUNCHER and not position.get("whole"):
            why = str(position.get("problem") or "it had not ended when its pod was removed")
            found[f"{kind}:{index}"] = why
    return found


class _Reports:
    """What pods say to the workspace, each thing written down once.

    Args:
        folder: of the start.
        stem: of the files of this pod.
        pod: its name.
        process: in front of its notes.
    """

    def __init__(self, folder: Path, stem: str, pod: str, process: str) -> None:
        self._notes = folder / NOTES
        self._pod = pod
        self._process = process
        self._usage = UsageFile(folder / f"{Path(USAGE).stem}-{stem}.jsonl")
        self._points = PointFile(point_path(folder, stem))
        self._noted = -1
        with contextlib.suppress(FileNotFoundError):
            for line in self._notes.read_text().splitlines():
                with contextlib.suppress(ValueError):
                    found = json.loads(line)
                    if found.get("pod") == pod:
                        self._noted = max(self._noted, int(found["number"]))

    def heed(self, text: bytes) -> None:
        """Write down a report that was not written down yet; a disk that is full has it lost."""
        wrong = ValueError, TypeError, KeyError, AttributeError, OverflowError
        with contextlib.suppress(OSError, *wrong):
            said = json.loads(text)
            if "points" in said:
                self._points.add(said)
            if "note" in said and int(said["number"]) > self._noted:
                self._noted = int(said["number"])
                note = {"text": f"{self._process}: {said['note']}", "pod": self._pod,
                        "number": self._noted}  # fmt: skip
                with open(self._notes, "a", opener=private) as file:
                    file.write(f"{json.dumps(note)}\n")
            if "usage" in said and float(said["usage"]["t"]) > self._usage.last:
                self._usage.last = float(said["usage"]["t"])
                self._usage.add([said["usage"]])


def _further(path: Path, size: int) -> tuple[int, int]:
    """The size of a file, and how many lines it has after `size`; a torn line is cut off."""
    with contextlib.suppress(FileNotFoundError), open(path, "r+b") as file:
        file.seek(size)
        rest = file.read()
        whole = rest.rfind(b"\n") + 1
        if whole < len(rest):
            file.truncate(size + whole)
        return size + whole, rest.count(b"\n")
    return 0, 0


def nanoseconds(stamp: str) -> int | None:
    """A time as ``2026-11-27T10:00:00.123456789Z``, since the epoch; None if it is none."""
    whole, dot, rest = stamp.partition(".")
    digits = rest.rstrip("Z").partition("+")[0].partition("-")[0] if dot else ""
    zone = rest[len(digits) :] if dot else ""
    if dot and not (digits.isdecimal() and len(digits) <= 9):
        return None
    try:
        moment = datetime.datetime.fromisoformat(whole + zone)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return int(moment.timestamp()) * 10**9 + int(digits.ljust(9, "0") or 0)
