"""Events of a step profile, by a clock that the tests set: what belongs to which part."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline import _recorder
from drumline._recorder import StepRecorder, split_time


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def new() -> Iterator[Any]:
    """Makes recorders, which end with the test."""
    made = []

    def make(clock: Any) -> StepRecorder:
        made.append(StepRecorder(clock))
        return made[-1]

    yield make
    for recorder in made:
        recorder.close()


class Result:
    """An array whose program ends at a time of the clock."""

    def __init__(self, clock: Clock, ends: float, platform: str = "gpu") -> None:
        self._clock, self._ends = clock, ends
        self.sharding = SimpleNamespace(device_set=(SimpleNamespace(platform=platform),))

    def is_deleted(self) -> bool:
        return False

    def is_ready(self) -> bool:
        return self._clock.now >= self._ends

    def block_until_ready(self) -> None:
        raise RuntimeError("the watcher sees nothing here: the tests' clock is not its own")


def step(
    recorder: StepRecorder, clock: Clock, dispatch: float, ends: float, platform: str = "gpu"
) -> None:
    """Start a program by a call that takes `dispatch`, and ends at `ends`."""
    began = clock.now
    with recorder.at(_recorder.PYTHON, "starting steps"):
        clock.now += dispatch
        recorder.started(Result(clock, ends, platform), began)


def taken(recorder: StepRecorder) -> dict[Any, float]:
    began, ended, places = recorder.take()
    assert sum(places.values()) == pytest.approx(ended - began)
    return {place: round(seconds, 9) for place, seconds in places.items()}


def test_input_that_a_device_does_not_wait_for_is_computing(new: Any) -> None:
    clock = Clock()
    recorder = new(clock)
    step(recorder, clock, 1, ends=11)
    with recorder.at(_recorder.INPUT):
        clock.now = 8.0  # read while the device computes
    with recorder.at(_recorder.COMPUTING):
        clock.now = 11.0
    with recorder.at(_recorder.INPUT):
        clock.now = 14.0  # the device is idle
    assert taken(recorder) == {
        ("Python", "starting steps"): 1,
        ("computing", ""): 10,
        ("input", ""): 3,
    }


def test_a_call_that_returns_with_its_results_has_computed_them(new: Any) -> None:
    clock = Clock()
    recorder = new(clock)
    step(recorder, clock, 4, ends=4)
    clock.now = 5.0
    assert taken(recorder) == {("computing", ""): 4, ("Python", ""): 1}


def test_a_cpu_computes_from_the_call_on(new: Any) -> None:
    clock = Clock()
    recorder = new(clock)
    step(recorder, clock, 2, ends=6, platform="cpu")
    with recorder.at(_recorder.COMPUTING):
        clock.now = 6.0
    assert taken(recorder) == {("computing", ""): 6}


def test_programs_behind_one_another_are_counted_once(new: Any) -> None:
    clock = Clock()
    recorder = new(clock)
    step(recorder, clock, 1, ends=10)
    step(recorder, clock, 1, ends=20)
    with recorder.at(_recorder.COMPUTING):
        clock.now = 20.0
    clock.now = 21.0
    found = taken(recorder)
    assert found[("computing", "")] == 19 and found[("Python", "")] == 1


def test_a_program_under_way_goes_on_into_the_next_epoch(new: Any) -> None:
    clock = Clock()
    recorder = new(clock)
    step(recorder, clock, 1, ends=30)
    clock.now = 10.0
    assert taken(recorder)[("computing", "")] == 9
    with recorder.at(_recorder.INPUT):
        clock.now = 20.0
    assert taken(recorder) == {("computing", ""): 10}


def test_compiling_goes_before_all_else_and_validation_takes_what_is_in_it(new: Any) -> None:
    clock = Clock()
    recorder = new(clock)
    with recorder.at(_recorder.VALIDATION):
        step(recorder, clock, 1, ends=6)
        with recorder.at(_recorder.INPUT):
            clock.now = 6.0
    clock.now = 9.0
    recorder.compiled(2.0)
    recorder.compiled(3.0)  # the second includes the first, as JAX tells them
    assert taken(recorder) == {("validation", ""): 6, ("compiling", ""): 3}
    assert recorder.steps == 0


def test_other_threads_are_not_recorded(new: Any) -> None:
    recorder = new(time.perf_counter)

    def another() -> None:
        with recorder.at(_recorder.INPUT):
            time.sleep(0.02)
        recorder.compiled(1.0)

    thread = threading.Thread(target=another)
    thread.start()
    thread.join()
    assert set(taken(recorder)) == {("Python", "")}


def test_the_innermost_place_counts_and_an_error_leaves_it(new: Any) -> None:
    clock = Clock()
    recorder = new(clock)

    def fails() -> None:
        clock.now = 1.0
        with recorder.at(_recorder.COMMUNICATION, "host collectives"):
            clock.now = 3.0
            raise KeyError

    with pytest.raises(KeyError), recorder.at(_recorder.CHECKPOINTING):
        fails()
    clock.now = 4.0
    assert taken(recorder) == {
        ("checkpointing", ""): 1,
        ("communication", "host collectives"): 2,
        ("Python", ""): 1,
    }


def test_many_events_are_folded_and_nothing_is_lost(new: Any) -> None:
    clock = Clock()
    recorder = new(clock)
    for number in range(3 * _recorder._MOST_MARKS):
        step(recorder, clock, 0.25, ends=4.0 * number + 2.25)
        with recorder.at(_recorder.INPUT):
            clock.now = 4.0 * number + 4.0
    assert len(recorder._marks) < 2 * _recorder._MOST_MARKS
    found = taken(recorder)
    # When it ended within a wait for input is only known from the watcher: the middle is taken.
    assert sum(found.values()) == pytest.approx(clock.now)
    assert found[("computing", "")] == pytest.approx(clock.now * 1.875 / 4, rel=0.01)


def test_the_watcher_knows_when_a_program_ended_within_a_wait(new: Any) -> None:
    recorder = new(time.perf_counter)

    class Slow(Result):
        def __init__(self, seconds: float) -> None:
            super().__init__(Clock(), 0.0)
            self._until = time.perf_counter() + seconds

        def is_ready(self) -> bool:
            return time.perf_counter() >= self._until

        def block_until_ready(self) -> None:
            time.sleep(max(0.0, self._until - time.perf_counter()))

    recorder.started(Slow(0.05), recorder.clock())
    with recorder.at(_recorder.INPUT):
        time.sleep(1.0)
    found = taken(recorder)
    recorder.close()
    # Without the watcher it would be half of the wait.
    assert 0.04 <= found[("computing", "")] < 0.4
    assert found[("input", "")] > 0.6


@pytest.mark.parametrize("came", [True, False])
def test_ends_that_were_seen_tell_of_those_that_were_not(
    new: Any, monkeypatch: pytest.MonkeyPatch, came: bool
) -> None:
    """The thread that waits sees the ends of the first programs, a quarter into each wait."""
    monkeypatch.setattr(StepRecorder, "_watch", lambda self, busy: None)
    clock = Clock()
    recorder = new(clock)
    for number in range(40):
        began = clock.now
        step(recorder, clock, 0, ends=began + 10)
        with recorder.at(_recorder.INPUT):
            if number < 20:
                busy = recorder._now_busy
                assert busy is not None
                # One that was there already ended at any time before: the middle is taken.
                busy.ended = busy.array, began + (10 if came else 20), came
            clock.now = began + 40
        with recorder.at(_recorder.CHECKPOINTING):
            clock.now += 10
    assert taken(recorder) == {
        ("computing", ""): 40 * 10,
        ("input", ""): 40 * 30,
        ("checkpointing", ""): 40 * 10,
    }


def test_a_program_begins_behind_the_one_before(new: Any) -> None:
    """On a CPU the call may begin while the program before is under way, and end after it."""
    clock = Clock()
    recorder = new(clock)
    step(recorder, clock, 0, ends=4, platform="cpu")
    clock.now = 2.0
    step(recorder, clock, 4, ends=9, platform="cpu")  # the first was seen to end at 4, between
    assert recorder._now_busy is not None
    assert recorder._now_busy.since >= recorder._busy[-1][1]
    clock.now = 9.0  # since 6, when it was asked, it may have ended at any time
    assert taken(recorder) == {("computing", ""): 7.5, ("Python", ""): 1.5}


def test_what_is_under_way_when_events_are_folded_goes_on(
    new: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that never pause, and compiling that ends in a later fold, are counted once."""
    monkeypatch.setattr(_recorder, "_MOST_MARKS", 8)
    clock = Clock()
    recorder = new(clock)
    step(recorder, clock, 0, ends=100)
    for _ in range(40):
        with recorder.at(_recorder.INPUT):
            clock.now += 1.0
    assert len(recorder._marks) < 20 and len(recorder._busy) < 20
    assert taken(recorder) == {("computing", ""): 40}
    recorder.compiled(0.0)
    recorder._compiled.append((clock.now, clock.now + 30))
    recorder._fold(clock.now + 1)
    clock.now += 30
    assert taken(recorder)[("compiling", "")] == 30


def test_the_thread_that_waits_counts_its_own_time(
    new: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_recorder, "_LONGEST_WAIT", 60.0)
    recorder = new(time.perf_counter)

    class Costly(Awaited):
        def block_until_ready(self) -> None:
            until = time.thread_time() + 0.02
            while time.thread_time() < until:
                pass

    before = recorder.own_seconds
    recorder.started(Costly(0.05), recorder.clock())
    recorder.close()  # waits for it
    assert 0.02 <= recorder.own_seconds - before < 0.2


class Awaited(Result):
    """An array that the thread that waits can wait for, and a count of how often it was asked."""

    def __init__(self, seconds: float) -> None:
        super().__init__(Clock(), 0.0)
        self._until = time.perf_counter() + seconds
        self.asked: list[int] = []

    def is_ready(self) -> bool:
        self.asked.append(threading.get_ident())
        return time.perf_counter() >= self._until

    def block_until_ready(self) -> None:
        time.sleep(max(0.0, self._until - time.perf_counter()))


def test_many_programs_under_way_are_hardly_asked_for(new: Any) -> None:
    """Those behind one that is waited for have not ended, either."""
    recorder = new(time.perf_counter)
    arrays = [Awaited(0.5 + 0.001 * number) for number in range(30)]
    for array in arrays:
        recorder.started(array, recorder.clock())
        for _ in range(3):
            time.sleep(0.002)
            with recorder.at(_recorder.INPUT):
                pass
    asked = sum(each.asked.count(threading.get_ident()) for each in arrays)
    assert asked < 60, "of 210 events"
    with recorder.at(_recorder.INPUT):
        time.sleep(max(0.0, arrays[-1]._until - time.perf_counter()) + 0.3)
    found = taken(recorder)
    # The thread went on to the last of them, whose end is known within the wait.
    assert found[("input", "")] == pytest.approx(0.3, abs=0.1)


class Asked(Result):
    """A result of a fake clock's, and how often all of them were asked."""

    count = 0

    def is_ready(self) -> bool:
        Asked.count += 1
        return super().is_ready()


def train(recorder: StepRecorder, clock: Clock, steps: int, computing: float, gap: float) -> None:
    """Steps of 1 ms, of which the last programs end `computing` later; then a wait for input."""
    for _ in range(steps):
        began = clock.now
        with recorder.at(_recorder.PYTHON, "starting steps"):
            clock.now += 1e-4
            recorder.started(Asked(clock, clock.now + computing), began)
        clock.now = began + 9e-4 - gap
        with recorder.at(_recorder.INPUT):
            clock.now = began + 1e-3


def test_a_device_that_does_not_rest_is_hardly_asked(
    new: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is noticed within some steps when it begins to rest, and at once when it stalls."""
    monkeypatch.setattr(StepRecorder, "_watch", lambda self, busy: None)
    clock = Clock()
    recorder = new(clock)
    Asked.count = 0
    train(recorder, clock, 400, computing=0.01, gap=0.0)
    assert Asked.count < 150, "of 1,600 changes of place"
    assert taken(recorder)["computing", ""] == pytest.approx(0.4, rel=0.01)
    with recorder.at(_recorder.INPUT):
        clock.now += 0.11  # the last program ends within the first hundredth of it
    assert taken(recorder)["input", ""] == pytest.approx(0.11 / 2, rel=0.05)  # the middle
    train(recorder, clock, 400, computing=0.01, gap=0.0)
    taken(recorder)
    train(recorder, clock, 200, computing=4e-4, gap=4e-4)  # each ends as a wait begins
    assert taken(recorder)["input", ""] == pytest.approx(200 * 5e-4, rel=0.1)
    assert Asked.count < 150 + 150 + 3 * 200 + 50


def test_a_program_that_never_ends_does_not_keep_the_profile(
    new: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_recorder, "_LONGEST_WAIT", 0.05)
    recorder = new(time.perf_counter)
    recorder.started(Awaited(1.5), recorder.clock())
    time.sleep(0.05)
    began = time.perf_counter()
    recorder.close()
    assert time.perf_counter() - began < 1.0


def test_a_forked_child_records_nothing(new: Any) -> None:
    recorder = new(time.perf_counter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forking with threads, which is what is looked at
        child = os.fork()
    if child == 0:
        with recorder.at(_recorder.INPUT):
            time.sleep(0.01)
        recorder.close()
        is_silent = not recorder.is_here() and len(recorder._marks) == 1
        os._exit(0 if is_silent else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert recorder.is_here()


@pytest.mark.parametrize(
    "tree",
    [
        {"b": np.ones((3, 2)), "a": [None, np.float32(1), np.ones((5, 2))]},
        (None, {"x": np.ones(7)}),
        [],
        {},
        None,
        ([], np.ones((4, 1))),
    ],
)
def test_rows_are_those_of_the_first_array(tree: Any) -> None:
    leaves = [leaf for leaf in jax.tree.leaves(tree) if np.shape(leaf)]
    assert _recorder.rows_of(tree) == (len(leaves[0]) if leaves else 0)


def test_the_first_array_is_one_of_jaxs() -> None:
    array = jnp.ones(3)
    for _ in range(2):  # once more, when its type is known
        assert _recorder.first_array(({"loss": array}, [1])) is array
        assert _recorder.first_array(({"loss": np.ones(2)}, [None, array])) is array
    assert _recorder.first_array({"loss": 1.0}) is None
    traced = []
    jax.jit(lambda x: traced.append(_recorder.first_array(x)) or x)(array)
    assert traced == [None]


intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=8).map(
    lambda found: [(float(a), float(a + n)) for a, n in found]
)
places = st.sampled_from(
    [("input", ""), ("Python", "x"), ("validation", ""), ("profiler", ""), ("compiling", "")]
)


@given(
    st.lists(st.tuples(st.integers(1, 9), places), min_size=1, max_size=12), intervals, intervals
)
def test_the_parts_add_up_to_the_time(
    lengths: list[tuple[int, Any]],
    busy: list[tuple[float, float]],
    compiled: list[tuple[float, float]],
) -> None:
    pieces, now = [], 0.0
    for length, place in lengths:
        pieces.append((now, now + length, place))
        now += length
    found = split_time([(since, place) for since, _, place in pieces], now, busy, compiled)
    assert sum(found.values()) == pytest.approx(now)
    # Moment by moment, as the docstring says it.
    expected: dict[Any, float] = {}
    for since, end, place in pieces:
        for second in range(int(since), int(end)):
            compiling = any(a <= second < b for a, b in compiled) and place[0] != "profiler"
            computing = any(a <= second < b for a, b in busy)
            computing &= place[0] not in ("profiler", "validation")
            key = ("compiling", "") if compiling else ("computing", "") if computing else place
            expected[key] = expected.get(key, 0.0) + 1
    assert found == pytest.approx(expected)
