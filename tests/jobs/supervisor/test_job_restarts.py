"""What follows the end of a start, for any sequence of ends, against a model of the rules."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from drumline.jobs.engines.engine import Start, Status
from drumline.jobs.file.model import Job
from drumline.jobs.file.reading import make_job
from drumline.jobs.store.database import Store
from drumline.jobs.supervisor.loop import Supervisor

FAILED = Status("ended", 1, "because")
ENDS: Mapping[str, Status] = {
    "success": Status("ended", 0),
    "failure": FAILED,
    "killed": Status("ended", None, "its launcher was killed"),
    "hung": Status("ended", 1, "it hung", hung=True),
    "saved": Status("ended", 75, "saved"),
    "saved at once": Status("ended", 75, "saved"),
    "final": Status("ended", 1, "never again", final=True),
    "gone": Status("gone", None, "the machine was restarted"),
    "preempted": FAILED,
    "preempted and saved": Status("ended", 75, "saved"),
    "timeout": Status("ended", 75, "saved"),
    "cancelled": FAILED,
    "cancelled too late": Status("ended", 0),
}
STOPS = {"preempted": "preempt", "preempted and saved": "preempt", "timeout": "timeout",
         "cancelled": "cancel", "cancelled too late": "cancel"}  # fmt: skip
FREE = {"saved", "gone", "preempted", "preempted and saved"}


class Scripted:
    """An engine whose starts end as they are made to."""

    queues = False

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: dict[str, Status] = {}

    def capacity(self) -> Mapping[str, float]:
        return {"cpus": 1.0, "memory": 2.0**30, "gpus": 0.0}

    def check(self, job: Job) -> list[str]:
        return []

    def handle(self, number: int, attempt: int) -> str:
        return f"{number}/{attempt}"

    def start(self, start: Start) -> None:
        self.started.append(start.handle)

    def poll(self, handle: str) -> Status:
        known = "running" if handle in self.started else "absent"
        return self.ended.get(handle) or Status(known)  # type: ignore[arg-type]

    def cancel(self, handle: str) -> None:
        pass

    def logs(self, handle: str) -> dict[str, Path]:
        return {}

    def metrics(self, handle: str) -> tuple[Path, Path]:
        return Path(), Path()

    def claims(self) -> Iterator[tuple[str, str]]:
        return iter(())


def expected(ends: Sequence[str], restarts: int) -> tuple[str, int, int]:
    """The state, the restarts used and the number of starts, by the rules of docs/jobs/index.md."""
    used = 0
    for starts, end in enumerate(ends, 1):
        if end in ("success", "cancelled too late"):
            return "succeeded", used, starts
        if end == "cancelled":
            return "cancelled", used, starts
        if end in ("final", "timeout"):
            return "failed", used, starts
        if end not in FREE:
            if used == restarts:
                return "failed", used, starts
            used += 1
    return "running", used, len(ends) + 1


@given(st.lists(st.sampled_from(sorted(ENDS)), max_size=8), st.integers(0, 3), st.booleans())
def test_any_sequence_of_ends(
    database: Callable[[Path], Path], ends: list[str], restarts: int, killed: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, engine = Store(database(Path(folder))), Scripted()
        fields = {"command": "true", "restarts": restarts, "timeout": "9h"}
        job = make_job(fields, Path(folder))
        number = store.submit(job)
        store.queue(number, job)
        supervisor = Supervisor(store, {"local": engine})
        for start, end in enumerate(ends, 1):
            handle = f"{number}/{start}"
            if killed:
                supervisor = Supervisor(store, {"local": engine})
            for _ in range(3):
                supervisor.step()
            if handle not in engine.started:
                break
            if end in STOPS:
                with store.change():
                    assert store.set_stop(number, STOPS[end])
            if end != "saved at once":
                with store.change():
                    store._db.execute("update attempts set started = started - 60")
            engine.ended[handle] = ENDS[end]
            supervisor.step()
        for _ in range(3):
            supervisor.step()
        row = store.job(number)
        assert row is not None
        assert (row.state, row.restarts, len(engine.started)) == expected(ends, restarts)
        assert engine.started == [f"{number}/{n}" for n in range(1, len(engine.started) + 1)]
        hung = [event.text for event in store.events(number) if event.kind == "hung"]
        assert len(hung) == ends[: len(engine.started)].count("hung")
        assert (row.stop is None) or row.state in ("failed", "cancelled", "succeeded")
        store.close()


def test_nothing_is_read_while_nothing_changes(tmp_path: Path) -> None:
    store, engine = Store(tmp_path), Scripted()
    numbers = []
    for _ in range(3):
        job = make_job({"command": "true"}, tmp_path)
        numbers.append(store.submit(job))
        store.queue(numbers[-1], job)
    supervisor = Supervisor(store, {"local": engine})
    for _ in range(4):
        supervisor.step()
    reads: list[str] = []
    store._db.db.set_trace_callback(reads.append)
    for _ in range(10):
        assert supervisor.step() == 3
    assert {each for each in reads if "pragma" not in each.lower()} == set()
    assert supervisor.pause == 0.02, "the running job is young"
    store._db.db.set_trace_callback(None)
    other = Store(tmp_path)
    with other.change():
        other.set_stop(numbers[1], "cancel")
    supervisor.step()
    assert supervisor.pause < 0.01
    row = store.job(numbers[1])
    assert row is not None and row.state == "cancelled"
    engine.ended[f"{numbers[0]}/1"] = ENDS["success"]
    supervisor.step()
    assert engine.started == [f"{numbers[0]}/1", f"{numbers[2]}/1"], "room is taken at once"
