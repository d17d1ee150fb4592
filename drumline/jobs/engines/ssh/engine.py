"""Jobs on SSH hosts, each process with a launcher and a keeper of its own there.

What the supervisor knows of a start is in a folder of the workspace. `submitted.json` is written
before anything is sent; `placed.json` says which process goes to which host, before any of them
is asked, so that a start is repeated on the same hosts, where what has begun is found by its
lock; `started.json` follows when all have. `exit.json` says how it has ended; by then its logs and
results are here. A host that does not answer says nothing of a job: it is lost until it answers.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drumline.jobs.engines.engine import Start, StartError, State, Status
from drumline.jobs.engines.launchers import LONELY_SECONDS, SIGNALLED, results_in, verdict
from drumline.jobs.engines.launching import KILL_SECONDS
from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.ssh.connection import HostConnection, HostError
from drumline.jobs.engines.ssh.placement import place, process_sizes
from drumline.jobs.engines.ssh.settings import SshSettings
from drumline.jobs.engines.ssh.transfer import fetch_results, folder_digest, send_folders
from drumline.jobs.engines.ssh.watching import HostView, HostWatch, stop_quietly
from drumline.jobs.engines.starting import start_environment
from drumline.jobs.file.model import RESOURCES, Job, amount
from drumline.jobs.launch.environment import LAUNCHERS_TOKEN_VARIABLE
from drumline.jobs.sources.data import data_kind
from drumline.jobs.sources.secrets import SecretError, read_secret
from drumline.jobs.store.connection import StoreError
from drumline.jobs.store.database import Store
from drumline.jobs.store.workspace import identity

_SUBMITTED, _PLACED, _STARTED = "submitted.json", "placed.json", "started.json"
_STOPPING = "stopping.json"

_QUIET_SECONDS = 15.0
"""How long nothing may be heard of a host before its jobs are lost."""

_GIVEN_UP_SECONDS = 600.0
"""When a job that is to end is ended here, though a host does not answer."""

_RETRY_SECONDS = 2.0
_STOP_SECONDS = 2.0
_CAPACITY_SECONDS = 600.0

# Of this machine's environment what is said to JAX and Keras is sent; the rest is a host's own.
_SENT = ("JAX_", "XLA_", "KERAS_", "OMP_", "LC_")


class SshEngine:
    """Runs jobs on SSH hosts. It is an `Engine`.

    Args:
        home: the workspace.
        settings: the hosts.
        reached: is called with the name of each step of a start; tests kill the supervisor there.
    """

    queues = False
    remote = True

    def __init__(
        self,
        home: Path,
        settings: SshSettings,
        reached: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._home = home
        self._settings = settings
        self._reached = reached
        self._pool = concurrent.futures.ThreadPoolExecutor(
            8 + 2 * len(settings.hosts), "ssh-engine"
        )
        workspace = identity(home)
        self._hosts = {host: HostConnection(host, settings, workspace) for host in settings.hosts}
        self._watches = {host: HostWatch(each) for host, each in self._hosts.items()}
        for host, watch in self._watches.items():
            watch.set_others([each for name, each in self._watches.items() if name != host])
        self._lock = threading.Lock()
        self._starting: dict[str, concurrent.futures.Future[None]] = {}
        self._closing: dict[str, concurrent.futures.Future[None]] = {}
        self._stopped: dict[str, float] = {}
        self._waiting: dict[str, tuple[int, int]] = {}
        self._notes: dict[str, tuple[str, bool]] = {}
        self._failed: dict[str, float] = {}
        digest = hashlib.sha256(json.dumps(dataclasses.asdict(settings)).encode()).hexdigest()
        self._known = home / "engines" / "hosts" / f"{digest[:16]}.json"

    def close(self) -> None:
        """End the connections."""
        for connection in self._hosts.values():
            connection.close()

    def capacity(self) -> Mapping[str, float]:
        """See `Engine`: that of all hosts that were heard of."""
        known = attempt.read(self._known)
        if not known:
            return dict.fromkeys(RESOURCES, float("inf"))
        return {r: sum(each[r] for each in known.values()) for r in RESOURCES}

    def problem(self) -> str:
        """Why it cannot be used at all; empty if it can."""
        _, errors = self._look()
        return "; ".join(map(str, errors.values()))

    def _look(self) -> tuple[dict[str, dict[str, Any]], dict[str, HostError]]:
        """What the hosts have and what is held of it, and why others do not answer."""
        asked = {host: self._pool.submit(each.ask, "look") for host, each in self._hosts.items()}
        found: dict[str, dict[str, Any]] = {}
        errors: dict[str, HostError] = {}
        for host, future in asked.items():
            try:
                found[host] = future.result()[0]
            except HostError as error:
                errors[host] = error
        if found:
            known = attempt.read(self._known) or {}
            fresh = {**known, **{host: each["capacity"] for host, each in found.items()}}
            if fresh != known:
                self._known.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                attempt.write(self._known, fresh)
        return found, errors

    def check(self, job: Job) -> list[str]:
        """See `Engine`. The hosts are asked; one that does not answer is a problem if needed."""
        found, errors = self._look()
        capacity = {host: each["capacity"] for host, each in found.items()}
        said = [str(error) for error in errors.values()]
        if place(process_sizes(job), capacity) is None:
            return [*said, self._too_small(job, capacity)]
        problems = []
        for host in found:
            try:
                answer, _ = self._hosts[host].ask("check", job=job.to_json())
            except HostError as error:
                problems.append(str(error))
                continue
            problems += [f"{host}: {text}" for text in answer["problems"]]
            for i in answer["missing"]:
                problems += _cannot_be_brought(job, i)
        return list(dict.fromkeys(problems))

    def _too_small(self, job: Job, capacity: Mapping[str, Mapping[str, float]]) -> str:
        listed = "; ".join(
            f"{host}: {', '.join(amount(each[r], r) for r in RESOURCES if each[r])}"
            for host, each in capacity.items()
        )
        where = f"the hosts that answer have {listed}" if listed else "no host answers"
        return f"the job's processes ({', '.join(job.sizes())}) do not fit on the hosts: {where}"

    def handle(self, number: int, attempt: int) -> str:
        """See `Engine`."""
        return f"{number}/attempt-{attempt}"

    def folder(self, handle: str) -> Path:
        """The folder of an attempt in the workspace."""
        return self._home / "jobs" / handle

    def start(self, start: Start) -> None:
        """See `Engine`."""
        own = self.folder(start.handle)
        try:
            own.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not (own / _SUBMITTED).exists():
                self._reached("made")
                described = {
                    "job": start.job.to_json(),
                    "number": start.number,
                    "attempt": start.attempt,
                    "time": time.time(),
                }
                attempt.write(own / _SUBMITTED, described)
                self._reached("submitted")
        except OSError as error:
            raise StartError(f"it cannot be started: {error}") from error
        self._bring_up_later(start.handle)

    def _bring_up_later(self, handle: str) -> None:
        with self._lock:
            if handle not in self._starting:
                self._starting[handle] = self._pool.submit(self._bring_up, handle)

    def _start(self, handle: str) -> Start:
        """What was submitted, also by a supervisor that was killed."""
        found = attempt.read(self.folder(handle) / _SUBMITTED)
        assert found is not None
        job = Job.from_json(found["job"])
        values = {name: read_secret(self._home, name) for name in job.secrets}
        source = self.folder(handle).parent / "source"
        return Start(job, found["number"], found["attempt"], handle, source, values)

    def _bring_up(self, handle: str) -> None:
        """Start all processes of a start, as often as it takes."""
        try:
            start = self._start(handle)
        except SecretError as error:
            self._end(handle, Status("ended", None, str(error), final=True))
            return
        order = (-start.job.priority, start.number)
        while not self._stopping(handle):
            try:
                if self._try_to_start(start, order):
                    return
            except HostError as error:
                if error.final:
                    self._end_unstarted(handle, Status("ended", None, str(error), final=True))
                    return
                self._notes[handle] = f"is tried again: {error}", True
            except OSError as error:
                text = f"it cannot be started: {error}"
                self._end_unstarted(handle, Status("ended", None, text))
                return
            finally:
                self._waiting.pop(handle, None)
            time.sleep(_RETRY_SECONDS)
        if (self.folder(handle) / _PLACED).exists():
            # Some of its processes may have begun: they are watched until all have ended.
            attempt.write(self.folder(handle) / _STARTED, {"time": time.time(), "all": False})
        else:
            self._end(handle, Status("ended", None, "cancelled before it had started"))

    def _end_unstarted(self, handle: str, status: Status) -> None:
        """End a start that cannot be; what of it has begun is ended first."""
        placed = attempt.read(self.folder(handle) / _PLACED)
        if placed and placed.get("begun"):
            started = {"time": time.time(), "all": False, "why": status.reason}
            attempt.write(self.folder(handle) / _STARTED, started)
            return
        self._give_back(handle)
        self._end(handle, status)

    def _stopping(self, handle: str) -> bool:
        return (self.folder(handle) / _STOPPING).exists()

    def _try_to_start(self, start: Start, order: tuple[int, int]) -> bool:
        """Whether it is started; otherwise why not is noted."""
        own = self.folder(start.handle)
        placed = attempt.read(own / _PLACED)
        if placed is None:
            self._waiting[start.handle] = order
            if first := [n for _, n in list(self._waiting.values()) if (_, n) < order]:
                self._notes[start.handle] = f"waits behind job {min(first)}", False
                return False
            placed = self._place(start)
            if placed is None:
                return False
            attempt.write(own / _PLACED, placed)
            self._reached("placed")
        rendezvous = self._claim(start, placed)
        if rendezvous is None:
            return self._without_room(start.handle, placed)
        self._reached("claimed")
        self._deliver(start, placed)
        self._reached("delivered")
        if self._stopping(start.handle):
            return False
        # It may have taken longer than room is kept.
        if self._claim(start, placed) is None:
            return self._without_room(start.handle, placed)
        # From now on no other hosts can be chosen.
        placed["begun"] = True
        attempt.write(own / _PLACED, placed)
        self._reached("begun")
        values = {**start.secrets, LAUNCHERS_TOKEN_VARIABLE: placed["token"]}
        given = attempt.read(own.parent / "environment.json") or {}
        sent = {name: value for name, value in given.items() if name.startswith(_SENT)}
        for number, host in enumerate(_in_order(placed["hosts"])):
            described = {
                "job": start.job.to_json(),
                "env": start_environment(start, sent),
                "secrets": values,
                "rendezvous": rendezvous,
                "places": placed["places"][host],
            }
            payload = json.dumps(described).encode()
            answer, _ = self._hosts[host].ask("start", payload, handle=start.handle)
            if answer.get("busy"):
                return self._without_room(start.handle, placed)
            self._reached(f"started-{number}")
        attempt.write(own / _STARTED, {"time": time.time(), "all": True})
        self._notes.pop(start.handle, None)
        self._reached("all-started")
        return True

    def _without_room(self, handle: str, placed: Mapping[str, Any]) -> bool:
        """What a start does whose room has been given away, and whether that is the end of it."""
        if not placed.get("begun"):
            self._give_back(handle)
            return False
        # What has begun cannot be joined by the others any more.
        why, _ = self._notes.get(handle, ("", False))
        started = {"time": time.time(), "all": False, "why": f"it could not be started: {why}"}
        attempt.write(self.folder(handle) / _STARTED, started)
        return True

    def _place(self, start: Start) -> dict[str, Any] | None:
        found, errors = self._look()
        sizes = process_sizes(start.job)
        capacity = {host: each["capacity"] for host, each in found.items()}
        if place(sizes, capacity) is None:
            said = "; ".join(map(str, errors.values()))
            if errors and not all(error.final for error in errors.values()):
                raise HostError(said)
            text = self._too_small(start.job, capacity)
            raise HostError("; ".join(filter(None, [said, text])), final=True)
        free = {
            host: {r: each["capacity"][r] - each["held"][r] for r in RESOURCES}
            for host, each in found.items()
        }
        hosts = place(sizes, free, self._before(start))
        if hosts is None:
            listed = "; ".join(
                f"{host} has {', '.join(amount(max(0, each[r]), r) for r in ('cpus', 'gpus'))} "
                "free" for host, each in free.items()
            )  # fmt: skip
            self._notes[start.handle] = f"waits for room: {listed}", False
            return None
        missing = {host: self._missing(start.job, host) for host in _in_order(hosts)}
        return {
            "hosts": hosts,
            "token": secrets.token_hex(32),
            "places": {host: self._places(start, each) for host, each in missing.items()},
        }

    def _before(self, start: Start) -> list[str]:
        """The hosts of the start before, where its working copy and its checkpoints are."""
        if start.attempt < 2:
            return []
        handle = self.handle(start.number, start.attempt - 1)
        return list((attempt.read(self.folder(handle) / _PLACED) or {}).get("hosts", ()))

    def _missing(self, job: Job, host: str) -> list[int]:
        return list(self._hosts[host].ask("check", job=job.to_json())[0]["missing"])

    def _places(self, start: Start, missing: Sequence[int]) -> dict[str, str]:
        """Where on a host folders are put that it does not have, by their place in ``data``."""
        found = {}
        for i in missing:
            each = start.job.data[i]
            if each.write:
                found[str(i)] = f"{start.number}/written-{i}"
            else:
                found[str(i)] = f"data/{folder_digest(Path(each.source))}"
        return found

    def _claim(self, start: Start, placed: Mapping[str, Any]) -> str | None:
        """Keep room on all hosts; the launchers' rendezvous, or None if a host has no room left."""
        rendezvous = None
        for host in _in_order(placed["hosts"]):
            sizes = {
                str(rank): size
                for rank, size in enumerate(process_sizes(start.job))
                if placed["hosts"][rank] == host
            }
            answer, _ = self._hosts[host].ask("claim", handle=start.handle, sizes=sizes)
            if busy := answer.get("busy"):
                self._notes[start.handle] = f"waits for {busy} on {host}", False
                return None
            rendezvous = rendezvous or str(answer["rendezvous"])
        return rendezvous

    def _give_back(self, handle: str) -> None:
        """Let room go of which nothing was started yet, and forget where it was."""
        placed = attempt.read(self.folder(handle) / _PLACED)
        for host in _in_order(placed["hosts"]) if placed else ():
            with contextlib.suppress(HostError):
                self._hosts[host].ask("release", handle=handle)
        (self.folder(handle) / _PLACED).unlink(missing_ok=True)

    def _deliver(self, start: Start, placed: Mapping[str, Any]) -> None:
        """Bring code and data to the hosts, all at once, and have them forget old jobs."""
        keep = None
        with contextlib.suppress(StoreError), contextlib.closing(Store(self._home)) as store:
            keep = [row.id for row in store.open_jobs()]

        def to(host: str) -> None:
            connection = self._hosts[host]
            if keep is not None:
                connection.ask("tidy", keep=keep, seconds=120.0)

            def wanted() -> bool:
                return not self._stopping(start.handle)

            # What earlier starts have left on other hosts, as checkpoints, is sent, too.
            folders = [start.source, self.folder(start.handle).parent / "work"]
            there = [folder for folder in folders if folder.is_dir()]
            if wanted():
                send_folders(connection, there, f"{start.number}/work", wanted)
            for i, into in placed["places"][host].items():
                source = Path(start.job.data[int(i)].source)
                if wanted():
                    send_folders(connection, [source], into, wanted)

        self._notes[start.handle] = "its code and data are brought to the hosts", False
        sent = [self._pool.submit(to, host) for host in _in_order(placed["hosts"])]
        concurrent.futures.wait(sent)
        for each in sent:
            each.result()

    def _end(self, handle: str, status: Status) -> None:
        fields = {**dataclasses.asdict(status), "time": time.time()}
        attempt.write(self.folder(handle) / attempt.EXIT, fields)

    def poll(self, handle: str) -> Status:
        """See `Engine`."""
        own = self.folder(handle)
        if ended := attempt.read(own / attempt.EXIT):
            self._forget(handle)
            fields = {name: value for name, value in ended.items() if name != "time"}
            return Status(**{**fields, "notes": tuple(ended["notes"])})
        if not (own / _SUBMITTED).exists():
            return Status("absent")
        if (future := self._closing.get(handle)) is not None:
            if future.done():
                del self._closing[handle]
                future.result()
            return Status("running", None, "has ended; its logs and results are fetched")
        if not (own / _STARTED).exists():
            self._bring_up_later(handle)
            if self._starting[handle].done():
                self._starting.pop(handle).result()
            why, lost = self._notes.get(handle, ("", False))
            state: State = "lost" if lost else "queued" if why.startswith("waits") else "starting"
            return Status(state, None, why)
        return self._watched(handle)

    def _views(self, handle: str) -> dict[str, HostView]:
        placed = attempt.read(self.folder(handle) / _PLACED)
        assert placed is not None
        ranks = _ranks(placed["hosts"])
        own = self.folder(handle)
        return {host: self._watches[host].view(handle, own, ranks[host]) for host in ranks}

    def _watched(self, handle: str) -> Status:
        views = self._views(handle)
        if quiet := self._quiet(handle, views):
            return quiet
        if not all(view.statuses for view in views.values()):
            return Status("starting", None, "the hosts are asked for it")
        statuses = [s for view in views.values() for s in view.statuses.values()]
        notes = tuple(dict.fromkeys(note for status in statuses for note in status.notes))
        over = [s.state in ("ended", "gone", "absent") for s in statuses]
        if all(over):
            self._closing[handle] = self._pool.submit(self._close, handle, views, notes)
            return Status("running", None, "has ended; its logs and results are fetched", False,
                          notes)  # fmt: skip
        if any(o and s.code != 0 for o, s in zip(over, statuses, strict=True)):
            failed = self._failed.setdefault(handle, time.monotonic())
            if time.monotonic() - failed > LONELY_SECONDS:
                self._stop(handle, views)
        began = any(status.state == "running" for status in statuses)
        return Status("running" if began else "starting", notes=notes)

    def _quiet(self, handle: str, views: Mapping[str, HostView]) -> Status | None:
        """What is to be said if hosts do not answer."""
        quiet = {host: watch for host in views if (watch := self._watches[host]).problem
                 and time.monotonic() - watch.heard > _QUIET_SECONDS}  # fmt: skip
        if not quiet:
            return None
        said = "; ".join(watch.problem for watch in quiet.values())
        asked = attempt.read(self.folder(handle) / _STOPPING)
        if asked and time.time() - asked["time"] > _GIVEN_UP_SECONDS:
            text = f"it was to end, and {', '.join(quiet)} has not answered since: {said}"
            self._end(handle, Status("ended", None, text))
        return Status("lost", None, f"{said} (what runs there runs on)")

    def _close(self, handle: str, views: Mapping[str, HostView], notes: Sequence[str]) -> None:
        """Fetch what is left, and write down how it has ended."""
        since = time.monotonic()
        while any(view.asked < since or not view.whole for view in views.values()):
            if self._quiet(handle, views):
                return  # `poll` begins again once they answer.
            time.sleep(0.1)
        self._reached("copied")
        own = self.folder(handle)
        placed = attempt.read(own / _PLACED) or {}
        start = attempt.read(own / _SUBMITTED) or {}
        job = Job.from_json(start["job"])
        news = list(notes)
        try:
            connections = {host: self._hosts[host] for host in views}
            news += fetch_results(job, start["number"], placed["places"], connections, own.parent)
        except HostError as error:
            if not error.final:
                return
            news.append(f"not all results are fetched: {error}")
        except OSError as error:
            news.append(f"not all results are fetched: {error}")
        self._reached("fetched")
        self._end(handle, self._verdict(handle, views, tuple(news)))
        for host in views:
            with contextlib.suppress(HostError):
                self._hosts[host].ask("release", handle=handle)

    def _verdict(
        self, handle: str, views: Mapping[str, HostView], notes: tuple[str, ...]
    ) -> Status:
        own = self.folder(handle)
        ranked = {int(r): (host, s) for host, v in views.items() for r, s in v.statuses.items()}
        statuses = [ranked[rank] for rank in sorted(ranked)]
        for host, status in statuses:
            if status.state == "gone" and not self._stopping(handle):
                return Status("gone", None, f"{host} was restarted", notes=notes)
        started = attempt.read(own / _STARTED) or {}
        if not started.get("all"):
            why = started.get("why", "cancelled while it was started")
            return Status("ended", None, why, notes=notes)
        results = results_in(own)
        codes = [SIGNALLED + 9 if s.code is None else s.code for _, s in statuses]
        code, reason = verdict(results, codes, own)
        if code and 0 not in results:
            # Without rank 0's word it is that of the first that has one.
            host, status = next(((h, s) for h, s in statuses if s.code != 0), statuses[0])
            reason = f"{host}: {status.reason or reason}"
        hung = any(result.get("hung") for result in results.values())
        return Status("ended", code, reason if code else "", notes=notes, hung=hung)

    def cancel(self, handle: str) -> None:
        """See `Engine`. Its processes get SIGTERM, and the time to save."""
        own = self.folder(handle)
        if not (own / _SUBMITTED).exists() or (own / attempt.EXIT).exists():
            return
        if not (own / _STOPPING).exists():
            attempt.write(own / _STOPPING, {"time": time.time()})
        if (own / _STARTED).exists() and handle not in self._closing:
            self._stop(handle, self._views(handle))

    def _stop(self, handle: str, views: Mapping[str, HostView]) -> None:
        """Ask all its processes to end, again and again, but not at each step."""
        now = time.monotonic()
        if now - self._stopped.get(handle, -KILL_SECONDS) < _STOP_SECONDS:
            return
        self._stopped[handle] = now
        for host, view in views.items():
            self._pool.submit(stop_quietly, self._hosts[host], handle, view.ranks)

    def logs(self, handle: str) -> dict[str, Path]:
        """See `Engine`."""
        own = self.folder(handle)
        found: dict[str, Path] = {}
        for path in sorted(own.glob("launch-*.log")):
            rank = path.stem.removeprefix("launch-")
            found[f"job{'' if rank == '0' else f'.process-{rank}'}"] = path
        for path in sorted((own / attempt.LOGS).glob("*-*.log")):
            task, dot, restart = path.stem.partition(".")
            kind, _, index = task.rpartition("-")
            found[f"{kind}:{index}{dot}{restart}"] = path
        return found

    def metrics(self, handle: str) -> tuple[Path, Path]:
        """See `Engine`."""
        own = self.folder(handle)
        return own.parent / "work", own

    def claims(self) -> Iterator[tuple[str, str]]:
        """See `Engine`; there are none."""
        return iter(())

    def _forget(self, handle: str) -> None:
        for watch in self._watches.values():
            watch.forget(handle)
        for known in (self._notes, self._failed, self._stopped, self._starting, self._closing):
            known.pop(handle, None)


def _in_order(hosts: Sequence[str]) -> list[str]:
    """Each host once, that of rank 0 first."""
    return list(dict.fromkeys(hosts))


def _ranks(hosts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    return {
        host: tuple(str(rank) for rank, each in enumerate(hosts) if each == host)
        for host in _in_order(hosts)
    }


def _cannot_be_brought(job: Job, i: int) -> list[str]:
    """Why a folder that a host does not have cannot be brought from here."""
    source = Path(job.data[i].source)
    if data_kind(str(source)) == "folder" and source.is_dir():
        return []
    text = f"there is no folder {source}, neither on the hosts nor on this machine"
    return [job.problem(f"data[{i}].from", text)]
