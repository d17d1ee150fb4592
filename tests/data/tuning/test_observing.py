"""Profiles and statistics: what they count, what they name, what they write."""

from __future__ import annotations

import dataclasses
import gc
import json
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline._core import run_delay_seconds
from drumline.data import Dataset, Options
from drumline.data.elements.block import nbytes_of
from drumline.data.elements.ragged import RaggedArray
from drumline.data.engine.iterator import DatasetIterator, Epochs
from drumline.data.engine.observe.profiling import _worked_meanwhile
from drumline.data.engine.tuning import placed
from drumline.data.operations.map import ParallelMapStage
from drumline.data.runtime.meter import BUCKETS, Meter, Observation, bucket
from drumline.data.runtime.statistics import Statistics

SCHEDSTAT = Path("/proc/thread-self/schedstat")


class Clock:
    """A clock that only work moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def spending(clock: Clock, seconds: float) -> Callable[[Any], Any]:
    def work(value: Any) -> Any:
        clock.now += seconds
        return int(value) + 1

    return work


def test_a_stage_is_charged_for_its_own_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(Observation.__init__, "__defaults__", (False, clock, True))
    dataset = Dataset.range(20).map(spending(clock, 0.25)).map(spending(clock, 1.0)).batch(5)
    clock.now = 0.0
    profile = dataset.profile(elements=4)
    named = {stage.name: stage for stage in profile.stages[:3]}
    assert profile.first_element_seconds == 5 * 1.25
    assert (profile.elements, profile.seconds) == (3, 3 * 5 * 1.25)
    assert named["batch"].busy == 0.0
    assert named["map"].busy == 15.0
    assert profile.stages[3].busy == 3.75
    assert profile.bottleneck is named["map"]
    assert named["batch"].counts.elements == 3
    assert named["map"].counts.elements == 15
    assert named["map"].counts.nbytes == 15 * 4


def test_the_bottleneck_may_be_the_consumer_or_behind_a_prefetch() -> None:
    # It takes microseconds, and whatever the machine does meanwhile counts for the stage it is in.
    quick = [Dataset.range(10).batch(10).profile().bottleneck.name for _ in range(5)]
    assert "iterator" in quick

    def slow(value: Any) -> Any:
        for _ in range(3000):
            value = int(value)
        return value

    profile = Dataset.range(400).map(slow).prefetch(2).batch(4).profile(elements=90)
    assert profile.bottleneck.name == "map"
    stage = {s.name: s for s in profile.stages}
    assert profile.stations[stage["map"].station].name == "prefetch thread 1"
    assert stage["prefetch"].waiting > stage["batch"].busy
    assert stage["prefetch"].queue_fill is not None and stage["prefetch"].queue_fill < 0.5
    assert "bottleneck: map (map " in str(profile)


def test_a_profile_ends_when_asked_and_leaves_the_epochs_alone() -> None:
    dataset = Dataset.range(1000).shuffle(1000, seed=3)
    first = [int(v) for v in Dataset.range(1000).shuffle(1000, seed=3)]
    seven = dataset.profile(elements=7)
    assert (seven.elements, seven.delivered) == (6, 7)
    assert dataset.repeat().profile(seconds=0.01).elements > 0
    assert [int(v) for v in dataset] == first
    assert "6 elements in" in str(seven) and "not counted: the first, after" in str(seven)
    whole = str(Dataset.range(10).batch(10).profile())
    assert "1 elements in" in whole and "not counted" not in whole
    empty = Dataset.range(0).profile()
    assert empty.elements == 0
    assert "the dataset is empty" in str(empty) and "bottleneck" not in str(empty)
    with pytest.raises(ValueError, match="elements must be at least 1"):
        dataset.profile(elements=0)
    with pytest.raises(ValueError, match="seconds must be positive"):
        dataset.profile(seconds=0)


def test_what_was_made_before_counting_began_is_no_verdict() -> None:
    slow = Dataset.range(60).map(lambda v: time.sleep(0.001) or int(v)).prefetch(2).profile()
    assert slow.conclusive and "bottleneck: map (map " in str(slow)
    text = " ".join(str(dataclasses.replace(slow, conclusive=False)).split())
    assert "had been made before counting began" in text and ".repeat()" in text
    assert "of the time" not in text


def test_an_epoch_that_waits_in_the_buffer_is_inconclusive() -> None:
    """The consumer takes its second element when the prefetch thread has made the epoch."""
    observation = Observation()
    plan = Dataset.range(64).batch(8).prefetch(64)._plan
    iterator: Any = DatasetIterator(Epochs(plan, Options(), observation), 0)
    next(iterator)

    def now() -> dict[int, Any]:
        return {id(meter): meter.snapshot() for meter in observation.meters.values()}

    (batch,) = [meter for (_, name), meter in observation.meters.items() if name == "batch"]
    deadline = time.monotonic() + 30
    while batch.snapshot().elements < 8:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    stages, before = placed(iterator.stage), now()
    assert len(list(iterator)) == 7
    assert not _worked_meanwhile(stages, before)
    assert _worked_meanwhile(stages, {})


def test_a_profile_and_a_plan_are_read_as_they_are_shown() -> None:
    """At a console and in a notebook: text of 80 columns, and a picture."""

    def parse_with_a_long_name(value: Any) -> Any:
        return np.float32(sum(range(int(value) % 7)))

    dataset = (
        Dataset.range(4000)
        .map(parse_with_a_long_name, num_parallel_calls=2)
        .shuffle(100)
        .map(lambda x: x * 2)
        .batch(16)
        .prefetch(4)
    )
    profile = dataset.profile()
    lines = str(profile).splitlines()
    assert max(map(len, lines)) <= 80 and len(lines) < 40
    assert repr(profile) == str(profile)
    (reason,) = [i for i, line in enumerate(lines) if "runs as Python" in line]
    number = lines[reason].split()[0]
    assert sum(number in line for line in lines) in (2, 3), "the stage, the note, the bottleneck"
    assert "██████ " in str(dataclasses.replace(profile, seconds=1e-9))
    shown = profile._repr_html_()
    assert 'src="data:image/png;base64,iVBOR' in shown and "<pre" in shown
    plan = dataset.explain()
    assert repr(plan) == str(plan) == plan and "\n" in repr(plan)
    assert plan._repr_html_().startswith("<pre>plan\n") and "&lt;lambda&gt;" in plan._repr_html_()


def test_what_a_profile_writes(tmp_path: Path) -> None:
    dataset = (
        Dataset.range(60_000).map(lambda v: v * 2, num_parallel_calls=2).batch(100).prefetch(3)
    )
    profile = dataset.profile()
    profile.save_png(tmp_path / "profile.png")
    assert (tmp_path / "profile.png").read_bytes().startswith(b"\x89PNG\r\n")
    profile.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    threads = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    calls = [e for e in events if e["ph"] == "X"]
    assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in calls)
    places = {(e["name"], threads[e["tid"]].split("_")[0]) for e in calls}
    assert {("prefetch", "MainThread"), ("batch", "drumline-prefetch")} <= places
    assert ("map", "drumline-map") in places


def test_threads_of_two_pools_are_two_rows_of_the_trace(tmp_path: Path) -> None:
    """Calls of one row lie beside or within one another, as the format says."""
    slow = lambda v: time.sleep(0.002) or int(v) + 1  # noqa: E731
    dataset = Dataset.range(40).map(slow, num_parallel_calls=2).map(slow, num_parallel_calls=2)
    dataset.profile().save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    calls = [e for e in events if e["ph"] == "X"]
    for row in {e["tid"] for e in calls}:
        spans = sorted((e["ts"], -e["dur"]) for e in calls if e["tid"] == row)
        ends: list[float] = []
        for start, negative in spans:
            while ends and ends[-1] <= start + 0.01:
                ends.pop()
            assert not ends or start - negative <= ends[-1] + 0.01
            ends.append(start - negative)
    names = [e["args"]["name"] for e in events if e["ph"] == "M"]
    assert names.count("drumline-map_0") == 2


def test_nothing_is_measured_unless_asked() -> None:
    iterator = iter(Dataset.range(5).batch(2))
    assert iterator.stage.meter is None
    assert "next" not in vars(iterator.stage)


def test_an_observed_iterator_still_ends_when_dropped() -> None:
    dataset = Dataset.range(10)
    stage, _ = Epochs(dataset._plan, Options(), Observation()).start(0, None)
    gone = weakref.ref(stage)
    gc.disable()
    try:
        del stage
        assert gone() is None
    finally:
        gc.enable()


def counted(statistics: Statistics) -> Dataset:
    options = Options()
    options.experimental_statistics = statistics
    options.experimental_optimization.inject_prefetch = False
    return Dataset.range(6).filter(lambda v: v % 2 == 0).repeat(2).batch(2).with_options(options)


def test_statistics_are_of_all_epochs(tmp_path: Path) -> None:
    statistics = Statistics('the "train" set')
    dataset = counted(statistics)
    assert not statistics.counters()
    for _ in range(3):
        list(dataset)
    found = {label: counts.elements for label, counts in statistics.counters().items()}
    assert found == {"end batch": 9, "0 repeat": 18, "0.0 filter": 18, "0.0.0 range": 36}
    histogram = statistics.histograms()["0 repeat"]
    assert sum(histogram.counts) == statistics.counters()["0 repeat"].calls
    assert len(histogram.counts) == len(histogram.bounds) + 1
    text = statistics.prometheus()
    place = r'dataset="the \"train\" set",place="0",stage="repeat"'
    assert f"drumline_data_elements_total{{{place}}} 18\n" in text
    assert f'call_seconds_bucket{{{place},le="+Inf"}} {sum(histogram.counts)}\n' in text
    assert f"drumline_data_call_seconds_count{{{place}}} {sum(histogram.counts)}\n" in text
    statistics.write_tensorboard(tmp_path, step=7)
    (written,) = tmp_path.iterdir()
    assert b"0_repeat/elements" in written.read_bytes()
    assert b"0_repeat/call_seconds" in written.read_bytes()


def test_buckets_hold_what_their_bounds_say() -> None:
    for seconds in (0.0, 1e-9, BUCKETS[0], 1e-5, BUCKETS[7], 0.3, 64.0, 65.0, 1e9):
        place = bucket(seconds)
        assert place == len(BUCKETS) or seconds <= BUCKETS[place]
        assert place == 0 or seconds > BUCKETS[place - 1]


def test_bytes_of_columns() -> None:
    assert nbytes_of(np.zeros((3, 2), np.float32)) == 24
    strings = np.empty(2, object)
    strings[:] = [b"abc", b""]
    assert nbytes_of(strings) == 3
    assert nbytes_of(RaggedArray.from_rows([[1.0, 2.0, 3.0], [4.0]])) == 4 * 4 + 3 * 8
    assert nbytes_of(RaggedArray.from_rows([[b"aaa", b"b"], []])) == 4


def test_an_error_in_a_stage_is_measured_and_passed_on() -> None:
    clock = Clock()
    meter = Meter("x", (), clock)

    def fail(limit: int) -> None:
        clock.now += 2.0
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        meter.call(fail, 1)
    assert (meter.counts.calls, meter.counts.seconds) == (1, 2.0)
    meter.call(lambda limit: None, 1)
    assert meter.counts.calls == 2


@pytest.mark.skipif(not SCHEDSTAT.exists(), reason="the kernel does not count delays")
def test_delays_are_the_kernels_for_the_calling_thread() -> None:
    def counted() -> float:
        return int(SCHEDSTAT.read_text().split()[1]) * 1e-9

    def compare() -> None:
        before = counted()
        found.append(before - 1e-9 <= run_delay_seconds() <= counted() + 1e-9)

    found: list[bool] = []
    threads = [threading.Thread(target=compare) for _ in range(4)]
    for thread in threads:
        thread.start()
    compare()
    for thread in threads:
        thread.join()
    assert found == [True] * 5


def test_what_tunes_alone_looks_at_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[ParallelMapStage] = []
    monkeypatch.setattr(ParallelMapStage, "held_nbytes", lambda stage: looked.append(stage))
    dataset = Dataset.range(50).map(lambda v: int(v) + 1, num_parallel_calls=dl.data.AUTOTUNE)
    assert [int(v) for v in dataset] == list(range(1, 51))
    assert not looked
    dataset.profile()
    assert looked
