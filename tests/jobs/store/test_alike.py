"""SQLite and PostgreSQL answer alike, whatever is asked in whatever order (properties)."""

from __future__ import annotations

import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from drumline.jobs.file.model import Job
from drumline.jobs.store import database as module
from drumline.jobs.store.database import ENDED, OPEN, STOPS, Store, StoreError
from drumline.jobs.store.workspace import write_database_url
from tests.jobs.store.cluster import PostgresCluster

NUMBERS = st.integers(1, 8)
NAMES = st.sampled_from(["digits", "faces", "digits-2", "b"])
MEMBERS = st.sampled_from(["", "ada", "Bob", "Øyvind"])
STATES = st.sampled_from([*OPEN, *ENDED])
TEXTS = st.text(max_size=12) | st.sampled_from(["\0", "\ud800", "it's 100%", "?", "\\", "%s"])


class Refused(Exception):
    """A change is given up by the test itself."""


class Alike(RuleBasedStateMachine):
    """The same is done to both, and gives the same."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self._folders = [tempfile.TemporaryDirectory() for _ in range(2)]
        homes = [Path(each.name) for each in self._folders]
        write_database_url(homes[1], self.url)
        self._now = 1e9
        clock = types.SimpleNamespace(time=lambda: self._now)
        self._clock = mock.patch.object(module, "time", clock)
        self._clock.start()
        self.stores = [Store(home) for home in homes]

    def teardown(self) -> None:
        self._clock.stop()
        for store in self.stores:
            store.close()
        for folder in self._folders:
            folder.cleanup()

    def both(self, ask: Callable[[Store], object]) -> Any:
        self._now += 0.25

        def answer(store: Store) -> object:
            try:
                return ask(store)
            except (StoreError, Refused) as error:
                return type(error).__name__

        first, second = (answer(store) for store in self.stores)
        assert first == second
        return first

    def changed(self, change: Callable[[Store], object], fails: bool) -> None:
        def ask(store: Store) -> object:
            with store.change():
                result = change(store)
                if fails:
                    raise Refused
            return result

        self.both(ask)

    @rule(name=NAMES, by=MEMBERS, request=st.none() | NAMES, priority=st.integers(1, 9))
    def submit(self, name: str, by: str, request: str | None, priority: int) -> None:
        job = Job(name, ("true",), priority=priority)
        self.both(lambda store: store.submit(job, by, request))

    @rule(name=NAMES, by=MEMBERS, priority=st.integers(1, 9))
    def enter(self, name: str, by: str, priority: int) -> None:
        job = Job(name, ("true",), priority=priority)
        self.both(lambda store: store.queue(store.submit(job, by), job))

    @rule(number=NUMBERS, name=NAMES)
    def queue(self, number: int, name: str) -> None:
        job = Job(name, ("true", "more"))
        self.both(lambda store: store.queue(number, job) if store.job(number) else None)

    @rule(number=NUMBERS)
    def drop(self, number: int) -> None:
        self.both(lambda store: store.drop(number))

    @rule()
    def sweep(self) -> None:
        self.both(lambda store: store.sweep())

    @rule(number=NUMBERS, state=STATES, text=TEXTS, fails=st.booleans())
    def set_state(self, number: int, state: str, text: str, fails: bool) -> None:
        self.changed(lambda store: store.set_state(number, state, text), fails)

    @rule(number=NUMBERS, text=TEXTS, fails=st.booleans())
    def set_reason(self, number: int, text: str, fails: bool) -> None:
        self.changed(lambda store: store.set_reason(number, text), fails)

    @rule(number=NUMBERS, stop=st.sampled_from(STOPS), fails=st.booleans())
    def set_stop(self, number: int, stop: str, fails: bool) -> None:
        self.changed(lambda store: store.set_stop(number, stop), fails)

    @rule(number=NUMBERS, text=TEXTS, fails=st.booleans())
    def add_event(self, number: int, text: str, fails: bool) -> None:
        self.changed(lambda store: store.add_event(number, "data", text), fails)

    @rule(number=NUMBERS, attempt=st.integers(1, 3), fails=st.booleans())
    def add_attempt(self, number: int, attempt: int, fails: bool) -> None:
        self.changed(lambda store: store.add_attempt(number, attempt, f"{number}"), fails)

    @rule(number=NUMBERS, attempt=st.integers(1, 3))
    def drop_attempt(self, number: int, attempt: int) -> None:
        self.changed(lambda store: store.drop_attempt(number, attempt), False)

    @rule(number=NUMBERS, attempt=st.integers(1, 3), code=st.none() | st.integers(-9, 255),
          text=TEXTS)  # fmt: skip
    def end_attempt(self, number: int, attempt: int, code: int | None, text: str) -> None:
        self.changed(lambda store: store.end_attempt(number, attempt, code, text), False)

    @rule(number=NUMBERS, restarts=st.integers(0, 9), text=TEXTS)
    def requeue(self, number: int, restarts: int, text: str) -> None:
        self.changed(lambda store: store.requeue(number, "restart", text, restarts), False)

    @rule(state=st.sampled_from(["", "open", "ended"]) | STATES, search=TEXTS | NAMES | MEMBERS,
          before=st.none() | NUMBERS, limit=st.integers(1, 4), by=MEMBERS)  # fmt: skip
    def page(self, state: str, search: str, before: int | None, limit: int, by: str) -> None:
        self.both(lambda store: store.page(state, search, before, limit, by))
        self.both(lambda store: store.counts(by))

    @rule(since=st.integers(0, 60), limit=st.integers(1, 5), number=NUMBERS, name=NAMES)
    def follow(self, since: int, limit: int, number: int, name: str) -> None:
        self.both(lambda store: store.changed(since, limit))
        self.both(lambda store: store.events(number, since, limit))
        self.both(lambda store: (store.latest(name), store.by_request(name)))

    @invariant()
    def all_is_the_same(self) -> None:
        self.both(lambda store: store.open_jobs())
        self.both(lambda store: (store.page(limit=3), store.page(search="a", limit=3)))
        self.both(lambda store: (store.changed(0, 3), store.latest("b"), store.counts()))
        self.both(lambda store: store.open_attempts())
        self.both(lambda store: store.revision())
        self.both(lambda store: [(store.job(n), store.attempts(n), store.events(n))
                                 for n in range(1, 9)])  # fmt: skip


def test_both_answer_alike(postgresql: PostgresCluster) -> None:
    class Machine(Alike):
        url = postgresql.database()

    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Machine,
        settings=settings(
            max_examples=15,
            stateful_step_count=35,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        ),
    )
